package web

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// goFiles are the sources of the program below the root, without tests and without the API, which is in English.
func goFiles(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() &&
			slices.Contains([]string{"node_modules", ".git", "dist", "test", "bench", "server"}, d.Name()) {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// messageCalls are the functions whose format is a message code, with the index of that argument.
var messageCalls = map[string]int{"malformed": 1, "outOfRange": 1, "wrong": 1, "NewFieldError": 1, "FieldError": 1}

// TestEveryMessageIsTranslated: other packages' messages about fields, and findings about endpoints, are in
// messages.json of every language except English, with the same verbs.
func TestEveryMessageIsTranslated(t *testing.T) {
	formats := map[string]string{}
	for _, file := range goFiles(t) {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			at, is := messageCalls[calledName(call)]
			if calledName(call) == "add" && strings.HasSuffix(file, "callback/probe.go") {
				at, is = 2, true
			}
			if calledName(call) == "Sprintf" && strings.Contains(file, "/checker/") {
				at, is = 0, true // the details of findings
			}
			if is && len(call.Args) > at {
				if format := constant(call.Args[at]); format != "" && format != "%s" && format != "%v" {
					formats[format] = file
				}
			}
			return true
		})
	}
	all, err := LoadMessages()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range Languages[1:] {
		for format, file := range formats {
			if all[l.Code].formats[format] == "" {
				t.Errorf("%s lacks the message of %s: %q", l.Code, file, format)
			}
		}
		for format, translated := range all[l.Code].formats {
			if len(verb.FindAllString(format, -1)) != len(verb.FindAllString(translated, -1)) {
				t.Errorf("%s: %q and %q have different verbs", l.Code, format, translated)
			}
		}
	}
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// constant returns the value of a string in the source, perhaps joined with +.
func constant(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.BinaryExpr:
		if a, b := constant(x.X), constant(x.Y); a != "" && b != "" {
			return a + b
		}
	}
	return ""
}

// TestEveryTextIsUsed: every text is named in a template or in Go, or its key begins like one that is composed.
func TestEveryTextIsUsed(t *testing.T) {
	sources, err := Sources()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, text := range sources {
		all.WriteString(text)
	}
	for _, file := range goFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	used := map[string]bool{}
	var begins []string
	for _, m := range regexp.MustCompile(`"([a-z]+\.[a-z0-9_]*)"`).FindAllStringSubmatch(all.String(), -1) {
		used[m[1]] = true
		if strings.HasSuffix(m[1], "_") || strings.HasSuffix(m[1], ".") {
			begins = append(begins, m[1])
		}
	}
	texts, err := LoadTexts()
	if err != nil {
		t.Fatal(err)
	}
	for key := range texts["en"] {
		key = strings.TrimSuffix(key, ".one")
		if !used[key] && !slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(key, b) }) {
			t.Errorf("nothing uses %s", key)
		}
	}
}

// term is a glossary entry: the English and Chinese words for a thing, and the words that must not be used for it.
type term struct {
	English string   `json:"en"`
	Chinese string   `json:"zh"`
	Not     []string `json:"not"`
}

// TestOneWordForOneThing: no text and no message uses a word that the glossary excludes.
func TestOneWordForOneThing(t *testing.T) {
	data, err := os.ReadFile("locales/glossary.json")
	if err != nil {
		t.Fatal(err)
	}
	var glossary []term
	if err := json.Unmarshal(data, &glossary); err != nil {
		t.Fatal(err)
	}
	texts, err := LoadTexts()
	if err != nil {
		t.Fatal(err)
	}
	messages, err := LoadMessages()
	if err != nil {
		t.Fatal(err)
	}
	all := texts["zh-Hans"]
	for format, text := range messages["zh-Hans"].formats {
		all["messages: "+format] = text
	}
	for key, text := range all {
		for _, term := range glossary {
			for _, not := range term.Not {
				if strings.Contains(text, not) {
					t.Errorf("%s: %q says %s for %s, which is %s", key, text, not, term.English, term.Chinese)
				}
			}
		}
	}
}
