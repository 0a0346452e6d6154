package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/batch"
)

// Verb says what happens to a job, as settle.lua reads it.
type Verb string

// The verbs.
const (
	Done    Verb = "done"    // delivered: the job is removed
	Retry   Verb = "retry"   // a failed attempt: ready again after Delay
	Fail    Verb = "fail"    // a failed attempt: ready again after the job's wait, dead after the last one
	Bury    Verb = "bury"    // a failed attempt, and dead at once
	Snooze  Verb = "snooze"  // "ask again later": ready again after Delay, no attempt counted
	Release Verb = "release" // not called, or given back: ready again, no attempt counted
	Expire  Verb = "expire"  // not called: dead, no attempt counted
	Extend  Verb = "extend"  // the lease ends Delay from now
	lapse   Verb = "lapse"   // Fail, if the lease has expired
)

// Endpoint is what an attempt revealed about the topic's endpoint, as settle.lua reads it. It controls the topic's
// window of calls in flight and its breaker.
type Endpoint string

// The values of Endpoint.
const (
	EndpointUnknown Endpoint = ""     // not called
	EndpointUp      Endpoint = "up"   // it answered
	EndpointDown    Endpoint = "down" // no connection, timeout, 5xx, 429
)

// End ends or extends the lease of a job. Without a lease it changes the job in the same way: people and older
// protocols know only the id.
type End struct {
	Lease  *Lease
	Ref            // without a lease
	In     []State // without a lease: the states that the job may have; none: Running
	Verb   Verb
	Delay  time.Duration   // of Retry, Snooze and Release; of Extend 0: the job's TTR, or its topic's
	AtHead bool            // of Release without Delay: at the head of its list, for a job that reached nobody
	Retry  []time.Duration // of Fail: the topic's waits between attempts, for a job without its own
	Reason string          // of Bury and Expire: why the job is dead
	// Attempt is the one that ended. Its number, and its times unless they are given, are those of the lease. nil: one
	// without an error; none if no attempt has ended. A dead job that is released gets it as one more line.
	Attempt  *Attempt
	Endpoint Endpoint
	// Order is the new order of the job, and Priority goes with it, when a lease ends that leaves the job; nil: the
	// same.
	Order    *uint32
	Priority Priority
	Answer   *Answer // of Done: kept if somebody waits for the job
	Via      string
}

// Released returns the ends that give back jobs which reached nobody.
func Released(jobs []Job) []End {
	list := make([]End, len(jobs))
	for i := range jobs {
		list[i] = End{Lease: jobs[i].Lease, Verb: Release, AtHead: true}
	}
	return list
}

// Ended is the outcome of one End.
type Ended struct {
	// Err is ErrLease, ErrNotFound, ErrState, an *UnavailableError, or nil.
	Err error
	Ref
	Shard     string
	Verb      Verb
	Was       State     // without a lease: the job's state before, also with ErrState
	State     State     // its state now; "" when it is gone
	At        time.Time // when it becomes ready, or its lease ends
	CreatedAt time.Time
	Revision  int64
	Attempt   int       // the one that ended, counted from 1; 0 if not known
	StartedAt time.Time // of the attempt, by the shard's clock; zero if not known
	Took      time.Duration
	Error     string
	Reason    string // why it is dead
	Via       string // the protocol, see Via
	Result    string
	Answer    *Answer // what is kept of a job that was awaited
	Schedule  string  // of an occurrence that has ended
	For       time.Time
	Job       *Job // of Release by id
}

// Withdrawn reports whether a job was deleted instead of waiting again or dying, since its group had been cancelled.
func (d *Ended) Withdrawn() bool {
	return d.Err == nil && d.Was == Running && d.State == "" && d.Verb != Done && d.Verb != Expire
}

// ErrState is the error of an End whose job is in none of the states In.
var ErrState = errors.New("the job is in another state")

// EndLimit is the most ends in one call of the script; Queue.End splits longer lists.
const EndLimit = 100

const (
	endFields   = 10 // arguments of settle.lua for each job
	endedHead   = 2
	endedFields = 6
)

