package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// A source reserves from one bucket.
type source struct {
	d       *Dispatcher
	ctx     context.Context // for reserving; its cause is store.ErrShardRemoved if the shard was removed
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

func newSource(ctx context.Context, d *Dispatcher, b Bucket) *source {
	src := &source{
		d: d, ctx: ctx, bucket: b, wake: make(chan struct{}, 1), avoided: map[string]avoidance{},
	}
	src.settler = newSettler(src)
	src.leases = &extender{src: src, held: map[*store.Lease]*hold{}, some: make(chan struct{}, 1)}
	return src
}

func (s *source) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// removed reports whether the shard was removed. It may never answer again.
func (s *source) removed() bool { return errors.Is(context.Cause(s.ctx), store.ErrShardRemoved) }

const (
	leaseCap   = 15 * time.Second
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	lastTries  = 40 // minBackoff apart, after a stop
)

// run reserves until its context is done, and then waits until the running calls have ended and are settled.
func (s *source) run() {
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
func (s *source) rest() {
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
func (s *source) wait(more <-chan struct{}) waited {
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

func (s *source) poll() time.Duration {
	if s.d.opts.Poll > 0 {
		return s.d.opts.Poll
	}
	return s.d.places.pollEvery()
}

// reserve fills places and reports whether there may be more jobs. A request that Redis has not answered within the
// start window gives its places back: the jobs of a later answer may not be called.
func (s *source) reserve() (more bool) {
	if !s.settler.accepting(s.ctx, s.d.opts.Concurrency) {
		return false
	}
	n, spare := s.d.places.take(s.ctx, store.ReserveLimit)
	if n == 0 {
		return false
	}
	r := s.request(n, spare)
	ends := s.d.places.callEnds() // obtained before the reserve, whose reply does not show which calls end meanwhile
	asked := s.start.ask()
	r.Slack = asked.window - store.StartWindow
	overdue := time.AfterFunc(asked.window, func() { s.d.places.give(n) })
	got, err := s.bucket.Reserve(s.d.settles, r)
	have := n
	if !overdue.Stop() {
		have = 0
	}
	if err != nil {
		s.d.places.give(have) // an unanswered reserve holds no places
		return s.recover(r, err)
	}
	s.begin(got, asked, have)
	s.follow(time.Since(asked.sent))
	if len(got.Jobs) == n || got.More || spare && len(got.Jobs) > 0 {
		return true
	}
	return limited(r, got.Jobs) && s.wait(ends) != stopped
}

func (s *source) request(n int, spare bool) store.Reserve {
	r := store.Reserve{
		Worker: s.d.worker, Token: fmt.Sprintf("%s%d", s.d.worker, s.d.tokens.Add(1)), Max: n,
		Pattern: s.d.opts.Pattern, LeaseCap: leaseCap,
	}
	r.TopicMax, r.Busy = s.d.places.shares(n, spare)
	r.Busy = s.avoid(r.Busy)
	return r
}

// begin starts the calls of reserved jobs in the n places that were taken for them, and gives back those that it does
// not need. It releases jobs that find no place. After a stop it releases all, and also when the answer came so late
// that each call would have to wait for its lease to be extended.
func (s *source) begin(got store.Reserved, asked request, n int) {
	s.d.metrics.batch.Observe(float64(len(got.Jobs)))
	started := make([]*place, 0, len(got.Jobs))
	late := time.Since(asked.sent) > asked.window
	for i, j := range got.Jobs {
		r := &reservation{
			Job: j, sent: asked.sent, now: got.Now, asked: asked, ends: asked.sent.Add(j.LeaseUntil.Sub(got.Now)),
		}
		switch {
		case s.ctx.Err() != nil:
			s.settler.add(end(r, store.Release, "shutdown"))
		case late:
			s.settler.add(end(r, store.Release, "late answer"))
		case i >= n:
			s.settler.add(end(r, store.Release, "no place"))
		default:
			s.calls.Add(1)
			r.place = s.d.places.use(j)
			started = append(started, r.place)
			s.d.workers.do(s, r)
		}
	}
	s.d.places.give(n - len(started))
	if len(started) > 0 { // one timer for all: one per job took 3 % of a callback
		time.AfterFunc(hangAfter, func() { s.d.places.stepAside(started...) })
	}
}

// recover retries a reserve whose reply was lost, with the same token, until a reply arrives. Otherwise its jobs would
// count an attempt when their leases expire. It holds no places meanwhile; jobs for which no place is then free are
// released.
func (s *source) recover(r store.Reserve, err error) (more bool) {
	s.d.opts.Logger.Log(s.ctx, store.LevelOf(err), "cannot reserve jobs; retrying",
		"shard", s.bucket.Name(), "bucket", s.bucket.Number(), "error", err)
	s.start.end()
	r.Again = true
	backoff, left := minBackoff, lastTries
	for ; left > 0 && !s.removed() && s.d.calls.Err() == nil; backoff = min(2*backoff, maxBackoff) {
		if s.ctx.Err() == nil {
			pause(s.ctx, jittered(backoff))
		} else {
			left--
			pause(s.d.calls, minBackoff)
		}
		asked := s.start.ask()
		got, err := s.bucket.Reserve(s.d.settles, r)
		if err != nil {
			continue
		}
		s.begin(got, asked, s.d.places.book(len(got.Jobs)))
		return true
	}
	return false
}

// limited reports whether the limits of this request held back jobs. If so, a reserve may find more when a job ends.
func limited(r store.Reserve, jobs []*store.Job) bool {
	count := map[string]int{}
	for _, j := range jobs {
		count[j.Topic]++
	}
	for topic, most := range r.Busy {
		if count[topic] >= most {
			return true
		}
	}
	for _, n := range count {
		if n >= r.TopicMax {
			return true
		}
	}
	return false
}

// jittered returns a duration between d/2 and d, to spread the retries of calls that failed together.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

const (
	// avoidFor is how long a topic is skipped after one of its jobs was released. By then, Redis knows its state.
	avoidFor   = time.Second
	maxAvoided = 1000 // unknown topics: each is an argument of every reserve
)

func (s *source) noteReleased(topic string) {
	s.mu.Lock()
	s.avoided[topic] = avoidance{until: time.Now().Add(avoidFor)}
	s.mu.Unlock()
}

// noteUnknown makes this dispatcher skip a topic that is not in its registry, unless there are too many of them.
func (s *source) noteUnknown(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, has := s.avoided[topic]; !has && len(s.avoided) >= maxAvoided {
		return false
	}
	s.avoided[topic] = avoidance{until: time.Now().Add(uncallableFor), unknown: true}
	return true
}

func (s *source) avoid(busy map[string]int) map[string]int {
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
