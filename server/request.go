package server

import (
	"bytes"
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
	if !utf8.Valid(data) {
		return malformedAt(invalidUTF8(data), "invalid UTF-8 in string")
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

// clearable is a field that may be null, which removes what it sets.
type clearable[T any] struct {
	field[T]
	null bool
}

// UnmarshalJSONFrom reads the value or null.
func (f *clearable[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if f.given || d.PeekKind() != jsontext.KindNull {
		return f.field.UnmarshalJSONFrom(d)
	}
	f.given, f.null = true, true
	return d.SkipValue()
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
