package server

import "github.com/wakecall/wakecall/internal/store"

// traceparent is the trace context of a push.
type traceparent string

// UnmarshalText checks the trace context.
func (t *traceparent) UnmarshalText(text []byte) error {
	*t = traceparent(store.ParseTraceparent(string(text)))
	if *t == "" {
		return badValue("must be a W3C trace context such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	}
	return nil
}

// inheritedTrace returns the trace context of the request, which its pushes have unless they name their own; "" if it
// has none. A header that is not valid is ignored.
func (c *call) inheritedTrace() string {
	return store.ParseTraceparent(c.Request().Header.Get("Traceparent"))
}
