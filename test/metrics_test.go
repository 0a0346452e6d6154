package test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/metricspage"
)

// TestMetricsOfARunAreOnTheirPage, with their types and labels, and are named as Prometheus recommends. Scrapers at
// different rates count the same.
func TestMetricsOfARunAreOnTheirPage(t *testing.T) {
	t.Parallel()
	const jobs = 40
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	often, stop := scrapeOften(t, i)
	before := scrape(t, i)
	for n := range jobs {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": 1})
	}
	var after map[string]*dto.MetricFamily
	harness.Eventually(t, soon, "the metrics to show the callbacks", func() error {
		after = scrape(t, i)
		if n := sum(after["wakecall_callbacks_total"]) - sum(before["wakecall_callbacks_total"]); n != jobs {
			return fmt.Errorf("%v were counted", n)
		}
		return nil
	})
	stop()
	for _, name := range []string{"wakecall_pushes_total", "wakecall_callbacks_total", "wakecall_lateness_seconds"} {
		if n := sum(after[name]) - sum(before[name]); n != jobs {
			t.Errorf("%s: two scrapes count %v, want %d", name, n, jobs)
		}
		if n := often[name]; n != jobs {
			t.Errorf("%s: many scrapes count %v, want %d", name, n, jobs)
		}
	}
	page := metricspage.Read(t)
	for name, f := range after {
		if !strings.HasPrefix(name, "wakecall_") {
			continue
		}
		if on := page[name]; on.Type != strings.ToLower(f.GetType().String()) {
			t.Errorf("%s is a %s, on its page %+v", name, f.GetType(), on)
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if !slices.Contains(labels, "process") || !slices.Equal(metricspage.Labels(labels), page[name].Labels) {
				t.Fatalf("%s has the labels %q, on its page %q", name, labels, page[name].Labels)
			}
		}
	}
	problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(after))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func scrape(t *testing.T, i *installation) map[string]*dto.MetricFamily {
	t.Helper()
	reply := i.Metrics().Do(ctx, http.MethodGet, "/metrics", nil)
	if reply.Err != nil || reply.Status != http.StatusOK {
		t.Fatalf("/metrics: %s", reply)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(reply.Body))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// scrapeOften scrapes until stop, which scrapes for the last time. increases are complete then.
func scrapeOften(t *testing.T, i *installation) (increases map[string]float64, stop func()) {
	increases = map[string]float64{}
	last := scrape(t, i)
	again := func() {
		now := scrape(t, i)
		for name, f := range now {
			increases[name] += sum(f) - sum(last[name])
		}
		last = now
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			again()
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return increases, func() { cancel(); wg.Wait(); again() }
}

// sum adds up the counts of a metric's series.
func sum(f *dto.MetricFamily) (n float64) {
	for _, m := range f.GetMetric() {
		n += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return n
}
