package figures

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Answered reports which numbers from Redis are known, and how old they are.
type Answered struct {
	At      time.Time // when a shard last answered; zero: never
	Now     time.Time
	Missing []string // shards that did not answer this time
}

// Known reports whether any numbers are known. Zeros in place of unknown numbers would look healthy.
func (a Answered) Known() bool { return !a.At.IsZero() }

const oldAfter = countsPause + 5*time.Second

// Old reports whether the numbers are from an earlier read.
func (a Answered) Old() bool { return a.Known() && a.Now.Sub(a.At) > oldAfter }

// Complete reports whether the numbers are of all shards, and not old.
func (a Answered) Complete() bool { return a.Known() && !a.Old() && len(a.Missing) == 0 }

// Counts are the numbers of jobs of all topics by state.
type Counts struct {
	Answered
	Topics map[string]store.Stats
}

// Sum returns the sum over all topics.
func (c Counts) Sum() (sum store.Stats) {
	for _, t := range c.Topics {
		sum.Add(t)
	}
	return sum
}

// TopicTotals are the totals of a topic.
type TopicTotals struct {
	observe.TopicTotals
	Answered
}

// readings cache counts, so sorting 5,000 topics by a count reads Redis once, not at every click. They also serve while
// no shard answers.
type readings struct {
	mu     sync.Mutex
	asked  time.Time
	took   time.Duration
	counts Counts
	totals map[string]TopicTotals
}

const (
	countsFresh = 3 * time.Second
	countsShare = 20               // counting takes at most one part in countsShare of the time, but
	countsPause = 15 * time.Second // is never further apart: a read that waits for a shard takes long, too
	readLimit   = 10 * time.Second // so that a shard that hangs holds up no page for longer
	oldestAsked = 10_000           // topics whose age of ready jobs is read
	totalsKept  = 10_000           // topics
)

// Counts returns the numbers of jobs of all topics. While no shard answers it returns the last counts. All callers
// share the counts, so a read continues even if the caller that started it leaves.
func (h *Handler) Counts(ctx context.Context) Counts {
	r := &h.readings
	r.mu.Lock()
	defer r.mu.Unlock()
	now := h.Now()
	if now.Sub(r.asked) >= min(countsPause, max(countsFresh, countsShare*r.took)) || r.asked.IsZero() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		defer cancel()
		all, err := h.readCounts(limited)
		r.took = h.Now().Sub(now)
		if h.someAnswered(err) {
			r.counts.Topics, r.counts.At = all, now
		}
		r.asked, r.counts.Missing = now, h.missing(err)
	}
	c := r.counts
	c.Now = now
	return c
}

// Recount makes the next call of Counts read again if it lacks a shard that is up now.
func (h *Handler) Recount(up []string) {
	r := &h.readings
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.counts.Missing, func(name string) bool { return slices.Contains(up, name) }) {
		r.asked = time.Time{}
	}
}

// readCounts counts the jobs of the topics that have any.
func (h *Handler) readCounts(ctx context.Context) (map[string]store.Stats, error) {
	all, err := h.Queue.Counts(ctx)
	known := h.Registry.Snapshot().Topics
	maps.DeleteFunc(all, func(topic string, _ store.Stats) bool { return known.Get(topic) == nil })
	var ready []string
	for topic, s := range all {
		if s.Ready > 0 && len(ready) < oldestAsked {
			ready = append(ready, topic)
		}
	}
	stats, statsErr := h.Queue.Stats(ctx, ready)
	maps.Copy(all, stats)
	return all, cmp.Or(err, statsErr)
}

// Totals returns the totals of topics. While no shard answers it returns the last totals read.
func (h *Handler) Totals(ctx context.Context, topics []string) map[string]TopicTotals {
	all, err := h.Queue.Totals(ctx, topics)
	now, some, missing := h.Now(), h.someAnswered(err), h.missing(err)
	r := &h.readings
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.totals == nil || len(r.totals) > totalsKept {
		r.totals = map[string]TopicTotals{}
	}
	list := make(map[string]TopicTotals, len(topics))
	for _, name := range topics {
		t := r.totals[name]
		if some {
			t.TopicTotals, t.At = all[name], now
			r.totals[name] = t
		}
		t.Now, t.Missing = now, missing
		list[name] = t
	}
	return list
}

// someAnswered reports whether some shards answered despite an error.
func (h *Handler) someAnswered(err error) bool {
	return err == nil || queue.IsPartial(err) && len(queue.Missing(err)) < len(h.shards())
}

// missing returns the names of the shards that did not answer: all of them, if the error does not say.
func (h *Handler) missing(err error) []string {
	if err == nil || queue.IsPartial(err) {
		return queue.Missing(err)
	}
	return h.shards()
}

// shards returns the names of the shards in use.
func (h *Handler) shards() (names []string) {
	for _, s := range h.Registry.ListShards() {
		if s.State != registry.ShardOffline {
			names = append(names, s.Name)
		}
	}
	return names
}
