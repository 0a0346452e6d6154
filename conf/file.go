package conf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/wakecall/wakecall/internal/document"
)

var standardPlaces = []string{"wakecall.yaml", "/etc/wakecall/wakecall.yaml"}

// readFile reads the requested file, or the first standard one that exists, if any.
func (l *loader) readFile(opts LoadOptions) {
	places := opts.Search
	if places == nil {
		places = standardPlaces
	}
	named := cmp.Or(opts.File, Getenv(opts.Env, envPrefix+"CONFIG"))
	if named != "" {
		places = []string{named}
	}
	for _, name := range places {
		data, err := os.ReadFile(name)
		if named == "" && (errors.Is(err, fs.ErrNotExist) || isOutOfReach(name)) {
			continue
		}
		if err != nil {
			l.report(name, "", fmt.Sprintf("read the configuration file: %v", err))
			return
		}
		l.file = name
		l.readYAML(data)
		return
	}
}

// isOutOfReach reports whether this user may not enter the file's directory, such as the home directory in which
// somebody typed `sudo -u wakecall wakecall check`.
func isOutOfReach(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrPermission)
}

// readYAML sets the keys of a file. It walks the nodes, because decoding would lose the line numbers and the notation
// of numbers: 5:3:2, 0x10 or 1e3 mean the same in every layer.
func (l *loader) readYAML(data []byte) {
	documents, err := document.YAML(data)
	if at, ok := errors.AsType[*document.Error](err); ok {
		l.report(fmt.Sprintf("%s:%d", l.file, at.Line), "", "invalid YAML: "+at.Message)
		return
	}
	for i, body := range documents {
		_, isMap := body.(ast.MapNode)
		switch {
		case i > 0:
			l.report(l.line(body), "", "a second document begins here: remove the --- above it")
		case !isMap:
			l.report(l.line(body), "", "expected keys and values, such as timers: 1")
		default:
			for _, entry := range ast.Filter(ast.MappingValueType, body) {
				l.readEntry(entry.(*ast.MappingValueNode))
			}
		}
	}
}

func (l *loader) line(n ast.Node) string {
	return fmt.Sprintf("%s:%d", l.file, n.GetToken().Position.Line)
}

// readEntry sets a key. Sections have entries of their own.
func (l *loader) readEntry(entry *ast.MappingValueNode) {
	if _, isMap := entry.Value.(ast.MapNode); isMap {
		return
	}
	path, where := strings.TrimPrefix(entry.Value.GetPath(), "$."), l.line(entry.Key)
	list, isList := entry.Value.(*ast.SequenceNode)
	members := []ast.Node{entry.Value}
	if isList {
		members = list.Values
	}
	var texts []string
	for _, m := range members {
		text, err := scalarText(m)
		if err != nil {
			l.report(where, path, err.Error())
			return
		}
		texts = append(texts, text)
	}
	text := strings.Join(texts, ",")
	switch {
	case !l.isSection(path):
		l.set(path, text, where, isList)
	case text != "": // empty when all keys of the section are commented out
		l.report(where, path, "is a section: write its keys below it, indented")
	}
}

func (l *loader) isSection(path string) bool {
	return slices.ContainsFunc(l.keys, func(k Key) bool { return strings.HasPrefix(k.Path, path+".") })
}

func scalarText(n ast.Node) (string, error) {
	switch v := n.(type) {
	case nil, *ast.NullNode:
		return "", nil
	case *ast.LiteralNode:
		return strings.TrimSpace(v.Value.Value), nil
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, nil
	default:
		return "", fmt.Errorf("expected a plain value, found the YAML type %s", strings.ToLower(n.Type().YAMLName()))
	}
}
