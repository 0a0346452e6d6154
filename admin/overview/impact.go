package overview

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/observe/history"
)

// impact is the extent of a problem: since when, how many jobs it affects, and whether their number grows.
type impact struct {
	Since time.Time // zero: unknown
	Of    string    // which jobs are counted: the text overview.affected_OF; empty: none
	Jobs  int64
	Known bool   // Jobs is known
	Trend string // growing, shrinking, steady; empty: unknown
}

// trends caches the trends of series: reading one takes a query of the database.
type trends struct {
	mu   sync.Mutex
	read map[string]trend
}

// trend is where a column of a series is heading.
type trend struct {
	at          time.Time // when it was read
	first, last float64   // the value of trendSpan before the newest, and the newest; NaN: unknown
}

const (
	trendFresh  = 30 * time.Second
	trendsKept  = 1000
	trendTopics = 10
	trendSpan   = 5 * time.Minute
	trendLeast  = 5.0 // jobs
	trendShare  = 0.1 // a smaller change is steady
)

// impactOf returns the impact of alerts with the same cause, without the trend. The jobs of several topics are added
// up, and the sum is unknown if one of them is.
func (h *Handler) impactOf(ctx context.Context, g *alert.Group, counts figures.Counts) impact {
	m := impact{Since: g.Since()}
	switch a := &g.Alerts[0]; {
	case a.Shard != "":
		m.Of = "shard"
		if t := h.trend(ctx, history.ShardSeries(a.Shard), "jobs"); !math.IsNaN(t.last) {
			m.Jobs, m.Known = int64(t.last), true
		}
		return m
	case a.Topic == "":
		return m
	case a.Kind == "dead":
		m.Of = "dead"
	default:
		m.Of = "ready"
	}
	m.Known = counts.Known()
	for _, a := range g.Alerts {
		stats := counts.Topics[a.Topic]
		m.Jobs += map[string]int64{"ready": stats.Ready, "dead": stats.Dead}[m.Of]
		m.Known = m.Known && h.Registry.Snapshot().Topics.Get(a.Topic) != nil // others are not counted
	}
	return m
}

// addTrend adds the trend. That of many topics stays unknown: each topic takes a query.
func (h *Handler) addTrend(ctx context.Context, i *issue) {
	if !i.Impact.Known || len(i.Group.Alerts) > trendTopics {
		return
	}
	was := 0.0 // NaN: unknown
	for _, a := range i.Group.Alerts {
		series, column := a.Topic, i.Impact.Of
		if column == "shard" {
			series, column = history.ShardSeries(a.Shard), "jobs"
		}
		was += h.trend(ctx, series, column).first
	}
	i.Impact.Trend = trendOf(was, i.Impact.Jobs)
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
	t := trend{h.Now(), math.NaN(), math.NaN()}
	if p, err := h.Figures.History.Series(ctx, series, history.Spans()[0]); err == nil {
		t.first, t.last = ends(p.Times, p.Values[column])
	}
	if ctx.Err() == nil {
		h.trends.read[key] = t
	}
	return t
}

// ends returns the newest value and that of trendSpan before.
func ends(times []int64, values []*float64) (first, last float64) {
	last = math.NaN()
	for i := min(len(values), len(times)) - 1; i >= 0; i-- {
		switch {
		case values[i] == nil:
		case math.IsNaN(last):
			last, times = *values[i], times[:i+1]
		case times[len(times)-1]-times[i] >= int64(trendSpan/time.Second):
			return *values[i], last
		}
	}
	return math.NaN(), last
}

// trendOf compares the shown number with the one of trendSpan before. None has no trend: it is over.
func trendOf(was float64, shown int64) string {
	switch now := float64(shown); {
	case math.IsNaN(was) || shown == 0:
		return ""
	case math.Abs(now-was) < max(trendLeast, trendShare*was):
		return "steady"
	case now > was:
		return "growing"
	}
	return "shrinking"
}
