package checker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/store"
)

// Shard is the part of a store.Shard that the checker needs.
type Shard interface {
	Name() string
	Ping(ctx context.Context) (clock time.Time, took time.Duration, err error)
	Health(ctx context.Context) store.ShardHealth
}

// Jobs counts jobs; *queue.Queue implements it.
type Jobs interface {
	Counts(ctx context.Context) (map[string]store.Stats, error)
	Active(ctx context.Context, since time.Time) ([]string, error)
	Stats(ctx context.Context, topics []string) (map[string]store.Stats, error)
}

// Options of a Checker.
type Options struct {
	Shards  func() []Shard
	Changed <-chan struct{} // receives when Shards may have changed; nil: never
	Every   time.Duration   // between pings of a shard; 0: a second
	// Hosts lists the hosts that the shards know, for a scrape with Jobs.
	Hosts func(ctx context.Context) ([]reconcile.Host, error)
	Jobs  Jobs // for counting jobs at a scrape; nil: not counted
	// Schedules counts the schedules by state, for a scrape; nil: not counted.
	Schedules func() map[string]int
	// Leads reports whether this process shows what is the same on every host; nil: it does.
	Leads func() bool
	Host  string // the label of what this host sees
	// Known reports whether a topic is registered. Only registered topics have metrics.
	Known func(topic string) bool
	// Forecast says when the waiting jobs of a topic are cleared; nil: no metric of it.
	Forecast     func(ctx context.Context, topic string) forecast.Answer
	MetricTopics int           // limit of topics with their own metrics
	Notify       func(Finding) // called when a finding begins or ends; may be nil
	Logger       *slog.Logger
	Registerer   prometheus.Registerer // nil: no metrics
}

// Checker is the redis-checker role.
type Checker struct {
	opts Options

	mu       sync.Mutex
	findings map[key]Finding
	shards   map[string]View
}

// View is the checker's latest view of a shard.
type View struct {
	Name   string
	Up     bool
	Ping   time.Duration // the last one
	P50    time.Duration // of the last minute's pings
	P99    time.Duration
	Health store.ShardHealth // the last answered one
}

// New returns a Checker; Run starts it.
func New(o Options) *Checker {
	o.Every = cmp.Or(o.Every, time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	c := &Checker{opts: o, findings: map[key]Finding{}, shards: map[string]View{}}
	if o.Registerer != nil {
		o.Registerer.MustRegister(&collector{c})
	}
	return c
}

// Run watches the shards until ctx is done and everything it started has ended.
func (c *Checker) Run(ctx context.Context) error {
	store.RunEach(ctx, c.opts.Shards, c.opts.Changed, c.watch)
	return nil
}

// infoEvery is the number of pings for each INFO, which costs Redis more.
const infoEvery = 10

func (c *Checker) watch(ctx context.Context, s Shard) {
	w := watched{limit: c.opts.Every}
	defer func() {
		// Findings outlive this process; the next one continues them.
		if errors.Is(context.Cause(ctx), store.ErrShardRemoved) {
			c.forget(s.Name())
		}
	}()
	for n := 0; ; n++ {
		next := time.After(c.opts.Every)
		failed := w.failures > 0
		c.apply(s.Name(), w.ping(ctx, s))
		c.see(s.Name(), func(v *View) {
			v.Up, v.Ping, v.P50, v.P99 = w.failures < health.DownAfter, w.last, w.quantile(50), w.quantile(99)
		})
		if w.failures == 0 && (failed || n%infoEvery == 0) {
			c.inspect(ctx, s, &w)
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
	}
}

// inspect judges a shard's report about itself.
func (c *Checker) inspect(ctx context.Context, s Shard, w *watched) {
	limited, cancel := context.WithTimeout(ctx, c.opts.Every)
	defer cancel()
	h := s.Health(limited)
	if ctx.Err() != nil {
		return
	}
	c.apply(s.Name(), w.judge(h))
	if h.Up {
		c.see(s.Name(), func(v *View) { v.Health = h })
	}
}

func (c *Checker) see(shard string, change func(*View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.shards[shard]
	v.Name = shard
	change(&v)
	c.shards[shard] = v
}

// Views returns the latest views of the watched shards, by name.
func (c *Checker) Views() []View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.shards), func(a, b View) int { return strings.Compare(a.Name, b.Name) })
}
