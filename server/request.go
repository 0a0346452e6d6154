package server

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// asSent accepts job bodies as they are: they may have duplicate names and unpaired surrogates. The API's own fields
// may not; field and list check them.
var asSent = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), json.RejectUnknownMembers(true),
)

// decode reads data, which must be exactly one JSON object in UTF-8, into the struct v.
func decode(data []byte, v any) error {
	if at := invalidUTF8(data); at >= 0 {
		return malformedAt(int64(at), "invalid UTF-8 in string")
	}
	return decodeObject(data, v)
}

// decodeObject is like decode, but does not require UTF-8.
func decodeObject(data []byte, v any) error {
	kind := jsontext.Value(data).Kind()
	switch {
	case len(bytes.TrimLeft(data, " \t\r\n")) == 0:
		return malformedAt(int64(len(data)), "request has no body; expected an object")
	case kind != jsontext.KindBeginObject && kind != jsontext.KindInvalid:
		return malformedAt(0, "expected an object, got %s", kindName(kind))
	}
	if err := json.Unmarshal(data, v, asSent); err != nil {
		return decodeProblem(err)
	}
	return nil
}

// invalidUTF8 returns the position of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	at := 0
	for {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
}

// decodeProblem translates an error of the decoder.
func decodeProblem(err error) error {
	var (
		problem  *Problem
		syntax   *jsontext.SyntacticError
		semantic *json.SemanticError
	)
	switch {
	case errors.As(err, &syntax) && errors.Is(err, io.ErrUnexpectedEOF):
		return malformedAt(syntax.ByteOffset, "unexpected end of the JSON text")
	case errors.As(err, &syntax):
		return malformedAt(syntax.ByteOffset, "%v", syntax.Err)
	case !errors.As(err, &semantic):
		return err
	case errors.Is(err, json.ErrUnknownName):
		return unknownField(semantic.JSONPointer.LastToken(), fieldNames(semantic.GoType)...)
	case !errors.As(err, &problem):
		problem = wrongType(semantic.GoType, semantic.JSONKind)
	}
	return problem.in(fieldAt(semantic.JSONPointer))
}

// fieldAt returns the innermost field in the path of a value.
func fieldAt(at jsontext.Pointer) (field string) {
	for token := range at.Tokens() {
		if strings.Trim(token, "0123456789") != "" { // not an index
			field = token
		}
	}
	return field
}

// fieldNames returns the names of a request's fields.
func fieldNames(request reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(request) {
		if name := f.Tag.Get("json"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func malformedAt(offset int64, format string, args ...any) error {
	p := badValue(format+" (at byte %d)", append(args, offset)...)
	p.Title = "Malformed JSON"
	return p
}

func wrongType(expected reflect.Type, got jsontext.Kind) *Problem {
	name := "a string"
	switch expected.Kind() {
	case reflect.Struct:
		name = "an object"
	case reflect.Map:
		name = "an object of strings"
	case reflect.Slice:
		name = "an array"
	}
	return badValue("must be %s, got %s", name, kindName(got))
}

// kindName names the kind of a value in messages.
func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindString:
		return "a string"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	}
	return k.String()
}

// field is a field of a request that may be given only once, and not as null.
type field[T any] struct {
	value T
	given bool
}

// UnmarshalJSONFrom reads the value strictly, unlike job bodies.
func (f *field[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if f.given {
		return errDuplicateField()
	}
	f.given = true
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	if v.Kind() == jsontext.KindNull {
		return badValue("must not be null")
	}
	if err := json.Unmarshal(v, &f.value); err != nil {
		return valueProblem(err)
	}
	return nil
}

func errDuplicateField() *Problem { return badValue("duplicate field") }

// valueProblem translates an error about the value of one field.
func valueProblem(err error) error {
	var (
		problem  *Problem
		semantic *json.SemanticError
	)
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.Is(err, jsontext.ErrDuplicateName):
		return badValue("duplicate name")
	case errors.As(err, &semantic):
		return wrongType(semantic.GoType, semantic.JSONKind)
	}
	return badValue("unpaired surrogate in string")
}

// list is a field of a request that is an array with a limited number of items, so that a long array of empty items
// cannot exhaust memory.
type list[T any] struct {
	items []T
	most  int
	given bool
}

// UnmarshalJSONFrom reads the items one by one.
func (l *list[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if l.given {
		return errDuplicateField()
	}
	l.given = true
	if kind := d.PeekKind(); kind != jsontext.KindBeginArray {
		if err := d.SkipValue(); err != nil {
			return err
		}
		return wrongType(reflect.TypeFor[[]T](), kind)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != jsontext.KindEndArray {
		if len(l.items) == l.most {
			return rangeError("the limit is %d entries; use several requests", l.most)
		}
		var item T
		if err := json.UnmarshalDecode(d, &item); err != nil {
			return err
		}
		l.items = append(l.items, item)
	}
	_, err := d.ReadToken()
	return err
}

// part is the position of a value in a request, for values that are kept byte for byte.
type part struct{ start, end int64 }

// UnmarshalJSONFrom checks that the value is JSON.
func (p *part) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	p.end = d.InputOffset()
	p.start = p.end - int64(len(v))
	return err
}

func (p *part) of(request []byte) []byte { return request[p.start:p.end] }

// anything is a field with any value, including null, that is not nested deeper than maxDepth.
type anything struct {
	part
	given bool
}

// UnmarshalJSONFrom reads the value.
func (a *anything) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if a.given {
		return errDuplicateField()
	}
	a.given = true
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	if tooDeep(v) {
		return badValue("nested deeper than %d levels", maxDepth)
	}
	a.end = d.InputOffset()
	a.start = a.end - int64(len(v))
	return nil
}

// maxDepth is the deepest nesting of a job's body.
const maxDepth = 128

// tooDeep counts levels only if a value has enough brackets.
func tooDeep(v []byte) bool {
	if bytes.Count(v, []byte("["))+bytes.Count(v, []byte("{")) <= maxDepth {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewReader(v), asSent)
	for {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
		if d.StackDepth() > maxDepth {
			return true
		}
	}
}
