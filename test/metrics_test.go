package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
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
	for _, name := range []string{"wakecall_pushes_total", "wakecall_callbacks_total", "wakecall_callback_lateness_seconds"} {
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

// TestMetricsOfTwoHostsAddUp: each job is counted once, while both hosts are up and after one was killed.
func TestMetricsOfTwoHostsAddUp(t *testing.T) {
	needProcesses(t)
	dbtest.OnServers(t, metricsAddUp)
}

func metricsAddUp(t *testing.T, db dbtest.Stoppable) {
	_, opts := shared(t, db)
	one := start(t, opts)
	two := &installation{harness.New(t, opts), one.endpoint}
	two.Up()
	harness.Eventually(t, soon, "the second to be ready", two.Readyz)
	const jobs = 7
	topic := one.topic(t, nil, nil)
	for n := range jobs {
		one.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": 1, "delay": "1h"})
	}
	leader := one
	expect := func(what string, hosts ...*installation) {
		t.Helper()
		harness.Eventually(t, soon, what, func() error {
			total := 0.0
			for _, host := range hosts {
				n := gauges(scrape(t, host)["wakecall_jobs"])
				if total += n; n > 0 {
					leader = host
				}
			}
			if total > jobs {
				t.Fatalf("the hosts count %v jobs together, there are %d", total, jobs)
			}
			return harness.Equal("jobs", total, jobs)
		})
	}
	expect("two hosts to count each job", one, two)
	expect("two hosts to count each job once", two, one)
	other := one
	if leader == one {
		other = two
	}
	leader.Kill9()
	expect("the other host to count them", other)
}

// shows waits until a metric has a series with a value.
func (i *installation) shows(t *testing.T, metric string, value float64) {
	t.Helper()
	harness.Eventually(t, soon, fmt.Sprintf("%s to be %v", metric, value), func() error {
		f := scrape(t, i)[metric]
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() == value {
				return nil
			}
		}
		return fmt.Errorf("it is %v", f)
	})
}

func gauges(f *dto.MetricFamily) (n float64) {
	for _, m := range f.GetMetric() {
		n += m.GetGauge().GetValue()
	}
	return n
}

// TestBoardsShowARun: a Prometheus with the rules of deploy/mixin has data for every panel.
func TestBoardsShowARun(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_REDIS_MAXMEMORY": "100mb"}})
	topic := i.topic(t, harness.Status(http.StatusServiceUnavailable), M{"retry": []string{"1s"}})
	base := startPrometheus(t, i)
	ledger := harness.NewLedger()
	defer harness.StartLoad(t, i.API, ledger, harness.LoadOptions{Topic: topic, Rate: 10}).Stop()
	values := strings.NewReplacer("$installation", "wakecall", "$topic", topic, "$__rate_interval", "1m")
	for name, expr := range panels(t) {
		expr = values.Replace(expr)
		harness.Eventually(t, soon, name+" to show data", func() error {
			reply := harness.NewAPI(base, "").Do(ctx, http.MethodGet, "/api/v1/query?query="+url.QueryEscape(expr), nil)
			if reply.Err != nil || reply.Status != http.StatusOK || strings.Contains(string(reply.Body), `"result":[]`) {
				return fmt.Errorf("%s: %s", expr, reply)
			}
			return nil
		})
	}
}

// panels returns the expressions of the boards by board, panel and number.
func panels(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, board := range []string{"installation", "topic"} {
		text, err := os.ReadFile("../deploy/mixin/rendered/dashboards/" + board + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var b struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatal(err)
		}
		for _, p := range b.Panels {
			for n, target := range p.Targets {
				all[fmt.Sprintf("%s: %s %d", board, p.Title, n+1)] = target.Expr
			}
		}
	}
	return all
}

// startPrometheus starts a Prometheus that scrapes an installation each second, and returns its address.
func startPrometheus(t *testing.T, i *installation) string {
	t.Helper()
	dir, port := process.Dir(t, "prometheus"), freeport.TCP(t)
	rules, err := filepath.Abs("../deploy/mixin/rendered")
	if err != nil {
		t.Fatal(err)
	}
	target := strings.TrimPrefix(i.Metrics().Base, "http://")
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"+
		"rule_files: [%s/rules.yaml, %[1]s/alerts.yaml]\n"+
		"scrape_configs: [{job_name: wakecall, static_configs: [{targets: [%q]}]}]\n", rules, target)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	process.Start(t, dir, "prometheus", exec.Command(process.Need(t, "prometheus", "prometheus"),
		"--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port)))
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}
