package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A batcher gathers the pushes of many goroutines into shared calls of the push script: what arrives while two calls are
// under way waits and goes together in the next one. With nothing under way a push goes at once.
type batcher struct {
	shard      *Shard
	bucket     int
	durability Durability
	atOnce     int // calls under way at most
	most       int // jobs of one call
	timeout    time.Duration
	accepted   func([]Push, []Result) error

	mu      sync.Mutex
	waiting []*pushCall
	jobs    int // of waiting
	flying  int
}

// pushCall is what one goroutine hands in: at most as many pushes as a call has.
type pushCall struct {
	pushes  []Push
	results []Result
	bytes   int
	since   time.Time // of pushes that wait for more than memory
	done    chan struct{}
}

const (
	maxFlying  = 2   // calls under way at once: one is being made while Redis works on the other
	secondAt   = 32  // jobs that must wait for a second call to pay
	maxJobs    = 512 // of one call: about 3 ms of Redis; the script takes no more than fit a page
	maxSafe    = 16  // calls under way at once of pushes that wait for a replica or a disk, which is long
	safeJobs   = 128 // of one of them: behind a replica that stands still, the fewer the sooner are others refused
	maxBytes   = 1 << 20
	maxWaiting = 20000 // jobs; more are refused
)

func (b *batcher) init(s *Shard, bucket int, d Durability, o Options) {
	b.shard, b.bucket, b.durability, b.timeout, b.accepted = s, bucket, d, o.Timeout, o.Accepted
	if b.atOnce, b.most = maxFlying, maxJobs; d != Memory {
		b.atOnce, b.most = maxSafe, safeJobs
	}
}

// push stores pushes of the bucket's topics and waits until all have their result.
func (b *batcher) push(ctx context.Context, pushes []Push) []Result {
	n := b.firstChunk(pushes)
	first := b.enqueue(pushes[:n])
	if n == len(pushes) {
		return b.await(ctx, first)
	}
	calls := []*pushCall{first}
	for pushes = pushes[n:]; len(pushes) > 0; pushes = pushes[n:] {
		n = b.firstChunk(pushes)
		calls = append(calls, b.enqueue(pushes[:n]))
	}
	var results []Result
	for _, c := range calls {
		results = append(results, b.await(ctx, c)...)
	}
	return results
}

// firstChunk is how many of the pushes go in one call.
func (b *batcher) firstChunk(pushes []Push) int {
	bytes := 0
	for i := range pushes {
		bytes += len(pushes[i].Body)
		if i == b.most || (i > 0 && bytes > maxBytes) {
			return i
		}
	}
	return len(pushes)
}

func (b *batcher) await(ctx context.Context, c *pushCall) []Result {
	select {
	case <-c.done:
		return c.results
	case <-ctx.Done():
	}
	// The pushes may still be stored: their results belong to whoever stores them.
	return failAll(len(c.pushes), fmt.Errorf("push to shard %s: %w", b.shard.name, ctx.Err()))
}

func failAll(n int, err error) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

// enqueue takes a call in, and makes it when nothing else is under way.
func (b *batcher) enqueue(pushes []Push) *pushCall {
	c := &pushCall{pushes: pushes, done: make(chan struct{})}
	for i := range pushes {
		c.bytes += len(pushes[i].Body)
	}
	if b.durability != Memory {
		c.since = time.Now()
	}
	b.mu.Lock()
	if b.jobs > maxWaiting {
		b.mu.Unlock()
		c.results = failAll(len(pushes), b.shard.unavailable("overloaded", errors.New("too many pushes are waiting")))
		close(c.done)
		return c
	}
	b.waiting = append(b.waiting, c)
	b.jobs += len(pushes)
	var batch []*pushCall
	if b.flying == 0 || (b.flying < b.atOnce && b.jobs >= secondAt) {
		b.flying++
		batch = b.take()
	}
	b.mu.Unlock()
	if batch != nil && !b.shard.start(func() { b.fly(batch) }) {
		b.abandon(batch)
	}
	return c
}

// abandon answers a batch that came after the shard was closed.
func (b *batcher) abandon(batch []*pushCall) {
	b.mu.Lock()
	b.flying--
	b.mu.Unlock()
	for _, c := range batch {
		c.results = failAll(len(c.pushes), b.shard.unavailable("down", errClosed))
		close(c.done)
	}
}

var errClosed = errors.New("the shard is not in use any more")

