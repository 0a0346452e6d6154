package topicfile

import (
	"strings"
	"testing"
	"time"
)

// TestAliasesDoNotMultiply: thirty aliases of thirty aliases of … would use all memory.
func TestAliasesDoNotMultiply(t *testing.T) {
	bomb := "- &a0 {name: a, callback_url: https://h/a}\n"
	for i := 1; i < 10; i++ {
		bomb += "- &a" + string(rune('0'+i)) + " [" + strings.Repeat("*a"+string(rune('0'+i-1))+",", 30) + "]\n"
	}
	began := time.Now()
	_, err := Parse([]byte(bomb))
	if err == nil || !strings.Contains(err.Error(), "aliases") {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
}

func TestAliasesAreRead(t *testing.T) {
	file, err := Parse([]byte(`
- &base {name: a, callback_url: https://h/a, headers: &h {X-Team: pay}, ttr: 20s}
- {<<: *base, name: b}
- {name: c, callback_url: https://h/c, headers: *h}
`))
	topics := file.Topics
	if err != nil || len(topics) != 3 {
		t.Fatalf("%d topics, %v", len(topics), err)
	}
	if b := topics[1]; b.Name != "b" || b.Is.CallbackURL != "https://h/a" || b.Is.TTR.Std() != 20*time.Second {
		t.Errorf("merged: %+v", b.Is)
	}
	if c := topics[2]; c.Is.Headers["X-Team"] != "pay" {
		t.Errorf("an alias: %+v", c.Is)
	}
}
