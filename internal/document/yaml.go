package document

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Error is why a file could not be read. It quotes nothing from the file, which may have secrets.
type Error struct {
	Document int // counted from 1, without empty ones
	Line     int // of the file
	Column   int // 0: unknown
	Message  string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Markers of documents are at the beginning of a line, also within a text of several lines. A document without content
// has nothing but comments and directives.
var (
	marker  = regexp.MustCompile(`(?m)^(---|\.\.\.)([ \t\r]|$)`)
	content = regexp.MustCompile(`(?m)^[ \t]*[^#%\s]`)
)

// YAML returns the documents of a file that are not empty, or an *Error. It does not let the parser find them, which
// drops all that follow one with nothing but a comment. The nodes have the lines of the file.
func YAML(data []byte) (documents []ast.Node, err error) {
	text := Text(data)
	begin, lines := 0, 0
	for _, m := range append(marker.FindAllIndex(text, -1), []int{len(text), len(text)}) {
		document := text[begin:m[0]]
		if content.Match(document) {
			d, failed := parse(document, lines)
			if failed != nil {
				failed.Document = len(documents) + 1
				return nil, failed
			}
			documents = append(documents, d)
		}
		begin, lines = m[1], lines+bytes.Count(document, []byte("\n"))
	}
	return documents, nil
}

// parse parses one document. A panic of the parser is an error, because a reload must survive any file.
func parse(text []byte, line int) (_ ast.Node, failed *Error) {
	defer func() {
		if p := recover(); p != nil {
			failed = &Error{Line: line + 1, Message: fmt.Sprintf("the parser panicked: %v", p)}
		}
	}()
	tokens := lexer.Tokenize(string(text))
	for _, t := range tokens {
		t.Position.Line += line
	}
	if failed := checkDepth(tokens); failed != nil {
		return nil, failed
	}
	file, err := parser.Parse(tokens, 0)
	var at yaml.Error
	switch {
	case errors.As(err, &at) && at.GetToken() != nil:
		where := at.GetToken().Position
		return nil, &Error{Line: where.Line, Column: where.Column, Message: at.GetMessage()}
	case err != nil:
		return nil, &Error{Line: line + 1, Message: err.Error()}
	case len(file.Docs) != 1 || file.Docs[0].Body == nil:
		return nil, &Error{Line: line + 1, Message: fmt.Sprintf("the parser finds %d documents in one", len(file.Docs))}
	}
	return file.Docs[0].Body, nil
}

// maxDepth limits nested lists and maps. For each value, the parser stores the path to it: 39 KB of brackets took
// 3.25 GB.
const maxDepth = 100

// checkDepth counts lists by their marks, in brackets or in lines. Maps in lines need no limit: each is indented, so
// their depth is about the square root of the file's size.
func checkDepth(tokens token.Tokens) *Error {
	brackets := 0
	var columns []int // of the lists in lines
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		default:
		}
		if brackets+len(columns) > maxDepth {
			return &Error{
				Line:    t.Position.Line,
				Column:  t.Position.Column,
				Message: fmt.Sprintf("lists and maps are nested more than %d levels deep", maxDepth),
			}
		}
	}
	return nil
}
