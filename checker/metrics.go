package checker

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/metrics"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/store"
)

// What is the same on every host comes from one of them, so that sums over all hosts are right.
var (
	jobsDesc  = desc("jobs", "Jobs by topic and state.", "topic", "state")
	ageDesc   = desc("oldest_ready_seconds", "How long the oldest ready job of a topic has been due.", "topic")
	clearDesc = desc("backlog_clear_seconds", "When a topic's ready jobs will be called; +Inf: never.", "topic")

	schedulesDesc = desc("schedules", "Schedules by state.", "state")

	memoryDesc = desc("redis_memory_bytes", "Memory that a shard uses.", "shard")
	maxDesc    = desc("redis_max_memory_bytes", "Memory that a shard may use; 0: no limit.", "shard")
	countDesc  = desc("redis_jobs", "Jobs that a shard holds.", "shard")
	absentDesc = desc("absent_host", "1 while a shard waits for the journal of a host.", "shard", "host")
)

// What each host sees has the label host.
var (
	findDesc = desc("shard_finding", "1 while a host finds that a shard has the problem.", "host", "shard", "finding")
	upDesc   = desc("redis_up", "Whether a shard answers a host: 0 after three failed pings.", "host", "shard")
	pingDesc = desc("redis_ping_duration_seconds", "Duration of a host's last ping of a shard that answers.", "host",
		"shard")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("wakecall_"+name, help, labels, nil)
}

// A collector counts jobs only when it is scraped.
type collector struct{ c *Checker }

// Describe implements prometheus.Collector.
func (m *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		jobsDesc, ageDesc, clearDesc, findDesc, upDesc, pingDesc, memoryDesc, maxDesc, countDesc, absentDesc,
		schedulesDesc,
	} {
		ch <- d
	}
}

// collectTime limits the counting of jobs at a scrape.
const collectTime = 800 * time.Millisecond

// Collect implements prometheus.Collector.
func (m *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	host := m.c.opts.Host
	for _, f := range m.c.Findings() {
		gauge(findDesc, 1, host, f.Shard, string(f.Kind))
	}
	leads := m.c.opts.Leads == nil || m.c.opts.Leads()
	for _, v := range m.c.Views() {
		if !v.Up { // its last report is old
			gauge(upDesc, 0, host, v.Name)
			continue
		}
		gauge(upDesc, 1, host, v.Name)
		gauge(pingDesc, v.Ping.Seconds(), host, v.Name)
		if leads && v.Health.Up {
			gauge(memoryDesc, float64(v.Health.Memory), v.Name)
			gauge(maxDesc, float64(v.Health.MaxMemory), v.Name)
			gauge(countDesc, float64(v.Health.Jobs), v.Name)
		}
	}
	if leads && m.c.opts.Schedules != nil {
		for state, n := range m.c.opts.Schedules() {
			gauge(schedulesDesc, float64(n), state)
		}
	}
	if leads && m.c.opts.Jobs != nil {
		m.jobs(gauge)
	}
}

// jobs counts the jobs of topics that have jobs or had a call in the last hour, on the shards that answer in time. If
// there are too many topics, those with the most jobs have their own series, and the others share one, without the age
// of their jobs.
func (m *collector) jobs(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	own, rest, err := m.chosen(ctx)
	stats, statsErr := m.c.opts.Jobs.Stats(ctx, own)
	if err = cmp.Or(err, statsErr); err != nil { // the numbers come from the shards that answered
		m.c.opts.Logger.Warn("cannot count all jobs for a scrape", "error", err)
	}
	states := func(topic string, s store.Stats) {
		gauge(jobsDesc, float64(s.Delayed), topic, "delayed")
		gauge(jobsDesc, float64(s.Ready), topic, "ready")
		gauge(jobsDesc, float64(s.Running), topic, "running")
		gauge(jobsDesc, float64(s.Dead), topic, "dead")
	}
	for topic, s := range stats {
		states(topic, s)
		gauge(ageDesc, s.OldestReady.Seconds(), topic)
	}
	if rest != nil {
		states(metrics.Other, *rest)
	}
	hosts, _ := m.c.opts.Hosts(ctx) // on an error: those of the shards that answered
	for _, h := range hosts {
		for _, shard := range h.Absent {
			gauge(absentDesc, 1, shard, h.Name)
		}
	}
	m.forecasts(ctx, gauge, stats)
}

// maxForecasts limits the topics with a forecast, each of which reads the history. Those that wait longest have one.
const maxForecasts = 20

// forecasts shows when the backlogs of topics are cleared, unless that is unknown.
func (m *collector) forecasts(
	ctx context.Context, gauge func(d *prometheus.Desc, v float64, labels ...string), stats map[string]store.Stats,
) {
	if m.c.opts.Forecast == nil {
		return
	}
	names := slices.SortedFunc(maps.Keys(stats), func(a, b string) int {
		return cmp.Compare(stats[b].OldestReady, stats[a].OldestReady)
	})
	for _, topic := range names[:min(len(names), maxForecasts)] {
		if ctx.Err() != nil {
			return
		}
		if stats[topic].Ready == 0 {
			continue
		}
		switch a := m.c.opts.Forecast(ctx, topic); {
		case a.Reason == forecast.Grows || a.Reason == forecast.NotInADay:
			gauge(clearDesc, math.Inf(1), topic)
		case a.Known() && a.Behind():
			gauge(clearDesc, a.Clear.Seconds(), topic)
		}
	}
}

// chosen returns the topics with their own series. rest is the sum of the others, or nil if there are none.
func (m *collector) chosen(ctx context.Context) (own []string, rest *store.Stats, err error) {
	counts, err := m.c.opts.Jobs.Counts(ctx)
	active, activeErr := m.c.opts.Jobs.Active(ctx, time.Now().Add(-metrics.Kept))
	for _, topic := range active {
		if _, ok := counts[topic]; !ok { // a topic without jobs
			counts[topic] = store.Stats{}
		}
	}
	maps.DeleteFunc(counts, func(topic string, _ store.Stats) bool { return !m.c.opts.Known(topic) })
	own = slices.Collect(maps.Keys(counts))
	if most := m.c.opts.MetricTopics; len(own) > most {
		jobs := func(topic string) int64 { return counts[topic].Jobs() }
		slices.SortFunc(own, func(a, b string) int { return cmp.Or(cmp.Compare(jobs(b), jobs(a)), cmp.Compare(a, b)) })
		rest = &store.Stats{}
		for _, topic := range own[most:] {
			rest.Add(counts[topic])
		}
		own = own[:most]
	}
	return own, rest, cmp.Or(err, activeErr)
}
