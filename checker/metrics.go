package checker

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	jobsDesc = prometheus.NewDesc("wakecall_jobs", "Jobs by topic and state.", []string{"topic", "state"}, nil)
	ageDesc  = prometheus.NewDesc("wakecall_oldest_ready_seconds", "How long the oldest ready job of a topic has been due.", []string{"topic"}, nil)
	findDesc = prometheus.NewDesc("wakecall_shard_finding", "1 while something is wrong with a shard.", []string{"shard", "finding"}, nil)
)

// metrics counts jobs when it is scraped, and only then.
type metrics struct {
	c       *Checker
	latency *prometheus.GaugeVec
}

func newMetrics(c *Checker, r prometheus.Registerer) *metrics {
	m := &metrics{c: c, latency: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "wakecall_redis_ping_seconds", Help: "Duration of the last ping of a shard.",
	}, []string{"shard"})}
	if r != nil {
		r.MustRegister(m, m.latency)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsDesc
	ch <- ageDesc
	ch <- findDesc
}

// collectTime is what counting may take at a scrape.
const collectTime = 800 * time.Millisecond

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, f := range m.c.Findings() {
		gauge(findDesc, 1, f.Shard, string(f.Kind))
	}
	if m.c.opts.Topics == nil || m.c.opts.Stats == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	stats, err := m.c.opts.Stats(ctx, m.c.opts.Topics())
	if err != nil {
		m.c.opts.Logger.Warn("jobs cannot be counted for a scrape", "error", err)
		return
	}
	for topic, s := range stats {
		gauge(jobsDesc, float64(s.Delayed), topic, "delayed")
		gauge(jobsDesc, float64(s.Ready), topic, "ready")
		gauge(jobsDesc, float64(s.Running), topic, "running")
		gauge(jobsDesc, float64(s.Dead), topic, "dead")
		gauge(ageDesc, s.OldestReady.Seconds(), topic)
	}
}
