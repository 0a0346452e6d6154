package app

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

const (
	drainEvery    = time.Second     // pause between visits to a draining shard
	drainAgain    = 5 * time.Second // pause after a visit that failed or found nothing to move
	drainLogEvery = 30 * time.Second
)

// drainer moves the jobs of draining shards to active ones.
type drainer struct {
	queue   *queue.Queue
	first   func(ctx context.Context, s *store.Shard) error // moves its schedules
	changed <-chan struct{}                                 // receives when the queue's shards have changed
	log     *slog.Logger
	holder  string // unique: containers may have the same host name and pids
	total   *prometheus.CounterVec
	next    map[string]time.Time // by shard: when to visit it again
	since   map[string]int       // by shard: jobs moved since the last log line
	logged  time.Time
}

func (p *parts) newDrainer() *drainer {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_moved_jobs_total", Help: "Jobs that a draining shard moved to others.",
	}, []string{"shard"})
	p.metrics.MustRegister(total)
	return &drainer{
		queue: p.queue, first: p.schedules().Drain, changed: p.shardsChanged(), log: p.log, holder: rand.Text(),
		total: total, next: map[string]time.Time{}, since: map[string]int{},
	}
}

// run drains shards until ctx is done.
func (d *drainer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		var tick <-chan time.Time // nil while no shard is draining
		if d.drainAll(ctx) {
			tick = time.After(drainEvery)
		}
		select {
		case <-ctx.Done():
		case <-d.changed:
		case <-tick:
		}
	}
	return nil
}

// drainAll moves jobs out of the draining shards, and reports whether there are any such shards.
func (d *drainer) drainAll(ctx context.Context) (some bool) {
	for _, s := range d.queue.Shards.All() {
		if s.State() != string(registry.ShardDraining) {
			continue
		}
		some = true
		if s.Up() && d.queue.Ready() == nil && time.Now().After(d.next[s.Name()]) {
			d.drain(ctx, s)
		}
	}
	return some
}

func (d *drainer) drain(ctx context.Context, s *store.Shard) {
	name := s.Name()
	left := d.first(ctx, s) // other jobs than their occurrences can be moved without them
	moved, err := d.queue.Drain(ctx, s, d.holder)
	err = errors.Join(left, err)
	d.total.WithLabelValues(name).Add(float64(moved))
	d.since[name] += moved
	if d.since[name] > 0 && (moved == 0 || time.Since(d.logged) > drainLogEvery) {
		d.log.Info("moved jobs out of a draining shard", "shard", name, "jobs", d.since[name])
		d.since[name], d.logged = 0, time.Now()
	}
	if moved == 0 || err != nil {
		d.next[name] = time.Now().Add(drainAgain)
	}
	if err != nil && ctx.Err() == nil {
		d.log.Warn("cannot move jobs out of a draining shard; retrying", "shard", name, "error", err)
	}
}
