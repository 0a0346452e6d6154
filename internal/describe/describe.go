package describe

import (
	"fmt"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/log/printable"
)

// TimeLayout is how the API writes times.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Instant formats a time as the API does, with its distance from now.
func Instant(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(TimeLayout) + " (" + distance(t.Sub(now)) + ")"
}

// InstantOf is Instant; "" for nil.
func InstantOf(t *time.Time, now time.Time) string {
	if t == nil {
		return ""
	}
	return Instant(*t, now)
}

// distance returns "in 5m", "5m ago" or "now".
func distance(d time.Duration) string {
	if d.Abs() < 500*time.Millisecond {
		return "now"
	}
	if d < 0 {
		return length(-d) + " ago"
	}
	return "in " + length(d)
}

// length formats durations over two days in days, because 2159h59m59s is hard to read.
func length(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return printable.Duration(d)
	}
	return strconv.FormatInt(int64(d.Round(day)/day), 10) + " days"
}

// End returns how a journaled job ended.
func End(ended string) string {
	text, known := map[string]string{
		"": "which has not ended as far as is known", "done": "delivered", "delete": "deleted",
		"drop": "deleted from the dead letters", "clear": "deleted with all jobs of its topic",
		"cancel": "deleted with its group",
	}[ended]
	if !known {
		return ended
	}
	return text
}

// UnreachableShards returns the shards that do not answer, and why. A job that was not found may be in one of them.
func UnreachableShards(shards []client.Shard) (list []string) {
	for _, s := range shards {
		if !s.Up {
			list = append(list, "shard "+s.Name+": "+s.Error)
		}
	}
	return list
}

// AlertState returns whether an alert is open, acknowledged, muted or ended.
func AlertState(a client.Alert, now time.Time) string {
	switch h := a.Handled; {
	case a.EndedAt != nil:
		return "ended " + distance(a.EndedAt.Sub(now))
	case h == nil:
		return "open"
	case h.MutedUntil != nil:
		return fmt.Sprintf("muted by %s, ends %s", h.By, distance(h.MutedUntil.Sub(now)))
	default:
		return "acknowledged by " + h.By
	}
}
