package queue

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
)

// Bits of a job's mode in a call of the push script. The two lowest bits are its OnDuplicate.
const (
	modeInstant = 1 << 2 // the time is an instant, not a delay
	modeTTL     = 1 << 3 // the record has a time to live in place of the instant at which the job expires
	modeAgain   = 1 << 4 // a finished job of the id does not count
)

// appendPushes appends the arguments of push.lua for pushes of a bucket.
func appendPushes(args []any, pushes []Push, small smallHashes) []any {
	args = append(slices.Grow(args, len(pushes)+8), small.splits, 0)
	runs := len(args) - 1
	for from, i := 0, 1; i <= len(pushes); i++ {
		if i == len(pushes) || pushes[i].Topic != pushes[from].Topic {
			args = append(args, pushes[from].Topic, i-from)
			from = i
		}
	}
	args[runs] = (len(args) - runs) / 2
	b := make([]byte, 0, roomFor(pushes)) // all jobs, one after the other
	for i := range pushes {
		args, b = appendPush(args, b, small, &pushes[i])
	}
	return args
}

// roomFor estimates how many bytes the pushes take as arguments.
func roomFor(pushes []Push) (n int) {
	for i := range pushes {
		n += 96 + len(pushes[i].ID) + min(len(pushes[i].Body), longBody)
	}
	return n
}

// appendPush appends a job to b, and the appended part of b to args.
func appendPush(args []any, b []byte, small smallHashes, p *Push) ([]any, []byte) {
	start := len(b)
	mode := byte(p.OnDuplicate)
	at, instant := askedTime(p)
	if instant {
		mode |= modeInstant
	}
	b = append(appendUint48(append(b, 0), at), 0)
	if p.TTL > 0 {
		mode |= modeTTL
	}
	if p.Again {
		mode |= modeAgain
	}
	l := locate(p.Topic, p.ID, small.locators)
	key := len(b)
	b = small.appendKey(b, l)
	b[key-1] = byte(len(b) - key)
	b = append(b, l[:]...)
	b[start] = mode
	b, long := appendTail(b, p)
	args = append(args, b[start:len(b):len(b)])
	if long != nil {
		args = append(args, long)
	}
	return args, b
}

// askedTime returns the due time that a push asks for, in ms: an instant or a delay.
func askedTime(p *Push) (ms int64, instant bool) {
	if !p.DueAt.IsZero() {
		return max(ceilMilli(p.DueAt), 0), true
	}
	return max(ceilDelay(p.Delay), 0), false
}

// dueAt returns the due time of a push that was stored at now, as the script computes it.
func dueAt(p *Push, now time.Time) time.Time {
	ms, instant := askedTime(p)
	if instant {
		return time.UnixMilli(ms).UTC()
	}
	return now.Add(time.Duration(ms) * time.Millisecond)
}

// storeAll calls the push script. In a repeated call, a push that finds its own job by the id is no duplicate. unsafe
// says why no replica has confirmed what was stored, when the durability requires one.
func (s *Shard) storeAll(
	bucket int, d Durability, pushes []Push, timeout time.Duration,
) (results []Result, unsafe error) {
	args := appendPushes(nil, pushes, s.smallHashes(bucket))
	ctx, cancel := s.ctx, func() {}
	if d == Memory {
		ctx, cancel = context.WithTimeout(s.ctx, timeout)
	}
	defer cancel()
	o, err := s.do(ctx, bucket, d, "push", args...)
	if err != nil {
		return failAll(len(pushes), err), nil
	}
	results, err = s.pushed(bucket, pushes, o)
	if err != nil {
		return failAll(len(pushes), fmt.Errorf("push to shard %s: %w", s.name, err)), nil
	}
	return results, o.unsafe
}

// pushedHead is the length of the head of push.lua's answer: time, splits, revision.
const pushedHead = 3

// pushed decodes the answer of the push script.
func (s *Shard) pushed(bucket int, pushes []Push, o outcome) ([]Result, error) {
	reply, ok := o.value.([]any)
	if !ok || len(reply) < pushedHead || len(reply)%2 != pushedHead%2 {
		return nil, errReply
	}
	at, timed := reply[0].(int64)
	revision, revised := reply[2].(int64)
	if !timed || !revised || !s.nodes[bucket].learn(reply[1]) {
		return nil, errReply
	}
	now := time.UnixMilli(at).UTC()
	results := make([]Result, len(pushes))
	for i := range pushes {
		results[i].Job = s.fresh(&pushes[i], dueAt(&pushes[i], now), now)
		results[i].Job.Revision = revision + int64(i)
	}
	for k := pushedHead; k < len(reply); k += 2 {
		n, ok := reply[k].(int64)
		if !ok || n < 1 || int(n) > len(pushes) {
			return nil, errReply
		}
		results[n-1] = s.duplicate(&pushes[n-1], results[n-1].Job, reply[k+1], o.repeated)
	}
	return results, nil
}

// Answers of push.lua for a push whose id exists.
const (
	answerReplaced  = "replaced"
	answerCollision = "collision" // another id has the same locator
	answerKept      = "kept"
	answerRefused   = "refused"
)

// duplicate returns the result of a push whose id existed. stored is the job of the push if that was stored.
func (s *Shard) duplicate(p *Push, stored Job, answer any, again bool) Result {
	switch answer {
	case answerCollision:
		return Result{Err: fmt.Errorf("push %s/%s: %w", p.Topic, p.ID, ErrCollision)}
	case answerReplaced:
		return Result{Job: stored, Duplicate: !again}
	}
	v, ok := answer.([]any)
	if !ok || len(v) != 3 || v[0] != answerKept && v[0] != answerRefused {
		return Result{Err: fmt.Errorf("push %s/%s: %w", p.Topic, p.ID, errReply)}
	}
	job, err := s.described(p.Topic, v[1])
	if err != nil {
		return Result{Err: err}
	}
	job.Revision = stored.Revision
	if called, _ := v[2].(int64); called > 0 { // or a line of this push would outlive the job's delivery
		job.Revision = called
	}
	if again && isOwn(p, job) {
		return Result{Job: *job}
	}
	return duplicateOf(p, job)
}

// isOwn reports whether the job that a repeated push found is the one that its first, unanswered call stored.
func isOwn(p *Push, j *Job) bool {
	return j.DueAt.Equal(dueAt(p, j.CreatedAt)) && j.Attempts == 0 && j.Priority == p.Priority &&
		bytes.Equal(j.Body, p.Body)
}

// fresh returns a job as its push stored it.
func (s *Shard) fresh(p *Push, due, now time.Time) Job {
	j := Job{
		Topic: p.Topic, ID: p.ID, Shard: s.name, State: Ready, Priority: p.Priority, TTR: p.TTR,
		MaxAttempts: p.MaxAttempts, CreatedAt: now, DueAt: due, ExpiresAt: p.ExpiresAt, Headers: p.Headers,
		Retry: p.Retry,
	}
	if p.TTL > 0 {
		j.ExpiresAt = now.Add(p.TTL.Truncate(time.Millisecond))
	}
	if due.After(now) {
		j.State, j.NextAt = Delayed, due
	}
	return j
}

// duplicateOf returns the result of a push that does not replace the existing job of its id.
func duplicateOf(p *Push, job *Job) Result {
	if p.OnDuplicate == Refuse {
		return Result{Job: *job, Err: fmt.Errorf("push %s/%s: %w", p.Topic, p.ID, ErrDuplicate)}
	}
	return Result{Job: *job, Duplicate: true}
}
