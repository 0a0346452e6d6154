package master

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/master/child"
)

// maxScrapers bounds the connections to metrics.addr, because half-open ones must not use up the descriptors that the
// master needs to start processes. When there are as many, one that has sent no request for scraperQuiet makes room: so
// even thousands of silent connections do not keep a scrape out for long. A scraper sends its request at once.
const (
	maxScrapers  = 256
	scraperQuiet = 100 * time.Millisecond
)

func (m *Master) serveMetrics() (*http.Server, error) {
	addr := m.options.MetricsAddr
	if addr == "" {
		return nil, nil
	}
	s, err := openSocket(ListenSpec{Key: "metrics.addr", Addr: addr}, m.options.Passed)
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.logFreePort(m.options.Logger, "metrics.addr")
	if s.isFree() {
		m.metricsPort = s.bound.String()
	}
	l, err := net.FileListener(s.file)
	if err != nil {
		return nil, fmt.Errorf("metrics.addr: %w", err)
	}
	srv, limited := MetricsServer(l, m.metricsHandler(), nil)
	go func() { _ = srv.Serve(limited) }() // done after Shutdown
	return srv, nil
}

// MetricsServer returns a server of /metrics, and of /healthz, which returns 200 while the process runs and problem,
// which may be nil, returns "". It must serve the returned listener, which limits the connections of l.
func MetricsServer(l net.Listener, metrics http.Handler, problem func() string) (*http.Server, net.Listener) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if problem != nil {
			if now := problem(); now != "" {
				http.Error(w, now, http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	return srv, listen.Limit(l, srv, maxScrapers, scraperQuiet)
}

// metricsHandler serves the master's metrics and those of every child, labeled with the process.
func (m *Master) metricsHandler() http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		log.Stderr.Dropped())
	tree := prometheus.NewRegistry()
	tree.MustRegister(m)
	gatherers := prometheus.Gatherers{labelled(own, "master"), tree, prometheus.GathererFunc(m.gatherChildren)}
	return promhttp.HandlerFor(gatherers,
		promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4})
}

// Alone returns the metrics of a process without a master, with the labels that a master would add.
func Alone(g prometheus.Gatherer, process, version string) prometheus.Gatherer {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "wakecall_build_info", Help: buildHelp, ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	own := prometheus.NewRegistry()
	own.MustRegister(build)
	return labelled(prometheus.Gatherers{g, own}, process)
}

func labelled(g prometheus.Gatherer, process string) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		for _, f := range families {
			label(f, process)
		}
		return families, err
	})
}

func label(f *dto.MetricFamily, process string) {
	name := "process"
	for _, x := range f.Metric {
		x.Label = append(x.Label, &dto.LabelPair{Name: &name, Value: &process})
	}
}

func (s *slot) label() string { return strings.ReplaceAll(s.title(), " ", "-") }

const buildHelp = "1, with the version of the process."

var (
	upDesc       = desc("process_up", "1 while the process runs.")
	rssDesc      = desc("process_rss_bytes", "Resident memory.")
	buildDesc    = desc("build_info", buildHelp, "version")
	restartsDesc = desc("process_restarts_total", "Number of restarts of the process.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("wakecall_"+name, help, append([]string{"process"}, labels...), nil)
}

// Describe implements prometheus.Collector.
func (m *Master) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, rssDesc, buildDesc, restartsDesc} {
		ch <- d
	}
	newSilent().Describe(ch)
}

// Collect implements prometheus.Collector with the metrics about the processes.
func (m *Master) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	set := func(name string, pid, n int) {
		gauge(upDesc, float64(min(pid, 1)), name)
		gauge(rssDesc, float64(rss(pid)), name)
		ch <- prometheus.MustNewConstMetric(restartsDesc, prometheus.CounterValue, float64(n), name)
	}
	set("master", os.Getpid(), 0)
	gauge(buildDesc, 1, "master", m.opts().Version)
	for _, s := range m.all() {
		s.mu.Lock()
		p, n := s.current, s.restarts
		s.mu.Unlock()
		if p == nil {
			set(s.label(), 0, n)
			continue
		}
		set(s.label(), p.cmd.Process.Pid, n)
		if p.isReady() {
			gauge(buildDesc, 1, s.label(), p.version)
		}
	}
	if m.redis != nil {
		d := m.redis.describe()
		set("redis-server", d.Pid, d.Restarts)
	}
}

func newSilent() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "wakecall_process_silent", Help: "1 when the process did not answer this scrape.",
	}, []string{"process"})
}

// gatherChildren queries all children at once. It omits a child that does not answer in time, and sets
// wakecall_process_silent to 1 for it.
func (m *Master) gatherChildren() ([]*dto.MetricFamily, error) {
	slots := m.all()
	results := make([]map[string]*dto.MetricFamily, len(slots))
	var wg sync.WaitGroup
	for i, s := range slots {
		wg.Go(func() { results[i] = s.metrics() })
	}
	wg.Wait()
	silent := newSilent()
	merged := map[string]*dto.MetricFamily{}
	for i, s := range slots {
		silent.WithLabelValues(s.label()).Set(0)
		if results[i] == nil {
			silent.WithLabelValues(s.label()).Set(1)
		}
		for name, f := range results[i] {
			label(f, s.label())
			if have := merged[name]; have != nil {
				have.Metric = append(have.Metric, f.Metric...)
			} else {
				merged[name] = f
			}
		}
	}
	r := prometheus.NewRegistry()
	r.MustRegister(silent)
	list, err := r.Gather()
	for _, f := range merged {
		list = append(list, f)
	}
	return list, err
}

func (s *slot) metrics() map[string]*dto.MetricFamily {
	p := s.process()
	if p == nil {
		return nil
	}
	r, err := p.ask(child.AskMetrics, askLimit)
	if err != nil {
		return nil
	}
	families := map[string]*dto.MetricFamily{}
	d := expfmt.NewDecoder(bytes.NewReader(r.Metrics), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := &dto.MetricFamily{}
		err := d.Decode(f)
		if errors.Is(err, io.EOF) {
			return families
		}
		if err != nil {
			return nil
		}
		families[f.GetName()] = f
	}
}
