package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Verdict says what happens to a job, as settle.lua reads it.
type Verdict string

// The verdicts on a reserved job.
const (
	Done    Verdict = "done"    // delivered: the job is removed
	Retry   Verdict = "retry"   // a counted attempt failed: ready again after Delay
	Snooze  Verdict = "snooze"  // "ask again later": ready again after Delay, no attempt counted
	Bury    Verdict = "bury"    // a counted attempt failed for good: dead with Reason
	Release Verdict = "release" // not called (shutdown, paused meanwhile): back to its old place, nothing counted
	Expire  Verdict = "expire"  // not called: dead with Reason, nothing counted
	extend  Verdict = "extend"  // the lease ends Delay from now
	fail    Verdict = "fail"    // of workers: Retry, or Bury after the last attempt
	lapse   Verdict = "lapse"   // fail, if the lease has expired
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

// Settlement ends a lease.
type Settlement struct {
	Lease    *Lease
	Verdict  Verdict
	Delay    time.Duration // of Retry and Snooze; of Release: not back to its old place
	Reason   string        // of Bury and Expire
	Attempt  *Attempt      // nil for Release and Expire; N is set by Settle
	Endpoint Endpoint
	Remember bool // of Done: remember the finished job as its topic says
}

// settling is one job of a call of settle.lua, which describes the fields.
type settling struct {
	Ref
	verdict                            Verdict
	endpoint                           Endpoint
	token, states, ms, reason, attempt string
	order                              string // new priority and order, or ""
}

// settled is what settle.lua answers about one job.
type settled struct {
	became, was string // "" nothing was done, there was no such job
	at, created time.Time
	attempts    int
	revision    int64
	description any
}

const (
	settledHead   = 2
	settledFields = 6
)

// settle calls a variant of settle.lua for jobs of one bucket. It returns the answers in the order of the list.
func (s *Shard) settle(ctx context.Context, bucket int, script *Script, list []settling) (
	answers []settled, now time.Time, doubtful bool, err error,
) {
	order := make([]int, len(list)) // by topic
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[a].Topic, list[b].Topic) })
	args := make([]any, 0, 9*len(list)+8)
	for from, i := 0, 1; i <= len(order); i++ {
		if i < len(order) && list[order[i]].Topic == list[order[from]].Topic {
			continue
		}
		args = append(args, list[order[from]].Topic, i-from)
		for _, k := range order[from:i] {
			x := &list[k]
			args = append(args, x.ID, x.token, x.states, string(x.verdict), x.ms, x.reason, x.attempt,
				string(x.endpoint), x.order)
		}
		from = i
	}
	o, err := s.Call(ctx, bucket, script, args...)
	if err != nil {
		return nil, now, o.Doubtful, err
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != settledHead+settledFields*len(list) {
		return nil, now, o.Doubtful, fmt.Errorf("settle on %s: %w", s.name, errReply)
	}
	answers = make([]settled, len(list))
	for k, i := range order {
		answers[i] = settledOf(reply[settledHead+k*settledFields:])
		if answers[i].became != "" {
			answers[i].revision = integer(reply[1]) + int64(k)
		}
	}
	return answers, micros(reply[0]), o.Doubtful, nil
}

func settledOf(v []any) settled {
	return settled{
		became: text(v[0]), was: text(v[1]), at: millis(v[2]), created: millisOf(text(v[3])),
		attempts: int(number(text(v[4]))), description: v[5],
	}
}

// Settle ends leases, up to ReserveLimit at once. It reports for each whether it was still held; if not, nothing was
// done. The same call may be repeated after an error: leases that the first call ended are then reported as not held.
func (s *Shard) Settle(ctx context.Context, bucket int, st []Settlement) ([]bool, error) {
	if len(st) == 0 {
		return nil, nil
	}
	list := make([]settling, len(st))
	for i := range st {
		list[i] = st[i].settling()
	}
	answers, _, _, err := s.settle(ctx, bucket, settleScript, list)
	if err != nil {
		return nil, err
	}
	held := make([]bool, len(st))
	for i, a := range answers {
		held[i] = a.became != ""
		if a.became == string(Dead) {
			st[i].Lease.Revision = a.revision
		}
	}
	return held, nil
}

func (x *Settlement) settling() settling {
	j := &x.Lease.Job
	out := settling{
		Ref: Ref{j.Topic, j.ID}, token: x.Lease.Token, verdict: x.Verdict, reason: escape(x.Reason),
		endpoint: x.Endpoint,
	}
	if x.Verdict == Retry || x.Verdict == Snooze || x.Delay > 0 {
		out.ms = msText(x.Delay)
	}
	if x.Attempt != nil && (x.Verdict != Done || x.Remember) {
		a := *x.Attempt
		a.N = j.Attempts + 1
		if x.Verdict == Done {
			a.Answer = rememberedAnswer(a.Answer)
		}
		out.attempt = encodeAttempt(&a)
	}
	return out
}

func msText(d time.Duration) string { return strconv.FormatInt(max(0, ceilDelay(d)), 10) }

// ceilDelay returns a delay in ms, rounded up so that no job is early.
func ceilDelay(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
