package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Histogram is a histogram of seconds by topic. It is native, with a few classic buckets for scrapers that do not know
// native ones.
type Histogram struct {
	vec   *prometheus.HistogramVec
	names *Names
}

// Native buckets grow by at most a fifth. Values below half a millisecond share one, and a series keeps at most
// nativeBuckets: beyond that it starts over, or gets wider buckets if it did so within the last hour. That bounds the
// memory of a process, which has two histograms for up to 1,000 topics.
const (
	nativeFactor  = 1.2
	nativeLeast   = 1.0 / 2048
	nativeBuckets = 64
)

// classic are the classic buckets. Each becomes a series of every topic, so there are few.
var classic = prometheus.ExponentialBuckets(0.004, 4, 7)

// NewHistogram returns a histogram whose only label is the topic. most is as that of New.
func NewHistogram(name, help string, most int) *Histogram {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: classic, NativeHistogramBucketFactor: nativeFactor,
		NativeHistogramZeroThreshold: nativeLeast, NativeHistogramMaxBucketNumber: nativeBuckets,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"topic"})
	return &Histogram{vec: vec, names: NewNames(most, func(topic string) { vec.DeleteLabelValues(topic) })}
}

// Observe adds a number of seconds for a topic.
func (h *Histogram) Observe(topic string, seconds float64) {
	if !h.names.Own(topic) {
		topic = Other
	}
	h.vec.WithLabelValues(topic).Observe(seconds)
}

// Describe implements prometheus.Collector.
func (h *Histogram) Describe(ch chan<- *prometheus.Desc) { h.vec.Describe(ch) }

// Collect implements prometheus.Collector.
func (h *Histogram) Collect(ch chan<- prometheus.Metric) {
	h.names.Sweep()
	h.vec.Collect(ch)
}
