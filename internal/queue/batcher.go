package queue

import (
	"context"
	"fmt"
	"time"
)

// batcher gathers the pushes of many goroutines into shared calls of the push script.
type batcher struct {
	shard      *Shard
	bucket     int
	durability Durability
	timeout    time.Duration
	accepted   func([]Push, []Result) error
	calls      *gatherer[*pushCall]
}

// pushCall holds pushes of one goroutine, at most as many as one call of the script takes.
type pushCall struct {
	pushes []Push
	size   int       // total size of the bodies
	many   bool      // a part of more than smallJobs pushes
	since  time.Time // when it was added to the batcher
	answered[[]Result]
}

func (c *pushCall) jobs() int  { return len(c.pushes) }
func (c *pushCall) bytes() int { return c.size }

// large also holds for the last part of a request, however small: otherwise it would overtake the parts before, and two
// pushes of one id would change places.
func (c *pushCall) large() bool { return c.many }

const (
	smallJobs        = 16  // pushes of one goroutine that do not count as a large request
	maxJobs          = 512 // in one call: about 3 ms of Redis
	maxReplicaFlying = 16  // concurrent calls of pushes that wait for a replica, which takes long
	maxReplicaJobs   = 128 // in one of these: the fewer, the sooner pushes are refused when a replica has stopped
)

func newBatcher(s *Shard, bucket int, d Durability, o Options) *batcher {
	b := &batcher{shard: s, bucket: bucket, durability: d, timeout: o.Timeout, accepted: o.Accepted}
	atOnce, most, call := maxFlying, maxJobs, b.store
	if d != Memory {
		atOnce, most, call = maxReplicaFlying, maxReplicaJobs, b.storeSoon
	}
	b.calls = newGatherer(s, atOnce, most, call)
	return b
}

// push stores pushes of a bucket's topics, which share calls with those of other goroutines.
func (s *Shard) push(ctx context.Context, bucket int, d Durability, pushes []Push) []Result {
	return s.nodes[bucket].pushes[d].push(ctx, pushes)
}

// push stores pushes of the bucket's topics and waits for all results.
func (b *batcher) push(ctx context.Context, pushes []Push) []Result {
	many := len(pushes) > smallJobs
	first, rest := b.add(pushes, many)
	if len(rest) == 0 {
		return b.await(ctx, first)
	}
	calls := []*pushCall{first}
	for len(rest) > 0 {
		first, rest = b.add(rest, many)
		calls = append(calls, first)
	}
	results := make([]Result, 0, len(pushes))
	for _, c := range calls {
		results = append(results, b.await(ctx, c)...)
	}
	return results
}

// add queues as many of the pushes as fit in one call, and returns the others.
func (b *batcher) add(pushes []Push, many bool) (c *pushCall, rest []Push) {
	n, size := 0, 0
	for ; n < min(len(pushes), largeJobs, b.calls.most); n++ {
		body := len(pushes[n].Body)
		if n > 0 && size+body > maxBytes {
			break
		}
		size += body
	}
	c = &pushCall{pushes: pushes[:n], size: size, many: many, answered: newAnswered[[]Result]()}
	if b.durability != Memory {
		c.since = time.Now()
	}
	b.calls.add(c)
	return c, pushes[n:]
}

func (b *batcher) await(ctx context.Context, c *pushCall) []Result {
	results, err := c.answered.await(ctx)
	if err != nil { // when ctx has ended the pushes may still be stored
		return failAll(len(c.pushes), fmt.Errorf("push to shard %s: %w", b.shard.name, err))
	}
	return results
}

func failAll(n int, err error) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

// store calls the script.
func (b *batcher) store(_ int, batch []*pushCall) {
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
	if unsafe != nil { // after Accepted, since the journal has them: pushed again they are duplicates
		b.markUnsafe(results, unsafe)
	}
	for _, c := range batch {
		c.answer(results[:len(c.pushes):len(c.pushes)], nil)
		results = results[len(c.pushes):]
	}
}

// storeSoon is store, but refuses calls that have waited so long that their answers would come too late. While a
// replica does not answer, pushes would otherwise queue up for minutes.
func (b *batcher) storeSoon(slot int, batch []*pushCall) {
	soon := batch[:0:0]
	for _, c := range batch {
		if time.Since(c.since) <= b.timeout {
			soon = append(soon, c)
			continue
		}
		c.refuse(b.shard.unavailable(
			"overloaded", fmt.Errorf("too many pushes are waiting for durability %s", b.durability)))
	}
	if len(soon) > 0 {
		b.store(slot, soon)
	}
}

// refuse turns the results of stored pushes into errors: a push that the journal could not record is not acknowledged.
func (b *batcher) refuse(results []Result, err error) {
	err = b.shard.unavailable("journal", err)
	for i := range results {
		if results[i].Err == nil {
			results[i] = Result{Err: err}
		}
	}
}

// markUnsafe turns the results of stored jobs and of duplicates into errors that say that no replica has confirmed
// them.
func (b *batcher) markUnsafe(results []Result, why error) {
	for i := range results {
		if job := results[i].Job; results[i].Err == nil {
			results[i] = Result{Job: job, Err: b.shard.notReplicated("push", job.Topic, job.ID, why)}
		}
	}
}
