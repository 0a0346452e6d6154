package alert

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var problemDesc = prometheus.NewDesc("wakecall_problem",
	"1 while an alert of Wakecall's own is open because of this problem.",
	[]string{"kind", "severity", "topic", "shard", "host"}, nil)

// shown is what /metrics shows of the last round.
type shown struct {
	leads    bool
	until    time.Time // when the lease ends; zero: the store is away, so no other process can get it
	problems map[problem]bool
}

type problem struct{ kind, severity, topic, shard, host string }

// Leads reports whether this process shows in /metrics what is the same on every host. One process at a time does: the
// one with the lease of alerts. It goes on while the store is away.
func (a *Alerts) Leads() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shown.leads && (a.shown.until.IsZero() || time.Now().Before(a.shown.until))
}

// show publishes a round for /metrics.
func (a *Alerts) show(synced bool) {
	s := shown{leads: a.leads, problems: map[problem]bool{}}
	if synced {
		s.until = a.synced.Add(leaseTTL)
	}
	for _, o := range a.open {
		for _, c := range o.Causes {
			if !c.lasts() {
				continue
			}
			p := problem{c.Kind, c.Severity, o.Topic, o.Shard, ""}
			if o.Topic == "" && o.Shard == "" {
				p.host = c.Host
			}
			s.problems[p] = true
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown = s
}

// Describe implements prometheus.Collector.
func (a *Alerts) Describe(ch chan<- *prometheus.Desc) {
	a.sent.Describe(ch)
	ch <- problemDesc
}

// Collect implements prometheus.Collector.
func (a *Alerts) Collect(ch chan<- prometheus.Metric) {
	a.sent.Collect(ch)
	if !a.Leads() {
		return
	}
	a.mu.Lock()
	problems := a.shown.problems // a round replaces it as a whole
	a.mu.Unlock()
	for p := range problems {
		ch <- prometheus.MustNewConstMetric(problemDesc, prometheus.GaugeValue, 1,
			p.kind, p.severity, p.topic, p.shard, p.host)
	}
}
