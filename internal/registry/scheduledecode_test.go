package registry

import (
	"slices"
	"strings"
	"testing"
)

// TestSchedulesAreDecoded: a missing field takes its default, what the API tells is accepted, and every mistake is named.
func TestSchedulesAreDecoded(t *testing.T) {
	s, err := DecodeSchedule("report", []byte(`{"name":"report","topic":"t","cron":"0 8 * * 1-5","time_zone":"Asia/Shanghai",
		"body":null,"start_at":"2026-01-02T08:00:00+08:00","end_at":1830297600000,"priority":null,"headers":{"X-Team":"pay"},
		"jitter":60,"shard":"redis-9","next":[],"left_out":{"late":1},"paused_until":null,"created_at":"2026-01-02T03:04:05Z"}`))
	if err != nil {
		t.Fatal(err)
	}
	if string(s.Body) != "null" || s.Missed != "last" || s.Overlap != "skip" || s.State != TopicActive || s.Shard != "" ||
		s.StartAt.UTC().Hour() != 0 || s.EndAt.Year() != 2028 || s.Headers["X-Team"] != "pay" || s.Jitter.Std().Minutes() != 1 {
		t.Errorf("%+v", s)
	}
	for text, want := range map[string]string{
		`{"topic":"t","cron":"@daily","body":1,"ttl":1}`:                   "ttl: unknown field",
		`{"topic":"t","cron":"@daily","body":1,"start_at":"tomorrow"}`:     "start_at: must be an instant",
		`{"topic":"t","cron":"@daily","body":1,"name":"other"}`:            "name: ",
		`{"topic":"t","cron":"@daily","body":1,"headers":{"X-Team":null}}`: "headers: ",
		`{"topic":"t","cron":"@daily","cron":"@hourly","body":1}`:          "duplicate",
		`[]`: "object",
	} {
		if _, err := DecodeSchedule("report", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestSchedulesAreCompared by what they mean, not by how they are written or what the server adds.
func TestSchedulesAreCompared(t *testing.T) {
	decode := func(text string) *Schedule {
		s, err := DecodeSchedule("report", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := decode(`{"topic":"t","every":"1h","start_at":"2026-01-02T00:00:00Z","body":{"b":1.50,"a": "<"}}`)
	b := decode(`{"topic":"t","every":3600,"start_at":"2026-01-02T08:00:00+08:00","body":{"a":"\u003c","b":1.50},"missed":"last"}`)
	b.Shard, b.Revision, b.MadeBy = "redis-1", 5, 6
	if d := DifferingFields(a, b); len(d) > 0 {
		t.Errorf("they differ in %q", d)
	}
	c := decode(`{"topic":"u","cron":"@daily","body":{"a":">"},"state":"paused"}`)
	want := []string{"body", "cron", "every", "start_at", "state", "topic"}
	if d := DifferingFields(a, c); !slices.Equal(d, want) {
		t.Errorf("they differ in %q", d)
	}
}
