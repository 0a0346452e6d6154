package recurring

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Options of a Runner.
type Options struct {
	Queue    *queue.Queue
	Registry interface {
		Registry
		Subscribe() *registry.Subscription
		Refresh(ctx context.Context)
		Up() bool
	}
	Changed   <-chan struct{} // receives when the queue's shards have changed
	Accepting func() error    // nil while the journal can be written
	Logger    *slog.Logger

	Registerer prometheus.Registerer // nil: no metrics
}

// Runner pushes the occurrences that have come. It is one of many: each timer process of each host has one.
type Runner struct {
	opts    Options
	metrics *metrics
	known   sync.Map // name → where, as last seen: for schedules whose shards are removed
}

// where is the cursor of a schedule with a definition.
type where struct {
	revision int64
	at       time.Time
}

// NewRunner returns a Runner; Run starts it.
func NewRunner(o Options) *Runner { return &Runner{opts: o, metrics: newMetrics(o.Registerer)} }

// Run pushes occurrences until ctx is done. Each bucket has a goroutine, so that a shard that hangs holds up only its
// own schedules.
func (r *Runner) Run(ctx context.Context) {
	ctx = store.Via(ctx, "schedule")
	store.RunEach(ctx, r.opts.Queue.Shards.Buckets, r.opts.Changed, func(ctx context.Context, b *store.Bucket) {
		l := &lane{Runner: r, bucket: b, entries: map[string]*entry{}}
		l.watch(ctx)
	})
}

type metrics struct {
	fired   prometheus.Counter
	leftOut *prometheus.CounterVec
	lag     prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		fired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "wakecall_schedule_occurrences_total", Help: "Occurrences of schedules that this process pushed.",
		}),
		leftOut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wakecall_schedule_left_out_total",
			Help: "Occurrences of schedules that this process left out, by reason.",
		}, []string{"reason"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wakecall_schedule_lag_seconds", Help: "How late occurrences were pushed, by Redis's clock.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 18),
		}),
	}
	if r != nil {
		r.MustRegister(m.fired, m.leftOut, m.lag)
	}
	return m
}

// observe counts what a call did.
func (m *metrics) observe(f *store.Fire, d *store.Fired, clock store.Clock) {
	if d.Noted == nil {
		return
	}
	m.fired.Add(float64(len(d.Results)))
	for _, one := range f.Jobs[:len(d.Results)] {
		m.lag.Observe(clock.Now.Sub(one.For).Seconds())
	}
	overlap := len(f.Jobs) - len(d.Results)
	for reason, n := range map[string]int{"late": f.Late, "limit": f.Limit, "paused": f.Paused, "overlap": overlap} {
		if n > 0 {
			m.leftOut.WithLabelValues(reason).Add(float64(n))
		}
	}
}
