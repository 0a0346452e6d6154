package describe

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
)

func TestWaitsSayWhyAJobWaits(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := now.Add(time.Minute)
	since := now.Add(-time.Hour)
	const shown = "2026-01-02T03:05:05.000Z (in 1m)"
	for want, w := range map[string]client.Wait{
		"topic paused by user/ops at 2026-01-02T02:04:05.000Z (1h ago): a deploy": {
			Reason: "paused", By: "user/ops", Since: &since, Why: "a deploy"},
		"not due until " + shown: {Reason: "not_due", Until: &at},
		"attempt 2 failed, retried at " + shown + ": status 500": {
			Reason: "retry", Attempt: 2, Until: &at, Error: "status 500"},
		"endpoint failed 12 times in a row, next probe at " + shown: {Reason: "breaker_open", Failures: 12, Until: &at},
		"max_in_flight reached: 3 of 3 jobs of the topic are running on shard a": {
			Reason: "max_in_flight", Running: 3, Limit: 3, Shard: "a"},
		"rate_limit reached: 0.5 a second, next call at " + shown: {Reason: "rate_limit", Limit: 0.5, Until: &at},
		"no worker waits for jobs of the topic, 0 are leased":     {Reason: "no_worker"},
		"behind 7 due jobs of its topic and priority":             {Reason: "behind", Jobs: 7},
		"shard a does not answer: refused":                        {Reason: "shard_down", Shard: "a", Error: "refused"},
	} {
		if got := Waits([]client.Wait{w}, now); got != want {
			t.Errorf("%s: %q, want %q", w.Reason, got, want)
		}
	}
}
