package history

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
)

// Points holds a series by columns, as a chart needs it. A nil value is unknown.
type Points struct {
	Series string                `json:"series"`
	Span   string                `json:"span"`
	Step   int64                 `json:"step"`   // seconds
	Times  []int64               `json:"times"`  // Unix seconds, the ends of the slots
	Values map[string][]*float64 `json:"values"` // by name, as long as Times
	Sums   map[string]int64      `json:"sums"`   // of the counters over the span
}

// SampleReader lists the samples of a series from one time up to another (exclusive).
type SampleReader interface {
	Samples(ctx context.Context, series, tier string, from, to time.Time) ([]Sample, error)
}

// Reader returns series.
type Reader struct {
	Store SampleReader
	Now   func() time.Time // nil: time.Now
}

type column struct {
	name string
	get  func(record) float64
}

// counters become rates, in events per second.
var counters = []column{
	{"pushed", func(r record) float64 { return float64(r.Pushed) }},
	{"delivered", func(r record) float64 { return float64(r.Delivered) }},
	{"failed", func(r record) float64 { return float64(r.Failed) }},
	{"retried", func(r record) float64 { return float64(r.Retried) }},
	{"snoozed", func(r record) float64 { return float64(r.Snoozed) }},
	{"deleted", func(r record) float64 { return float64(r.Deleted) }},
	{"died", func(r record) float64 { return float64(r.Died) }},
	{"expired", func(r record) float64 { return float64(r.Expired) }},
	{"redriven", func(r record) float64 { return float64(r.Redriven) }},
	{"dropped", func(r record) float64 { return float64(r.Dropped) }},
}

// gauges show the values at the end of a slot.
var gauges = []column{
	{"delayed", func(r record) float64 { return float64(r.Delayed) }},
	{"ready", func(r record) float64 { return float64(r.Ready) }},
	{"running", func(r record) float64 { return float64(r.Running) }},
	{"dead", func(r record) float64 { return float64(r.Dead) }},
	{"oldest", func(r record) float64 { return float64(r.Oldest) }},
}

// lateness is unknown in a slot without a callback.
var lateness = []column{
	{"p50", func(r record) float64 { return orUnknown(r.Called > 0, r.P50) }},
	{"p99", func(r record) float64 { return orUnknown(r.Called > 0, r.P99) }},
}

var shardColumns = []column{
	{"up", func(r record) float64 { return r.Shard.Up }},
	{"ping_p50", func(r record) float64 { return orUnknown(r.Shard.Up > 0, r.Shard.P50) }},
	{"ping_p99", func(r record) float64 { return orUnknown(r.Shard.Up > 0, r.Shard.P99) }},
	{"memory", func(r record) float64 { return float64(r.Shard.Memory) }},
	{"max_memory", func(r record) float64 { return orUnknown(r.Shard.MaxMemory > 0, float64(r.Shard.MaxMemory)) }},
	{"jobs", func(r record) float64 { return float64(r.Shard.Jobs) }},
}

func orUnknown(known bool, v float64) float64 {
	if !known {
		return math.NaN()
	}
	return v
}

type storedRecord struct {
	at time.Time
	record
}

// Series returns a span (15m, 3h, 24h, 7d) of a series up to now.
func (r *Reader) Series(ctx context.Context, series, spanName string) (Points, error) {
	length, tier, err := spanOf(spanName, series)
	if err != nil {
		return Points{}, err
	}
	end := r.now().Truncate(tier.Step)
	p, err := r.points(ctx, series, tier, end.Add(-length), end)
	p.Span = spanName
	return p, err
}

// Range returns a series between two times, in the finest tier that still has them.
func (r *Reader) Range(ctx context.Context, series string, from, to time.Time) (Points, error) {
	now := r.now()
	tier := tierOf(series, from, to, now)
	if last := now.Truncate(tier.Step); to.After(last) {
		to = last
	}
	return r.points(ctx, series, tier, from.Truncate(tier.Step), to.Add(tier.Step-1).Truncate(tier.Step))
}

// All returns all that is stored of a topic, oldest first, each part in the finest tier that has it.
func (r *Reader) All(ctx context.Context, topic string) (list []Points, err error) {
	now := r.now()
	to := now
	for i, t := range tiers[1:] { // topics are not stored in every round
		coarser := tiers[min(i+2, len(tiers)-1)].Step
		from := now.Add(-t.Keep).Truncate(coarser).Add(coarser)
		p, err := r.points(ctx, topic, t, from, to.Truncate(t.Step))
		if err != nil {
			return nil, err
		}
		list, to = append(list, p), from
	}
	slices.Reverse(list)
	return list, nil
}

func (r *Reader) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// points reads the slots of a tier from begin to end.
func (r *Reader) points(ctx context.Context, series string, tier Tier, begin, end time.Time) (Points, error) {
	list, err := r.load(ctx, series, tier, begin, end)
	if err != nil {
		return Points{}, err
	}
	p := Points{
		Series: series, Step: int64(tier.Step / time.Second), Values: map[string][]*float64{}, Sums: map[string]int64{},
	}
	var slots []time.Time
	for at := begin.Add(tier.Step); !at.After(end); at = at.Add(tier.Step) {
		slots = append(slots, at)
		p.Times = append(p.Times, at.Unix())
	}
	p.fill(series, slots, tier, list)
	return p, nil
}

