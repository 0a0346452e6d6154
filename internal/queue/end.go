package queue

import (
	"context"
	"encoding/json"
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

var verbs = [...]string{Ack: "A", GiveBack: "L", Untake: "H", Fail: "F", BuryLeased: "B", ExtendLeased: "E"}

// Ending says what happens to one job, named by its lease, or by its topic and id: older protocols know no leases.
type Ending struct {
	Lease  string
	Ref            // without a lease
	In     []State // without a lease: the states that the job may have; none: Running
	Verb   Verb
	Delay  time.Duration // of GiveBack
	TTR    time.Duration // of ExtendLeased: from now; 0: the job's, or its topic's
	Error  string        // of Fail and BuryLeased
	Result string        // of Ack, for the journal and as the remembered answer: JSON
	via    string
	Retry  []time.Duration // of Fail: the topic's waits between attempts, for a job without its own
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

// refuseEnded turns successful results into errors: an ending that the journal could not record is not acknowledged.
func refuseEnded(s *Shard, done []Ended, err error) {
	for i := range done {
		if done[i].Err == nil {
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

const endedJob = 8 // values of each job in the answer of end.lua

func (s *Shard) endAll(bucket int, list []Ending) []Ended {
	args, script := append(make([]any, 0, 2+9*len(list)), expiredError), "end"
	tickets := make([]ticket, len(list))
	for i := range list {
		if list[i].Lease == "" {
			script = endByID
		}
		tickets[i] = list[i].ticket()
		args = s.appendEnding(args, &list[i], &tickets[i])
	}
	o, err := s.do(s.ctx, bucket, Memory, script, args...)
	if err != nil {
		return failEndings(list, err)
	}
	reply, ok := o.value.([]any)
	if !ok || len(reply) != endedJob*len(list) {
		return failEndings(list, fmt.Errorf("end leases on shard %s: %w", s.name, errReply))
	}
	done := make([]Ended, len(list))
	for i := range list {
		done[i] = s.ended(&list[i], &tickets[i], reply[endedJob*i:], o.repeated)
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

// appendEnding appends an ending as end.lua reads it.
func (s *Shard) appendEnding(args []any, e *Ending, t *ticket) []any {
	ref, token, states := "", "", e.states()
	if e.Lease != "" {
		ref, token, states = strconv.FormatInt(t.ref, 10), t.token, "u"
	}
	number, text := "", ""
	switch e.Verb {
	case Ack:
		if !t.taken.IsZero() {
			number = strconv.FormatInt(t.taken.UnixMilli(), 10)
		}
		text = rememberedAnswer(e.Result)
	case GiveBack:
		number = strconv.FormatInt(max(0, ceilDelay(e.Delay)), 10)
	case ExtendLeased:
		if e.TTR > 0 {
			number = strconv.FormatInt(max(1, e.TTR.Milliseconds()), 10)
		}
	case Fail:
		text = waits(e.Retry) + ";" + attemptText(e, t)
	case BuryLeased:
		text = attemptText(e, t)
	}
	return append(args, t.topic, s.address(t.topic, t.id), t.id, ref, token, states, verbs[e.Verb], number, text)
}

func (e *Ending) states() string {
	if len(e.In) == 0 {
		return "u"
	}
	var b strings.Builder
	for letter, state := range stateNames {
		for _, s := range e.In {
			if s == state {
				b.WriteString(letter)
			}
		}
	}
	return b.String()
}

// waits returns durations in ms, separated by spaces.
func waits(list []time.Duration) string {
	var b []byte
	for _, d := range list {
		b = append(strconv.AppendInt(b, max(0, ceilDelay(d)), 10), ' ')
	}
	return string(b)
}

const maxReason = 512 // bytes of an attempt's error

// attemptText returns the failed attempt as an entry of the history. The script sets its number.
func attemptText(e *Ending, t *ticket) string {
	a := Attempt{Error: strings.ToValidUTF8(e.Error[:min(len(e.Error), maxReason)], "")}
	if !t.taken.IsZero() {
		a.StartedAt = t.taken.UnixMilli()
		a.TookMS = float64(max(0, time.Since(t.taken).Milliseconds()))
	}
	text, _ := json.Marshal(a) // cannot fail
	return string(text)
}

// ended decodes what end.lua answered about one job.
func (s *Shard) ended(e *Ending, t *ticket, v []any, repeated bool) Ended {
	became, _ := v[0].(string)
	was, _ := v[1].(string)
	made, _ := v[4].(int64)
	revision, _ := v[5].(int64)
	d := Ended{
		Ref: Ref{t.topic, t.id}, Shard: s.name, Verb: e.Verb, Was: stateNames[was], State: stateNames[became],
		At: millis(v[2]), CreatedAt: millis(v[3]), Revision: revision, Attempt: max(int(made), t.attempt),
		StartedAt: t.taken, Error: e.Error, Via: e.via, Result: e.Result,
	}
	if !t.taken.IsZero() {
		d.Took = max(0, time.Since(t.taken))
	}
	switch {
	case became != "":
		d.Reason = deathOf(e.Verb, d.State)
		if job, err := s.described(t.topic, v[7]); err == nil {
			job.Revision, job.Via = revision, e.via
			d.Job = job
		}
		return d
	case repeated && e.Verb != ExtendLeased:
		d.Err = s.unavailable("connection", errDoubtful)
	case e.Lease != "":
		d.Err = fmt.Errorf("%s/%s: %w", t.topic, t.id, ErrLease)
	case was == "":
		d.Err = fmt.Errorf("%s/%s: %w", t.topic, t.id, ErrNotFound)
	default:
		d.Err = fmt.Errorf("%s/%s is %s: %w", t.topic, t.id, d.Was, ErrState)
	}
	return d
}

func deathOf(v Verb, s State) string {
	switch {
	case s != Dead:
		return ""
	case v == BuryLeased:
		return "buried"
	}
	return "attempts"
}

// End ends leases, or changes jobs that are named by their ids; each has its own outcome. When the call is repeated
// after an error, endings that the first call carried out return ErrLease.
func (q *Queue) End(ctx context.Context, list []Ending) []Ended {
	list = slices.Clone(list)
	done := make([]Ended, len(list))
	type place struct {
		s      *Shard
		bucket int
	}
	by := map[place][]int{}
	for i := range list {
		list[i].via = viaOf(ctx)
		done[i].Ref, done[i].Verb = list[i].Ref, list[i].Verb
		if list[i].Lease == "" {
			done[i] = q.endByID(ctx, list[i])
			continue
		}
		t, err := parseTicket(list[i].Lease)
		s := q.shardNamed(t.shard)
		if err == nil && s == nil {
			err = fmt.Errorf("%s/%s: its shard is no longer in use: %w", t.topic, t.id, ErrLease)
		}
		if err != nil {
			done[i].Err = err
			continue
		}
		p := place{s, s.bucketOf(t.topic)}
		by[p] = append(by[p], i)
	}
	for p, which := range by {
		for chunk := range slices.Chunk(which, EndLimit) {
			some := make([]Ending, len(chunk))
			for k, i := range chunk {
				some[k] = list[i]
			}
			for k, d := range p.s.end(ctx, p.bucket, some) {
				done[chunk[k]] = d
			}
		}
	}
	return done
}

// shardNamed returns the shard that has a name, or else one that had it: a lease has the name at its time.
func (q *Queue) shardNamed(name string) (former *Shard) {
	for _, s := range *q.shards.Load() {
		if s.name == name {
			return s
		}
		if slices.Contains(strings.Fields(s.former), name) {
			former = s
		}
	}
	return former
}

// endByID looks for the job in all shards that may have it.
func (q *Queue) endByID(ctx context.Context, e Ending) (d Ended) {
	err := q.search(e.Topic, e.ID, func(s *Shard) (bool, error) {
		d = s.end(ctx, s.bucketOf(e.Topic), []Ending{e})[0]
		return !errors.Is(d.Err, ErrNotFound), unavailableOnly(d.Err)
	})
	if err != nil {
		d = Ended{Err: err, Ref: e.Ref, Verb: e.Verb}
	}
	return d
}

func unavailableOnly(err error) error {
	if _, ok := errors.AsType[*UnavailableError](err); ok {
		return err
	}
	return nil
}
