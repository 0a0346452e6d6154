package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

const (
	drainEvery = time.Second      // that shards are looked at
	drainAgain = 5 * time.Second  // after which one with nothing to move, or one that failed, is tried again
	drainSays  = 30 * time.Second // how often the log is told
)

// drainShards moves the jobs of draining shards to active ones.
func (p *parts) drainShards(ctx context.Context) error {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wakecall_moved_jobs_total", Help: "Jobs that a draining shard gave to others."}, []string{"shard"})
	p.metrics.MustRegister(total)
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("the name of this host: %w", err)
	}
	d := &drainer{parts: p, total: total, holder: fmt.Sprintf("%s %d", host, os.Getpid()), next: map[string]time.Time{}, since: map[string]int{}}
	for ctx.Err() == nil {
		var tick <-chan time.Time // none while no shard is draining
		if d.drainAll(ctx) {
			tick = time.After(drainEvery)
		}
		select {
		case <-ctx.Done():
		case <-p.moving:
		case <-tick:
		}
	}
	return nil
}

type drainer struct {
	*parts
	total  *prometheus.CounterVec
	holder string
	next   map[string]time.Time // when it is tried again
	since  map[string]int       // what was moved since the log was told
	told   time.Time
}

// drainAll moves jobs out of the draining shards, and says whether there are any.
func (d *drainer) drainAll(ctx context.Context) (some bool) {
	for _, s := range d.queue.Shards() {
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

func (d *drainer) drain(ctx context.Context, s *queue.Shard) {
	moved, err := d.queue.Drain(ctx, s, d.holder)
	d.total.WithLabelValues(s.Name()).Add(float64(moved))
	d.since[s.Name()] += moved
	if d.since[s.Name()] > 0 && (moved == 0 || time.Since(d.told) > drainSays) {
		d.log.Info("jobs were moved out of a shard that is draining", "shard", s.Name(), "jobs", d.since[s.Name()])
		d.since[s.Name()], d.told = 0, time.Now()
	}
	if moved == 0 || err != nil {
		d.next[s.Name()] = time.Now().Add(drainAgain)
	}
	if err != nil && ctx.Err() == nil {
		d.log.Warn("the jobs of a draining shard cannot be moved; trying again", "shard", s.Name(), "error", err)
	}
}