// End carries out ends in one call, ReserveLimit at most. When it is repeated after an error, the ends
// that the first call carried out have ErrLease.
func (b *Bucket) End(ctx context.Context, list []End) ([]Ended, error) {
	if len(list) == 0 {
		return nil, nil
	}
	script, order := settleScript, make([]int, len(list))
	for i := range list {
		if order[i] = i; list[i].Lease == nil {
			script = settleByIDScript
		}
	}
	topic := func(i int) string { return list[i].ref().Topic }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(topic(a), topic(b)) })
	args := append(make([]any, 0, endFields*len(list)+9), len(list))
	for from, i := 0, 1; i <= len(order); i++ {
		if i < len(order) && topic(order[i]) == topic(order[from]) {
			continue
		}
		args = append(args, topic(order[from]), i-from)
		for _, k := range order[from:i] {
			args = list[k].appendTo(args)
		}
		from = i
	}
	o, err := b.Call(ctx, script, args...)
	if err != nil {
		return nil, err
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != endedHead+endedFields*len(list) {
		return nil, fmt.Errorf("settle on %s: %w", b.shard.name, ErrReply)
	}
	now, revision := micros(reply[0]), Integer(reply[1])
	done := make([]Ended, len(list))
	for k, i := range order {
		done[i] = b.ended(&list[i], reply[endedHead+k*endedFields:], now, revision+int64(k), o.Doubtful)
	}
	return done, nil
}

func (e *End) ref() Ref {
	if e.Lease != nil {
		return e.Lease.Ref
	}
	return e.Ref
}

// appendTo appends the arguments of settle.lua, which describes them.
func (e *End) appendTo(args []any) []any {
	token, order := "", ""
	if e.Lease != nil {
		token = e.Lease.Token
	}
	if e.Order != nil {
		order = fmt.Sprint(e.Priority, " ", *e.Order)
	}
	return append(args, e.ref().ID, token, e.states(), string(e.Verb), e.ms(), Escape(e.reason()), e.attempt(),
		string(e.Endpoint), order, e.Answer.Encode())
}

func (e *End) states() string {
	switch {
	case e.Lease != nil:
		return ""
	case len(e.In) == 0:
		return string(Running)
	}
	states := make([]string, len(e.In))
	for i, state := range e.In {
		states[i] = string(state)
	}
	return strings.Join(states, " ")
}

func (e *End) ms() string {
	wait := e.Delay
	switch {
	case e.Verb == Fail:
		n := 1
		if e.Lease != nil {
			n = e.Lease.Attempt
		}
		wait = waitAfter(n, e.Retry)
	case wait <= 0 && (e.Verb == Extend || e.Verb == Release && e.AtHead):
		return ""
	}
	return msText(wait)
}

// waitAfter returns the wait after a failed attempt: the topic's, or 1, 3, 5 … minutes.
func waitAfter(attempt int, waits []time.Duration) time.Duration {
	if len(waits) > 0 {
		return waits[min(max(attempt, 1), len(waits))-1]
	}
	return time.Duration(2*max(attempt, 1)-1) * time.Minute
}

func msText(d time.Duration) string { return strconv.FormatInt(max(0, ceilDelay(d)), 10) }

