package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/store"
)

// Options of a Tracer.
type Options struct {
	Endpoint    string        // URL of a collector, with or without path
	ParentBelow time.Duration // an attempt that is due sooner after the push is a child of its span
	Version     string        // of Wakecall
	Host        string        // name of this host
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
}

const path = "/v1/traces" // of collectors, for OTLP over HTTP

// Tracer makes spans of attempts. Its methods may be called from any goroutine.
type Tracer struct {
	parentBelow time.Duration
	tracer      trace.Tracer
	provider    *sdk.TracerProvider
	queue       *queue
}

// New returns a Tracer, which connects to the collector only when it has spans for it.
func New(o Options) (*Tracer, error) {
	ctx := context.Background()
	endpoint := strings.TrimSuffix(strings.TrimSuffix(o.Endpoint, "/"), path) + path
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint),
		otlptracehttp.WithTimeout(requestLimit))
	about, failed := resource.New(ctx, resource.WithSchemaURL(schemaURL), resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(service), semconv.ServiceVersion(o.Version),
			semconv.HostName(o.Host)),
		resource.WithFromEnv())
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("prepare the export of spans: %w", err)
	}
	q := newQueue(exporter, o.Logger, o.Registerer)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(q.complain))
	provider := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithSpanProcessor(q))
	tracer := provider.Tracer(scope, trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(schemaURL))
	return &Tracer{o.ParentBelow, tracer, provider, q}, nil
}

// Begin begins the span of an attempt, see dispatcher.Trace.
func (t *Tracer) Begin(j *store.Job, n int, now time.Time) (string, func(*callback.Outcome, string)) {
	var w3c propagation.TraceContext
	carrier := propagation.MapCarrier{"traceparent": j.Traceparent}
	ctx := w3c.Extract(context.Background(), carrier)
	push := trace.SpanContextFromContext(ctx)
	if push.IsValid() && !push.IsSampled() {
		return j.Traceparent, func(*callback.Outcome, string) {}
	}
	o := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(begun(j, n)...)}
	due := j.DueAt
	if j.Attempts > 0 || j.Snoozes > 0 { // a job does not keep when its retries were due, but they are called then
		due = now
	}
	if push.IsValid() && due.Sub(j.CreatedAt) >= t.parentBelow {
		o = append(o, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: push}))
	}
	ctx, span := t.tracer.Start(ctx, spanName(j.Topic), o...) //nolint:spancheck // by what is returned
	w3c.Inject(ctx, carrier)
	end := func(o *callback.Outcome, outcome string) {
		span.SetAttributes(ended(o, outcome)...)
		if failed(o) {
			span.SetStatus(codes.Error, o.Err)
		}
		span.End()
	}
	return carrier["traceparent"], end //nolint:spancheck // an attempt that counts ends it
}

// stopLimit is how long Stop may take. A dispatcher ends its calls two seconds before its shutdown timeout, and settles
// them in one.
const stopLimit = time.Second

// Stop exports the spans that wait, or drops them if the collector does not accept them at once.
func (t *Tracer) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if t.provider.Shutdown(ctx) != nil {
		_ = t.queue.exporter.Shutdown(ctx) // ends the request that hangs; says only that ctx has ended
	}
}
