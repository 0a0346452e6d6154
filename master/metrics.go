package master

import (
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/wakecall/wakecall/master/child"
)

// metricsHandler shows the whole tree: the master's own metrics, and every child's with a label that names it.
func (m *Master) metricsHandler() http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gatherers := prometheus.Gatherers{labelled(own, "master"), prometheus.GathererFunc(m.gatherTree), prometheus.GathererFunc(m.gatherChildren)}
	if g := m.options.Gatherer; g != nil {
		gatherers = append(gatherers, labelled(g, "master"))
	}
	return promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4})
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

// gatherTree tells of the processes themselves.
func (m *Master) gatherTree() ([]*dto.MetricFamily, error) {
	r := prometheus.NewRegistry()
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"process"})
		r.MustRegister(g)
		return g
	}
	up := gauge("wakecall_process_up", "1 while the process runs.")
	restarts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_process_restarts_total", Help: "How often the process was started again.",
	}, []string{"process"})
	r.MustRegister(restarts)
	memory := gauge("wakecall_process_rss_bytes", "Resident memory.")
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "wakecall_build_info", Help: "1, with the version of the process."}, []string{"process", "version"})
	r.MustRegister(build)
	set := func(name string, pid, n int) {
		up.WithLabelValues(name).Set(0)
		if pid > 0 {
			up.WithLabelValues(name).Set(1)
		}
		restarts.WithLabelValues(name).Add(float64(n))
		memory.WithLabelValues(name).Set(float64(rss(pid)))
	}
	set("master", os.Getpid(), 0)
	build.WithLabelValues("master", m.opts().Version).Set(1)
	for _, s := range m.all() {
		s.mu.Lock()
		pid := 0
		if s.current != nil {
			pid = s.current.cmd.Process.Pid
		}
		if pid > 0 && s.current.isReady() {
			build.WithLabelValues(s.label(), s.current.version).Set(1)
		}
		set(s.label(), pid, s.restarts)
		s.mu.Unlock()
	}
	if m.redis != nil {
		d := m.redis.describe()
		set("redis-server", d.Pid, d.Restarts)
	}
	return r.Gather()
}

// gatherChildren asks all children at once; one that does not answer in time is left out, and shows in wakecall_process_silent.
func (m *Master) gatherChildren() ([]*dto.MetricFamily, error) {
	slots := m.all()
	results := make([]map[string]*dto.MetricFamily, len(slots))
	var wg sync.WaitGroup
	for i, s := range slots {
		wg.Go(func() { results[i] = s.metrics() })
	}
	wg.Wait()
	silent := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "wakecall_process_silent", Help: "1 when the process did not answer this scrape.",
	}, []string{"process"})
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
	s.mu.Lock()
	p := s.current
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	r, err := p.ask(child.AskMetrics, askLimit)
	if err != nil {
		return nil
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(r.Text))
	if err != nil {
		return nil
	}
	return families
}
