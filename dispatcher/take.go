package dispatcher

import (
	"context"
	"time"
)

// take waits for free places and takes a fair part of them, at most limit. If none becomes free in time, it takes spare
// ones. It returns 0 when ctx is done.
func (p *places) take(ctx context.Context, limit int) (n int, spare bool) {
	var gather, starve <-chan time.Time
	for {
		p.mu.Lock()
		// Enough to be worth a round trip, or all that became free in the meantime.
		if p.free >= max(1, p.total/8) || (p.free > 0 && gather == nil && p.free == p.total) {
			n = p.grab(limit, p.free)
			p.mu.Unlock()
			return n, false
		}
		if p.free > 0 && gather == nil {
			gather = time.After(batchWait)
		}
		if p.free <= 0 && starve == nil && p.spare > 0 {
			starve = time.After(max(starveFor-time.Since(p.freedAt), time.Millisecond))
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, false
		case <-freed:
		case <-gather:
			if n = p.grabFree(limit, false); n > 0 {
				return n, false
			}
			gather = nil
		case <-starve:
			if n = p.grabFree(limit, true); n > 0 {
				return n, true
			}
			starve = time.After(starveFor)
		}
	}
}

func (p *places) grabFree(limit int, spare bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !spare {
		return p.grab(limit, p.free)
	}
	if p.free > 0 || time.Since(p.freedAt) < starveFor {
		return 0
	}
	return p.grab(limit, p.free+p.spare)
}

func (p *places) grab(limit, free int) int {
	n := min(limit, (max(0, free)+p.reservers-1)/p.reservers)
	p.free -= n
	return n
}

// book takes places for up to n jobs that the dispatcher already has, and returns how many were free.
func (p *places) book(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = min(n, max(0, p.free))
	p.free -= n
	return n
}

// callEnds returns a channel that is closed when the next call frees its place.
func (p *places) callEnds() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// shares returns how many jobs of any one topic may fill n taken places, and lower bounds for some topics.
func (p *places) shares(n int, spare bool) (most int, others map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	others = map[string]int{}
	if spare {
		for topic := range p.held {
			others[topic] = 0
		}
		return 1, others
	}
	for priority, topics := range p.aside {
		left := p.mayMoveAside(priority)
		for topic, has := range topics {
			if more := max(0, alpha*left-has); more < n {
				others[topic] = more
			}
		}
	}
	return n, others
}

// mayMoveAside returns how many more calls of a priority may move aside: its share, by weight, among the priorities
// that have calls aside.
func (p *places) mayMoveAside(priority int) int {
	sum := 0
	for i, n := range p.moved {
		if n > 0 {
			sum += p.weights[i]
		}
	}
	return max(0, asideRatio*p.total*p.weights[priority]/max(1, sum)-p.moved[priority])
}

// pollEvery returns how often a reserver polls without wake-ups. It keeps all reservers together below five commands a
// second.
func (p *places) pollEvery() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(time.Second, time.Duration(p.reservers)*300*time.Millisecond), maxPoll)
}

// maxPoll bounds the delay of a job whose wake-up was lost.
const maxPoll = 10 * time.Second

// divide sets the number of reservers that share the free places.
func (p *places) divide(reservers int) {
	p.mu.Lock()
	p.reservers = max(1, reservers)
	p.mu.Unlock()
}
