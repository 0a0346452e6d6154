package batch

import (
	"errors"
	"sync"
	"time"
)

// Options say how a Batcher makes its calls.
type Options struct {
	Calls     int           // most calls under way at once
	Jobs      int           // most jobs in one call
	LargeJobs int           // the same for parts of large requests
	Bytes     int           // most bytes in one call
	Topics    int           // most topics in one call
	SecondAt  int           // waiting jobs for which a second call is worth it: large calls cost less for each job
	Waiting   int           // a request is refused while more jobs wait in its queue
	Wait      time.Duration // a request that has waited longer is refused; 0: none is
	// Start runs a function in a goroutine, and returns false if the owner is closed.
	Start func(func()) bool
	// Refused returns the error of a request that is refused, for ErrOverloaded or ErrClosed.
	Refused func(error) error
}

// Why a request is refused.
var (
	ErrOverloaded = errors.New("too many calls are waiting")
	ErrClosed     = errors.New("closed")
)

// Batcher makes the calls for the requests of many goroutines.
type Batcher[Q, A any] struct {
	opts Options
	call func(slot int, batch []*Request[Q, A]) // answers each

	mu    sync.Mutex
	small queue[Q, A]
	large queue[Q, A]     // of parts of large requests
	seen  map[string]bool // topics of the next call
	free  []int           // slots
}

// queue holds requests in their order. A call has requests of one queue only.
type queue[Q, A any] struct {
	waiting  []*Request[Q, A]
	jobs     int // in waiting
	inFlight int // calls under way
}

// New returns a Batcher. call answers each request of a batch.
func New[Q, A any](o Options, call func(slot int, batch []*Request[Q, A])) *Batcher[Q, A] {
	b := &Batcher[Q, A]{opts: o, call: call, seen: map[string]bool{}}
	for slot := range o.Calls {
		b.free = append(b.free, slot)
	}
	return b
}

// Add queues a request, which will be answered or refused.
func (b *Batcher[Q, A]) Add(value Q, size Size) *Request[Q, A] {
	r := &Request[Q, A]{Value: value, size: size}
	if b.opts.Wait > 0 {
		r.since = time.Now()
	}
	b.mu.Lock()
	q := &b.small
	if size.Large {
		q = &b.large
	}
	if q.jobs > b.opts.Waiting {
		b.mu.Unlock()
		r.Refuse(b.opts.Refused(ErrOverloaded))
		return r
	}
	q.waiting = append(q.waiting, r)
	q.jobs += size.Jobs
	var batch []*Request[Q, A]
	slot := 0
	if n := len(b.free); n > 0 && b.worthACall(q) {
		slot, b.free = b.free[n-1], b.free[:n-1]
		batch = b.next(q)
	}
	b.mu.Unlock()
	if batch != nil && !b.opts.Start(func() { b.send(slot, q, batch, b.callInTime) }) {
		b.send(slot, q, batch, b.refuse)
	}
	return r
}

// worthACall reports whether the requests of a queue should be sent in a call of their own now. b.mu is held.
func (b *Batcher[Q, A]) worthACall(q *queue[Q, A]) bool {
	return q == &b.large || q.inFlight == 0 || q.jobs >= b.opts.SecondAt
}

// next removes and returns the requests of the next call of a queue. b.mu is held.
func (b *Batcher[Q, A]) next(q *queue[Q, A]) []*Request[Q, A] {
	most := b.opts.Jobs
	if q == &b.large {
		most = min(most, b.opts.LargeJobs)
	}
	n, jobs, bytes, topics := 0, 0, 0, 0.0
	clear(b.seen)
	for _, r := range q.waiting {
		j, k, t := jobs+r.size.Jobs, bytes+r.size.Bytes, topics+r.size.topics(b.seen)
		if n > 0 && (j > most || k > b.opts.Bytes || t > float64(b.opts.Topics)) {
			break
		}
		n, jobs, bytes, topics = n+1, j, k, t
	}
	batch := q.waiting[:n:n]
	if q.waiting = q.waiting[n:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	q.jobs -= jobs
	if n > 0 {
		q.inFlight++
	}
	return batch
}

// send makes the call of a batch, and the next calls until nothing waits.
func (b *Batcher[Q, A]) send(
	slot int, q *queue[Q, A], batch []*Request[Q, A], call func(slot int, batch []*Request[Q, A]),
) {
	for len(batch) > 0 {
		call(slot, batch)
		b.mu.Lock()
		q.inFlight--
		q = &b.large
		if len(q.waiting) == 0 || len(b.small.waiting) > 0 && b.small.inFlight == 0 {
			q = &b.small
		}
		if batch = b.next(q); len(batch) == 0 {
			b.free = append(b.free, slot)
		}
		b.mu.Unlock()
	}
}

// callInTime makes the call without the requests that have waited too long.
func (b *Batcher[Q, A]) callInTime(slot int, batch []*Request[Q, A]) {
	inTime := batch[:0]
	for _, r := range batch {
		if b.opts.Wait > 0 && time.Since(r.since) > b.opts.Wait {
			r.Refuse(b.opts.Refused(ErrOverloaded))
			continue
		}
		inTime = append(inTime, r)
	}
	if len(inTime) > 0 {
		b.call(slot, inTime)
	}
}

// refuse answers a batch that was added after the owner was closed.
func (b *Batcher[Q, A]) refuse(_ int, batch []*Request[Q, A]) {
	for _, r := range batch {
		r.Refuse(b.opts.Refused(ErrClosed))
	}
}