// ceilDelay returns a delay in ms, rounded up so that no job is early.
func ceilDelay(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// reason returns why the job is dead if this makes it so.
func (e *End) reason() string {
	switch e.Verb {
	case Bury:
		return cmp.Or(e.Reason, "buried")
	case Fail:
		return "attempts"
	}
	return e.Reason
}

const maxReason = 512 // bytes of an attempt's error

// attempt returns the attempt that ended as an entry of the history, or "". That of a job without a lease gets its
// number when it is read.
func (e *End) attempt() string {
	var a Attempt
	switch {
	case e.Attempt != nil:
		a = *e.Attempt
	case e.Verb == Release, e.Verb == Expire, e.Verb == Extend, e.Verb == Done && e.Lease == nil:
		return ""
	}
	if e.Lease != nil {
		a.N = e.Lease.Attempt
	}
	switch {
	case a.StartedAt != 0:
	case e.Lease != nil:
		a.StartedAt = e.Lease.Taken.UnixMilli()
		a.TookMS = float64(e.Lease.took().Milliseconds())
	default:
		a.StartedAt = time.Now().UnixMilli()
	}
	a.Error = shorten(a.Error, maxReason)
	if e.Verb == Done {
		a.Answer = rememberedAnswer(a.Answer)
	}
	return encodeAttempt(&a)
}

// took returns how long ago the job was taken.
func (l *Lease) took() time.Duration { return max(0, time.Since(l.Taken)) }

// What settle.lua answers for a job that no longer exists, or that stays only since somebody waited for it.
const (
	gone     State = "gone"
	answered State = "answered"
)

// ended decodes what settle.lua answers about one job.
func (b *Bucket) ended(e *End, v []any, now time.Time, revision int64, doubtful bool) Ended {
	d := Ended{
		Ref: e.ref(), Shard: b.shard.name, Verb: e.Verb, State: State(Text(v[0])), Was: State(Text(v[1])),
		At: Millis(v[2]), CreatedAt: millisOf(Text(v[3])), Attempt: int(Number(Text(v[4]))), Via: e.Via,
	}
	if l := e.Lease; l != nil {
		d.Attempt, d.StartedAt, d.Took = max(d.Attempt, l.Attempt), l.Taken, l.took()
	}
	if e.Attempt != nil {
		d.Error, d.Result = e.Attempt.Error, e.Attempt.Answer
	}
	switch {
	case d.State != "":
		d.Revision = revision
	case doubtful && e.Verb != Extend:
		d.Err = b.Unknown()
	case e.Lease != nil:
		d.Err = fmt.Errorf("%s/%s: %w", d.Topic, d.ID, ErrLease)
	case d.Was == "":
		d.Err = fmt.Errorf("%s/%s: %w", d.Topic, d.ID, ErrNotFound)
	default:
		d.Err = fmt.Errorf("%s/%s is %s: %w", d.Topic, d.ID, d.Was, ErrState)
	}
	switch d.State {
	case waiting:
		d.State = Delayed
		if !d.At.After(now) {
			d.State = Ready
		}
	case gone:
		d.State = ""
	case answered:
		d.State, d.Answer = "", cmp.Or(e.Answer, &Answer{Result: json.RawMessage("null")})
	case Dead:
		d.Reason = e.reason()
	}
	if text, ok := v[5].(string); ok {
		if schedule, nominal, ends := strings.Cut(text, " "); ends {
			d.Schedule, d.For = schedule, millisOf(nominal)
		}
		return d
	}
	if job, err := b.Described(d.Topic, v[5], now); err == nil {
		job.Revision, job.Via = revision, e.Via
		d.Job = job
	}
	return d
}

func (b *Bucket) newEnds(o Options) *batch.Batcher[[]End, []Ended] {
	return batch.New(b.batchOptions(), batch.List(func(list []End) []Ended {
		done, err := b.End(b.shard.ctx, list)
		if err != nil {
			done = failEnds(list, err)
		}
		if o.Ended != nil {
			if err := o.Ended(done); err != nil {
				b.refuseEnded(done, err)
			}
		}
		return done
	}))
}

// refuseEnded turns successful results into errors: a job that was removed or redriven by its id, which the journal
// could not record, is not acknowledged. The end of a lease is: a worker that is told otherwise undoes what it did,
// while its job is gone. As with a dispatcher, a delivery that the journal misses can at worst be repeated.
func (b *Bucket) refuseEnded(done []Ended, err error) {
	for i := range done {
		if done[i].Err == nil && done[i].Was != Running {
			done[i].Err = b.Unavailable("journal", err)
		}
	}
}

func failEnds(list []End, err error) []Ended {
	done := make([]Ended, len(list))
	for i := range list {
		done[i] = Ended{Err: err, Ref: list[i].ref(), Verb: list[i].Verb}
	}
	return done
}

// EndTogether carries out ends, EndLimit at most, in a call that it shares with those of other
// goroutines, and passes them to Options.Ended.
func (b *Bucket) EndTogether(ctx context.Context, list []End) []Ended {
	done, err := b.ends.Add(list, batch.Size{Jobs: len(list)}).Wait(ctx)
	if err != nil {
		return failEnds(list, err)
	}
	return done
}
