package describe

import (
	"fmt"
	"strings"
	"time"

	"github.com/wakecall/wakecall/client"
)

// Waits returns all that a job waits for as one line; "" if it does not wait.
func Waits(list []client.Wait, now time.Time) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = whyWait(&list[i], now)
	}
	return strings.Join(texts, "; ")
}

func whyWait(w *client.Wait, now time.Time) string {
	switch w.Reason {
	case "shard_down":
		if w.Shard == "" {
			return "stored in no shard yet: none answered"
		}
		return withDetail("shard "+w.Shard+" does not answer", w.Error)
	case "paused":
		text := "topic paused"
		if w.By != "" {
			text += " by " + w.By
		}
		if w.Since != nil {
			text += " at " + InstantOf(w.Since, now)
		}
		return withDetail(text, w.Why)
	case "offline":
		return "topic offline"
	case "locked":
		return "the server's host has another secret key"
	case "not_due":
		return "not due until " + InstantOf(w.Until, now)
	case "retry":
		return withDetail(fmt.Sprintf("attempt %d failed, retried at %s", w.Attempt, InstantOf(w.Until, now)), w.Error)
	case "breaker_open":
		return fmt.Sprintf("endpoint failed %d times in a row, next probe at %s", w.Failures, InstantOf(w.Until, now))
	case "max_in_flight":
		text := fmt.Sprintf("max_in_flight reached: %d of %g jobs of the topic are running", w.Running, w.Limit)
		if w.Shard != "" {
			text += " on shard " + w.Shard
		}
		return text
	case "rate_limit":
		return fmt.Sprintf("rate_limit reached: %g a second, next call at %s", w.Limit, InstantOf(w.Until, now))
	case "window":
		return fmt.Sprintf("endpoint is slow: %d calls in flight of %g that it could answer lately", w.Running, w.Limit)
	case "no_worker":
		return fmt.Sprintf("no worker waits for jobs of the topic, %d are leased", w.Running)
	case "key":
		return "another job of its key runs or comes first"
	case "behind":
		return fmt.Sprintf("behind %d due jobs of its topic and priority", w.Jobs)
	case "next":
		return "nothing: it is the next job of its topic and priority"
	}
	return w.Reason
}

func withDetail(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + ": " + detail
}
