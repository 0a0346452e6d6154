package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// sayable is something to tell a person, in whichever language the page has: the key of a text, and what stands in it.
type sayable struct {
	Key  string `json:"say"`
	Args []any  `json:"args,omitempty"`
}

// Error is for logs, and where a text is not known any more.
func (s *sayable) Error() string {
	return strings.TrimSpace(s.Key + " " + strings.TrimSuffix(fmt.Sprintln(s.Args...), "\n"))
}

func sayError(key string, args ...any) error { return &sayable{key, args} }

// stored is the form in which a task keeps it.
func (s *sayable) stored() string {
	b, err := json.Marshal(s)
	if err != nil {
		return s.Error()
	}
	return string(b)
}

// storedError is what a task keeps of an error: what can be said in the reader's language so, the rest in its own words.
func storedError(err error) string {
	var s *sayable
	if errors.As(err, &s) {
		return s.stored()
	}
	return err.Error()
}

// Why is what a task keeps about its end, to be said; nil when it is words, as tasks of earlier versions have.
func (t *Task) Why() *sayable {
	var s sayable
	d := json.NewDecoder(strings.NewReader(t.Error))
	d.UseNumber() // or 12 becomes 12.0, and 1234567 1.234567e+06
	if !strings.HasPrefix(t.Error, "{") || d.Decode(&s) != nil || s.Key == "" {
		return nil
	}
	return &s
}

const clippedLength = 60

// clipped is the beginning of what somebody wrote, for a message about it.
func clipped(text string) string {
	if r := []rune(text); len(r) > clippedLength {
		return string(r[:clippedLength]) + "…"
	}
	return text
}
