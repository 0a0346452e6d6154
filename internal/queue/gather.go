package queue

import (
	"context"
	"errors"
	"sync"
)

// gatherer batches requests of many goroutines to a bucket into shared calls of a script. With no call under way a
// request is sent at once; while atOnce calls are under way, others wait and go together in the next. Each call under
// way has a slot.
type gatherer[C gathered] struct {
	shard  *Shard
	atOnce int                       // most calls under way
	most   int                       // most jobs in one call
	call   func(slot int, batch []C) // answers each

	mu      sync.Mutex
	waiting []C
	jobs    int // in waiting
	free    []int
}

// gathered is the request of one goroutine.
type gathered interface {
	jobs() int  // roughly how many jobs it concerns
	bytes() int // size of its long arguments
	refuse(err error)
}

const (
	maxFlying  = 2       // calls under way at once: one is encoded while Redis executes the other
	secondAt   = 128     // waiting jobs for which a second call pays off: larger calls cost less for each job
	maxBytes   = 1 << 20 // in one call
	maxWaiting = 20000   // jobs; more are refused
)

var (
	errOverloaded = errors.New("too many calls are waiting")
	errClosed     = errors.New("the shard is closed")
)

func newGatherer[C gathered](s *Shard, atOnce, most int, call func(slot int, batch []C)) *gatherer[C] {
	g := &gatherer[C]{shard: s, atOnce: atOnce, most: most, call: call}
	for slot := range atOnce {
		g.free = append(g.free, slot)
	}
	return g
}

// add queues c, which will be answered or refused.
func (g *gatherer[C]) add(c C) {
	g.mu.Lock()
	if g.jobs > maxWaiting {
		g.mu.Unlock()
		c.refuse(g.shard.unavailable("overloaded", errOverloaded))
		return
	}
	g.waiting = append(g.waiting, c)
	g.jobs += c.jobs()
	var batch []C
	slot := 0
	if n := len(g.free); n == g.atOnce || n > 0 && g.jobs >= secondAt {
		slot, g.free = g.free[n-1], g.free[:n-1]
		batch = g.next()
	}
	g.mu.Unlock()
	if batch != nil && !g.shard.start(func() { g.fly(slot, batch, g.call) }) {
		g.fly(slot, batch, g.refuse)
	}
}

// refuse refuses a batch that came after the shard was closed.
func (g *gatherer[C]) refuse(_ int, batch []C) {
	for _, c := range batch {
		c.refuse(g.shard.unavailable("down", errClosed))
	}
}

// next removes and returns the batch of the next call. g.mu is held.
func (g *gatherer[C]) next() []C {
	n, jobs, bytes := 0, 0, 0
	for _, c := range g.waiting {
		more, long := jobs+c.jobs(), bytes+c.bytes()
		if n > 0 && (more > g.most || long > maxBytes) {
			break
		}
		n, jobs, bytes = n+1, more, long
	}
	batch := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
		g.waiting = nil
	}
	g.jobs -= jobs
	return batch
}

// fly calls the script for this batch and the next ones until nothing waits.
func (g *gatherer[C]) fly(slot int, batch []C, call func(slot int, batch []C)) {
	for len(batch) > 0 {
		call(slot, batch)
		g.mu.Lock()
		if batch = g.next(); len(batch) == 0 {
			g.free = append(g.free, slot)
		}
		g.mu.Unlock()
	}
}

// answered holds the answer that a caller of a gatherer waits for. When the caller has left meanwhile, whoever produced
// the answer must undo what it stands for.
type answered[R any] struct {
	mu     sync.Mutex
	left   bool
	result R
	err    error
	done   chan struct{}
}

func newAnswered[R any]() answered[R] { return answered[R]{done: make(chan struct{})} }

// answer hands over the result, and reports whether the caller still waits for it.
func (a *answered[R]) answer(r R, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result, a.err = r, err
	close(a.done)
	return !a.left
}

func (a *answered[R]) refuse(err error) {
	var none R
	a.answer(none, err)
}

func (a *answered[R]) bytes() int { return 0 }

// await waits for the answer. When ctx ends first, the answer has no taker.
func (a *answered[R]) await(ctx context.Context) (r R, err error) {
	select {
	case <-a.done:
		return a.result, a.err
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.done:
		return a.result, a.err
	default:
	}
	a.left = true
	return r, ctx.Err()
}