// take removes the calls of the next batch. b.mu is held.
func (b *batcher) take() []*pushCall {
	jobs, bytes, n := 0, 0, 0
	for _, c := range b.waiting {
		jobs += len(c.pushes)
		bytes += c.bytes
		if n > 0 && (jobs > b.most || bytes > maxBytes) {
			jobs -= len(c.pushes)
			break
		}
		n++
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	if len(b.waiting) == 0 {
		b.waiting = nil
	}
	b.jobs -= jobs
	return batch
}

// fly makes calls until none wait.
func (b *batcher) fly(batch []*pushCall) {
	for batch != nil {
		if batch = b.dropLate(batch); len(batch) > 0 {
			b.store(batch)
		}
		b.mu.Lock()
		if len(b.waiting) > 0 {
			batch = b.take()
		} else {
			b.flying--
			batch = nil
		}
		b.mu.Unlock()
	}
}

func (b *batcher) store(batch []*pushCall) {
	pushes := batch[0].pushes
	if len(batch) > 1 {
		n := 0
		for _, c := range batch {
			n += len(c.pushes)
		}
		pushes = make([]Push, 0, n)
		for _, c := range batch {
			pushes = append(pushes, c.pushes...)
		}
	}
	results, unsafe := b.shard.storeAll(b.bucket, b.durability, pushes, b.timeout)
	if b.accepted != nil {
		if err := b.accepted(pushes, results); err != nil {
			b.refuse(results, err)
		}
	}
	if unsafe != nil { // behind the journal, which has them: pushed again they are duplicates
		b.markUnsafe(results, unsafe)
	}
	for _, c := range batch {
		c.results, results = results[:len(c.pushes):len(c.pushes)], results[len(c.pushes):]
		close(c.done)
	}
}

// refuse turns stored pushes into unavailable ones: a push that the journal could not take is not acknowledged.
func (b *batcher) refuse(results []Result, err error) {
	err = b.shard.unavailable("journal", err)
	for i := range results {
		if results[i].Err == nil {
			results[i] = Result{Err: err}
		}
	}
}

// dropLate refuses the calls of a batch that waited so long for their turn that their answers would come too late: behind a replica
// that does not answer, pushes would queue up for minutes.
func (b *batcher) dropLate(batch []*pushCall) (soon []*pushCall) {
	if b.durability == Memory {
		return batch
	}
	for _, c := range batch {
		if time.Since(c.since) <= b.timeout {
			soon = append(soon, c)
			continue
		}
		c.results = failAll(len(c.pushes), b.shard.unavailable("overloaded",
			fmt.Errorf("too many pushes wait for durability %s", b.durability)))
		close(c.done)
	}
	return soon
}

// markUnsafe turns the results of jobs that are stored, and of duplicates, into errors that say so.
func (b *batcher) markUnsafe(results []Result, why error) {
	for i := range results {
		if job := results[i].Job; results[i].Err == nil {
			results[i] = Result{Job: job, Err: b.shard.notReplicated("push", job.Topic, job.ID, why)}
		}
	}
}

// storeAll calls the push script. A push of a repeated call that finds its own job by the id is no duplicate. unsafe says why no
// replica has confirmed what was stored, though the durability asks for that.
func (s *Shard) storeAll(
	bucket int, d Durability, pushes []Push, timeout time.Duration,
) (results []Result, unsafe error) {
	args := appendPushes(nil, pushes, s.smallHashes(bucket))
	ctx, cancel := s.ctx, func() {}
	if d == Memory {
		ctx, cancel = context.WithTimeout(s.ctx, timeout)
	}
	defer cancel()
	o, err := s.do(ctx, bucket, d, s.scripts.push, args...)
	if err != nil {
		return failAll(len(pushes), err), nil
	}
	results, err = s.pushed(bucket, pushes, o)
	if err != nil {
		return failAll(len(pushes), fmt.Errorf("push to shard %s: %w", s.name, err)), nil
	}
	return results, o.unsafe
}

var errReply = errors.New("the script's answer has not the expected form")

// pushedHead is what the answer of the push script begins with: time, splits, revision.
const pushedHead = 3

// pushed reads what the push script answered.
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
	}
	for k := pushedHead; k < len(reply); k += 2 {
		n, ok := reply[k].(int64)
		if !ok || n < 1 || int(n) > len(pushes) {
			return nil, errReply
		}
		results[n-1] = s.duplicate(&pushes[n-1], results[n-1].Job, reply[k+1], o.repeated)
	}
	for i := range results {
		results[i].Job.Revision = revision + int64(i)
	}
	return results, nil
}

// What push.lua answers when the id of a push exists.
const (
	answerReplaced  = "replaced"
	answerCollision = "collision" // another id has the same locator
	answerKept      = "kept"
	answerRefused   = "refused"
)

// duplicate is the result of a push whose id existed. stored is its job if that was stored.
func (s *Shard) duplicate(p *Push, stored Job, answer any, again bool) Result {
	switch answer {
	case answerCollision:
		return Result{Err: fmt.Errorf("push %s/%s: %w", p.Topic, p.ID, ErrCollision)}
	case answerReplaced:
		return Result{Job: stored, Duplicate: !again}
	}
	v, ok := answer.([]any)
	if !ok || len(v) != 2 || v[0] != answerKept && v[0] != answerRefused {
		return Result{Err: fmt.Errorf("push %s/%s: %w", p.Topic, p.ID, errReply)}
	}
	job, err := s.described(p.Topic, v[1])
	switch {
	case err != nil:
		return Result{Err: err}
	case again && isOwn(p, job):
		return Result{Job: *job}
	}
	return duplicateOf(p, job)
}

// isOwn says whether a job found by a repeated push is what its first, unanswered try stored.
func isOwn(p *Push, j *Job) bool {
	return j.DueAt.Equal(dueAt(p, j.CreatedAt)) && j.Attempts == 0 && j.Priority == p.Priority && bytes.Equal(j.Body, p.Body)
}

func (s *Shard) fresh(p *Push, due, now time.Time) Job {
	j := Job{
		Topic: p.Topic, ID: p.ID, Shard: s.name, State: Ready, Priority: p.Priority, TTR: p.TTR, MaxAttempts: p.MaxAttempts,
		CreatedAt: now, DueAt: due,
	}
	if due.After(now) {
		j.State, j.NextAt = Delayed, due
	}
	return j
}

func millis(v any) time.Time {
	n, _ := v.(int64)
	return time.UnixMilli(n).UTC()
}
