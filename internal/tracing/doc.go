// Package tracing makes a span of each attempt and exports the spans by OTLP. Only a dispatcher with tracing.endpoint
// uses it, and only this package knows OpenTelemetry's SDK.
//
// An attempt is a span of its own trace with a link to the span that pushed the job, whose trace ended long before; or
// a child of that span if the attempt is due shortly after the push. An attempt of a push whose trace is not sampled
// has no span. Ended spans wait in a bounded queue, so a collector that is slow or away delays no call: what finds the
// queue full, or is not accepted by the collector, is dropped and counted.
package tracing