// load reads a little more than the span, so that there is a sample before the first slot.
func (r *Reader) load(ctx context.Context, series string, t Tier, begin, end time.Time) ([]storedRecord, error) {
	samples, err := r.Store.Samples(ctx, series, t.Name, begin.Add(-max(t.Again, 6*t.Step)), end.Add(time.Second))
	if err != nil {
		return nil, fmt.Errorf("read samples of %s: %w", series, err)
	}
	var list []storedRecord
	for _, s := range samples {
		rec, err := decode(s)
		if err != nil || isShard(series) != (rec.Shard != nil) {
			continue // a damaged sample is a gap
		}
		list = append(list, storedRecord{s.At, rec})
	}
	slices.SortFunc(list, func(a, b storedRecord) int { return a.at.Compare(b.at) })
	return list, nil
}

func (p *Points) fill(series string, slots []time.Time, t Tier, list []storedRecord) {
	if isShard(series) {
		p.levels(shardColumns, slots, t, list, false)
		return
	}
	for _, c := range counters {
		p.rates(c, slots, t, list, isTopic(series))
	}
	p.levels(gauges, slots, t, list, isTopic(series))
	p.levels(lateness, slots, t, list, false)
}

// rates turns the rise of a counter into events per second. A slot without a sample at each of its ends is a gap: the
// rise since the last sample is only part of the sum. If idle is true, a series without a later sample had no events,
// and its rise is even between two samples.
func (p *Points) rates(c column, slots []time.Time, t Tier, list []storedRecord, idle bool) {
	curve := withoutFalls(c, list)
	values := make([]*float64, len(slots))
	var sum float64
	for i, at := range slots {
		from, okFrom := valueAt(list, curve, at.Add(-t.Step), idle)
		to, okTo := valueAt(list, curve, at, idle)
		if !okFrom || !okTo {
			continue
		}
		sum += to - from
		if !idle && !(sampled(list, at.Add(-t.Step)) && sampled(list, at)) {
			continue
		}
		values[i] = number((to - from) / t.Step.Seconds())
	}
	p.Values[c.name] = values
	p.Sums[c.name] = int64(math.Round(sum))
}

// sampled reports whether there is a sample of a time.
func sampled(list []storedRecord, at time.Time) bool {
	_, found := slices.BinarySearchFunc(list, at, func(r storedRecord, at time.Time) int { return r.at.Compare(at) })
	return found
}

// withoutFalls returns a counter's values without its falls. After a fall, it continues from the value before.
func withoutFalls(c column, list []storedRecord) []float64 {
	curve := make([]float64, len(list))
	for i := 1; i < len(list); i++ {
		curve[i] = curve[i-1] + max(0, c.get(list[i].record)-c.get(list[i-1].record))
	}
	return curve
}

// valueAt returns the value of a curve at a time, interpolated between two samples.
func valueAt(list []storedRecord, curve []float64, at time.Time, idle bool) (value float64, known bool) {
	i := sort.Search(len(list), func(i int) bool { return !list[i].at.Before(at) })
	switch {
	case len(list) == 0:
		return 0, idle
	case i == len(list):
		return curve[i-1], idle
	case list[i].at.Equal(at):
		return curve[i], true
	case i == 0:
		return 0, idle // before its first sample a topic had no events
	}
	a, b := list[i-1], list[i]
	share := at.Sub(a.at).Seconds() / b.at.Sub(a.at).Seconds()
	return curve[i-1] + share*(curve[i]-curve[i-1]), true
}

// levels takes the last sample of each slot. If stays is true, a value holds until the next sample. Otherwise a slot
// without a sample is a gap.
func (p *Points) levels(columns []column, slots []time.Time, t Tier, list []storedRecord, stays bool) {
	for _, c := range columns {
		values := make([]*float64, len(slots))
		for i, at := range slots {
			k := sort.Search(len(list), func(k int) bool { return list[k].at.After(at) }) - 1
			if k < 0 || (!stays && !list[k].at.After(at.Add(-t.Step))) {
				continue
			}
			values[i] = number(c.get(list[k].record))
		}
		p.Values[c.name] = values
	}
}

// Value returns a value, or 0 where it is unknown.
func (p Points) Value(name string, i int) float64 {
	if list := p.Values[name]; i < len(list) && list[i] != nil {
		return *list[i]
	}
	return 0
}

// WithGaps returns the points of a topic, with gaps in the slots in which all topics have one: no shard answered then.
// A topic's own points do not show gaps, because they are stored only after events.
func (p Points) WithGaps(all Points) Points {
	gaps, step := map[int64]bool{}, max(1, p.Step) // by the end of the slot
	for i, v := range all.Values["pushed"] {
		if v == nil {
			gaps[(all.Times[i]+step-1)/step*step] = true
		}
	}
	values := make(map[string][]*float64, len(p.Values))
	for name, list := range p.Values {
		values[name] = slices.Clone(list)
		for i, at := range p.Times {
			if gaps[at] && i < len(list) {
				values[name][i] = nil
			}
		}
	}
	p.Values = values
	return p
}

// number rounds a value; it returns nil for an unknown one.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	v = math.Round(v*1000) / 1000
	return &v
}
