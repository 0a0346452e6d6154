package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is the deepest nesting of a job's body.
const maxDepth = 128

// lenient allows duplicate names and unpaired surrogates, which bodies may have. The API's own fields are checked where
// they are read.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decoder reads a request's JSON. The values that it returns are parts of the request's bytes.
type decoder struct {
	jsontext.Decoder
	source bytes.Buffer
	data   []byte
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// decode reads data, which must be exactly one JSON value.
func decode(data []byte, read func(d *decoder) error) error {
	d := decoders.Get().(*decoder)
	d.data, d.source = data, *bytes.NewBuffer(data)
	d.Reset(&d.source, lenient)
	err := read(d)
	if err == nil {
		err = d.end()
	}
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		err = malformed(syntax)
	}
	d.data, d.source = nil, bytes.Buffer{}
	d.Reset(&d.source)
	decoders.Put(d)
	return err
}

func (d *decoder) end() error {
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return malformedAt(d.InputOffset(), "unexpected text after the JSON value")
	}
	return nil
}

// decodeObject reads data, which must be exactly one object. visit is called with each member's name and has to read
// its value. what describes the object in errors.
func decodeObject(data []byte, what string, visit func(d *decoder, name jsontext.Token) error) error {
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return malformedAt(int64(len(data)), "the request has no body; expected %s", what)
	}
	return decode(data, func(d *decoder) error { return d.object(what, visit) })
}

// decodeFields is decodeObject for an object with the known fields, each at most once. read has to read the value of a
// field.
func decodeFields(data []byte, what string, known []string, read func(d *decoder, field string) error) error {
	if err := checkUTF8(data); err != nil {
		return err
	}
	return decodeObject(data, what, onceEach(known, read))
}

// onceEach returns a visitor for an object that may have the known fields, each at most once.
func onceEach(known []string, read func(d *decoder, field string) error) func(*decoder, jsontext.Token) error {
	seen := map[string]bool{}
	return func(d *decoder, token jsontext.Token) error {
		field := token.String()
		switch {
		case !slices.Contains(known, field):
			return unknownField(field, known...)
		case seen[field]:
			return badField(field, "duplicate field")
		}
		seen[field] = true
		return read(d, field)
	}
}

// checkUTF8 refuses a request that is not UTF-8.
func checkUTF8(data []byte) error {
	if utf8.Valid(data) {
		return nil
	}
	at := 0
	for {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return malformedAt(int64(at), "a string is not valid UTF-8")
		}
		at += size
	}
}

func malformed(err *jsontext.SyntacticError) error {
	if errors.Is(err.Err, io.ErrUnexpectedEOF) {
		return malformedAt(err.ByteOffset, "unexpected end of the JSON text")
	}
	return malformedAt(err.ByteOffset, "%v", err.Err)
}

func malformedAt(offset int64, format string, args ...any) error {
	detail := fmt.Sprintf(format, args...) + fmt.Sprintf(" (at byte %d)", offset)
	return &Problem{Status: http.StatusBadRequest, Title: "Malformed JSON", Detail: detail}
}

func (d *decoder) object(what string, visit func(d *decoder, name jsontext.Token) error) error {
	if kind := d.PeekKind(); kind != '{' {
		return malformedAt(d.InputOffset(), "expected %s, got %s", what, kindName(kind))
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := visit(d, name); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// array reads a field that must be an array. visit has to read each element.
func (d *decoder) array(field string, visit func() error) error {
	if d.PeekKind() != '[' {
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		return wrongType(field, "an array", v)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if err := visit(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// kindName names the kind of a value in messages.
func kindName(k jsontext.Kind) string {
	switch k {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "something else"
}

func wrongType(field, expected string, v jsontext.Value) error {
	return badField(field, "expected %s, got %s", expected, kindName(v.Kind()))
}

// raw reads any value that is not nested deeper than maxDepth, and returns its bytes unchanged.
func (d *decoder) raw() ([]byte, error) {
	if kind := d.PeekKind(); kind != '{' && kind != '[' {
		v, err := d.ReadValue()
		return d.data[d.InputOffset()-int64(len(v)) : d.InputOffset()], err
	}
	start, outer := int64(-1), d.StackDepth()
	for start < 0 || d.StackDepth() > outer {
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		if start < 0 {
			start = d.InputOffset() - 1
		}
		if d.StackDepth() > outer+maxDepth {
			return nil, malformedAt(d.InputOffset(), "nested deeper than %d levels", maxDepth)
		}
	}
	return d.data[start:d.InputOffset()], nil
}

// text reads a field that must be a string.
func (d *decoder) text(field string) (string, error) {
	v, err := d.ReadValue()
	if err != nil {
		return "", err
	}
	return textOf(field, v)
}

// texts reads a field that must be an array of strings.
func (d *decoder) texts(field string) (list []string, err error) {
	err = d.array(field, func() error {
		text, err := d.text(field)
		list = append(list, text)
		return err
	})
	return list, err
}

// textOf decodes a value that must be a string.
func textOf(field string, v jsontext.Value) (string, error) {
	if v.Kind() != '"' {
		return "", wrongType(field, "a string", v)
	}
	var short [128]byte
	text, err := jsontext.AppendUnquote(short[:0], v)
	if err != nil { // the request is valid UTF-8, so it can only be an escape
		return "", badField(field, "half of a surrogate pair is not text")
	}
	return string(text), nil
}
