package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestHistogramsAreBounded: in topics, and in buckets, whatever is observed.
func TestHistogramsAreBounded(t *testing.T) {
	h := NewHistogram("lateness_seconds", "Lateness.", 2)
	for i := range 5 {
		for d := time.Nanosecond; d < 24*time.Hour; d += d/10 + 1 {
			h.Observe(fmt.Sprint("t", i), d.Seconds())
		}
	}
	ch := make(chan prometheus.Metric, 10)
	h.Collect(ch)
	close(ch)
	counts := map[string]uint64{}
	for m := range ch {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			t.Fatal(err)
		}
		counts[d.Label[0].GetValue()] = d.Histogram.GetSampleCount()
		if n := len(d.Histogram.PositiveDelta); n == 0 || n > nativeBuckets || len(d.Histogram.Bucket) != len(classic) {
			t.Errorf("%d native and %d classic buckets", n, len(d.Histogram.Bucket))
		}
	}
	if len(counts) != 3 || counts["t0"] != counts["t1"] || counts[Other] != 3*counts["t0"] {
		t.Errorf("%v", counts)
	}
}

func BenchmarkHistogram(b *testing.B) {
	plain := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "plain", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 20)})
	byTopic := NewHistogram("by_topic", "By topic.", 0)
	topics := make([]string, 1000)
	for i := range topics {
		topics[i] = fmt.Sprint("topic-", i)
	}
	d := func(i int) float64 { return float64(i%4001) / 1e6 }
	b.Run("plain", func(b *testing.B) {
		for i := range b.N {
			plain.Observe(d(i))
		}
	})
	b.Run("by topic", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			byTopic.Observe(topics[i%len(topics)], d(i))
		}
	})
}
