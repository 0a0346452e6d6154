package dispatcher

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// reservation is a leased job whose outcome is not settled yet.
type reservation struct {
	*store.Job
	place  *place
	sent   time.Time // when the reserve request was sent (monotonic)
	now    time.Time // Redis's clock, not before sent
	stands bool      // Redis's clock shows now until the call has ended

	asked request   // for the lease: the last one
	ends  time.Time // when the lease ends, or earlier (monotonic)
	start atomic.Int32
}

// clock estimates Redis's current time. It may be ahead by a round trip.
func (r *reservation) clock() time.Time { return r.redisAt(time.Now()) }

// redisAt estimates Redis's time at t, likewise.
func (r *reservation) redisAt(t time.Time) time.Time {
	if r.stands {
		return r.now
	}
	return r.now.Add(t.Sub(r.sent))
}

// handle calls one job and passes on its outcome. A panic fails the attempt, not the process.
func (s *reserver) handle(r *reservation) {
	defer s.calls.Done()
	o := s.outcomeOf(r)
	s.d.places.release(r.place)
	if o == nil { // the lease expired before the call began
		s.d.metrics.lost.Inc()
		return
	}
	s.settler.add(o)
}

// outcome is how a lease ends, with more fields for the journal and the metrics.
type outcome struct {
	store.End
	job     *store.Job
	started time.Time
	took    time.Duration
	late    float64 // seconds from the due time to the call
	answer  string  // the beginning of the answer; the job stores less
	reason  string
}

// outcomeOf calls a job, or decides not to call it. It returns nil if the lease has expired.
func (s *reserver) outcomeOf(r *reservation) *outcome {
	topic := s.d.topic(r.Topic)
	if !r.isCallable(topic) {
		return s.refuse(r, topic)
	}
	ttr := r.TTR
	if ttr <= 0 {
		ttr = topic.TTR.Std()
	}
	if !r.mayStart(ttr) {
		held, err := s.confirm(s.ctx, r, ttr)
		switch {
		case err != nil:
			return end(r, store.Release, "shutdown")
		case !held:
			return nil
		}
		topic = s.d.topic(r.Topic) // confirming may have taken long
		if !r.isCallable(topic) {
			return s.refuse(r, topic)
		}
	}
	if ttr > leaseCap || topic.RetryIf != "" {
		defer s.leases.hold(r, ttr)()
	}
	return s.attempt(r, topic, ttr)
}

// end returns the outcome of a job that was not called. One that is released goes back to its old place.
func end(r *reservation, v store.Verb, reason string) *outcome {
	e := store.End{Lease: r.Lease, Verb: v, AtHead: true, Reason: reason}
	return &outcome{End: e, job: r.Job, reason: reason}
}

// isCallable reports whether a job may be called. If not, refuse says why.
func (r *reservation) isCallable(topic *registry.Topic) bool {
	return topic != nil && topic.IsCalled() && !topic.Locked &&
		(topic.ExpiresAfter <= 0 || r.clock().Sub(r.DueAt) <= topic.ExpiresAfter.Std())
}

// mayStart reports whether a call may start now: a deletion waits for it, and the lease lasts as long as the call may,
// or until it is extended. A lease can be shorter than the TTR that the registry has, which Redis may not know yet.
func (r *reservation) mayStart(ttr time.Duration) bool {
	now := time.Now()
	return now.Sub(r.asked.sent) <= r.asked.window && !now.Add(min(ttr, leaseCap)).After(r.ends)
}

func (s *reserver) attempt(r *reservation, topic *registry.Topic, ttr time.Duration) (o *outcome) {
	n := r.Attempts + 1
	most := r.MaxAttempts
	if most <= 0 {
		most = topic.MaxAttempts
	}
	now := r.clock()
	late := max(0, min(now.Sub(r.DueAt), now.Sub(r.CreatedAt)).Seconds()) // a job may be pushed long after its due time
	started := time.Now()
	traceparent, traced := s.trace(r, n)
	out := s.call(r, topic, ttr, n, most, traceparent)
	r.start.CompareAndSwap(asking, abandoned)
	switch r.start.Load() {
	case lost:
		return nil
	case abandoned:
		return end(r, store.Release, "not confirmed")
	}
	if r.Attempts == 0 && r.Snoozes == 0 {
		s.d.metrics.lateness.Observe(r.Topic, late)
	}
	o = &outcome{
		End: store.End{Lease: r.Lease, AtHead: true}, job: r.Job,
		started: started, took: time.Since(started), late: late,
		answer: cut(string(out.Answer), maxShown), reason: out.Reason,
	}
	if out.Class != callback.Success && s.d.calls.Err() != nil {
		o.Verb, o.reason = store.Release, "shutdown" // canceled by the shutdown; no attempt is counted
		return o
	}
	if out.Class == callback.Short {
		s.d.shortage.log(s.d.opts.Logger, out.Err)
		s.noteReleased(r.Topic)
		return end(r, store.Release, out.Reason)
	}
	switch {
	case out.EndpointDown:
		o.Endpoint = store.EndpointDown
	case !out.Unsent:
		o.Endpoint = store.EndpointUp
	}
	o.Attempt = &store.Attempt{
		StartedAt: r.redisAt(started).UnixMilli(), TookMS: float64(o.took.Microseconds()) / 1000,
		Status: out.Status, Error: cut(out.Err, maxError), Answer: cut(o.answer, maxAnswer),
	}
	s.decide(o, &out, topic, n, most)
	traced(&out, string(journalOutcomes[o.Verb]))
	if r.Awaited && o.Verb == store.Done {
		o.Answer = store.EndpointAnswer(out.Status, out.ContentType, out.Answer, out.Truncated)
	}
	return o
}

