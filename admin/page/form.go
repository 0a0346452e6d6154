package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
)

// Form has what was typed: texts by the API's field names, so that a wrong value can be shown again.
type Form map[string]string

// ReadForm returns the fields of a request, without spaces around them.
func ReadForm(c echo.Context) Form {
	params, _ := c.FormParams() // of a malformed request, the fields that could be read
	f := Form{}
	for name := range params {
		f[name] = strings.TrimSpace(params.Get(name))
	}
	return f
}

// Typed returns the form of fields in JSON: a list separated by spaces, a table as lines.
func Typed(fields map[string]json.RawMessage) Form {
	f := Form{}
	for name, value := range fields {
		f[name] = typed(value)
	}
	return f
}

func typed(value json.RawMessage) string {
	var text string
	var list []string
	var table map[string]string
	switch {
	case json.Unmarshal(value, &text) == nil:
		return text
	case json.Unmarshal(value, &list) == nil:
		return strings.Join(list, " ")
	case json.Unmarshal(value, &table) == nil:
		for _, name := range SortedKeys(table) {
			list = append(list, name+": "+table[name])
		}
		return strings.Join(list, "\n")
	}
	return string(value) // a number
}

// Headers parses one header per line. It rejects values that would not be stored as typed.
func (f Form) Headers() (map[string]string, error) {
	headers := map[string]string{}
	for line := range strings.Lines(f["headers"]) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok {
			return headers, FieldError("headers", "field.header_colon", line)
		}
		if _, ok := headers[name]; ok {
			return headers, FieldError("headers", "field.header_twice", name)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

// Minute parses the time in a field, see the function Minute.
func (f Form) Minute(name string, zone *time.Location) (time.Time, error) {
	at, err := Minute(f[name], zone)
	if err != nil {
		return at, FieldError(name, "field.time", f[name])
	}
	return at, nil
}

// Conflict is a field whose typed value differs from one that somebody else has saved in the meantime.
type Conflict struct{ Field, Theirs, Yours string }

// Conflicts returns the conflicts in the fields of these names.
func Conflicts(names []string, theirs, yours map[string]json.RawMessage) (list []Conflict) {
	for _, name := range names {
		list = append(list, Conflict{name, string(theirs[name]), string(yours[name])})
	}
	return list
}

// Differs reports whether a field is not as usual, is wrong, or was changed by somebody else.
func (f Form) Differs(name string, usual Form, wrong map[string]string, conflicts []Conflict) bool {
	changed := func(c Conflict) bool { return c.Field == name }
	return f[name] != usual[name] || wrong[name] != "" || slices.ContainsFunc(conflicts, changed)
}

// FieldError returns an error about a field of a form.
func FieldError(field, code string, args ...any) error {
	return registry.Malformed(field, code, args...)
}

func MinuteText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	if at.Second() != 0 { // another time would select other jobs
		return at.Format(MinuteForm + ":05")
	}
	return at.Format(MinuteForm)
}

const MinuteForm = "2006-01-02T15:04" // how browsers send times

// Minute parses a time in a zone as browsers send it; an empty text is the zero time.
func Minute(text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{MinuteForm, MinuteForm + ":05"} {
		if at, err := time.ParseInLocation(form, text, zone); err == nil {
			return at, nil
		}
	}
	return time.Time{}, message.New("field.time", text)
}

// FieldErrors returns the errors of a form by field, in the language of the request. rest holds the errors that belong
// to no field.
func (t *Texts) FieldErrors(c echo.Context, err error) (fields map[string]string, rest error) {
	fields = map[string]string{}
	var others []error
	for _, one := range Flatten(err) {
		var f *registry.FieldError
		if !errors.As(one, &f) {
			others = append(others, one)
			continue
		}
		if fields[f.Field] == "" {
			fields[f.Field] = t.say(Lang(c), f.Message)
		}
	}
	return fields, errors.Join(others...)
}

// Flatten returns the errors that errors.Join joined.
func Flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, Flatten(e)...)
	}
	return list
}

// Registry has the topics that paths name.
type Registry interface{ Snapshot() *registry.Snapshot }

// topicsSuggested is how many topics a form suggests.
const topicsSuggested = 1000

// TopicNames returns the topics that a form suggests for jobs.
func TopicNames(r Registry) (names []string) {
	for name := range r.Snapshot().Topics.All() {
		if len(names) == topicsSuggested {
			break
		}
		if !registry.IsNamespace(name) {
			names = append(names, name)
		}
	}
	return names
}

// TopicOf returns the topic that the path names.
func TopicOf(c echo.Context, r Registry) (*registry.Topic, error) {
	name := Param(c, "topic")
	t := r.Snapshot().Topics.Get(name)
	if t == nil {
		return nil, fmt.Errorf("%.80q: %w", name, registry.ErrNoTopic)
	}
	return t, nil
}

// WithTopic wraps a handler for the topic that the path names.
func WithTopic(r Registry, h func(c echo.Context, t *registry.Topic) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		t, err := TopicOf(c, r)
		if err != nil {
			return err
		}
		return h(c, t)
	}
}

// Words splits a typed list at spaces, commas, semicolons and line ends.
func Words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(",; \t\r\n", r) })
}
