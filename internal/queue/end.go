package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verb says what happens to a job that a worker holds.
type Verb uint8

// The verbs.
const (
	Ack          Verb = iota // done: the job is removed
	GiveBack                 // delayed or ready again; the attempt is not counted
	Untake                   // GiveBack to the head of its list, for a job that reached no worker
	Fail                     // a failed attempt: retried after its wait, dead after the last one
	BuryLeased               // a failed attempt, and dead at once
	ExtendLeased             // the lease ends later
)

var verbNames = [...]string{
	Ack: "ack", GiveBack: "release", Untake: "untake", Fail: "fail", BuryLeased: "bury", ExtendLeased: "extend",
}

func (v Verb) String() string { return verbNames[v] }

// verdictsOf are the verdicts of settle.lua.
var verdictsOf = [...]Verdict{
	Ack: Done, GiveBack: Release, Untake: Release, Fail: fail, BuryLeased: Bury,
	ExtendLeased: extend,
}

// Ending says what happens to one job, named by its lease, or by its topic and id: older protocols know no leases.
type Ending struct {
	Lease string
	Ref           // without a lease
	In    []State // without a lease: the states that the job may have; none: Running
	Verb  Verb
	Delay time.Duration // of GiveBack
	// Order is the new order of the job, and Priority goes with it, when a lease ends that leaves the job; nil: the
	// same.
	Order    *uint32
	Priority Priority
	TTR      time.Duration // of ExtendLeased: from now; 0: the job's, or its topic's
	Error    string        // of Fail and BuryLeased, and of GiveBack of a dead job, whose attempts go on
	Result   string        // of Ack, for the journal and as the remembered answer: JSON
	via      string
	Retry    []time.Duration // of Fail: the topic's waits between attempts, for a job without its own
}

// Untaken returns the endings of jobs that reached no worker.
func Untaken(jobs []Leased) []Ending {
	list := make([]Ending, len(jobs))
	for i := range jobs {
		list[i] = Ending{Lease: jobs[i].Lease, Verb: Untake}
	}
	return list
}

// Ended is the outcome of one Ending.
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
	Job       *Job // of GiveBack by id
}

// ErrState is the error of an Ending whose job is in none of the states In.
var ErrState = errors.New("the job is in another state")

// EndLimit is the most endings in one call of the script; End splits longer lists.
const EndLimit = 100

type endCall struct {
	list []Ending
	answered[[]Ended]
}

func (c *endCall) jobs() int { return len(c.list) }

func (s *Shard) newEnds(bucket int, o Options) *gatherer[*endCall] {
	call := func(_ int, batch []*endCall) {
		lists := make([][]Ending, len(batch))
		for i, c := range batch {
			lists[i] = c.list
		}
		list := slices.Concat(lists...)
		done := s.endAll(bucket, list)
		if o.Ended != nil {
			if err := o.Ended(done); err != nil {
				refuseEnded(s, done, err)
			}
		}
		for _, c := range batch {
			c.answer(done[:len(c.list):len(c.list)], nil)
			done = done[len(c.list):]
		}
	}
	return newGatherer(s, maxFlying, maxTaken, call)
}

// refuseEnded turns successful results into errors: a job that was removed or redriven by its id, which the journal
// could not record, is not acknowledged. The end of a lease is: a worker that is told otherwise undoes what it did,
// while its job is gone. As with a dispatcher, a delivery that the journal misses can at worst be repeated.
func refuseEnded(s *Shard, done []Ended, err error) {
	for i := range done {
		if done[i].Err == nil && done[i].Was != Running {
			done[i].Err = s.unavailable("journal", err)
		}
	}
}

func failEndings(list []Ending, err error) []Ended {
	done := make([]Ended, len(list))
	for i := range list {
		done[i] = Ended{Err: err, Ref: list[i].Ref, Verb: list[i].Verb}
	}
	return done
}

// end carries out endings in one bucket, EndLimit at most.
func (s *Shard) end(ctx context.Context, bucket int, list []Ending) []Ended {
	c := &endCall{list: list, answered: newAnswered[[]Ended]()}
	s.nodes[bucket].ends.add(c)
	done, err := c.answered.await(ctx)
	if err != nil {
		return failEndings(list, err)
	}
	return done
}

func (s *Shard) endAll(bucket int, list []Ending) []Ended {
	script := settleScript
	tickets := make([]ticket, len(list))
	calls := make([]settling, len(list))
	for i := range list {
		if list[i].Lease == "" {
			script = settleByIDScript
		}
		tickets[i] = list[i].ticket()
		calls[i] = list[i].settling(&tickets[i])
	}
	answers, now, doubtful, err := s.settle(s.ctx, bucket, script, calls)
	if err != nil {
		return failEndings(list, err)
	}
	done := make([]Ended, len(list))
	for i := range list {
		done[i] = s.ended(&list[i], &tickets[i], &answers[i], now, doubtful)
	}
	return done
}

