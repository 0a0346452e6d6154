package dispatcher

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/queue/devclock"
	"github.com/wakecall/wakecall/internal/store"
)

// CallOne calls a reserved job of a bucket and settles its outcome, and returns then: for installations whose clock
// stands until it is moved, which call one job after another. now is Redis's time; it stands during the call, so the
// lease does not expire.
func (d *Dispatcher) CallOne(ctx context.Context, b Bucket, j *store.Job, now time.Time) devclock.Result {
	s := newReserver(ctx, d, b)
	asked := s.start.ask()
	d.places.book(1)
	r := &reservation{
		Job: j, place: d.places.use(j), sent: asked.sent, now: now, stands: true, asked: asked,
		ends: asked.sent.Add(j.LeaseUntil.Sub(now)),
	}
	o := s.outcomeOf(r)
	d.places.release(r.place)
	called := devclock.Result{Attempt: j.Attempts + 1, Outcome: devclock.Released}
	if o == nil {
		return called
	}
	if name := journalOutcomes[o.Verb]; name != "" {
		called.Outcome = string(name)
	}
	if o.Attempt != nil {
		called.Status = o.Attempt.Status
	}
	s.settler.add(o)
	s.settler.wait()
	return called
}
