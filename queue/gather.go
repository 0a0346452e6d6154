package queue

import (
	"context"
	"errors"
	"sync"
)

// gatherer collects what many goroutines ask a bucket for into shared calls of a script. With no call under way one
// goes at once; while atOnce are, the others wait and go together in the next. Each call under way has a slot.
type gatherer[C gathered] struct {
	shard  *Shard
	atOnce int                       // calls under way at most
	most   int                       // jobs of one call
	call   func(slot int, batch []C) // answers each

	mu      sync.Mutex
	waiting []C
	jobs    int // of waiting
	free    []int
}

// gathered is what one goroutine asks for.
type gathered interface {
	jobs() int  // about how many jobs it is about
	bytes() int // of long arguments
	refuse(err error)
}

const (
	maxFlying  = 2       // calls under way at once: one is encoded while Redis works on the other
	secondAt   = 128     // jobs that have to wait before a second call pays off: larger calls cost less a job
	maxBytes   = 1 << 20 // of one call
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

// add has c answered, or refused.
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

// refuse answers a batch that came after the shard was closed.
func (g *gatherer[C]) refuse(_ int, batch []C) {
	for _, c := range batch {
		c.refuse(g.shard.unavailable("down", errClosed))
	}
}

// next removes the batch of the next call. g.mu is held.
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

// fly has batches answered until nothing waits.
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

// answered is what a caller of a gatherer waits for. A caller that left meanwhile does not get the answer: whoever has
// it then must put it right.
type answered[R any] struct {
	mu     sync.Mutex
	left   bool
	result R
	err    error
	done   chan struct{}
}

func newAnswered[R any]() answered[R] { return answered[R]{done: make(chan struct{})} }

// answer hands the result over, and reports whether somebody takes it.
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

// await waits for the answer. When ctx ends first nobody takes it.
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
