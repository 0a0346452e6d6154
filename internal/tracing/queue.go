package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

const (
	maxQueued    = 4096 // spans; about 2 KiB each
	maxExported  = 512  // spans of a request
	exportEvery  = 2 * time.Second
	requestLimit = 5 * time.Second
	exportLimit  = 10 * time.Second // of a request and its repetitions
)

// queue is the SDK's queue, which exports batches in the background, with a count of the spans that it drops. The SDK
// does not tell that, so it gets only what fits.
type queue struct {
	sdk.SpanProcessor
	exporter sdk.SpanExporter
	waiting  atomic.Int64 // spans that wait or are being exported

	exported, dropped prometheus.Counter

	log        *slog.Logger
	complaints rate.Sometimes
}

func newQueue(e sdk.SpanExporter, log *slog.Logger, metrics prometheus.Registerer) *queue {
	spans := promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_spans_total", Help: "Spans of attempts by result: exported, or dropped.",
	}, []string{"result"})
	q := &queue{exporter: e, log: log, complaints: rate.Sometimes{Interval: time.Minute}}
	q.exported, q.dropped = spans.WithLabelValues("exported"), spans.WithLabelValues("dropped")
	q.SpanProcessor = sdk.NewBatchSpanProcessor(exporter{e, q}, sdk.WithMaxQueueSize(maxQueued),
		sdk.WithMaxExportBatchSize(maxExported), sdk.WithBatchTimeout(exportEvery), sdk.WithExportTimeout(exportLimit))
	return q
}

// OnEnd takes an ended span, or drops it if the queue is full.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if q.waiting.Add(1) <= maxQueued {
		q.SpanProcessor.OnEnd(s)
		return
	}
	q.waiting.Add(-1)
	q.dropped.Inc()
}

// exporter is the queue's exporter.
type exporter struct {
	sdk.SpanExporter
	q *queue
}

// ExportSpans exports spans, or drops them.
func (e exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.q.waiting.Add(-int64(len(spans)))
	result := e.q.exported
	if err != nil {
		result = e.q.dropped
		e.q.complain(err)
	}
	result.Add(float64(len(spans)))
	return nil
}

// complain logs an error, once a minute. It may quote what the collector answered.
func (q *queue) complain(err error) {
	q.complaints.Do(func() {
		q.log.Warn("spans dropped: the collector does not accept them; attempts go on",
			"error", fmt.Sprintf("%.500s", err.Error()))
	})
}
