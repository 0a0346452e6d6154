package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/message"
)

// DecodeTopic decodes a topic from JSON on top of the defaults, and validates it. A null field counts as missing.
// Secrets is nil if the JSON has none, which keeps the stored ones, and empty for [], which removes them. Errors are
// joined *FieldErrors.
func DecodeTopic(name string, data []byte) (*Topic, error) {
	t := NewTopic(name)
	if err := decodeObject(name, data, t.fields(), t.Validate); err != nil {
		return nil, err
	}
	t.CallbackURL = sentURL(t.CallbackURL) // as in PutTopics, for comparisons with what is stored
	return &t, nil
}

// decodeObject decodes the members of an object into the fields of what has the name, and then validates it.
func decodeObject(name string, data []byte, fields []field, validate func() error) error {
	members, err := objectMembers(data)
	if err != nil {
		return errors.Join(ValidTopicName(name), err)
	}
	return errors.Join(append(decodeMembers(members, fields), validate())...)
}

func decodeMembers(members []member, fields []field) (errs []error) {
	for _, m := range members {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == m.name })
		if i < 0 {
			errs = append(errs, Malformed(printable.Clip(m.name, 64), "field.unknown", settable(fields)))
			continue
		}
		errs = append(errs, m.decode(fields[i]))
	}
	return errs
}

