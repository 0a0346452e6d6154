package topicfile

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	topics, err := Parse([]byte(`
name: a
callback_url: https://h/a
ttr: 20s
---
- {name: b, callback_url: https://h/b, secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}
- {"name": "c", "callback_url": "https://h/c"}
---
`))
	if err != nil || len(topics) != 3 {
		t.Fatalf("%d topics, %v", len(topics), err)
	}
	if a := topics[0]; a.Name != "a" || a.TTR.Std() != 20*time.Second || a.MaxAttempts != 10 || a.HasSecrets {
		t.Errorf("a field and the defaults: %+v", a.Topic)
	}
	if b := topics[1]; b.Name != "b" || !b.HasSecrets || strings.Contains(string(b.JSON), `"name"`) {
		t.Errorf("secrets: %+v as %s", b.Topic, b.JSON)
	}
}

func TestParseNamesEveryMistake(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                {"no topic"},
		"hello":                           {"document 1", "hello"},
		"- 1":                             {"document 1", "1 is not a topic"},
		"- {name: a, ttl: 1}\n- {x: 1}\n": {"topic a", "ttl", "topic number 2", "it has no name"},
	} {
		_, err := Parse([]byte(text))
		for _, say := range want {
			if err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("%q: %v, want %q", text, err, say)
			}
		}
	}
}
