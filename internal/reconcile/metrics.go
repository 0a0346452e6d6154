package reconcile

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/store"
)

// Metrics of a journal come from one of the processes that write it: the one whose reconciler works.
var (
	replayDesc = prometheus.NewDesc("wakecall_recovery_duration_seconds",
		"How long the journal has been compared with a shard; only meanwhile.", []string{"shard"}, nil)
	spoolDesc = prometheus.NewDesc("wakecall_spool_pending",
		"1 while the journal has accepted pushes that no shard has.", nil, nil)
	freeDesc = prometheus.NewDesc("wakecall_journal_disk_free_bytes", "Free space on the journal's disk.", nil, nil)
	sizeDesc = prometheus.NewDesc("wakecall_journal_disk_bytes", "Size of the journal's disk.", nil, nil)
)

// state is what a reconciler does now.
type state struct {
	mu    sync.Mutex
	works bool
	since map[*store.Bucket]time.Time // when a comparison that lasts began
}

func (s *state) work(does bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.works = does
}

func (s *state) replays(b *store.Bucket, does bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !does {
		delete(s.since, b)
		return
	}
	if s.since == nil {
		s.since = map[*store.Bucket]time.Time{}
	}
	if s.since[b].IsZero() {
		s.since[b] = time.Now()
	}
}

// read returns since when the buckets of each shard have been compared, the first of them.
func (s *state) read() (works bool, since map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since = map[string]time.Time{}
	for b, at := range s.since {
		if first := since[b.Name()]; first.IsZero() || at.Before(first) {
			since[b.Name()] = at
		}
	}
	return s.works, since
}

// Describe implements prometheus.Collector.
func (k *Reconciler) Describe(ch chan<- *prometheus.Desc) {
	k.recovered.Describe(ch)
	for _, d := range []*prometheus.Desc{replayDesc, spoolDesc, freeDesc, sizeDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (k *Reconciler) Collect(ch chan<- prometheus.Metric) {
	k.recovered.Collect(ch)
	works, since := k.state.read()
	if !works {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for shard, at := range since {
		gauge(replayDesc, time.Since(at).Seconds(), shard)
	}
	pending := 0.0
	if spooled(k.opts.Dir) {
		pending = 1
	}
	gauge(spoolDesc, pending)
	if free, size, err := disk.Space(k.opts.Dir); err == nil {
		gauge(freeDesc, float64(free))
		gauge(sizeDesc, float64(size))
	}
}
