package member

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func named(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, `":`...)
}

// Text appends a string. Bytes that are not UTF-8 become U+FFFD.
func Text[T ~string | ~[]byte](b []byte, name string, text T) []byte {
	b, _ = jsontext.AppendQuote(named(b, name), text) // the error only means invalid UTF-8
	return b
}

// Int appends an integer.
func Int[T ~int | ~int64](b []byte, name string, n T) []byte {
	return strconv.AppendInt(named(b, name), int64(n), 10)
}

// Float appends a number, which must be finite.
func Float(b []byte, name string, f float64) []byte {
	return strconv.AppendFloat(named(b, name), f, 'f', -1, 64)
}

// Instant appends a time as AppendTime writes it.
func Instant(b []byte, name string, t time.Time) []byte {
	b = append(named(b, name), '"')
	return append(AppendTime(b, t), '"')
}

// Raw appends a value that is already JSON.
func Raw(b []byte, name string, value []byte) []byte { return append(named(b, name), value...) }

// Value appends any value by reflection, for rare members. v must have a type whose encoding cannot fail.
func Value(b []byte, name string, v any) []byte {
	value, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(fmt.Sprintf("encoding the member %s: %v", name, err))
	}
	return Raw(b, name, value)
}

// AppendTime appends RFC 3339 in UTC with milliseconds. AppendFormat is three times as fast without them.
func AppendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}
