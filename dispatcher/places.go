package dispatcher

import (
	"context"
	"sync"
	"time"
)

// places counts what a dispatcher may still take on, over all topics and for each.
type places struct {
	total int

	mu      sync.Mutex
	free    int
	sources int
	running map[string]int // by topic
	freed   chan struct{}  // closed and renewed when places get free
	ended   chan struct{}  // closed and renewed when jobs' places get free, and not only unused ones
}

func newPlaces(n int) *places {
	return &places{total: n, free: n, sources: 1, running: map[string]int{}, freed: make(chan struct{}), ended: make(chan struct{})}
}

func (p *places) available() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// pollEvery is how often a source that hears nothing looks for itself. Together they stay below five commands a second.
func (p *places) pollEvery() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(time.Second, time.Duration(p.sources)*300*time.Millisecond), maxPoll)
}

// maxPoll stays well below the time for which a reserve leaves the note that a dispatcher waits.
const maxPoll = 10 * time.Second

// divide says among how many sources the free places are shared.
func (p *places) divide(sources int) {
	p.mu.Lock()
	p.sources = max(1, sources)
	p.mu.Unlock()
}

// batchWait is how long freed places gather before they are used, so that a busy dispatcher does not reserve jobs one by one.
const batchWait = time.Millisecond

// take waits for places and takes a fair part of the free ones, at most limit. It returns 0 when ctx is done.
func (p *places) take(ctx context.Context, limit int) int {
	var gather <-chan time.Time
	for {
		p.mu.Lock()
		// Enough to be worth a round trip, or all that came in the waiting time.
		if p.free >= max(1, p.total/8) || (p.free > 0 && gather == nil && p.free == p.total) {
			n := p.grab(limit)
			p.mu.Unlock()
			return n
		}
		if p.free > 0 && gather == nil {
			gather = time.After(batchWait)
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0
		case <-freed:
		case <-gather:
			p.mu.Lock()
			n := p.grab(limit)
			p.mu.Unlock()
			if n > 0 {
				return n
			}
			gather = nil
		}
	}
}

func (p *places) grab(limit int) int {
	n := min(limit, (max(0, p.free)+p.sources-1)/p.sources)
	p.free -= n
	return n
}

// book takes places for n jobs that are here already and says how many of those places were free. The others have to be released
// before anybody gets one.
func (p *places) book(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := min(n, max(0, p.free))
	p.free -= n
	return have
}

// use notes that a taken place is a job's of a topic now.
func (p *places) use(topic string) {
	p.mu.Lock()
	p.running[topic]++
	p.mu.Unlock()
}

// release frees places that jobs of these topics had.
func (p *places) release(topics ...string) {
	p.mu.Lock()
	for _, t := range topics {
		if p.running[t]--; p.running[t] <= 0 {
			delete(p.running, t)
		}
	}
	close(p.ended)
	p.ended = make(chan struct{})
	p.mu.Unlock()
	p.give(len(topics))
}

// give returns taken places that were not used.
func (p *places) give(n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	p.free += n
	close(p.freed)
	p.freed = make(chan struct{})
	p.mu.Unlock()
}

// jobEnds is closed when the next job's place gets free.
func (p *places) jobEnds() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// alpha of the dynamic threshold rule (Choudhury and Hahne, IEEE/ACM Transactions on Networking 1998): a topic holds at most
// alpha times what is free, so any number of slow topics leaves places for others.
const alpha = 3

// shares says how many jobs of one topic may come with n taken places: of a topic without any, and of those that have some.
func (p *places) shares(n int) (most int, busy map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := max(0, p.free+n)
	most = (alpha*free + alpha) / (1 + alpha) // rounded up
	for topic, has := range p.running {
		more := max(0, (alpha*free-has)/(1+alpha))
		if more < n {
			if busy == nil {
				busy = map[string]int{}
			}
			busy[topic] = more
		}
	}
	return most, busy
}
