package document

import (
	"bytes"
	"errors"
	"fmt"

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
	Message  string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// YAML returns the documents of a file that are not empty, or an *Error. It does not let the parser find them, which
// drops all that follow one with nothing but a comment. The nodes have the lines of the file.
func YAML(data []byte) (documents []ast.Node, err error) {
	text := Text(data)
	for _, p := range split(text) {
		d, failed := parse(text[p.from:p.to], p.line)
		if failed != nil {
			failed.Document = len(documents) + 1
			return nil, failed
		}
		documents = append(documents, d)
	}
	return documents, nil
}

// part is where a document is in a file; line is the number of lines before it.
type part struct{ from, to, line int }

// split finds the documents by their markers, which are at the beginning of a line also within a text of several lines.
// What is before a document, such as a directive, is left out.
func split(text []byte) (parts []part) {
	var p part
	full, lines := false, 0
	for line := range bytes.Lines(text) {
		content, begins := afterMarker(line, "---")
		_, ends := afterMarker(line, "...")
		if begins || ends {
			if full {
				parts = append(parts, p)
			}
			p, full = part{p.to, p.to, lines}, false
		}
		p.to += len(line)
		lines++
		switch content = bytes.TrimSpace(content); {
		case ends:
			p.from, p.line = p.to, lines
		case len(content) > 0 && content[0] != '#' && line[0] != '%':
			full = true
		}
	}
	if full {
		parts = append(parts, p)
	}
	return parts
}

// afterMarker returns what follows a marker at the beginning of a line, or the whole line.
func afterMarker(line []byte, marker string) (rest []byte, found bool) {
	rest, found = bytes.CutPrefix(line, []byte(marker))
	if found && len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \t\r\n") {
		return line, false
	}
	return rest, found
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
		return nil, &Error{Line: at.GetToken().Position.Line, Message: at.GetMessage()}
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
				Message: fmt.Sprintf("lists and maps are nested more than %d levels deep", maxDepth),
			}
		}
	}
	return nil
}
