//wakecall:figures
package dispatcher

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/metrics"
	"github.com/wakecall/wakecall/internal/store"
)

type counters struct {
	callbacks                          *metrics.Counter
	lateness, duration                 *metrics.Histogram
	batch                              prometheus.Histogram
	lost, settleRetries, journalErrors prometheus.Counter
}

var verbNames = map[store.Verb]string{
	store.Done: "done", store.Retry: "retry", store.Snooze: "snooze", store.Bury: "dead", store.Release: "released",
	store.Expire: "expired",
}

func newCounters(r prometheus.Registerer, p *places, topics int) *counters {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &counters{
		callbacks: metrics.New("wakecall_callbacks_total", "Reserved jobs by outcome.", topics, "outcome", "reason"),
		lateness: metrics.NewHistogram(
			"wakecall_callback_lateness_seconds", "Time from the due time to the first callback.", topics),
		duration: metrics.NewHistogram("wakecall_callback_duration_seconds", "Duration of callbacks.", topics),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wakecall_reserve_jobs", Help: "Jobs per reserve call.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 8),
		}),
		lost:          counter("wakecall_lost_leases_total", "Leases that expired before their job was settled."),
		settleRetries: counter("wakecall_settle_retries_total", "Repeated settle calls."),
		journalErrors: counter("wakecall_dispatcher_journal_errors_total",
			"Batches of attempts that could not be written to the journal."),
	}
	if r != nil {
		free := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "wakecall_dispatcher_free_places", Help: "Callbacks that can still be started.",
		}, func() float64 { return float64(p.available()) })
		inFlight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "wakecall_dispatcher_in_flight", Help: "Jobs reserved or being called.",
		}, func() float64 { return float64(p.inFlight()) })
		r.MustRegister(m.callbacks, m.lateness, m.duration, m.batch, m.lost, m.settleRetries, m.journalErrors)
		r.MustRegister(free, inFlight)
	}
	return m
}

func (m *counters) outcome(o *outcome) {
	m.callbacks.Inc(o.job.Topic, verbNames[o.Verb], o.reason)
	if o.Attempt != nil {
		m.duration.Observe(o.job.Topic, o.took.Seconds())
	}
}
