package registry

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEscapedNamesAreReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		name := EscapeName(text)
		if back, ok := UnescapeName(name); back != text || !ok {
			t.Fatalf("%q became %q and then %q, %v", text, name, back, ok)
		}
		if !memberName.MatchString("x." + name) {
			t.Fatalf("%q became %q, which is not a name", text, name)
		}
	})
	for text, name := range map[string]string{
		"orders_9-a": "orders_9-a", "Mail": "~mail", "a.b/c": "a~2eb~2fc", "~": "~7e", "\xff": "~~ff",
	} {
		if got := EscapeName(text); got != name {
			t.Errorf("EscapeName(%q) = %q; want %q", text, got, name)
		}
	}
	for _, name := range []string{"~", "~~", "~2", "~61", "~~2e", "A", "a.b", "~zz~"} {
		if text, ok := UnescapeName(name); ok {
			t.Errorf("UnescapeName(%q) = %q; want it refused", name, text)
		}
	}
}

func TestTheLongestMatchWins(t *testing.T) {
	topic := func(name string, attempts int) *Topic {
		x := NewTopic(name)
		x.Delivery, x.MaxAttempts = DeliveryPull, attempts
		return &x
	}
	s := &Snapshot{Topics: NewTopics(topic("a.*", 1), topic("a.b.*", 2), topic("a.b.own", 3))}
	for name, want := range map[string]int{"a.x": 1, "a.b.x": 2, "a.b.x.y": 2, "a.b.own": 3, "a.*": 1, "a.b.~x": 2,
		"a.x" + strings.Repeat("x", 500): 1} {
		if got := s.Topic(name); got == nil || got.MaxAttempts != want || got.Name != name {
			t.Errorf("%s: %+v; want %d attempts", name, got, want)
		}
	}
	for _, name := range []string{"a", "a.", "b.x", "a.X", "a.x y", "", "a.x" + strings.Repeat("x", MaxMemberName)} {
		if got := s.Topic(name); got != nil {
			t.Errorf("%q is in a namespace: %+v", name, got)
		}
	}
}

func TestInvalidPullTopics(t *testing.T) {
	for name, c := range map[string]struct{ name, spec, field string }{
		"no address":           {"p", `{"delivery":"pull","ttr":"24h","max_attempts":65535}`, ""},
		"for ever":             {"p", `{"delivery":"pull","max_attempts":0}`, ""},
		"namespace":            {"lmstfy.ns.*", `{"delivery":"pull"}`, ""},
		"namespace by default": {"lmstfy.ns.*", `{}`, "delivery"},
		"push namespace":       {"lmstfy.ns.*", `{"callback_url":"http://x/"}`, "delivery"},
		"star in the middle":   {"a.*.b", `{"delivery":"pull"}`, "name"},
		"star alone":           {".*", `{"delivery":"pull"}`, "name"},
		"attempts":             {"p", `{"delivery":"pull","max_attempts":65536}`, "max_attempts"},
		"ttr":                  {"p", `{"delivery":"pull","ttr":"25h"}`, "ttr"},
		"unknown":              {"p", `{"callback_url":"http://x/","delivery":"poll"}`, "delivery"},
		"push without address": {"p", `{"max_attempts":1}`, "callback_url"},
		"push for ever":        {"p", `{"callback_url":"http://x/","max_attempts":0}`, "max_attempts"},
		"push for a day":       {"p", `{"callback_url":"http://x/","ttr":"24h"}`, "ttr"},
	} {
		_, err := DecodeTopic(c.name, []byte(c.spec))
		var first *FieldError
		if (err == nil) != (c.field == "") || err != nil && (!errors.As(err, &first) || first.Field != c.field) {
			t.Errorf("%s: %v; want an error with %q", name, err, c.field)
		}
	}
}
