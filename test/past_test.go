package test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/redistest"
)

// past is a day that did not happen, up to a time: pushes and deliveries at the rates of the traffic of the pictures,
// in a wave over the day. Its totals are in Redis before the first push, and its samples end at the first real ones.
type past struct {
	topics []shopTopic
	totals map[string]observe.Totals // at end
	rest   observe.Totals            // of topics without traffic
	shards []history.ShardReading
	end    time.Time
	now    time.Time
}

const (
	pastLasts = 24 * time.Hour
	pastFails = 400 // every so many attempts one fails, and is repeated
)

// share returns how busy a time is, and level its integral in seconds.
func share(t time.Time) float64 {
	return 1 + 0.3*math.Sin(daily*seconds(t)) + 0.15*math.Sin(often*seconds(t))
}

func level(t time.Time) float64 {
	s := seconds(t)
	return s - 0.3/daily*math.Cos(daily*s) - 0.15/often*math.Cos(often*s)
}

const (
	daily = 2 * math.Pi / 86400
	often = 2 * math.Pi / 1500
)

// seconds keeps the numbers small, so that differences of levels are exact.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()-1.7e12) / 1000 }

// between returns how many jobs of a topic are pushed between two times, if its rate is the real one now.
func (x shopTopic) between(from, to, now time.Time) int64 {
	return int64(math.Round(x.rate * (level(to) - level(from)) / share(now)))
}

// happened returns the totals of so many jobs.
func happened(jobs int64) observe.Totals {
	return observe.Totals{Pushed: jobs, Delivered: jobs, Failed: jobs / pastFails, Retried: jobs / pastFails}
}

// Active implements history.Source.
func (p *past) Active(context.Context, time.Time) ([]string, error) { return p.names(), nil }

func (p *past) names() (names []string) {
	for _, x := range p.topics {
		if x.rate > 0 {
			names = append(names, x.name)
		}
	}
	return names
}

// Totals implements history.Source.
func (p *past) Totals(context.Context, []string) (map[string]observe.TopicTotals, error) {
	list := map[string]observe.TopicTotals{"rest": {Total: p.rest}}
	for _, x := range p.topics {
		if x.rate == 0 {
			continue
		}
		total, later := p.totals[x.name], happened(x.between(p.now, p.end, p.end))
		for i, n := range total.Counters() {
			*n -= *later.Counters()[i]
		}
		waiting := x.rate * min(x.delay, mostDelay).Seconds() * share(p.now) / share(p.end)
		list[x.name] = observe.TopicTotals{Total: total, Stats: store.Stats{Delayed: int64(waiting)}}
	}
	return list, nil
}

// pastSamples implements history.Storage in memory, so that one transaction stores all.
type pastSamples []history.Sample

func (s *pastSamples) PutSamples(_ context.Context, list []history.Sample) error {
	*s = append(*s, list...)
	return nil
}

func (s *pastSamples) PruneSamples(context.Context, time.Time) error { return nil }

func (s *pastSamples) Lead(context.Context, string, string, time.Duration) (bool, error) {
	return true, nil
}

func (s *pastSamples) Samples(context.Context, string, string, time.Time, time.Time) ([]history.Sample, error) {
	return nil, nil
}

// lateMS is how late the n-th job of a slot was called.
func lateMS(n int64, slot time.Time) float64 {
	q := float64(n*61%100) / 100
	return (0.8 + 1.6*q + 9*math.Pow(q, 12)) * share(slot.Add(7*time.Minute))
}

var lateBuckets = func() mapping.IndexMapping {
	m, _ := mapping.NewLogarithmicMapping(0.05) // as internal/observe/activity
	return m
}()

func lateness(jobs int64, slot time.Time) activity.Histogram {
	h := activity.Histogram{}
	for n := range jobs {
		h[lateBuckets.Index(lateMS(n, slot))]++
	}
	return h
}

// sampled reads what happened up to a time through the program's own sampler, and stores its samples.
func (p *past) sampled(t *testing.T, r *registry.Registry) {
	t.Helper()
	var samples pastSamples
	late := func(_ context.Context, topics []string, _ time.Time) (map[string]history.Lateness, error) {
		h, list := lateness(100, p.now), map[string]history.Lateness{}
		for _, name := range append([]string{""}, topics...) {
			list[name] = history.Lateness{Count: h.Count(), P50: h.Quantile(0.5), P99: h.Quantile(0.99)}
		}
		return list, nil
	}
	s := history.New(history.Options{
		Source: p, Store: &samples, Lateness: late, Host: "past", Topics: func() []string { return append(p.names(), "rest") },
		Shards: func() []history.ShardReading { return p.shards }, Now: func() time.Time { return p.now },
	})
	for p.now = p.end.Add(-pastLasts).Truncate(time.Hour); p.now.Before(p.end); p.now = p.now.Add(history.Round) {
		if err := s.Round(t.Context(), p.now); err != nil {
			t.Fatal(err)
		}
	}
	if err := history.NewStore(r.DB()).PutSamples(t.Context(), samples); err != nil {
		t.Fatal(err)
	}
}

