// Package collector has a collector of OpenTelemetry for tests: it records the spans that it receives by OTLP over
// HTTP.
package collector

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span with the attributes of the process that made it.
type Span struct {
	*trace.Span
	Resource map[string]any
	Schema   string // URL of the resource's schema
}

// Collector records spans.
type Collector struct {
	URL string

	mu       sync.Mutex
	spans    []Span
	requests int
}

// Start starts a collector that ends with the test.
func Start(t testing.TB) *Collector {
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request otlp.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s, %v: %v", r.Method, r.URL, r.Header, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.add(&request)
	}))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

// StartHanging starts one that answers no request. It counts them.
func StartHanging(t testing.TB) *Collector {
	c := &Collector{}
	stop := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests++
		c.mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body) // the end of a request is seen once its body was read
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	t.Cleanup(func() { close(stop); s.Close() })
	c.URL = s.URL
	return c
}

func (c *Collector) add(r *otlp.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	for _, resource := range r.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				attributes := Attributes(resource.GetResource().GetAttributes())
				c.spans = append(c.spans, Span{span, attributes, resource.GetSchemaUrl()})
			}
		}
	}
}

// Requests returns how many requests came.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Spans returns the spans so far, in the order of their start.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := slices.Clone(c.spans)
	slices.SortStableFunc(spans, func(a, b Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	return spans
}

// Attributes returns attributes by name: texts, and numbers as int64.
func Attributes(list []*common.KeyValue) map[string]any {
	values := map[string]any{}
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			values[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			values[a.GetKey()] = v.IntValue
		}
	}
	return values
}
