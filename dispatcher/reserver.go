package dispatcher

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// A reserver reserves from one bucket.
type reserver struct {
	d       *Dispatcher
	ctx     context.Context // for reserving; its cause is queue.ErrShardRemoved if the shard was removed
	bucket  Bucket
	wake    chan struct{}
	settler *settler
	leases  *extender
	calls   sync.WaitGroup

	start startWindow

	mu      sync.Mutex
	avoided map[string]avoidance // topics whose jobs were released
}

// avoidance is until when a topic is skipped; an unknown one no longer than until it is registered.
type avoidance struct {
	until   time.Time
	unknown bool
}

func newReserver(ctx context.Context, d *Dispatcher, b Bucket) *reserver {
	r := &reserver{
		d: d, ctx: ctx, bucket: b, wake: make(chan struct{}, 1), avoided: map[string]avoidance{},
	}
	r.settler = newSettler(r)
	r.leases = &extender{reserver: r, held: map[*store.Lease]*hold{}, some: make(chan struct{}, 1)}
	return r
}

func (s *reserver) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *reserver) woken(w store.Wakeup) {
	if w.Kind == store.WakeReconnect {
		s.start.end()
	}
	if w.Kind == store.WakeReconnect || w.Kind == store.WakeDispatcher {
		s.wakeUp()
	}
}

// removed reports whether the shard was removed. It may never answer again.
func (s *reserver) removed() bool { return errors.Is(context.Cause(s.ctx), store.ErrShardRemoved) }

const (
	leaseCap   = 15 * time.Second
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	lastTries  = 40 // minBackoff apart, after a stop
)

// run reserves until its context is done, and then waits until the running calls have ended and are settled.
func (s *reserver) run() {
	var wg sync.WaitGroup
	kctx, stop := context.WithCancel(context.Background())
	wg.Go(func() { s.leases.run(kctx) })
	for s.ctx.Err() == nil {
		if s.reserve() {
			continue
		}
		s.rest()
	}
	s.calls.Wait()
	s.settler.wait()
	stop()
	wg.Wait()
}

// rest waits until a reserve may find a job. It also polls, because a wake-up may be lost. While no job is ready, a
// poll needs no reserve: the key idle, set by an earlier one, makes the next ready job wake this dispatcher. A job that
// has removed the key has sent a wake-up; if the connection breaks, WakeReconnect follows.
func (s *reserver) rest() {
	for s.wait(nil) == polled {
		if nothing, err := s.bucket.NothingReady(s.ctx); err != nil || !nothing {
			return
		}
	}
}

type waited uint8 // why a wait ended

const (
	stopped waited = iota
	polled         // it is time to poll
	woken          // there may be work, or places became free
)

// wait waits for a wake-up, the next poll, or more.
func (s *reserver) wait(more <-chan struct{}) waited {
	poll := time.NewTimer(s.poll())
	defer poll.Stop()
	select {
	case <-s.ctx.Done():
		return stopped
	case <-s.wake:
	case <-more:
	case <-poll.C:
		return polled
	}
	return woken
}

func (s *reserver) poll() time.Duration {
	if s.d.opts.Poll > 0 {
		return s.d.opts.Poll
	}
	return s.d.places.pollEvery()
}

// jittered returns a duration between d/2 and d, to spread the retries of calls that failed together.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

const (
	// avoidFor is how long a topic is skipped after one of its jobs was released. By then, Redis knows its state.
	avoidFor   = time.Second
	maxAvoided = 1000 // unknown topics: each is an argument of every reserve
)

func (s *reserver) noteReleased(topic string) {
	s.mu.Lock()
	s.avoided[topic] = avoidance{until: time.Now().Add(avoidFor)}
	s.mu.Unlock()
}

// noteUnknown makes this dispatcher skip a topic that is not in its registry, unless there are too many of them.
func (s *reserver) noteUnknown(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, has := s.avoided[topic]; !has && len(s.avoided) >= maxAvoided {
		return false
	}
	s.avoided[topic] = avoidance{until: time.Now().Add(uncallableFor), unknown: true}
	return true
}

func (s *reserver) avoid(busy map[string]int) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, a := range s.avoided {
		if time.Now().After(a.until) || a.unknown && s.d.opts.Topics().Topic(topic) != nil {
			delete(s.avoided, topic)
			continue
		}
		busy[topic] = 0
	}
	return busy
}