// Limits of what a job stores of an attempt, in bytes.
const (
	maxAnswer = 1024
	maxError  = 512
)

// maxShown is how many bytes of a response are shown with a topic's last attempts.
const maxShown = 2048

// maxSnoozes is the maximum of consecutive snoozes. The next one is a failure.
const maxSnoozes = 100

// decide sets the verb of a call's outcome.
func (s *reserver) decide(o *outcome, out *callback.Outcome, topic *registry.Topic, n, most int) {
	switch {
	case out.Reason == uncallable:
		o.Verb, o.Delay = store.Snooze, uncallableFor
	case out.Class == callback.Success:
		o.Verb = store.Done
	case out.Class == callback.Snooze && o.job.Snoozes < maxSnoozes:
		o.Verb, o.Delay = store.Snooze, max(out.RetryAfter, time.Second)
	case out.Class == callback.Gone:
		o.Verb, o.Reason = store.Bury, "gone"
	case n >= most:
		o.Verb, o.Reason = store.Bury, "attempts"
	default:
		o.Verb, o.Delay = store.Retry, max(retryDelay(o.job, topic, n), out.RetryAfter)
	}
	if out.Class == callback.Snooze && o.Verb != store.Snooze {
		o.reason = "snoozes"
		o.Attempt.Error = fmt.Sprintf("the endpoint asked to be called again %d times in a row", maxSnoozes)
	}
}

// retryDelay returns how long after attempt n the next one is due. If the job has its own retry waits, they apply.
func retryDelay(j *store.Job, topic *registry.Topic, n int) time.Duration {
	if len(j.Retry) > 0 {
		return j.Retry[min(n, len(j.Retry))-1]
	}
	return topic.RetryDelay(n)
}

func (s *reserver) call(
	r *reservation, topic *registry.Topic, ttr time.Duration, n, most int, traceparent string,
) (out callback.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			s.d.opts.Logger.Error("callback panicked",
				"topic", r.Topic, "id", r.ID, "panic", p, "stack", string(debug.Stack()))
			err := fmt.Sprint("the dispatcher panicked while it called this job: ", p)
			out = callback.Outcome{Class: callback.Failure, Reason: "panic", Err: err}
		}
	}()
	e, err := s.d.endpoint(topic)
	if err != nil {
		return callback.Outcome{Class: callback.Failure, Reason: uncallable, Err: err.Error(), EndpointDown: true}
	}
	if r.URL != "" {
		if _, err := topic.JobURL(r.URL); err != nil { // the patterns were changed since the push
			return callback.Outcome{Class: callback.Failure, Reason: callback.ReasonURL, Err: err.Error(), Unsent: true}
		}
	}
	return s.d.opts.Caller.Do(s.d.calls, e, &callback.Request{
		Topic: r.Topic, ID: r.ID, URL: r.URL, Body: r.Body, ContentType: r.ContentType, Headers: r.CallHeaders(),
		Priority: r.Priority.String(), Traceparent: traceparent,
		Attempt: n, MaxAttempts: most, DueAt: r.DueAt, CreatedAt: r.CreatedAt, Timeout: ttr,
		Begin: func() error {
			if r.mayStart(ttr) {
				return nil
			}
			return s.confirmConnected(s.d.calls, r, ttr)
		},
		Judging: func() {
			time.AfterFunc(judgeAfter, func() {
				s.d.places.stepAside(r.place)
				s.leases.prolong(r)
			})
		},
	})
}

// cut shortens s to at most n bytes of valid UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
