package figures

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// redis is the queue of a Handler, with answers as far as they are set.
type redis struct {
	forecast.Queue
	stats  map[string]store.Stats
	err    error
	during func()
}

func (r *redis) Counts(ctx context.Context) (map[string]store.Stats, error) {
	if r.during != nil {
		r.during()
	}
	return maps.Clone(r.stats), cmp.Or(ctx.Err(), r.err)
}

func (r *redis) Stats(context.Context, []string) (map[string]store.Stats, error) {
	return r.stats, r.err
}

func (r *redis) Totals(context.Context, []string) (map[string]observe.TopicTotals, error) {
	all := map[string]observe.TopicTotals{}
	for name, s := range r.stats {
		all[name] = observe.TopicTotals{Stats: s}
	}
	return all, r.err
}

func (*redis) LatenessOfAll(context.Context, time.Time) (map[int]int64, error) { return nil, nil }

// at returns pages with a clock.
func at(now func() time.Time) *page.Pages { return &page.Pages{Options: page.Options{Now: now}} }

func openRegistry(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := registry.Open(registry.Options{DSN: "sqlite:" + filepath.Join(t.TempDir(), "registry.db"), Migrate: registry.MigrateOlder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	for _, name := range []string{"a", "b"} {
		topic := registry.NewTopic(name)
		topic.CallbackURL = "http://localhost/"
		if _, err := r.PutTopic(t.Context(), "test", topic); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"s1", "s2"} {
		shard := registry.Shard{Name: name, URL: "redis://localhost/" + name, State: registry.ShardActive}
		if err := r.PutShard(t.Context(), "test", shard); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestWhatIsNotKnownIsNotZero: before the first answer nothing is known; later the last answer is shown with its age.
// An answer of some shards counts.
func TestWhatIsNotKnownIsNotZero(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	all := &queue.PartialError{Shards: []string{"s1", "s2"}, Err: errors.New("timeout")}
	r := &redis{stats: map[string]store.Stats{"a": {}}, err: all}
	h := New(Options{Pages: at(func() time.Time { return now }), Registry: openRegistry(t), Queue: r})
	if c := h.Counts(t.Context()); c.Known() || len(c.Missing) != 2 {
		t.Errorf("without any answer, the counts are %+v", c)
	}
	if x := h.Totals(t.Context(), []string{"a"})["a"]; x.Known() {
		t.Errorf("without any answer, the totals are %+v", x)
	}
	now = now.Add(time.Minute)
	r.stats, r.err = map[string]store.Stats{"a": {Dead: 7}}, &queue.PartialError{Shards: []string{"s2"}, Err: all.Err}
	if c := h.Counts(t.Context()); !c.Known() || c.Old() || c.Sum().Dead != 7 || len(c.Missing) != 1 ||
		c.Missing[0] != "s2" {
		t.Errorf("one of two shards answered: %+v", c)
	}
	h.Totals(t.Context(), []string{"a"})
	now = now.Add(time.Minute)
	r.stats, r.err = map[string]store.Stats{"a": {}}, all
	if c := h.Counts(t.Context()); !c.Old() || c.Sum().Dead != 7 || c.Now.Sub(c.At) != time.Minute ||
		len(c.Missing) != 2 {
		t.Errorf("no shard answers now: %+v", c)
	}
	if x := h.Totals(t.Context(), []string{"a"})["a"]; !x.Old() || x.Dead != 7 {
		t.Errorf("no shard answers now: %+v", x)
	}
}

// TestASlowReadFreezesNoCounts for longer than countsPause, and not at all once the shard it lacked is up again.
func TestASlowReadFreezesNoCounts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	r := &redis{stats: map[string]store.Stats{"a": {Dead: 7}}}
	h := New(Options{Pages: at(func() time.Time { return now }), Registry: openRegistry(t), Queue: r})
	hang := func() {
		r.err, r.during = &queue.PartialError{Shards: []string{"s1"}, Err: errors.New("timeout")}, func() { now = now.Add(readLimit) }
		h.Counts(t.Context())
		r.err, r.during = nil, func() {}
	}
	hang()
	now = now.Add(countsPause)
	if c := h.Counts(t.Context()); !c.Complete() {
		t.Errorf("%s after a slow read, the counts are %+v", countsPause, c)
	}
	now = now.Add(countsPause)
	hang()
	if h.Recount([]string{"s2"}); h.Counts(t.Context()).Complete() {
		t.Error("the counts are complete without s1")
	}
	if h.Recount([]string{"s1"}); !h.Counts(t.Context()).Complete() {
		t.Error("s1 is up again, but the counts are without it")
	}
}

// TestACanceledRequestSpoilsNoCounts: a browser that disconnects cancels its request. The pages of others must not
// show, because of that, that no shard answers or that there were no calls.
func TestACanceledRequestSpoilsNoCounts(t *testing.T) {
	t.Parallel()
	r := &redis{stats: map[string]store.Stats{"a": {Dead: 7}}}
	h := New(Options{Pages: at(time.Now), Registry: openRegistry(t), Queue: r, History: called{}, Activity: called{}})
	gone, leave := context.WithCancel(t.Context())
	leave()
	h.Counts(gone)
	if c := h.Counts(t.Context()); len(c.Missing) > 0 || c.Sum().Dead != 7 {
		t.Errorf("after a canceled request, the counts are %+v", c)
	}
	h.Vitals(gone, []string{"a"})
	if v := h.Vitals(t.Context(), []string{"a"})["a"]; v.Attempts != 9 {
		t.Errorf("after a canceled request, the vitals are %+v", v)
	}
}

type called struct{ History }

func (called) Series(ctx context.Context, _, _ string) (history.Points, error) {
	return history.Points{Sums: map[string]int64{"delivered": 9}}, ctx.Err()
}

func (called) Attempts(context.Context, string, int) ([]activity.Attempt, error) { return nil, nil }

func (called) Lateness(context.Context, []string, time.Time) (map[string]activity.Histogram, error) {
	return nil, nil
}
