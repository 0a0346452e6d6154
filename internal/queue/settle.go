package queue

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Verdict says what happens to a reserved job.
type Verdict uint8

// The verdicts.
const (
	Done    Verdict = iota // delivered: the job is removed
	Retry                  // a counted attempt failed: ready again after Delay
	Snooze                 // "ask again later": ready again after Delay, no attempt counted
	Bury                   // a counted attempt failed for good: dead with Reason
	Release                // not called (shutdown, paused meanwhile): back to the head of its queue, nothing counted
	Expire                 // not called: dead with Reason, nothing counted
)

// verdictLetters are the verdicts in settle.lua. doneWithKeys is Done for a job that has attempts or a body key to
// remove.
var verdictLetters = [...]string{Done: "D", Retry: "R", Snooze: "S", Bury: "B", Release: "L", Expire: "E"}

const doneWithKeys = "K"

// Endpoint is what an attempt revealed about the topic's endpoint. It controls the topic's window of calls in flight
// and its breaker.
type Endpoint uint8

// The values of Endpoint.
const (
	EndpointUnknown Endpoint = iota // not called
	EndpointUp                      // it answered
	EndpointDown                    // no connection, timeout, 5xx, 429
)

var endpointNames = [...]string{EndpointUnknown: "", EndpointUp: "up", EndpointDown: "down"}

// Settlement ends a lease.
type Settlement struct {
	Lease    *Lease
	Verdict  Verdict
	Delay    time.Duration // of Retry and Snooze
	Reason   string        // of Bury and Expire
	Attempt  *Attempt      // nil for Release and Expire; N is set by Settle
	Endpoint Endpoint
	Remember bool // of Done: remember the finished job as its topic says
}

// Settle ends leases, up to ReserveLimit at once. It reports for each whether it was still held; if not, nothing was
// done. The same call may be repeated after an error: leases that the first call ended are then reported as not held.
func (s *Shard) Settle(ctx context.Context, bucket int, st []Settlement) ([]bool, error) {
	if len(st) == 0 {
		return nil, nil
	}
	args, err := settleArgs(st, s.smallHashes(bucket))
	if err != nil {
		return nil, err
	}
	v, err := s.run(ctx, bucket, "settle", args...)
	if err != nil {
		return nil, err
	}
	reply, _ := v.([]any)
	if len(reply) != 3 || !s.nodes[bucket].learn(reply[1]) {
		return nil, fmt.Errorf("settle on %s: %w", s.name, errReply)
	}
	held := slices.Repeat([]bool{true}, len(st))
	lost, _ := reply[0].([]any)
	for _, v := range lost {
		n, _ := v.(int64)
		if n < 1 || int(n) > len(st) {
			return nil, fmt.Errorf("settle on %s: %w", s.name, errReply)
		}
		held[n-1] = false
	}
	revision, _ := reply[2].(int64)
	for i := range st {
		if held[i] && (st[i].Verdict == Bury || st[i].Verdict == Expire) {
			st[i].Lease.Revision = revision
			revision++
		}
	}
	return held, nil
}

// kind holds what many settlements of a call have in common.
type kind struct{ token, topic, verdict, endpoint string }

func (x *Settlement) kind() kind {
	letter := verdictLetters[x.Verdict]
	if x.Verdict == Done && x.Lease.hasKeys {
		letter = doneWithKeys
	}
	return kind{x.Lease.Token, x.Lease.Topic, letter, endpointNames[x.Endpoint]}
}

// settleArgs makes the arguments of settle.lua.
func settleArgs(st []Settlement, small smallHashes) (args []any, err error) {
	args = append(make([]any, 0, 16+7*len(st)), small.splits, len(st), 0)
	at := map[kind]int{} // index of each in ARGV, which counts from 1
	for i := range st {
		k := st[i].kind()
		if at[k] == 0 {
			at[k] = len(args) + 1
			args = append(args, k.token, k.topic, k.verdict, k.endpoint)
		}
	}
	args[2] = len(at)
	for i := range st {
		ref := st[i].Lease.ref
		args = append(args, at[st[i].kind()], ref, ref>>(indexBits+2), ref>>2&(1<<indexBits-1))
		if args, err = st[i].appendOutcome(args, small); err != nil {
			return nil, err
		}
	}
	return args, nil
}

func (x *Settlement) appendOutcome(args []any, small smallHashes) ([]any, error) {
	switch x.Verdict {
	case Done:
		where := locate(x.Lease.Topic, x.Lease.ID, small.locators)
		return append(args, small.appendKey(nil, where), where[3:], x.finished()), nil
	case Release:
		return append(args, "", "", ""), nil
	}
	attempts, err := settledAttempts(x)
	if err != nil {
		return nil, err
	}
	return append(args, max(0, ceilDelay(x.Delay)), attempts, ""), nil
}

// ceilDelay returns a delay in ms, rounded up so that no job is early.
func ceilDelay(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