// ticket returns what names the job; parseTicket has validated the lease before.
func (e *Ending) ticket() ticket {
	if e.Lease == "" {
		return ticket{topic: e.Topic, id: e.ID}
	}
	t, _ := parseTicket(e.Lease)
	return t
}

func (e *Ending) settling(t *ticket) settling {
	x := settling{Ref: Ref{t.topic, t.id}, token: t.token, states: e.states(), verdict: verdictsOf[e.Verb]}
	if e.Order != nil {
		x.order = fmt.Sprint(e.Priority, " ", *e.Order)
	}
	switch e.Verb {
	case Ack:
		if e.Lease != "" {
			x.attempt = e.attemptText(t, Attempt{Answer: rememberedAnswer(e.Result)})
		}
	case GiveBack:
		x.ms = msText(e.Delay)
		if e.Error != "" {
			x.attempt = e.attemptText(t, Attempt{Error: shorten(e.Error, maxReason)})
		}
	case ExtendLeased:
		if e.TTR > 0 {
			x.ms = strconv.FormatInt(max(1, e.TTR.Milliseconds()), 10)
		}
	case Fail:
		x.ms, x.reason = msText(waitAfter(t.attempt, e.Retry)), "attempts"
		x.attempt = e.attemptText(t, Attempt{Error: shorten(e.Error, maxReason)})
	case BuryLeased:
		x.reason = "buried"
		x.attempt = e.attemptText(t, Attempt{Error: shorten(e.Error, maxReason)})
	}
	return x
}

// waitAfter returns the wait after a failed attempt: the topic's, or 1, 3, 5 … minutes.
func waitAfter(attempt int, waits []time.Duration) time.Duration {
	if len(waits) > 0 {
		return waits[min(max(attempt, 1), len(waits))-1]
	}
	return time.Duration(2*max(attempt, 1)-1) * time.Minute
}

func (e *Ending) states() string {
	if len(e.In) == 0 {
		return string(Running)
	}
	states := make([]string, len(e.In))
	for i, state := range e.In {
		states[i] = string(state)
	}
	return strings.Join(states, " ")
}

const maxReason = 512 // bytes of an attempt's error

// attemptText returns the attempt that ended as an entry of the history; that of a job without a lease gets its number
// when it is read.
func (e *Ending) attemptText(t *ticket, a Attempt) string {
	a.N, a.StartedAt = t.attempt, time.Now().UnixMilli()
	if !t.taken.IsZero() {
		a.StartedAt = t.taken.UnixMilli()
		a.TookMS = float64(max(0, time.Since(t.taken).Milliseconds()))
	}
	return encodeAttempt(&a)
}

// ended makes the outcome of one ending from what settle.lua answered.
func (s *Shard) ended(e *Ending, t *ticket, a *settled, now time.Time, doubtful bool) Ended {
	d := Ended{
		Ref: Ref{t.topic, t.id}, Shard: s.name, Verb: e.Verb, Was: State(a.was), State: State(a.became), At: a.at,
		CreatedAt: a.created, Revision: a.revision, Attempt: max(a.attempts, t.attempt), StartedAt: t.taken,
		Error: e.Error, Via: e.via, Result: e.Result,
	}
	switch d.State {
	case waiting:
		d.State = Delayed
		if !a.at.After(now) {
			d.State = Ready
		}
	case gone:
		d.State = ""
	}
	if !t.taken.IsZero() {
		d.Took = max(0, time.Since(t.taken))
	}
	switch {
	case a.became != "":
		d.Reason = deathOf(e.Verb, d.State)
		if a.description == "" {
			return d
		}
		if job, err := s.job(t.topic, a.description, now); err == nil {
			job.Revision, job.Via = a.revision, e.via
			d.Job = job
		}
		return d
	case doubtful && e.Verb != ExtendLeased:
		d.Err = s.unknown()
	case e.Lease != "":
		d.Err = fmt.Errorf("%s/%s: %w", t.topic, t.id, ErrLease)
	case a.was == "":
		d.Err = fmt.Errorf("%s/%s: %w", t.topic, t.id, ErrNotFound)
	default:
		d.Err = fmt.Errorf("%s/%s is %s: %w", t.topic, t.id, d.Was, ErrState)
	}
	return d
}

// gone is what settle.lua answers for a job that no longer exists.
const gone State = "gone"

func deathOf(v Verb, s State) string {
	switch {
	case s != Dead:
		return ""
	case v == BuryLeased:
		return "buried"
	}
	return "attempts"
}