// counted stores the totals and the lateness of the past in Redis, before anything is pushed.
func counted(t *testing.T, redis *redistest.Server, topics []shopTopic) {
	t.Helper()
	now := time.Now()
	today := now.UTC().Truncate(24 * time.Hour)
	pipe, prefix := redis.Client().Pipeline(), store.Prefix(0)
	for _, x := range topics {
		if x.rate == 0 {
			continue
		}
		before := happened(int64(x.rate * 20 * 86400))
		midnight := before
		midnight.Add(happened(x.between(today.Add(-24*time.Hour), today, now)))
		total := midnight
		total.Add(happened(x.between(today, now, now)))
		day := today.Unix() / 86400
		pipe.HSet(t.Context(), prefix+"t:"+x.name, "pushed", total.Pushed, "delivered", total.Delivered,
			"failed", total.Failed, "retried", total.Retried,
			fmt.Sprint("day:", day-1), packed(before), fmt.Sprint("day:", day), packed(midnight))
	}
	for slot := now.Truncate(history.Round).Add(-time.Hour); slot.Before(now.Add(-history.Round)); slot = slot.Add(history.Round) {
		all, key := activity.Histogram{}, fmt.Sprint(prefix, "lat:", slot.Unix()/10)
		for _, x := range topics {
			h := lateness(x.between(slot, slot.Add(history.Round), now), slot)
			for b, n := range h {
				all[b] += n
			}
			pipe.HSet(t.Context(), key, x.name, packedCounts(h))
		}
		pipe.HSet(t.Context(), key, "", packedCounts(all))
		pipe.Expire(t.Context(), key, time.Hour)
		key = fmt.Sprint(prefix, "pri:", slot.Unix()/10)
		pipe.HSet(t.Context(), key, "0", all.Count()/4, "1", all.Count()/2, "2", all.Count()/4)
		pipe.Expire(t.Context(), key, time.Hour)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func packed(t observe.Totals) string { return strings.Trim(fmt.Sprint(values(t)), "[]") }

func values(t observe.Totals) (list []int64) {
	for _, n := range t.Counters() {
		list = append(list, *n)
	}
	return list
}

func packedCounts(h activity.Histogram) string {
	var words []string
	for b, n := range h {
		words = append(words, fmt.Sprint(b, " ", n))
	}
	return strings.Join(words, " ")
}

// opened returns the registry of an installation.
func (i *installation) opened(t *testing.T) *registry.Registry {
	t.Helper()
	key, err := seal.LoadKey(filepath.Join(i.Data, "secret-key"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(registry.Options{DSN: "sqlite:" + filepath.Join(i.Data, "registry.db"), SecretKey: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// hasPast stores a past that ends at the first whole minute for which there are real samples of all topics with
// traffic, and returns this minute.
func (i *installation) hasPast(t *testing.T, r *registry.Registry, topics []shopTopic) time.Time {
	t.Helper()
	p := &past{topics: topics, totals: map[string]observe.Totals{}, end: time.Now().Truncate(time.Minute).Add(time.Minute)}
	samples := history.NewStore(r.DB())
	harness.Eventually(t, 2*time.Minute, "samples of all topics", func() error {
		for _, name := range p.names() {
			list, err := samples.Samples(t.Context(), name, "1m", p.end, p.end.Add(time.Second))
			if err != nil || len(list) == 0 {
				return fmt.Errorf("%s has no sample, %v", name, err)
			}
			var total observe.Totals
			if err := json.Unmarshal(list[0].Data, &total); err != nil {
				return err
			}
			p.totals[name] = total
		}
		return p.readRest(samples)
	})
	p.readShards(t, samples)
	p.sampled(t, r)
	return p.end
}

// readRest computes what the topics without traffic have of the real totals of all.
func (p *past) readRest(samples *history.Store) error {
	list, err := samples.Samples(ctx, history.AllTopics, "10s", p.end, p.end.Add(time.Second))
	if err != nil || len(list) == 0 {
		return fmt.Errorf("there is no sample of all topics, %v", err)
	}
	if err := json.Unmarshal(list[0].Data, &p.rest); err != nil {
		return err
	}
	for _, total := range p.totals {
		for i, n := range p.rest.Counters() {
			*n -= *total.Counters()[i]
		}
	}
	return nil
}

// readShards takes the shards' memory and pings for those of the past.
func (p *past) readShards(t *testing.T, samples *history.Store) {
	t.Helper()
	reader := history.Reader{Store: samples}
	for _, name := range []string{"redis-1", "redis-2"} {
		points, err := reader.Series(t.Context(), history.ShardSeries(name), "15m")
		if err != nil {
			t.Fatal(err)
		}
		at := len(points.Times) - 1
		value := func(column string) float64 { return points.Value(column, at) }
		if value("up") > 0 {
			p.shards = append(p.shards, history.ShardReading{
				Name: name, Up: true, P50: 150 * time.Microsecond, P99: 900 * time.Microsecond,
				Memory: int64(value("memory")), MaxMemory: int64(value("max_memory")), Jobs: int64(value("jobs")),
			})
		}
	}
}
