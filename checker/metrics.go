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

// Of shards: by pings each second, and by what they told about themselves in the last ten.
var (
	upDesc     = prometheus.NewDesc("wakecall_redis_up", "Whether a shard answers: 0 after three pings that failed.", []string{"shard"}, nil)
	pingDesc   = prometheus.NewDesc("wakecall_redis_ping_seconds", "Duration of the last ping of a shard.", []string{"shard"}, nil)
	memoryDesc = prometheus.NewDesc("wakecall_redis_memory_bytes", "Memory that a shard uses.", []string{"shard"}, nil)
	maxDesc    = prometheus.NewDesc("wakecall_redis_max_memory_bytes", "Memory that a shard may use; 0: no limit.", []string{"shard"}, nil)
	countDesc  = prometheus.NewDesc("wakecall_redis_jobs", "Jobs that a shard holds.", []string{"shard"}, nil)
)

// A collector counts jobs when it is scraped, and only then.
type collector struct{ c *Checker }

// Describe implements prometheus.Collector.
func (m *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobsDesc, ageDesc, findDesc, upDesc, pingDesc, memoryDesc, maxDesc, countDesc} {
		ch <- d
	}
}

// collectTime is what counting may take at a scrape.
const collectTime = 800 * time.Millisecond

// Collect implements prometheus.Collector.
func (m *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, f := range m.c.Findings() {
		gauge(findDesc, 1, f.Shard, string(f.Kind))
	}
	for shard, v := range m.c.seen() {
		up := 0.0
		if v.up {
			up = 1
		}
		gauge(upDesc, up, shard)
		gauge(pingDesc, v.ping.Seconds(), shard)
		if v.health.Up {
			gauge(memoryDesc, float64(v.health.Memory), shard)
			gauge(maxDesc, float64(v.health.MaxMemory), shard)
			gauge(countDesc, float64(v.health.Jobs), shard)
		}
	}
	m.jobs(gauge)
}

// jobs counts the jobs of all topics on the shards that answer in time.
func (m *collector) jobs(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	if m.c.opts.Topics == nil || m.c.opts.Stats == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	stats, err := m.c.opts.Stats(ctx, m.c.opts.Topics())
	if err != nil { // the numbers are those of the shards that answered
		m.c.opts.Logger.Warn("not all jobs can be counted for a scrape", "error", err)
	}
	for topic, s := range stats {
		gauge(jobsDesc, float64(s.Delayed), topic, "delayed")
		gauge(jobsDesc, float64(s.Ready), topic, "ready")
		gauge(jobsDesc, float64(s.Running), topic, "running")
		gauge(jobsDesc, float64(s.Dead), topic, "dead")
		gauge(ageDesc, s.OldestReady.Seconds(), topic)
	}
}
