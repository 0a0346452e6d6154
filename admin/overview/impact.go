package overview

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/internal/observe/history"
)

// impact is the extent of a problem: since when, how many jobs it affects, whether their number grows, and who owns the
// topic.
type impact struct {
	Since time.Time // zero: unknown
	Of    string    // which jobs are counted: the text overview.affected_OF; empty: none
	Jobs  int64
	Known bool   // Jobs is known
	Trend string // growing, shrinking, steady; empty: unknown
	Owner string
}

// trends caches the trends of series: reading one takes a query of the database.
type trends struct {
	mu   sync.Mutex
	read map[string]trend
}

// trend is where a column of a series is heading.
type trend struct {
	at          time.Time // when it was read
	first, last *float64  // the value of trendSpan before the newest, and the newest; nil: unknown
}

const (
	trendFresh = 30 * time.Second
	trendsKept = 1000
	trendSpan  = 5 * time.Minute
	trendLeast = 5.0 // jobs
	trendShare = 0.1 // a smaller change is steady
)

// addImpact adds the impact to the problems that are shown.
func (h *Handler) addImpact(ctx context.Context, list []issue) {
	var counts figures.Counts
	for i := range list {
		a := list[i].Alert
		if a == nil {
			continue
		}
		m := &list[i].Impact
		m.Since = a.BeganAt
		switch {
		case a.Topic != "":
			if counts.Topics == nil {
				counts = h.Figures.Counts(ctx)
			}
			h.addTopicImpact(ctx, m, a.Topic, a.Kind == "dead", counts)
		case a.Shard != "":
			t := h.trend(ctx, history.ShardSeries(a.Shard), "jobs")
			m.Of = "shard"
			if m.Known = t.last != nil; m.Known {
				m.Jobs = int64(*t.last)
				m.Trend = t.word(m.Jobs)
			}
		}
	}
}

func (h *Handler) addTopicImpact(ctx context.Context, m *impact, topic string, dead bool, counts figures.Counts) {
	t, stats := h.Registry.Snapshot().Topics.Get(topic), counts.Topics[topic]
	m.Of, m.Jobs, m.Known = "ready", stats.Ready, counts.Known() && t != nil // others are not counted
	if dead {
		m.Of, m.Jobs = "dead", stats.Dead
	}
	if m.Known {
		m.Trend = h.trend(ctx, topic, m.Of).word(m.Jobs)
	}
	if t != nil {
		m.Owner = t.Owner
	}
}

// trend reads a column at most every trendFresh.
func (h *Handler) trend(ctx context.Context, series, column string) trend {
	h.trends.mu.Lock()
	defer h.trends.mu.Unlock()
	key := column + " " + series
	if t, known := h.trends.read[key]; known && h.Now().Sub(t.at) < trendFresh {
		return t
	}
	if h.trends.read == nil || len(h.trends.read) > trendsKept {
		h.trends.read = map[string]trend{}
	}
	t := trend{at: h.Now()}
	if p, err := h.Figures.History.Series(ctx, series, history.Spans()[0]); err == nil {
		t.first, t.last = ends(p.Times, p.Values[column])
	}
	if ctx.Err() == nil {
		h.trends.read[key] = t
	}
	return t
}

// ends returns the newest value and that of trendSpan before.
func ends(times []int64, values []*float64) (first, last *float64) {
	for i := min(len(values), len(times)) - 1; i >= 0; i-- {
		switch {
		case values[i] == nil:
		case last == nil:
			last, times = values[i], times[:i+1]
		case times[len(times)-1]-times[i] >= int64(trendSpan/time.Second):
			return values[i], last
		}
	}
	return nil, last
}

// word compares the shown number with the one of trendSpan before. None has no trend: it is over.
func (t trend) word(shown int64) string {
	if t.first == nil || shown == 0 {
		return ""
	}
	switch now := float64(shown); {
	case math.Abs(now-*t.first) < max(trendLeast, trendShare**t.first):
		return "steady"
	case now > *t.first:
		return "growing"
	}
	return "shrinking"
}
