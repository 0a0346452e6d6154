package forecast

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

const (
	dueMinutes = 10
	dueTopics  = 300 // with the most delayed jobs; each costs a call to Redis
	dueEvery   = 30 * time.Second
	dueLimit   = 10 * time.Second
)

// Counts counts the jobs of all topics, and those of one topic by when they fall due; *queue.Queue implements it.
type Counts interface {
	Counts(ctx context.Context) (map[string]store.Stats, error)
	Forecast(ctx context.Context, topic string, ahead time.Duration) (observe.Forecast, error)
}

// Due shows in /metrics how many callbacks fall due in each of the next minutes, so that dispatchers can be added
// before they do. Jobs that dispatchers cannot call do not count: those of pull topics, of topics that are not active,
// and those over a topic's rate limit.
type Due struct {
	Jobs     Counts
	Snapshot func() *registry.Snapshot
	// Leads reports whether this process shows what is the same on every host; nil: it does.
	Leads  func() bool
	Logger *slog.Logger
	gauge  *prometheus.GaugeVec
}

// Register adds the metric. It must be called before Run.
func (d *Due) Register(r prometheus.Registerer) {
	d.gauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "wakecall_due_jobs", Help: "Jobs of all push topics that fall due in a minute: 1 is the next 60 seconds.",
	}, []string{"minute"})
	r.MustRegister(d)
}

// Describe implements prometheus.Collector.
func (d *Due) Describe(ch chan<- *prometheus.Desc) { d.gauge.Describe(ch) }

// Collect implements prometheus.Collector.
func (d *Due) Collect(ch chan<- prometheus.Metric) {
	if d.leads() {
		d.gauge.Collect(ch)
	}
}

func (d *Due) leads() bool { return d.Leads == nil || d.Leads() }

// Run counts until ctx is done.
func (d *Due) Run(ctx context.Context) error {
	for {
		d.show(ctx)
		if !pause.For(ctx, dueEvery) {
			return nil
		}
	}
}

// show sets the metric. Without an answer there is none: an old one would say that nothing is coming.
func (d *Due) show(ctx context.Context) {
	if !d.leads() {
		d.gauge.Reset() // old when this process leads again
		return
	}
	limited, cancel := context.WithTimeout(ctx, dueLimit)
	defer cancel()
	due, err := d.count(limited)
	if err != nil {
		d.gauge.Reset()
		d.Logger.Warn("cannot count the jobs that fall due", "error", err)
		return
	}
	for i, n := range due {
		d.gauge.WithLabelValues(strconv.Itoa(i + 1)).Set(n)
	}
}

// count counts on the shards that answer: no dispatcher can call the jobs of the others. If none answers, that is an
// error.
func (d *Due) count(ctx context.Context) (due [dueMinutes]float64, err error) {
	counts, err := d.Jobs.Counts(ctx)
	if err != nil && (len(counts) == 0 || !queue.IsPartial(err)) {
		return due, err
	}
	for _, t := range d.chosen(counts) {
		f, err := d.Jobs.Forecast(ctx, t.Name, dueMinutes*time.Minute)
		if err != nil && !queue.IsPartial(err) {
			return due, err
		}
		for i := range due {
			n := float64(f.Minutes[i])
			if t.RateLimit > 0 {
				n = min(n, 60*t.RateLimit)
			}
			due[i] += n
		}
	}
	return due, nil
}

// chosen returns the topics with the most delayed jobs that dispatchers call.
func (d *Due) chosen(counts map[string]store.Stats) (topics []*registry.Topic) {
	s := d.Snapshot()
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b].Delayed, counts[a].Delayed), cmp.Compare(a, b))
	})
	for _, name := range names {
		if len(topics) == dueTopics || counts[name].Delayed == 0 {
			break
		}
		if t := s.Topics.Get(name); t != nil && t.IsCalled() {
			topics = append(topics, t)
		}
	}
	return topics
}
