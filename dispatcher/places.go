package dispatcher

import (
	"strings"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// places counts how many more jobs a dispatcher may take. doc.go has the rules.
type places struct {
	total   int
	spare   int // beyond total, for topics that hold none
	weights [3]int

	mu        sync.Mutex
	free      int // less than 0: spare places in use
	reservers int
	held      map[string]int    // by topic: calls in places or aside
	aside     [3]map[string]int // by priority and topic: calls that hang
	moved     [3]int            // calls aside by priority
	freedAt   time.Time
	freed     chan struct{} // closed and replaced when places become free
	ended     chan struct{} // closed and replaced when calls free their places, not when unused ones are returned
}

const (
	hangAfter  = time.Second           // a call that takes longer hangs
	judgeAfter = 5 * time.Millisecond  // so does one whose retry_if takes longer
	asideRatio = 2                     // calls aside per place, at most
	spareShare = 32                    // places per spare place
	starveFor  = 50 * time.Millisecond // spare places are used after no place has become free for so long
	batchWait  = time.Millisecond      // how long freed places accumulate, so that jobs are reserved in batches

	// alpha is the factor of the dynamic threshold rule: a topic has at most alpha times as many calls aside as its
	// priority may still add.
	alpha = 8
)

func newPlaces(n int, pattern string) *places {
	p := &places{
		total: n, spare: (n + spareShare/2) / spareShare, free: n, reservers: 1, held: map[string]int{},
		freed: make(chan struct{}), ended: make(chan struct{}),
	}
	for i := range p.weights {
		p.weights[i] = max(1, strings.Count(pattern, string(rune('0'+i))))
		p.aside[i] = map[string]int{}
	}
	return p
}

// place is held by a reserved job until its call has ended, or it is decided that none is made.
type place struct {
	topic    string
	priority store.Priority
	aside    bool
	free     bool
}

func (p *places) available() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.free)
}

// inFlight returns the number of calls, and of places that a reserve holds.
func (p *places) inFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total - p.free + p.moved[0] + p.moved[1] + p.moved[2]
}

// use assigns a taken place to a job.
func (p *places) use(j *store.Job) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[j.Topic]++
	return &place{topic: j.Topic, priority: min(j.Priority, 2)}
}

// stepAside frees the places of calls that hang, unless too many are aside.
func (p *places) stepAside(list ...*place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	freed := 0
	for _, of := range list {
		if of.free || of.aside || p.moved[0]+p.moved[1]+p.moved[2] >= asideRatio*p.total {
			continue
		}
		of.aside = true
		p.moved[of.priority]++
		p.aside[of.priority][of.topic]++
		freed++
	}
	p.returned(freed)
}

// release frees the place of a job.
func (p *places) release(of *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of.free = true
	lower(p.held, of.topic)
	close(p.ended)
	p.ended = make(chan struct{})
	if !of.aside {
		p.returned(1)
		return
	}
	p.moved[of.priority]--
	lower(p.aside[of.priority], of.topic)
}

func lower(count map[string]int, topic string) {
	if count[topic]--; count[topic] <= 0 {
		delete(count, topic)
	}
}

// give returns places that were taken but not used.
func (p *places) give(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.returned(n)
}

func (p *places) returned(n int) {
	if n == 0 {
		return
	}
	p.free += n
	if p.free > 0 {
		p.freedAt = time.Now()
	}
	close(p.freed)
	p.freed = make(chan struct{})
}
