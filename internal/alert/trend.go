package alert

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/store"
)

// trend holds a Watch's recent readings of a topic.
type trend struct {
	marks        []mark    // oldest first, markEvery apart, at most trendSpan old
	idleSince    time.Time // since when jobs are ready without a callback
	unevenRounds int       // consecutive rounds whose ledger does not add up
	step         mark      // the increase of the counters with the last reading
	failing      run       // of readings in which attempts failed, see mark.failing
	recovered    time.Time // the last reading since failing in which calls were delivered
	dying        run       // of readings in which jobs died
	last         history.Reading
	readAt       time.Time
}

// markEvery is how often counters are kept. For 100,000 topics, keeping those of each round would take half a gigabyte.
const markEvery = 30 * time.Second

// mark holds the counters of a topic at a time, or their increase since then.
type mark struct {
	at                      int64 // ns since 1970
	failed, delivered, died int64
}

func (m mark) ago(now time.Time) time.Duration { return time.Duration(now.UnixNano() - m.at) }

// failing reports whether at least this share of the attempts failed.
func (m mark) failing(share float64) bool {
	return m.failed > 0 && float64(m.failed) >= share*float64(m.failed+m.delivered)
}

// runGap is how long a topic that fails may do without failed attempts.
const runGap = time.Minute

// run is when something began to happen, and when it last happened. A rule about the last minutes finds it for longer.
type run struct{ began, last time.Time }

// add adds a time. After a gap, another run begins.
func (r *run) add(now time.Time, gap time.Duration) {
	if now.Sub(r.last) > gap {
		r.began = now
	}
	r.last = now
}

// of returns a cause with the times of the run.
func (r *run) of(c Cause) Cause {
	c.BeganAt, c.SeenAt = r.began, r.last
	return c
}

// add adds a reading.
func (t *trend) add(r history.Reading, now time.Time) {
	called := r.Failed + r.Delivered + r.Snoozed
	before := t.last.Failed + t.last.Delivered + t.last.Snoozed
	switch {
	case r.Ready == 0 || r.Running > 0 || called != before:
		t.idleSince = time.Time{}
	case t.idleSince.IsZero():
		t.idleSince = now
	}
	if n := len(t.marks); n == 0 || t.marks[n-1].ago(now) >= markEvery {
		t.marks = append(t.marks, mark{now.UnixNano(), r.Failed, r.Delivered, r.Died})
	}
	t.step = mark{}
	if !t.readAt.IsZero() {
		t.step = mark{now.UnixNano(), r.Failed - t.last.Failed, r.Delivered - t.last.Delivered, r.Died - t.last.Died}
	}
	t.unevenRounds++
	if r.Missing() == 0 {
		t.unevenRounds = 0
	}
	for len(t.marks) > 1 && t.marks[0].ago(now) > trendSpan {
		t.marks = t.marks[1:]
	}
	t.last, t.readAt = r, now
}

// failingShare judges topics whose rule has no share.
const failingShare = 0.5

// judgeStep records whether the calls since the last reading failed or were delivered.
func (t *trend) judgeStep(share float64, now time.Time) {
	switch {
	case t.step.failing(share) && t.since(runGap, now).failing(share):
		t.failing.add(now, runGap)
	case t.step.delivered > 0 && !t.step.failing(share):
		t.recovered = now
	}
}

// fails reports whether calls have failed until now.
func (t *trend) fails(now time.Time) bool { return now.Sub(t.failing.last) <= defaultSpan }

// idle returns for how long jobs have been ready without a callback.
func (t *trend) idle(now time.Time) time.Duration {
	if t.idleSince.IsZero() {
		return 0
	}
	return now.Sub(t.idleSince)
}

// since returns the increase of the counters within a span of time.
func (t *trend) since(span time.Duration, now time.Time) (rise mark) {
	for _, m := range t.marks {
		if m.ago(now) <= span {
			return mark{m.at, t.last.Failed - m.failed, t.last.Delivered - m.delivered, t.last.Died - m.died}
		}
	}
	return rise
}

// over reports whether no jobs wait, and nothing has been read for so long that the trend is useless.
func (t *trend) over(now time.Time) bool {
	return t.last.Ready == 0 && now.Sub(t.readAt) > trendSpan
}

// choose returns the topics to read: at first all topics with jobs, then those with events or unusual numbers. On
// error, the topics of shards that did not answer are missing.
func (w *Watch) choose(ctx context.Context, now time.Time) ([]string, error) {
	known := w.src.Snapshot().Topics
	active, err := w.src.Queue.Active(ctx, now.Add(-failingSpan))
	chosen := map[string]bool{}
	for _, name := range active {
		chosen[name] = true
	}
	for name, t := range w.trends {
		if t.last.Ready > 0 || t.unevenRounds > 0 {
			chosen[name] = true
		}
	}
	if now.Sub(w.swept) >= sweepEvery { // a job that becomes due but is not taken causes no event
		all := w.swept.IsZero()
		w.swept = now
		w.forgetTrends(now)
		counts, countsErr := w.src.Queue.Counts(ctx)
		err = cmp.Or(err, countsErr)
		for name, n := range counts {
			if all || n.Ready > 0 {
				chosen[name] = true
			}
		}
	}
	maps.DeleteFunc(chosen, func(name string, _ bool) bool { return known.Get(name) == nil })
	return slices.Sorted(maps.Keys(chosen)), err
}

// topicsAtOnce bounds the memory for totals of many topics.
const topicsAtOnce = 2000

// read reads the chosen topics. ready contains those with ready jobs. complete reports whether all shards answered.
// Only then are the numbers comparable with earlier ones, and added to the trends.
func (w *Watch) read(
	ctx context.Context, now time.Time,
) (names []string, ready map[string]store.Stats, complete bool) {
	all := w.swept.IsZero()
	names, err := w.choose(ctx, now)
	ready = map[string]store.Stats{}
	for some := range slices.Chunk(names, topicsAtOnce) {
		totals, readErr := w.src.Queue.Totals(ctx, some)
		err = cmp.Or(err, readErr)
		w.addDeaths(totals, readErr)
		if err == nil {
			w.addToTrends(some, totals, now)
		}
		for name, t := range totals {
			if t.Ready > 0 {
				ready[name] = t.Stats
			}
		}
	}
	if err != nil {
		w.completeSince = time.Time{}
		if all {
			w.swept = time.Time{}
		}
		return names, ready, false
	}
	switch {
	case all:
		w.swept, w.counted = now, true
		if w.completeSince.IsZero() {
			w.completeSince = now
		}
	case w.completeSince.IsZero():
		w.swept = time.Time{} // read all next time: events during the outage may be too old to count as active
	}
	return names, ready, true
}

func (w *Watch) forgetTrends(now time.Time) {
	known := w.src.Snapshot().Topics
	maps.DeleteFunc(w.trends, func(name string, t *trend) bool { return known.Get(name) == nil || t.over(now) })
	maps.DeleteFunc(w.diedOn, func(name string, _ map[string]int64) bool { return known.Get(name) == nil })
}

func (w *Watch) addToTrends(names []string, read map[string]observe.TopicTotals, now time.Time) {
	for _, name := range names {
		if w.trends[name] == nil {
			w.trends[name] = &trend{}
		}
		w.trends[name].add(history.Reading{Totals: read[name].Total, Living: read[name].Stats}, now)
	}
}
