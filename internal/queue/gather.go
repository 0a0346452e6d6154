package queue

import (
	"context"
	"errors"
	"sync"
)

// gatherer batches requests of many goroutines to a bucket into shared calls of a script. With no call under way a
// request is sent at once; while atOnce calls are under way, others wait and go together in the next. Each call under
// way has a slot.
//
// Parts of large requests wait in a queue of their own. Other requests overtake them: if none of their calls is under
// way, the next free slot is theirs.
type gatherer[C gathered] struct {
	shard  *Shard
	atOnce int                       // most calls under way
	most   int                       // most jobs in one call; maxBytes and maxNames bound it, too
	call   func(slot int, batch []C) // answers each

	mu      sync.Mutex
	waiting lane[C]
	large   lane[C]         // parts of large requests
	named   map[string]bool // topics of the next call
	free    []int
}

// lane is a queue of requests. Its calls are not those of the other lane.
type lane[C gathered] struct {
	waiting []C
	jobs    int // in waiting
	flying  int // calls under way
}

// gathered is the request of one goroutine.
type gathered interface {
	jobs() int  // roughly how many jobs it concerns
	bytes() int // size of its long arguments
	large() bool
	// names adds the topics that it names to seen, and returns how many the script checks for it. A topic in seen
	// already counts a little: the script only reads its name again.
	names(seen map[string]bool) float64
	refuse(err error)
}

const (
	maxFlying  = 2       // calls under way at once: one is encoded while Redis executes the other
	secondAt   = 128     // waiting jobs for which a second call pays off: larger calls cost less for each job
	maxBytes   = 1 << 20 // in one call
	maxNames   = 250     // topics in one call: a topic without due jobs takes some 2 µs of Redis
	maxWaiting = 20000   // jobs in a lane; more are refused
	largeJobs  = 256     // of large requests in one call: about 2 ms of Redis
)

var (
	errOverloaded = errors.New("too many calls are waiting")
	errClosed     = errors.New("the shard is closed")
)

func newGatherer[C gathered](s *Shard, atOnce, most int, call func(slot int, batch []C)) *gatherer[C] {
	g := &gatherer[C]{shard: s, atOnce: atOnce, most: most, call: call, named: map[string]bool{}}
	for slot := range atOnce {
		g.free = append(g.free, slot)
	}
	return g
}

// add queues c, which will be answered or refused.
func (g *gatherer[C]) add(c C) {
	g.mu.Lock()
	l := &g.waiting
	if c.large() {
		l = &g.large
	}
	if l.jobs > maxWaiting {
		g.mu.Unlock()
		c.refuse(g.shard.unavailable("overloaded", errOverloaded))
		return
	}
	l.waiting = append(l.waiting, c)
	l.jobs += c.jobs()
	var batch []C
	slot := 0
	if n := len(g.free); n > 0 && g.pays(l) {
		slot, g.free = g.free[n-1], g.free[:n-1]
		batch = g.next(l)
	}
	g.mu.Unlock()
	if batch != nil && !g.shard.start(func() { g.fly(slot, l, batch, g.call) }) {
		g.fly(slot, l, batch, g.refuse)
	}
}

// pays reports whether a lane's requests should be sent in a call of their own now. g.mu is held.
func (g *gatherer[C]) pays(l *lane[C]) bool {
	return l == &g.large || l.flying == 0 || l.jobs >= secondAt
}

// refuse refuses a batch that came after the shard was closed.
func (g *gatherer[C]) refuse(_ int, batch []C) {
	for _, c := range batch {
		c.refuse(g.shard.unavailable("down", errClosed))
	}
}

// next removes and returns the batch of the next call of a lane. g.mu is held.
func (g *gatherer[C]) next(l *lane[C]) []C {
	most := g.most
	if l == &g.large {
		most = min(most, largeJobs)
	}
	n, jobs, bytes, names := 0, 0, 0, 0.0
	clear(g.named)
	for _, c := range l.waiting {
		more, long, named := jobs+c.jobs(), bytes+c.bytes(), names+c.names(g.named)
		if n > 0 && (more > most || long > maxBytes || named > maxNames) {
			break
		}
		n, jobs, bytes, names = n+1, more, long, named
	}
	batch := l.waiting[:n:n]
	if l.waiting = l.waiting[n:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	l.jobs -= jobs
	if n > 0 {
		l.flying++
	}
	return batch
}

// fly calls the script for this batch and the next ones until nothing waits.
func (g *gatherer[C]) fly(slot int, l *lane[C], batch []C, call func(slot int, batch []C)) {
	for len(batch) > 0 {
		call(slot, batch)
		g.mu.Lock()
		l.flying--
		l = &g.large
		if len(l.waiting) == 0 || len(g.waiting.waiting) > 0 && g.waiting.flying == 0 {
			l = &g.waiting
		}
		if batch = g.next(l); len(batch) == 0 {
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

func (a *answered[R]) bytes() int  { return 0 }
func (a *answered[R]) large() bool { return false }

func (a *answered[R]) names(map[string]bool) float64 { return 0 }

// gone reports whether the caller has left.
func (a *answered[R]) gone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left
}

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
