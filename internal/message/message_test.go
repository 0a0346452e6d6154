package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	texts := Texts{"a.jobs": "{0} jobs of {1}", "a.jobs.one": "one job of {1}", "a.bad": "{0:q} is bad"}
	for want, got := range map[string]string{
		"2 jobs of x": texts.T("a.jobs", 2, "x"), "one job of x": texts.T("a.jobs", 1, "x"),
		"a.none":                 texts.T("a.none"),
		"2 jobs of {0}":          texts.T("a.jobs", 2, "{0}"), // arguments are not expanded
		`"x\x1b\n" is bad`:       texts.T("a.bad", "x\x1b\n"),
		"2 jobs of one job of x": texts.T("a.jobs", 2, New("a.jobs", 1, "x")),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if said := texts.T("a.bad", strings.Repeat("x", 1000)); len(said) > 100 {
		t.Errorf("a long argument is quoted as %q", said)
	}
}

// TestAStoredMessageSaysTheSame, with its numbers and the messages in it.
func TestAStoredMessageSaysTheSame(t *testing.T) {
	for _, m := range []Message{
		New("finding.advised", New("finding.jobs", 1234567), New("finding.jobs_advice")),
		Plain("connection refused"),
		{},
	} {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var stored Message
		err = json.Unmarshal(b, &stored)
		if err != nil || stored.Error() != m.Error() || stored.IsZero() != m.IsZero() {
			t.Errorf("%s is read as %q, %v; want %q", b, stored.Error(), err, m.Error())
		}
	}
}

// TestAMessageIsAnError that can be found in others.
func TestAMessageIsAnError(t *testing.T) {
	var m Message
	err := fmt.Errorf("apply: %w", New("finding.memory", "9 GiB", "10 GiB"))
	if !errors.As(err, &m) || err.Error() != "apply: 9 GiB of 10 GiB used" {
		t.Errorf("got %v", err)
	}
}
