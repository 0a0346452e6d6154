package conf

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

var standardPlaces = []string{"wakecall.yaml", "/etc/wakecall/wakecall.yaml"}

// findFile reads the requested file, or the first standard one that exists. If there is none, it returns an empty name.
func findFile(opts LoadOptions) (string, []byte, error) {
	if name := cmp.Or(opts.File, Getenv(opts.Env, envPrefix+"CONFIG")); name != "" {
		data, err := readFile(name)
		return name, data, err
	}
	places := opts.Search
	if places == nil {
		places = standardPlaces
	}
	for _, name := range places {
		if data, err := readFile(name); !errors.Is(err, fs.ErrNotExist) {
			return name, data, err
		}
	}
	return "", nil, nil
}

const maxFile = 1 << 20

// readFile reads a file, unless it is too large for a configuration.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(data) > maxFile {
		return nil, errors.New("larger than 1MiB")
	}
	return data, err
}

// yamlFile flattens a YAML file to assignments. koanf's own parser would lose the line numbers and the notation of
// numbers: 5:3:2, 0x10 or 1e3 mean the same in every layer.
type yamlFile struct {
	name     string
	lines    map[string]int // of the keys found
	found    []assignment
	problems []Problem
}

func parseFile(name string, data []byte) *yamlFile {
	f := &yamlFile{name: name, lines: map[string]int{}}
	file, err := parseYAML(data)
	if err != nil {
		f.syntaxError(err)
		return f
	}
	for i, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case i > 0:
			f.report(lineOf(doc.Body), "", "a second document begins here: remove the --- above it")
		default:
			f.walk("", lineOf(doc.Body), doc.Body)
		}
	}
	return f
}

// parseYAML turns a panic of the parser into an error, because a reload must survive any file.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser panicked: %v", p)
		}
	}()
	return parser.ParseBytes(data, 0)
}

func (f *yamlFile) syntaxError(err error) {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		f.report(at.GetToken().Position.Line, "", "invalid YAML: "+at.GetMessage())
		return
	}
	f.report(1, "", "invalid YAML: "+err.Error())
}

func (f *yamlFile) report(line int, path, detail string) {
	f.problems = append(f.problems, Problem{Where: f.at(line), Key: path, Detail: detail})
}

func (f *yamlFile) at(line int) string { return fmt.Sprintf("%s:%d", f.name, line) }

func lineOf(n ast.Node) int { return n.GetToken().Position.Line }

// walk adds the value n of a key, or the keys of a section.
func (f *yamlFile) walk(path string, line int, n ast.Node) {
	if m, ok := n.(ast.MapNode); ok {
		for it := m.MapRange(); it.Next(); {
			name := strings.TrimSpace(it.Key().GetToken().Value)
			f.walk(strings.TrimPrefix(path+"."+name, "."), lineOf(it.Key()), it.Value())
		}
		return
	}
	list, isList := n.(*ast.SequenceNode)
	members := []ast.Node{n}
	if isList {
		members = list.Values
	}
	var texts []string
	for _, m := range members {
		text, err := scalarText(m)
		if err != nil {
			f.report(line, path, err.Error())
			return
		}
		texts = append(texts, text)
	}
	f.assign(path, line, strings.Join(texts, ","), isList)
}

func (f *yamlFile) assign(path string, line int, text string, isList bool) {
	switch {
	case isSection(path) && text == "": // all keys of the section are commented out
	case path == "":
		f.report(line, path, "expected keys and values, such as timers: 1")
	case isSection(path):
		f.report(line, path, "is a section: write its keys below it, indented")
	case f.lines[path] != 0:
		f.report(line, path, fmt.Sprintf("duplicate key, first set on line %d: remove one", f.lines[path]))
	default:
		f.lines[path] = line
		f.found = append(f.found, assignment{key: path, text: text, isList: isList, where: f.at(line), source: f.at(line)})
	}
}

func scalarText(n ast.Node) (string, error) {
	switch v := n.(type) {
	case nil, *ast.NullNode:
		return "", nil
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, nil
	case *ast.LiteralNode:
		return strings.TrimSpace(v.Value.Value), nil
	default:
		return "", fmt.Errorf("expected a plain value, found the YAML type %s", strings.ToLower(n.Type().YAMLName()))
	}
}
