package page

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
)

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
