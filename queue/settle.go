package queue

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Verdict is what becomes of a reserved job.
type Verdict uint8

// The verdicts.
const (
	Done    Verdict = iota // delivered: the job is gone
	Retry                  // a counted attempt failed: ready again after Delay
	Snooze                 // "ask again": ready again after Delay, no attempt counted
	Bury                   // a counted attempt failed for good: dead with Reason
	Release                // not called: back to the head of its queue, nothing counted (shutdown, paused meanwhile)
	Expire                 // not called: dead with Reason, nothing counted
)

// verdictLetters are the verdicts in settle.lua. doneWithKeys is Done of a job that has attempts or a body key to
// remove.
var verdictLetters = [...]string{Done: "D", Retry: "R", Snooze: "S", Bury: "B", Release: "L", Expire: "E"}

const doneWithKeys = "K"

// Endpoint is what an attempt showed about the topic's endpoint. It drives the topic's window of calls in flight and
// its breaker.
type Endpoint uint8

// What an attempt showed about the endpoint.
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
	Remember bool // of Done: the job can be found for as long as its topic says
}

// Settle ends leases, up to ReserveLimit at once. It says for each whether it was still held; where not, nothing was
// done. The same call may be repeated after an error: what was done the first time then shows as not held.
func (s *Shard) Settle(ctx context.Context, bucket int, st []Settlement) ([]bool, error) {
	if len(st) == 0 {
		return nil, nil
	}
	small := s.smallHashes(bucket)
	args := append(make([]any, 0, 1+10*len(st)), small.splits)
	for i := range st {
		var err error
		if args, err = st[i].appendTo(args, small); err != nil {
			return nil, err
		}
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

// appendTo appends a settlement as settle.lua reads it.
func (x *Settlement) appendTo(args []any, small smallHashes) ([]any, error) {
	l := x.Lease
	letter := verdictLetters[x.Verdict]
	if x.Verdict == Done && l.hasKeys {
		letter = doneWithKeys
	}
	page, index := l.ref>>(indexBits+2), l.ref>>2&(1<<indexBits-1)
	args = append(args, l.ref, l.Token, page, index, l.Topic, letter, endpointNames[x.Endpoint])
	switch x.Verdict {
	case Done:
		where := locate(l.Topic, l.ID, small.locators)
		return append(args, small.appendKey(nil, where), where[:], x.finished()), nil
	case Release:
		return append(args, "", "", ""), nil
	}
	attempts, err := settledAttempts(x)
	if err != nil {
		return nil, err
	}
	return append(args, max(0, ceilDelay(x.Delay)), attempts, ""), nil
}

// ceilDelay is in ms, and never early.
func ceilDelay(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
