package dispatcher

import (
	"time"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/store"
)

// Trace begins the span of a job's attempt n; now is Redis's clock. It returns the trace context for the endpoint, and
// what ends the span, with the outcome of the call and that of the attempt, as the journal has it. An attempt that does
// not count, such as one whose lease expired before the call, does not end its span, and leaves none.
type Trace func(j *store.Job, n int, now time.Time) (traceparent string, end func(o *callback.Outcome, outcome string))

// trace begins the span of an attempt. Without spans, the endpoint gets the trace context of the push.
func (s *reserver) trace(r *reservation, n int) (traceparent string, end func(*callback.Outcome, string)) {
	if s.d.opts.Trace == nil {
		return r.Traceparent, func(*callback.Outcome, string) {}
	}
	return s.d.opts.Trace(r.Job, n, r.clock())
}
