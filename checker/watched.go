package checker

import (
	"context"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/store"
)

// pingsKept is the number of pings for the percentiles: those of a minute.
const pingsKept = 60

// watched is the checker's memory about one shard.
type watched struct {
	limit    time.Duration   // timeout of one ping
	failures int             // consecutive failed pings
	blind    int             // consecutive failed INFOs
	last     time.Duration   // duration of the last ping
	pings    []time.Duration // durations of the last pingsKept answered ones

	clock time.Time // Redis's clock, read at
	at    time.Time // this time of the host (monotonic)

	runID  string
	offset int64
}

// ping judges reachability, speed and clock.
func (w *watched) ping(ctx context.Context, s Shard) verdicts {
	pctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	clock, took, err := s.Ping(pctx)
	if ctx.Err() != nil {
		return nil
	}
	w.last = took
	if store.Forbidden(err) {
		w.failures++
		return w.judge(store.ShardHealth{Err: err.Error(), Forbidden: true})
	}
	if err != nil {
		if w.failures++; w.failures >= health.DownAfter {
			return verdicts{health.Down: message.Plain(err.Error())}
		}
		return nil
	}
	if w.pings = append(w.pings, took); len(w.pings) > pingsKept {
		w.pings = w.pings[1:]
	}
	w.failures = 0
	judged := verdicts{health.Down: none, health.Slow: w.slow()}
	w.judgeClock(judged, clock, took)
	return judged
}

// none means that there is no problem.
var none message.Message

func (w *watched) slow() message.Message {
	if len(w.pings) < health.FewestPings {
		return none
	}
	p99 := w.quantile(99)
	if p99 <= health.SlowPing {
		return none
	}
	return message.New("finding.slow", len(w.pings), p99.Round(time.Millisecond).String())
}

// judgeClock compares Redis's clock with the host's wall clock, and its progress with the host's monotonic clock.
func (w *watched) judgeClock(judged verdicts, clock time.Time, took time.Duration) {
	now := time.Now()
	judged[health.Clock], judged[health.Stepped] = none, none
	if p := health.JudgeClock(clock.Sub(now.Round(0)), took); p != nil {
		judged[health.Clock] = p.Detail
	}
	if step := clock.Sub(w.clock) - now.Sub(w.at); !w.at.IsZero() && step.Abs() > health.ClockStep+took {
		judged[health.Stepped] = message.New("finding.stepped", step.Round(time.Millisecond).String())
	}
	w.clock, w.at = clock, now
}

// judge judges a shard's report about itself.
func (w *watched) judge(h store.ShardHealth) verdicts {
	if h.Forbidden {
		p := health.JudgeWatched(h)[0]
		return verdicts{p.Kind: p.Says(), health.Down: none, health.Partial: none}
	}
	if !h.Up {
		if w.blind++; w.blind >= health.PartialAfter {
			return verdicts{health.Partial: message.Plain(h.Err)}
		}
		return nil
	}
	w.blind = 0
	judged := verdicts{health.Partial: none, health.Restarted: w.restarted(h)}
	for _, kind := range health.Watched() {
		judged[kind] = none
	}
	for _, p := range health.JudgeWatched(h) {
		judged[p.Kind] = p.Says()
	}
	return judged
}

// restarted detects writes that the same server process lost; losses after a restart are reported with Restarted.
func (w *watched) restarted(h store.ShardHealth) (detail message.Message) {
	if h.RunID == w.runID && h.ReplOffset < w.offset {
		detail = message.New("finding.offset", w.offset, h.ReplOffset)
	}
	w.runID, w.offset = h.RunID, h.ReplOffset
	return detail
}

// quantile returns a percentile of the last minute's pings, or 0 if there are none.
func (w *watched) quantile(percent int) time.Duration {
	if len(w.pings) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(w.pings))
	return sorted[len(sorted)*percent/100]
}
