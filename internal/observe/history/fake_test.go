package history

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
)

var begin = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// fakeSource has topics whose numbers the test sets.
type fakeSource struct {
	topics  map[string]Reading
	today   map[string]Totals // of these; nil: none
	active  map[string]bool   // since the last round
	missing []string
	late    Lateness
	asked   [][]string
	lates   int    // how often lateness was read
	reading func() // called when topics are read; nil: nothing
}

func (f *fakeSource) change(topic string, do func(*Reading)) {
	r := f.topics[topic]
	do(&r)
	f.topics[topic] = r
	f.active[topic] = true
}

func (f *fakeSource) Active(context.Context, time.Time) ([]string, error) {
	return slices.Sorted(maps.Keys(f.active)), nil
}

func (f *fakeSource) Totals(_ context.Context, topics []string) (map[string]observe.TopicTotals, error) {
	f.asked = append(f.asked, topics)
	if f.reading != nil {
		f.reading()
	}
	out := map[string]observe.TopicTotals{}
	for _, t := range topics {
		if r, ok := f.topics[t]; ok {
			out[t] = observe.TopicTotals{Total: r.Totals, Today: f.today[t], Stats: r.Living}
		}
	}
	if f.missing != nil {
		return out, &queue.PartialError{Shards: f.missing}
	}
	return out, nil
}

func (f *fakeSource) Lateness(_ context.Context, topics []string, _ time.Time) (map[string]Lateness, error) {
	f.lates++
	list := map[string]Lateness{"": f.late}
	for _, t := range topics {
		list[t] = f.late
	}
	return list, nil
}

// fakeStore keeps samples in memory.
type fakeStore struct {
	samples map[[2]string]map[time.Time]Sample
	leader  string
	away    bool
}

var errAway = errors.New("the registry is away")

func (f *fakeStore) PutSamples(_ context.Context, list []Sample) error {
	if f.away {
		return errAway
	}
	for _, s := range list {
		k := [2]string{s.Series, s.Tier}
		if f.samples[k] == nil {
			f.samples[k] = map[time.Time]Sample{}
		}
		f.samples[k][s.At] = s
	}
	return nil
}

func (f *fakeStore) Samples(_ context.Context, series, tier string, from, to time.Time) ([]Sample, error) {
	if f.away {
		return nil, errAway
	}
	var list []Sample
	for at, s := range f.samples[[2]string{series, tier}] {
		if !at.Before(from) && at.Before(to) {
			list = append(list, s)
		}
	}
	return list, nil
}

func (f *fakeStore) PruneSamples(context.Context, time.Time) error { return nil }

func (f *fakeStore) Lead(_ context.Context, _, host string, _ time.Duration) (bool, error) {
	if f.away {
		return false, errAway
	}
	if f.leader == "" {
		f.leader = host
	}
	return f.leader == host, nil
}

// bench is a sampler with a clock that the test moves.
type bench struct {
	*Sampler
	t      *testing.T
	source *fakeSource
	store  *fakeStore
	now    time.Time
	shards []ShardReading
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, now: begin}
	b.source = &fakeSource{topics: map[string]Reading{}, active: map[string]bool{}}
	b.store = &fakeStore{samples: map[[2]string]map[time.Time]Sample{}}
	b.restart("one")
	return b
}

func (b *bench) restart(host string) {
	b.Sampler = New(Options{
		Source: b.source, Store: b.store, Host: host, Lateness: b.source.Lateness,
		Topics: func() []string { return slices.Sorted(maps.Keys(b.source.topics)) },
		Shards: func() []ShardReading { return b.shards },
		Now:    func() time.Time { return b.now },
	})
}

// rounds moves the clock by n rounds, and calls a function before each.
func (b *bench) rounds(n int, happens func()) {
	b.t.Helper()
	for range n {
		if happens != nil {
			happens()
		}
		b.now = b.now.Add(Round)
		if err := b.Round(b.t.Context(), b.now); err != nil && !errors.Is(err, errAway) {
			b.t.Fatal(err)
		}
		clear(b.source.active)
	}
}

func (b *bench) series(series, span string) Points {
	b.t.Helper()
	r := Reader{Store: b.store, Now: func() time.Time { return b.now }}
	p, err := r.Series(b.t.Context(), series, span)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func push(n int64) func(*Reading) {
	return func(r *Reading) { r.Pushed += n; r.Delayed += n }
}

// tail returns the last n values of a column; -1 means unknown.
func tail(p Points, name string, n int) []float64 {
	list := p.Values[name]
	var out []float64
	for _, v := range list[len(list)-n:] {
		if v == nil {
			out = append(out, -1)
			continue
		}
		out = append(out, *v)
	}
	return out
}