// settable returns the names of the fields that a client may set.
func settable(fields []field) string {
	var names []string
	for _, f := range fields {
		if !f.told {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

// Kinds of values, as codes of messages.
const (
	aText      = "kind.string"
	aWhole     = "kind.integer"
	aNumber    = "kind.number"
	aDuration  = "kind.duration"
	aTextList  = "kind.strings"
	aTextTable = "kind.string_object"
	anInstant  = "kind.instant"
	aBoolean   = "kind.boolean"
)

// field decodes the value of one member. Its errors never contain a value that may be a secret.
type field struct {
	name   string
	into   func(value []byte) error
	kind   string // a code
	secret bool
	null   bool // null is a value, not a missing one
	told   bool // the API returns it, so it also accepts it; it changes nothing
}

// fields returns the fields of a topic with their exact names. encoding/json would also accept callback_URL.
func (t *Topic) fields() []field {
	return []field{
		{name: "title", into: value(&t.Title), kind: aText},
		{name: "delivery", into: value(&t.Delivery), kind: aText},
		{name: "callback_url", into: value(&t.CallbackURL), kind: aText},
		{name: "job_urls", into: list(&t.JobURLs), kind: aTextList},
		{name: "cloudevents", into: value(&t.CloudEvents), kind: aBoolean},
		{name: "method", into: value(&t.Method), kind: aText},
		{name: "content_type", into: value(&t.ContentType), kind: aText},
		{name: "headers", into: headersInto(&t.Headers), kind: aTextTable, secret: true},
		{name: "delay", into: value(&t.Delay), kind: aDuration},
		{name: "ttr", into: value(&t.TTR), kind: aDuration},
		{name: "priority", into: value(&t.Priority), kind: aText},
		{name: "max_attempts", into: whole(&t.MaxAttempts), kind: aWhole},
		{name: "retry", into: list(&t.Retry), kind: "kind.durations"},
		{name: "retry_if", into: value(&t.RetryIf), kind: aText},
		{name: "dialect", into: value(&t.Dialect), kind: aText},
		{name: "max_in_flight", into: whole(&t.MaxInFlight), kind: aWhole},
		{name: "rate_limit", into: number(&t.RateLimit), kind: aNumber},
		{name: perKeyField, into: perKeyInto(&t.PerKey), kind: "kind.per_key"},
		{name: "expires_after", into: value(&t.ExpiresAfter), kind: aDuration},
		{name: "on_expiry", into: value(&t.OnExpiry), kind: aText},
		{name: "durability", into: value(&t.Durability), kind: aText},
		{name: "remember", into: value(&t.Remember), kind: "kind.remember"},
		{name: "shard", into: value(&t.Shard), kind: aText},
		{name: "emails", into: list(&t.Emails), kind: aTextList},
		{name: "owner", into: value(&t.Owner), kind: aText},
		{name: "secrets", into: list(&t.Secrets), kind: aTextList, secret: true},
		{name: "state", into: value(&t.State), kind: aText},
		{name: "pause_reason", into: value(new(string)), kind: aText, told: true},
		{name: "paused_until", into: value(new(time.Time)), kind: anInstant, told: true},
		{name: "name", into: isName(t.Name), kind: aText, told: true},
		{name: "created_at", into: value(new(time.Time)), kind: anInstant, told: true},
		{name: "updated_at", into: value(new(time.Time)), kind: anInstant, told: true},
	}
}

func value[T any](to *T) func([]byte) error {
	return func(b []byte) error { return json.Unmarshal(b, to) }
}

// whole decodes a whole number in any JSON notation: 1000, 1e3 or 1000.0.
func whole(to *int) func([]byte) error {
	return func(b []byte) error {
		var f float64
		err := number(&f)(b)
		switch {
		case err != nil:
			return err
		case math.Abs(f) > maxNumber:
			return ErrTooLarge
		case f != math.Trunc(f):
			return errors.New("not a whole number")
		}
		*to = int(f)
		return nil
	}
}

func number(to *float64) func([]byte) error {
	return func(b []byte) (err error) {
		if jsontext.Value(b).Kind() != '0' {
			return errors.New("not a number")
		}
		if *to, err = strconv.ParseFloat(string(b), 64); err != nil { // it is a JSON number
			return ErrTooLarge
		}
		return nil
	}
}

// list rejects null in a list, which encoding/json decodes as the zero value.
func list[T any](to *[]T) func([]byte) error {
	return func(b []byte) error {
		var items []*T
		if err := json.Unmarshal(b, &items); err != nil {
			return err
		}
		*to = make([]T, len(items))
		for i, item := range items {
			if item == nil {
				return errors.New("null in a list")
			}
			(*to)[i] = *item
		}
		return nil
	}
}

// isName accepts the name that the object has already.
func isName(own string) func([]byte) error {
	return func(b []byte) error {
		var name string
		if err := json.Unmarshal(b, &name); err != nil || name == own {
			return err
		}
		return Malformed("name", "field.other_name", name, own)
	}
}

// headersInto sets headers, beside those that are there.
func headersInto(to *map[string]string) func([]byte) error {
	return func(b []byte) error {
		var headers map[string]*string
		if err := json.Unmarshal(b, &headers); err != nil {
			return err
		}
		for name, v := range headers {
			if v == nil {
				return Malformed("headers", "field.null", name)
			}
			if *to == nil {
				*to = map[string]string{}
			}
			(*to)[name] = *v
		}
		return nil
	}
}

// member is the name and value of one member of a JSON object.
type member struct {
	name  string
	value jsontext.Value
}

func (m member) decode(f field) error {
	if string(m.value) == "null" && !f.null {
		return nil
	}
	if !m.value.IsValid() { // valid syntax, so a string has an unpaired surrogate, which encoding/json would replace
		return Malformed(m.name, "field.surrogate")
	}
	err := f.into(m.value)
	var fe *FieldError
	switch {
	case err == nil || errors.As(err, &fe):
		return err
	case f.secret:
		return Malformed(m.name, "field.expected", message.New(f.kind))
	case errors.Is(err, ErrTooLarge):
		return OutOfRange(m.name, "field.out_of_range", printable.Clip(string(m.value), 60))
	}
	return Malformed(m.name, "field.expected_not", printable.Clip(string(m.value), 60), message.New(f.kind))
}

// objectMembers splits a JSON object. It rejects duplicate names, because readers disagree about which one counts.
func objectMembers(data []byte) (members []member, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowInvalidUTF8(true))
	err = eachMember(dec, func(name string) error {
		value, err := dec.ReadValue()
		members = append(members, member{name, bytes.Clone(value)})
		return err
	})
	if err != nil {
		return nil, jsonError(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, Malformed("", "field.json_after")
	}
	return members, nil
}

// jsonError converts an error of jsontext to one for users.
func jsonError(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return Malformed("", "field.json_end")
	case !errors.As(err, &syntax):
		return err
	case errors.Is(err, jsontext.ErrDuplicateName):
		field, _, _ := strings.Cut(string(syntax.JSONPointer[1:]), "/")
		return Malformed(printable.Clip(field, 64), "field.duplicate", syntax.JSONPointer.LastToken())
	}
	return Malformed("", "field.json", syntax.Err, syntax.ByteOffset)
}
