package lmstfy

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sizes are the gauges, computed at each scrape.
type sizes struct{ g *Gateway }

var (
	readyDesc   = sizeDesc("queue_sizes", "Jobs that are ready.", byQueue)
	deadDesc    = sizeDesc("deadletter_sizes", "Jobs that are dead.", byQueue)
	delayedDesc = sizeDesc("timer_sizes", "Jobs that are delayed.", byPool)
	connsDesc   = sizeDesc("connections", "Open connections of clients, of all pools.", byPool)
)

func sizeDesc(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("infra_lmstfy_redis_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (sizes) Describe(to chan<- *prometheus.Desc) {
	to <- readyDesc
	to <- deadDesc
	to <- delayedDesc
	to <- connsDesc
}

// Limits of a scrape.
const (
	sizesTimeout = 5 * time.Second
	sizesStep    = 500
	maxSizes     = 1000 // queues per pool with their own gauges
)

// Collect implements prometheus.Collector.
func (s sizes) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), sizesTimeout)
	defer cancel()
	to <- gauge(connsDesc, s.g.Connections(), s.g.Pools[0])
	for _, pool := range s.g.Pools {
		if err := s.collect(ctx, pool, to); err != nil {
			to <- prometheus.NewInvalidMetric(readyDesc, err)
		}
	}
}

func (s sizes) collect(ctx context.Context, pool string, to chan<- prometheus.Metric) error {
	topics, err := s.g.Queue.Members(ctx, s.g.Pools.namespaceOf(pool))
	if err != nil {
		return err
	}
	delayed := 0.0
	shown := 0
	for some := range slices.Chunk(topics, sizesStep) {
		stats, err := s.g.Queue.Stats(ctx, some)
		if err != nil {
			return err
		}
		for _, topic := range some {
			counts := stats[topic]
			delayed += float64(counts.Delayed)
			if shown++; shown > maxSizes {
				continue
			}
			namespace, name := namesOf(topic)
			to <- gauge(readyDesc, counts.Ready, pool, namespace, name)
			to <- gauge(deadDesc, counts.Dead, pool, namespace, name)
		}
	}
	to <- prometheus.MustNewConstMetric(delayedDesc, prometheus.GaugeValue, delayed, pool)
	return nil
}

func gauge(desc *prometheus.Desc, n int64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
}
