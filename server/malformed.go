package server

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

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

func errDuplicateField() *Problem { return badValue("duplicate field") }

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

// invalidUTF8 returns the position of the first byte that is not UTF-8. There must be one.
func invalidUTF8(data []byte) (at int64) {
	for {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += int64(size)
	}
}
