package queue

import (
	"context"
	"sync"
)

// gatherer collects what many goroutines ask a bucket for into shared calls of a script. With no call under way one
// goes at once; while maxFlying are, the others wait and go together in the next. Each call under way has a slot.
type gatherer[C any] struct {
	shard  *Shard
	most   int                       // weight of one call
	weight func(C) int               // about how many jobs it is about
	call   func(slot int, batch []C) // answers each
	refuse func(C, error)

	mu      sync.Mutex
	waiting []C
	weighs  int // of waiting
	free    []int
}

func newGatherer[C any](
	s *Shard, most int, weight func(C) int, call func(int, []C), refuse func(C, error),
) *gatherer[C] {
	g := &gatherer[C]{shard: s, most: most, weight: weight, call: call, refuse: refuse}
	for slot := range maxFlying {
		g.free = append(g.free, slot)
	}
	return g
}

func (g *gatherer[C]) add(c C) {
	g.mu.Lock()
	if g.weighs > maxWaiting {
		g.mu.Unlock()
		g.refuse(c, g.shard.unavailable("overloaded", errOverloaded))
		return
	}
	g.waiting = append(g.waiting, c)
	g.weighs += g.weight(c)
	var batch []C
	slot := 0
	if n := len(g.free); n == maxFlying || n > 0 && g.weighs >= secondAt {
		slot, g.free = g.free[n-1], g.free[:n-1]
		batch = g.next()
	}
	g.mu.Unlock()
	if batch != nil && !g.shard.start(func() { g.fly(slot, batch) }) {
		for _, c := range batch {
			g.refuse(c, g.shard.unavailable("down", errClosed))
		}
	}
}

// next removes the batch of the next call. g.mu is held.
func (g *gatherer[C]) next() []C {
	n, weight := 0, 0
	for _, c := range g.waiting {
		w := g.weight(c)
		if n > 0 && weight+w > g.most {
			break
		}
		n, weight = n+1, weight+w
	}
	batch := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
		g.waiting = nil
	}
	g.weighs -= weight
	return batch
}

func (g *gatherer[C]) fly(slot int, batch []C) {
	for len(batch) > 0 {
		g.call(slot, batch)
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
