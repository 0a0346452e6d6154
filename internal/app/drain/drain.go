package drain

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

const (
	every    = time.Second     // between visits of a draining shard
	again    = 5 * time.Second // until the next visit of one with nothing to move, or that failed
	logEvery = 30 * time.Second
)

// Options of a Drainer.
type Options struct {
	Queue      *queue.Queue
	Changed    <-chan struct{} // receives when the queue's shards changed
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Drainer moves the jobs of draining shards to active ones.
type Drainer struct {
	opts   Options
	holder string // unique: containers may have the same host name and pids
	total  *prometheus.CounterVec
	next   map[string]time.Time // by shard: when to visit it again
	since  map[string]int       // by shard: jobs moved since the last log line
	told   time.Time
}

// New makes a drainer; Run starts it.
func New(o Options) *Drainer {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_moved_jobs_total", Help: "Jobs that a draining shard moved to others.",
	}, []string{"shard"})
	o.Registerer.MustRegister(total)
	return &Drainer{opts: o, holder: rand.Text(), total: total, next: map[string]time.Time{}, since: map[string]int{}}
}

// Run works until ctx is done.
func (d *Drainer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		var tick <-chan time.Time // nil while no shard is draining
		if d.drainAll(ctx) {
			tick = time.After(every)
		}
		select {
		case <-ctx.Done():
		case <-d.opts.Changed:
		case <-tick:
		}
	}
	return nil
}

// drainAll moves jobs out of the draining shards, and reports whether there are any such shards.
func (d *Drainer) drainAll(ctx context.Context) (some bool) {
	for _, s := range d.opts.Queue.Shards() {
		if s.State() != string(registry.ShardDraining) {
			continue
		}
		some = true
		if s.Up() && d.opts.Queue.Ready() == nil && time.Now().After(d.next[s.Name()]) {
			d.drain(ctx, s)
		}
	}
	return some
}

func (d *Drainer) drain(ctx context.Context, s *queue.Shard) {
	name := s.Name()
	moved, err := d.opts.Queue.Drain(ctx, s, d.holder)
	d.total.WithLabelValues(name).Add(float64(moved))
	d.since[name] += moved
	if d.since[name] > 0 && (moved == 0 || time.Since(d.told) > logEvery) {
		d.opts.Logger.Info("jobs were moved out of a shard that is draining", "shard", name, "jobs", d.since[name])
		d.since[name], d.told = 0, time.Now()
	}
	if moved == 0 || err != nil {
		d.next[name] = time.Now().Add(again)
	}
	if err != nil && ctx.Err() == nil {
		d.opts.Logger.Warn("the jobs of a draining shard cannot be moved; trying again", "shard", name, "error", err)
	}
}
