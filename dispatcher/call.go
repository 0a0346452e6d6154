package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// reservation is a leased job whose outcome is not settled yet.
type reservation struct {
	*store.Job
	place *place
	sent  time.Time // when the reserve request was sent (monotonic)
	now   time.Time // Redis's clock, not before sent

	asked request   // for the lease: the last one
	ends  time.Time // when the lease ends, or earlier (monotonic)
	start atomic.Int32
}

// States of a call whose lease must be confirmed once it has a connection. The goroutine that confirms the lease and
// the one that waits for the call agree by compare-and-swap on whether the call begins.
const (
	unasked int32 = iota // not confirmed yet, or not needed
	asking
	begun
	lost      // the lease expired
	abandoned // not confirmed in time
)

// clock estimates Redis's current time. It may be ahead by a round trip.
func (r *reservation) clock() time.Time { return r.now.Add(time.Since(r.sent)) }

// handle calls one job and passes on its outcome. A panic fails the attempt, not the process.
func (s *source) handle(r *reservation) {
	defer s.calls.Done()
	o := s.judge(r)
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

// judge calls a job, or decides not to call it. It returns nil if the lease has expired.
func (s *source) judge(r *reservation) *outcome {
	topic := s.d.topic(r.Topic)
	if o := s.refuse(r, topic); o != nil {
		return o
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
		if o := s.refuse(r, topic); o != nil {
			return o
		}
	}
	defer s.leases.hold(r, ttr, topic.RetryIf != "")()
	return s.attempt(r, topic, ttr)
}

// refuse returns the outcome of a job that must not be called, or nil.
func (s *source) refuse(r *reservation, topic *registry.Topic) *outcome {
	switch {
	case topic == nil:
		return s.refuseUnknown(r)
	case topic.Delivery == registry.DeliveryPull: // Redis does not know the change yet
		s.noteReleased(r.Topic)
		return end(r, store.Release, "pull topic")
	case topic.State != registry.TopicActive:
		s.noteReleased(r.Topic)
		return end(r, store.Release, string(topic.State))
	case topic.Locked:
		s.noteReleased(r.Topic)
		return end(r, store.Release, "locked")
	case topic.ExpiresAfter > 0 && r.clock().Sub(r.DueAt) > topic.ExpiresAfter.Std():
		return end(r, store.Expire, "expired")
	}
	return nil
}

// refuseUnknown returns the outcome of a job whose topic is not in the registry. The job dies only if the topic was
// deleted. If an old backup of the registry was restored, the job waits. If this host uses another registry than the
// others, they know the topic, so nothing is stored that would hold up their calls.
func (s *source) refuseUnknown(r *reservation) *outcome {
	deleted, err := s.d.deleted(r.Topic)
	if deleted {
		return end(r, store.Expire, "topic deleted")
	}
	o := end(r, store.Release, "topic unknown")
	if err != nil {
		s.noteReleased(r.Topic)
	} else if !s.noteUnknown(r.Topic) {
		o.Delay = uncallableFor
	}
	return o
}

// end returns the outcome of a job that was not called. One that is released goes back to its old place.
func end(r *reservation, v store.Verb, reason string) *outcome {
	e := store.End{Lease: r.Lease, Verb: v, AtHead: true, Reason: reason}
	return &outcome{End: e, job: r.Job, reason: reason}
}

// mayStart reports whether a call may start now: a deletion waits for it, and the lease lasts as long as the call may,
// or until it is extended. A lease can be shorter than the TTR that the registry has, which Redis may not know yet.
func (r *reservation) mayStart(ttr time.Duration) bool {
	now := time.Now()
	return now.Sub(r.asked.sent) <= r.asked.window && !now.Add(min(ttr, leaseCap)).After(r.ends)
}

// confirm extends the lease of a call that may not start, and reports whether it is held. It retries until Redis
// answers in time, because abandoning a lease that is held would count an attempt that was not made. Meanwhile the call
// moves aside. It fails when ctx or the source ends.
func (s *source) confirm(ctx context.Context, r *reservation, ttr time.Duration) (held bool, err error) {
	for backoff := minBackoff; ctx.Err() == nil && s.ctx.Err() == nil; {
		asked := s.start.ask()
		lease := min(ttr, leaseCap) + asked.window - store.StartWindow
		ended, err := s.bucket.End(s.d.settles, []store.End{extended(r.Lease, lease)})
		took := time.Since(asked.sent)
		switch {
		case err != nil:
			s.d.places.stepAside(r.place)
			pause(ctx, jittered(backoff))
			backoff = min(2*backoff, maxBackoff)
		case ended[0].Err != nil:
			return false, nil
		case took <= asked.window:
			r.asked, r.ends = asked, asked.sent.Add(lease+store.LeaseGrace)
			return true, nil
		default:
			s.follow(took)
		}
	}
	return false, fmt.Errorf("confirm lease: %w", errors.Join(context.Cause(ctx), context.Cause(s.ctx)))
}

var errNotHeld = errors.New("lease expired")

// begins is called once the call has a connection, just before the request is written. It confirms the lease if
// connecting took longer than the start window.
func (s *source) begins(ctx context.Context, r *reservation, ttr time.Duration) error {
	if r.mayStart(ttr) {
		return nil
	}
	if !r.start.CompareAndSwap(unasked, asking) && !r.start.CompareAndSwap(begun, asking) {
		return errNotHeld
	}
	held, err := s.confirm(ctx, r, ttr)
	next := begun
	switch {
	case err != nil:
		next = abandoned
	case !held:
		err, next = errNotHeld, lost
	}
	if !r.start.CompareAndSwap(asking, next) {
		return errNotHeld
	}
	return err
}

func (s *source) attempt(r *reservation, topic *registry.Topic, ttr time.Duration) (o *outcome) {
	n := r.Attempts + 1
	most := r.MaxAttempts
	if most <= 0 {
		most = topic.MaxAttempts
	}
	now := r.clock()
	late := max(0, min(now.Sub(r.DueAt), now.Sub(r.CreatedAt)).Seconds()) // a job may be pushed long after its due time
	started := time.Now()
	out := s.call(r, topic, ttr, n, most)
	r.start.CompareAndSwap(asking, abandoned)
	switch r.start.Load() {
	case lost:
		return nil
	case abandoned:
		return end(r, store.Release, "not confirmed")
	}
	if r.Attempts == 0 && r.Snoozes == 0 {
		s.d.metrics.lateness.Observe(late)
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
	o.Endpoint = store.EndpointUp
	if out.EndpointDown {
		o.Endpoint = store.EndpointDown
	}
	o.Attempt = &store.Attempt{
		StartedAt: r.now.Add(started.Sub(r.sent)).UnixMilli(), TookMS: float64(o.took.Microseconds()) / 1000,
		Status: out.Status, Error: cut(out.Err, maxError), Answer: cut(o.answer, maxAnswer),
	}
	s.decide(o, &out, topic, n, most)
	return o
}

// shortage logs that this host lacks descriptors or memory for calls.
type shortage struct {
	mu     sync.Mutex
	logged time.Time
}

// shortageEvery is how often this is logged.
const shortageEvery = time.Minute

func (s *shortage) log(log *slog.Logger, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.logged.IsZero() && time.Since(s.logged) < shortageEvery {
		return
	}
	s.logged = time.Now()
	log.Error("cannot make callbacks; their jobs wait, and no attempts are counted", "error", reason)
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

// A job whose topic cannot be called, for example because its retry_if is no longer valid, waits until the topic is
// corrected. No attempt is counted, but the topic's breaker opens, so that its backlog causes little load and an alert
// is raised.
const (
	uncallable    = "topic"
	uncallableFor = time.Minute
)

// decide sets the verb of a call's outcome.
func (s *source) decide(o *outcome, out *callback.Outcome, topic *registry.Topic, n, most int) {
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

func (s *source) call(r *reservation, topic *registry.Topic, ttr time.Duration, n, most int) (out callback.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			s.d.opts.Logger.Error("callback panicked",
				"topic", r.Topic, "id", r.ID, "panic", p, "stack", string(debug.Stack()))
			err := fmt.Sprint("the dispatcher panicked while it called this job: ", p)
			out = callback.Outcome{Class: callback.Failure, Reason: "panic", Err: err}
		}
	}()
	e, err := s.d.endpoints.of(topic, s.d.opts.Logger)
	if err != nil {
		return callback.Outcome{Class: callback.Failure, Reason: uncallable, Err: err.Error(), EndpointDown: true}
	}
	return s.d.opts.Caller.Do(s.d.calls, e, &callback.Request{
		Topic: r.Topic, ID: r.ID, Body: r.Body, ContentType: r.ContentType, Headers: r.Headers,
		Priority: r.Priority.String(),
		Attempt:  n, MaxAttempts: most, DueAt: r.DueAt, CreatedAt: r.CreatedAt, Timeout: ttr,
		Begin: func() error { return s.begins(s.d.calls, r, ttr) },
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

var journalOutcomes = map[store.Verb]journal.Outcome{
	store.Done: journal.Done, store.Retry: journal.Retry, store.Snooze: journal.Snooze, store.Bury: journal.Dead,
	store.Expire: journal.Expired,
}
