package web

import (
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

	"github.com/wakecall/wakecall/internal/message"
)

// goFiles are the sources of the program below the root, without tests.
func goFiles(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains([]string{"node_modules", ".git", "dist", "test"}, d.Name()) {
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

// TestEveryCodeInGoHasItsText, with as many arguments as the call passes.
func TestEveryCodeInGoHasItsText(t *testing.T) {
	texts, err := message.Catalogue("en")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for code := range texts {
		section, _, _ := strings.Cut(code, ".")
		sections[section] = true
	}
	for _, file := range goFiles(t) {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if code, ok := codeIn(n, sections); ok && !texts.Has(code) {
				t.Errorf("%s: there is no text %s", file, code)
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for i, arg := range call.Args {
				if code, ok := codeIn(arg, sections); ok && len(call.Args)-i-1 != len(arguments(texts[code])) {
					t.Errorf("%s: a call passes %d arguments to %q", file, len(call.Args)-i-1, texts[code])
				}
			}
			return true
		})
	}
}

var codeForm = regexp.MustCompile(`^[a-z]+\.[a-z0-9_]+$`)

// codeIn returns the code of a message if the node is one.
func codeIn(n ast.Node, sections map[string]bool) (string, bool) {
	literal, ok := n.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	code, err := strconv.Unquote(literal.Value)
	section, _, _ := strings.Cut(code, ".")
	return code, err == nil && sections[section] && codeForm.MatchString(code)
}

// arguments returns the arguments that a text shows, each once.
func arguments(text string) []string {
	found := regexp.MustCompile(`\{\d+`).FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
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
	for _, m := range regexp.MustCompile(`"([a-z]+\.[a-z0-9_.]*)"`).FindAllStringSubmatch(all.String(), -1) {
		used[m[1]] = true
		if strings.HasSuffix(m[1], "_") || strings.HasSuffix(m[1], ".") {
			begins = append(begins, m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\(setting \$f \$e\s+"([a-z]+)"\s+"([a-z0-9_.]+)"`).
		FindAllStringSubmatch(all.String(), -1) {
		used[m[1]+".f_"+m[2]], used[m[1]+".h_"+m[2]] = true, true
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
