package phpdq

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The members that php-delayqueue adds to a body.
const (
	notifyTime = "notify_time"     // when the call is due
	setTime    = "dq_set_time"     // when the job was added, unless the body says so
	failures   = "exp_notify_nums" // number of failed calls
)

// body is a job's body as PHP sees it: an ordered array.
type body []member

type member struct {
	name  string
	value jsontext.Value
}

// lenient parses like PHP: of several members with the same name, the last one counts.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// parseBody parses a body. The elements of a list are named by their indexes. Any other value becomes a single member,
// body.
func parseBody(text []byte) (b body) {
	if !jsontext.Value(text).IsValid(lenient...) {
		return body{{"body", quoted(string(text))}}
	}
	d := jsontext.NewDecoder(bytes.NewReader(text), lenient...)
	kind := d.PeekKind()
	switch kind {
	case 'n':
		return nil
	case '{', '[':
		_, _ = d.ReadToken()
	default:
		return body{{"body", text}}
	}
	for i := 0; d.PeekKind() != '}' && d.PeekKind() != ']'; i++ {
		name := strconv.Itoa(i)
		if kind == '{' {
			token, err := d.ReadToken()
			if err != nil { // impossible: the body is valid
				return b
			}
			name = token.String()
		}
		value, err := d.ReadValue()
		if err != nil {
			return b
		}
		b = b.with(name, value.Clone())
	}
	return b
}

func (b body) index(name string) int {
	return slices.IndexFunc(b, func(m member) bool { return m.name == name })
}

// with sets a member. A new one is added at the end.
func (b body) with(name string, value jsontext.Value) body {
	if i := b.index(name); i >= 0 {
		b[i].value = value
		return b
	}
	return append(b, member{name, value})
}

// stamp adds the times when the job is due and when it was added, in the server's time zone.
func (b body) stamp(due, added time.Time, zone *time.Location) body {
	b = b.with(notifyTime, quoted(due.In(zone).Format(time.DateTime)))
	if b.index(setTime) < 0 {
		b = b.with(setTime, quoted(added.In(zone).Format(time.DateTime)))
	}
	return b
}

// failed adds n to the number of failed calls, which an imported job may already have.
func (b body) failed(n int) body {
	if i := b.index(failures); i >= 0 {
		before, _ := strconv.Atoi(string(b[i].value))
		n += before
	}
	if n == 0 {
		return b
	}
	return b.with(failures, jsontext.Value(strconv.Itoa(n)))
}

// json encodes the body as an object.
func (b body) json() []byte {
	out := []byte{'{'}
	for i, m := range b {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, quoted(m.name)...), ':')
		out = append(out, m.value...)
	}
	return append(out, '}')
}

func quoted(s string) jsontext.Value {
	v, _ := jsontext.AppendQuote(nil, s) // invalid UTF-8 was replaced
	return v
}

func textOf(v jsontext.Value) (s string) {
	_ = json.Unmarshal(v, &s, json.JoinOptions(lenient...))
	return s
}
