package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// batcher gathers the pushes of many goroutines into shared calls of the push script. While two calls are under way,
// pushes wait and go together in the next call. With no call under way a push goes at once.
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

// pushCall is what one goroutine hands in, at most as many pushes as one call of the script takes.
type pushCall struct {
	pushes  []Push
	results []Result
	bytes   int
	since   time.Time // when it was handed in, of pushes that wait for a replica
	done    chan struct{}
}

const (
	maxFlying        = 2   // calls under way at once: one is encoded while Redis works on the other
	secondAt         = 128 // jobs that have to wait before a second call pays off: larger calls cost less a job
	maxJobs          = 512 // of one call: about 3 ms of Redis, and no more than fit a page
	maxReplicaFlying = 16  // calls under way at once of pushes that wait for a replica, which takes long
	maxReplicaJobs   = 128 // of one of these: the fewer, the sooner pushes behind a stopped replica are refused
	maxBytes         = 1 << 20
	maxWaiting       = 20000 // jobs; more are refused
)

func (b *batcher) init(s *Shard, bucket int, d Durability, o Options) {
	b.shard, b.bucket, b.durability, b.timeout, b.accepted = s, bucket, d, o.Timeout, o.Accepted
	if b.atOnce, b.most = maxFlying, maxJobs; d == Replica {
		b.atOnce, b.most = maxReplicaFlying, maxReplicaJobs
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
	// The pushes may still be stored, and c.results written.
	return failAll(len(c.pushes), fmt.Errorf("push to shard %s: %w", b.shard.name, ctx.Err()))
}

func failAll(n int, err error) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

// enqueue adds a call to those that wait, and starts a batch when none is under way.
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

var errClosed = errors.New("the shard is closed")

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

// fly calls the script until no pushes wait.
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

// refuse turns the results of stored pushes into errors: a push that the journal could not take is not acknowledged.
func (b *batcher) refuse(results []Result, err error) {
	err = b.shard.unavailable("journal", err)
	for i := range results {
		if results[i].Err == nil {
			results[i] = Result{Err: err}
		}
	}
}

// dropLate refuses the calls of a batch that waited so long for their turn that their answers would come too late:
// behind a replica that does not answer, pushes would queue up for minutes.
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
