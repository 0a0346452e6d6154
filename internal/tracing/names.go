package tracing

import (
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/store"
)

// The names and values of spans are those of OpenTelemetry's semantic conventions for messaging in this version, those
// that begin with wakecall are Wakecall's own.
const (
	schemaURL = semconv.SchemaURL
	scope     = "github.com/wakecall/wakecall"
	service   = "wakecall"
	operation = "deliver"

	attemptKey = attribute.Key("wakecall.attempt")
	outcomeKey = attribute.Key("wakecall.outcome") // of the attempt, as in the journal
)

func spanName(topic string) string { return operation + " " + topic }

// begun returns what is known when an attempt begins.
func begun(j *store.Job, n int) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemKey.String(service), semconv.MessagingOperationName(operation),
		semconv.MessagingOperationTypeSend, semconv.MessagingDestinationName(j.Topic),
		semconv.MessagingMessageID(j.ID), attemptKey.Int(n),
	}
}

// ended returns what is known at its end.
func ended(o *callback.Outcome, outcome string) []attribute.KeyValue {
	list := []attribute.KeyValue{outcomeKey.String(outcome), semconv.ServerAddress(o.Host)}
	if o.Status != 0 {
		list = append(list, semconv.HTTPResponseStatusCode(o.Status))
	}
	switch {
	case !failed(o):
	case o.Reason == "status": // of a complete response
		list = append(list, semconv.ErrorTypeKey.String(strconv.Itoa(o.Status)))
	default:
		list = append(list, semconv.ErrorTypeKey.String(o.Reason))
	}
	return list
}

func failed(o *callback.Outcome) bool {
	return o.Class != callback.Success && o.Class != callback.Snooze
}
