package conf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// assignment is one key as one layer has it.
type assignment struct {
	key    string
	texts  []string
	where  string // for problems: FILE:LINE, the variable, or --flag
	source string // for Effective
}

const maxFile = 1 << 20

// readFile reads a whole file that is small enough to be a configuration.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, errors.New("it has more than 1MiB: that is no configuration of Wakecall")
	}
	return data, nil
}

// fileReader flattens a YAML file to assignments.
type fileReader struct {
	name     string
	sections map[string]bool
	found    []assignment
	problems []Problem
}

func parseFile(name string, data []byte, keys []string) ([]assignment, []Problem) {
	r := &fileReader{name: name, sections: sectionsOf(keys)}
	file, err := parseYAML(data)
	if err != nil {
		return nil, []Problem{r.syntax(err)}
	}
	if len(file.Docs) > 1 && file.Docs[1].Body != nil {
		return nil, []Problem{r.problem(file.Docs[1].Body, "", "a second document begins here: remove the --- above it")}
	}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			r.node("", doc.Body, doc.Body)
		}
	}
	return r.found, r.problems
}

// parseYAML keeps a panic of the parser from ending the program: a reload must survive any file.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is not YAML: %v", p)
		}
	}()
	return parser.ParseBytes(data, 0)
}

func sectionsOf(keys []string) map[string]bool {
	sections := map[string]bool{"": true}
	for _, k := range keys {
		if i := strings.LastIndexByte(k, '.'); i > 0 {
			sections[k[:i]] = true
		}
	}
	return sections
}

// node adds what stands at the key: a section is walked, a list or a scalar is an assignment. at is where the key stands.
func (r *fileReader) node(key string, at, n ast.Node) {
	if m, ok := n.(ast.MapNode); ok {
		r.section(key, m)
		return
	}
	texts, err := textsOf(n)
	switch {
	case err != nil:
		r.problems = append(r.problems, r.problem(at, key, err.Error()))
	case r.sections[key] && isEmpty(texts): // a section whose keys are all commented out
	case key == "":
		r.problems = append(r.problems, r.problem(at, key, "a configuration is made of lines such as timers: 1"))
	case r.sections[key]:
		r.problems = append(r.problems, r.problem(at, key, "is a section: write its keys below it, indented"))
	default:
		where := fmt.Sprintf("%s:%d", r.name, lineOf(at))
		r.found = append(r.found, assignment{key: key, texts: texts, where: where, source: where})
	}
}

func (r *fileReader) section(key string, m ast.MapNode) {
	for it := m.MapRange(); it.Next(); {
		k := it.Key()
		name := strings.TrimSpace(k.GetToken().Value)
		if key != "" {
			name = key + "." + name
		}
		if k.IsMergeKey() {
			r.problems = append(r.problems, r.problem(k, name, "merge keys are not supported: write the keys out"))
			continue
		}
		r.node(name, k, it.Value())
	}
}

func isEmpty(texts []string) bool { return len(texts) == 0 || len(texts) == 1 && texts[0] == "" }

func textsOf(n ast.Node) ([]string, error) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		s, err := textOf(n)
		return []string{s}, err
	}
	texts := []string{}
	for _, member := range list.Values {
		s, err := textOf(member)
		if err != nil {
			return nil, err
		}
		texts = append(texts, s)
	}
	return texts, nil
}

// textOf is the scalar as it is written, so that 5:3:2, 0x10 or 1e3 mean the same in every layer.
func textOf(n ast.Node) (string, error) {
	switch v := n.(type) {
	case nil, *ast.NullNode:
		return "", nil
	case *ast.StringNode:
		return v.Value, nil
	case *ast.LiteralNode:
		return strings.TrimSpace(v.Value.Value), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, nil
	default:
		return "", fmt.Errorf("is a %s, where a plain value is wanted (anchors, aliases and tags are not supported)",
			strings.ToLower(n.Type().YAMLName()))
	}
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}

func (r *fileReader) problem(n ast.Node, key, detail string) Problem {
	return Problem{Where: fmt.Sprintf("%s:%d", r.name, lineOf(n)), Key: key, Detail: detail}
}

func (r *fileReader) syntax(err error) Problem {
	p := Problem{Where: r.name, Detail: err.Error()}
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		p.Where = fmt.Sprintf("%s:%d", r.name, at.GetToken().Position.Line)
		p.Detail = "it is not YAML that can be read: " + at.GetMessage()
	}
	return p
}
