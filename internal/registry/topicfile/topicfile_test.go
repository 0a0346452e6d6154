package topicfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

func TestParse(t *testing.T) {
	file, err := Parse([]byte(`
name: a
callback_url: https://h/a
ttr: 20s
---
- {name: b, callback_url: https://h/b, secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}
- {"name": "c", "callback_url": "https://h/c"}
---
`))
	topics := file.Topics
	if err != nil || len(topics) != 3 {
		t.Fatalf("%d topics, %v", len(topics), err)
	}
	if a := topics[0]; a.Name != "a" || a.Is.TTR.Std() != 20*time.Second || a.Is.MaxAttempts != 10 || a.Is.Secrets != nil {
		t.Errorf("a field and the defaults: %+v", a.Is)
	}
	if b := topics[1]; b.Name != "b" || b.Is.Secrets == nil || strings.Contains(string(b.JSON), `"name"`) {
		t.Errorf("secrets: %+v as %s", b.Is, b.JSON)
	}
}

// TestNoTopicIsLeftOut of a file, behind a document with nothing but a comment: apply --prune would delete it.
func TestNoTopicIsLeftOut(t *testing.T) {
	for _, text := range []string{
		"name: a\ncallback_url: https://h/a\n---\n# Source: x.yaml\n---\nname: b\ncallback_url: https://h/b\n",
		"---\n---\nname: a\ncallback_url: https://h/a\n--- # Source\n---\n- {name: b, callback_url: https://h/b}\n",
		"\ufeff[{\"name\": \"a\", \"callback_url\": \"https://h/a\"}, {\"name\": \"b\", \"callback_url\": \"https://h/b\"}]",
	} {
		file, err := Parse([]byte(text))
		topics := file.Topics
		if err != nil || len(topics) != 2 || topics[0].Name != "a" || topics[1].Name != "b" {
			t.Errorf("%q: %v, %v", text, topics, err)
		}
	}
}

func TestParseNamesEveryMistake(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                {"no topics"},
		"hello":                           {"document 1", "hello"},
		"{name: a, max_attempts: 010}":    {"document 1", "010 begins with 0"},
		"name: a\n---\n# x\n---\nname: [": {"document 2: [5:7]"},
		"- 1":                             {`document 1: "1" is not a topic`},
		"name: 2026":                      {"topic number 1", `quote it: "2026"`},
		"- {name: a, ttl: 1}\n- {x: 1}\n": {"topic a", "ttl", "topic number 2", "the name is missing"},
		"schedule: a\ncron: '60 * * * *'\n---\nschedule: 7\n": {"document 1: schedule a: ", "cron: ", "body: ", "topic: ", `quote it: "7"`},
	} {
		_, err := Parse([]byte(text))
		for _, say := range want {
			if err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("%q: %v, want %q", text, err, say)
			}
		}
	}
}

// TestWhatIsFormattedIsParsedAgain, whatever the texts are, even those that other YAML readers would parse as markers,
// line ends, numbers or keys.
func TestWhatIsFormattedIsParsedAgain(t *testing.T) {
	texts := []string{
		"? x", "- x", "a: b", "a #b", "a\u2028b", "a\u2029b", "a\u0085b", "\ufeffa", "\x7f", "a\tb", "a ", " a", "<<",
		"...",
		"---", "? ", "?", "=", "~", "null", "true", "yes", "NaN", ".inf", "10", "1e3", "12:30:00", "0x1f", "10s",
		"1m30s",
		"2026-01-01", "Nächste Mahnung", "关闭订单", "👍", "it's \"so\"", `back\slash`, "a,b", "[a", "{a", "&a", "*a", "!a",
		"|",
		">",
		"%a", "@a", "`a", "a:", ":", "a:b", "https://h/p?a=b&c=d", "",
	}
	for _, text := range texts {
		topic := map[string]any{
			"name": "shop.close", "callback_url": "https://h/", "title": text, "owner": text + "x",
			"updated_at": "never",
			"retry":      []string{"10s", "1m30s"}, "rate_limit": 0.5,
			"headers": map[string]string{"X-Text": "v", "...": "a", "---": "b", "~": "c", "|": "d", "true": "e"},
		}
		if strings.ContainsAny(text, "\t\u0085\x7f") { // not a valid title, but one that may be in a database
			topic["title"], topic["owner"] = "", ""
		}
		raw, err := json.Marshal(topic)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Format(raw)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if strings.ContainsAny(string(b), "\u2028\u2029\u0085\ufeff\t") {
			t.Errorf("%q is written as %q", text, b)
		}
		file, err := Parse(b)
		got := file.Topics
		if err != nil || len(got) != 1 {
			t.Fatalf("%q is written as\n%s\n%v", text, b, err)
		}
		if x := got[0].Is; x.Title != topic["title"] || x.Owner != topic["owner"] || len(x.Headers) != 6 ||
			len(x.Retry) != 2 ||
			x.RateLimit != 0.5 {
			t.Errorf("%q is written as\n%s\nand read as %+v", text, b, x)
		}
	}
}

// TestSchedulesAreReadAndWritten: what is formatted is parsed again as the same schedule, whatever its body is.
func TestSchedulesAreReadAndWritten(t *testing.T) {
	file, err := Parse([]byte(`
name: reports
callback_url: https://h/a
---
schedule: report
topic: reports
cron: 0 8 * * 1-5
time_zone: Asia/Shanghai
start_at: 2026-01-02T03:04:05Z
body: {zone: "<cn>", n: [1, 2.5, null, 12345678901234567, "1e3"], "~": true}
---
- {schedule: often, topic: reports, every: 15m, jitter: 30, body: null, headers: {X-A: "~"}}
- schedule: a.quarter
  topic: reports
  cron: "*/15 * * * *"
  body: "? x"
  missed: all
  state: paused
`))
	if err != nil || len(file.Topics) != 1 || len(file.Schedules) != 3 {
		t.Fatalf("%+v, %v", file, err)
	}
	if s := file.Schedules[0].Is; s.Name != "report" || s.Cron != "0 8 * * 1-5" || s.Missed != "last" || s.StartAt.Year() != 2026 ||
		string(s.Body) != `{"n":[1,2.5,null,12345678901234567,"1e3"],"zone":"<cn>","~":true}` {
		t.Errorf("%+v with %s", s, s.Body)
	}
	for _, s := range file.Schedules {
		text, err := FormatSchedule(s.Is)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if err != nil || len(again.Schedules) != 1 || again.Schedules[0].Name != s.Name ||
			len(registry.DifferingFields(s.Is, again.Schedules[0].Is)) > 0 {
			t.Errorf("%s is written as\n%s\n%v", s.JSON, text, err)
		}
		if !strings.HasPrefix(string(text), "schedule: "+s.Name+"\ntopic: reports\n") {
			t.Errorf("written as\n%s", text)
		}
	}
}
