package history

import (
	"context"
	"fmt"
	"math"
	"sort"
	"time"
)

// Points are a series by columns, as a chart wants them. A nil value is not known.
type Points struct {
	Series string                `json:"series"`
	Span   string                `json:"span"`
	Step   int64                 `json:"step"`   // seconds
	Times  []int64               `json:"times"`  // Unix seconds, the ends of the slots
	Values map[string][]*float64 `json:"values"` // by name, as long as Times
	Sums   map[string]int64      `json:"sums"`   // of the counters over the span
}

// SampleReader lists the samples of a series from one time to another (exclusive).
type SampleReader interface {
	Samples(ctx context.Context, series, tier string, from, to time.Time) ([]Sample, error)
}

// Reader answers series.
type Reader struct {
	Store SampleReader
	Now   func() time.Time // nil: time.Now
}

type column struct {
	name string
	get  func(record) float64
}

// counters become rates, in events a second.
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

// gauges are as they were at the end of a slot.
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

type stored struct {
	at time.Time
	record
}

// Series answers a span (15m, 3h, 24h, 7d) of a series up to now.
func (r *Reader) Series(ctx context.Context, series, spanName string) (Points, error) {
	sp, tier, err := spanOf(spanName, series)
	if err != nil {
		return Points{}, err
	}
	end := r.now().Truncate(tier.Step)
	begin := end.Add(-sp.length)
	list, err := r.load(ctx, series, tier, begin, end)
	if err != nil {
		return Points{}, err
	}
	p := Points{Series: series, Span: spanName, Step: int64(tier.Step / time.Second), Values: map[string][]*float64{}, Sums: map[string]int64{}}
	grid := gridOf(begin, end, tier.Step)
	for _, at := range grid {
		p.Times = append(p.Times, at.Unix())
	}
	p.fill(series, grid, tier, list)
	return p, nil
}

func (r *Reader) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// load reads a little more than the span, so that the first slots have something to rise from.
func (r *Reader) load(ctx context.Context, series string, t Tier, begin, end time.Time) ([]stored, error) {
	samples, err := r.Store.Samples(ctx, series, t.Name, begin.Add(-max(t.Again, 6*t.Step)), end.Add(time.Second))
	if err != nil {
		return nil, fmt.Errorf("read the samples of %s: %w", series, err)
	}
	list := make([]stored, 0, len(samples))
	for _, s := range samples {
		rec, err := decode(s)
		if err != nil {
			continue // one damaged sample is a gap
		}
		if rec.Shard == nil && !isTopic(series) && series != AllTopics {
			continue
		}
		list = append(list, stored{s.At, rec})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].at.Before(list[j].at) })
	return list, nil
}

func gridOf(begin, end time.Time, step time.Duration) []time.Time {
	var grid []time.Time
	for at := begin.Add(step); !at.After(end); at = at.Add(step) {
		grid = append(grid, at)
	}
	return grid
}

func (p *Points) fill(series string, grid []time.Time, t Tier, list []stored) {
	if series != AllTopics && !isTopic(series) {
		p.levels(shardColumns, grid, t, list, false)
		return
	}
	for _, c := range counters {
		p.rates(c, grid, t, list, isTopic(series))
	}
	p.levels(gauges, grid, t, list, isTopic(series))
	p.levels(lateness, grid, t, list, false)
}

// rates makes a counter's rise into events a second. Between two samples it rose evenly, for all that is known. A topic without a later
// sample is idle.
func (p *Points) rates(c column, grid []time.Time, t Tier, list []stored, idle bool) {
	curve := risen(c, list)
	values := make([]*float64, len(grid))
	var sum float64
	for i, at := range grid {
		a, okA := valueAt(list, curve, at.Add(-t.Step), idle)
		b, okB := valueAt(list, curve, at, idle)
		if !okA || !okB {
			continue
		}
		rise := b - a
		sum += rise
		values[i] = number(rise / t.Step.Seconds())
	}
	p.Values[c.name] = values
	p.Sums[c.name] = int64(math.Round(sum))
}

// risen is a counter without its falls: after one it goes on from where it was.
func risen(c column, list []stored) []float64 {
	curve := make([]float64, len(list))
	for i := 1; i < len(list); i++ {
		curve[i] = curve[i-1] + max(0, c.get(list[i].record)-c.get(list[i-1].record))
	}
	return curve
}

// valueAt reads a curve at an instant, between two samples by a straight line.
func valueAt(list []stored, curve []float64, at time.Time, idle bool) (float64, bool) {
	i := sort.Search(len(list), func(i int) bool { return !list[i].at.Before(at) })
	switch {
	case i == len(list):
		return last(curve), idle
	case list[i].at.Equal(at):
		return curve[i], true
	case i == 0:
		return 0, idle // before the first sample that is known of it, nothing happened to a topic
	}
	a, b := list[i-1], list[i]
	share := at.Sub(a.at).Seconds() / b.at.Sub(a.at).Seconds()
	return curve[i-1] + share*(curve[i]-curve[i-1]), true
}

func last(curve []float64) float64 {
	if len(curve) == 0 {
		return 0
	}
	return curve[len(curve)-1]
}

// levels takes each slot's last sample. A topic stays as it was until the next one; elsewhere a slot without a sample is a gap.
func (p *Points) levels(columns []column, grid []time.Time, t Tier, list []stored, stays bool) {
	for _, c := range columns {
		values := make([]*float64, len(grid))
		for i, at := range grid {
			k := sort.Search(len(list), func(k int) bool { return list[k].at.After(at) }) - 1
			if k < 0 || (!stays && !list[k].at.After(at.Add(-t.Step))) {
				continue
			}
			values[i] = number(c.get(list[k].record))
		}
		p.Values[c.name] = values
	}
}

func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	v = math.Round(v*1000) / 1000
	return &v
}
