package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wakecall/wakecall/pershard"
	"github.com/wakecall/wakecall/queue"
)

// A source reserves from one bucket of one shard.
type source struct {
	d       *Dispatcher
	ctx     context.Context // ends when nothing is to be reserved any more; its cause is pershard.ErrRemoved when the shard is out of use
	shard   Shard
	bucket  int
	wake    chan struct{}
	settler *settler
	leases  *keeper
	calls   sync.WaitGroup
	noted   time.Time // when a reserve last left the note that this dispatcher waits; zero when the last one left none

	owed [3]int // starts by spare places, by priority

	mu      sync.Mutex
	avoided map[string]time.Time // topics whose jobs were released, until their limits reach Redis
}

func newSource(ctx context.Context, d *Dispatcher, s Shard, bucket int) *source {
	src := &source{d: d, ctx: ctx, shard: s, bucket: bucket, wake: make(chan struct{}, 1), avoided: map[string]time.Time{}}
	src.settler = &settler{src: src}
	src.leases = &keeper{src: src, held: map[*queue.Lease]*hold{}, some: make(chan struct{}, 1)}
	return src
}

func (s *source) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// removed says whether the shard is out of use: it will not answer any more.
func (s *source) removed() bool { return errors.Is(context.Cause(s.ctx), pershard.ErrRemoved) }

const (
	leaseCap   = 15 * time.Second
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	lastTries  = 40 // after the end was asked for, minBackoff apart
)

// run reserves until its context is done, then waits for the calls that are under way and for their settling.
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

// noteFor is how long a look may be a cheap one after a reserve that left a note. With the longest poll behind it (maxPoll), that is well below
// the 30 s after which the note goes.
const noteFor = 10 * time.Second

// rest is until a reserve may find something. It looks for itself every second: no wake-up may have arrived. As long as nothing is ready, a look needs no
// reserve, whose note from before still makes the next job wake this dispatcher: the note goes by itself only later, and if a job
// has removed it, a message is on its way, which ends the rest. A connection on which that got lost ends with WakeReconnect, which does the same.
func (s *source) rest() {
	for s.wait(nil) == looked && time.Since(s.noted) < noteFor {
		if nothing, err := s.shard.NothingReady(s.ctx, s.bucket); err != nil || !nothing {
			return
		}
	}
}

// waited is what ended a wait.
type waited uint8

const (
	stopped waited = iota
	looked         // it is time to look
	woken          // it was said that there may be work, or places got free
)

// wait is until there may be work: it was said so, it is time to look, or (more) places got free.
func (s *source) wait(more <-chan struct{}) waited {
	poll := time.NewTimer(s.poll())
	defer poll.Stop()
	select {
	case <-s.ctx.Done():
		return stopped
	case <-s.wake:
	case <-more:
	case <-poll.C:
		return looked
	}
	return woken
}

func (s *source) poll() time.Duration {
	if s.d.opts.Poll > 0 {
		return s.d.opts.Poll
	}
	return s.d.places.pollEvery()
}

// reserve fills places and says whether there may be more at once.
func (s *source) reserve() (more bool) {
	s.noted = time.Time{}
	n, spare := s.d.places.take(s.ctx, queue.ReserveLimit)
	if n == 0 {
		return false
	}
	r := s.request(n, spare)
	ends := s.d.places.jobEnds() // from before asking: the answer does not know of what ends meanwhile
	sent := time.Now()
	got, err := s.shard.Reserve(s.d.settles, s.bucket, r)
	if err != nil {
		s.d.places.give(n) // a shard that is away holds no places
		return s.recover(r, err)
	}
	s.begin(got, sent, len(got.Jobs))
	s.d.places.give(n - len(got.Jobs))
	if spare {
		s.owe(got.Jobs)
	}
	if len(got.Jobs) == n || got.More || spare && len(got.Jobs) > 0 {
		return true
	}
	s.noted = sent
	return limited(r, got.Jobs) && s.wait(ends) != stopped
}

func (s *source) request(n int, spare bool) queue.Reserve {
	r := queue.Reserve{
		Worker: s.d.worker, Token: fmt.Sprintf("%s%d", s.d.worker, s.d.tokens.Add(1)), Max: n, Pattern: s.d.opts.Pattern, LeaseCap: leaseCap,
	}
	if !spare {
		r.Pattern = s.pattern(n)
	}
	r.TopicMax, r.Busy = s.d.places.shares(n, spare)
	r.Busy = s.avoid(r.Busy)
	return r
}

// owe remembers which priorities were served out of turn, by spare places.
func (s *source) owe(jobs []*queue.Lease) {
	for _, l := range jobs {
		s.owed[min(l.Priority, queue.Low)]++
	}
}

// pattern is the pattern of priorities for n jobs, less what priorities owe: the next jobs after one by a spare place make up
// for it.
func (s *source) pattern(n int) string {
	usual := s.d.opts.Pattern
	owed := s.owed[0] + s.owed[1] + s.owed[2]
	if owed == 0 {
		return usual
	}
	turns := make([]byte, 0, n)
	for at := rand.IntN(len(usual)); len(turns) < n; at++ {
		p := usual[at%len(usual)]
		if left := &s.owed[p-'0']; *left > 0 && owed > 0 {
			*left--
			owed--
			continue
		}
		turns = append(turns, p)
	}
	return string(turns)
}

// begin starts the calls of reserved jobs; those past the first n have no place and go back, as all do at the end.
func (s *source) begin(got queue.Reserved, sent time.Time, n int) {
	s.d.metrics.batch.Observe(float64(len(got.Jobs)))
	for i, l := range got.Jobs {
		r := &reservation{Lease: l, place: s.d.places.use(l), sent: sent, asked: sent, now: got.Now}
		switch {
		case s.ctx.Err() != nil:
			s.settler.add(end(r, queue.Release, "shutdown"))
		case i >= n:
			s.settler.add(end(r, queue.Release, "no place"))
		default:
			s.calls.Add(1)
			s.d.workers.do(s, r)
		}
	}
}

// recover repeats a reserve whose outcome is not known, with the same token, until it is: the jobs that a lost answer named would
// otherwise wait for their leases to end and count an attempt that was none. No places are held meanwhile, since others can use
// them; jobs that then find none go back uncounted.
func (s *source) recover(r queue.Reserve, err error) (more bool) {
	s.d.opts.Logger.Warn("jobs cannot be reserved; trying again", "shard", s.shard.Name(), "bucket", s.bucket, "error", err)
	r.Again = true
	for backoff, left := minBackoff, lastTries; left > 0 && !s.removed() && s.d.calls.Err() == nil; backoff = min(2*backoff, maxBackoff) {
		if s.ctx.Err() == nil {
			pause(s.ctx, jittered(backoff))
		} else {
			left--
			pause(s.d.calls, minBackoff)
		}
		sent := time.Now()
		got, err := s.shard.Reserve(s.d.settles, s.bucket, r)
		if err != nil {
			continue
		}
		s.begin(got, sent, s.d.places.book(len(got.Jobs)))
		return true
	}
	return false
}

// limited says whether this dispatcher's own shares kept jobs away: then it looks again when places get free.
func limited(r queue.Reserve, jobs []*queue.Lease) bool {
	count := map[string]int{}
	for _, l := range jobs {
		count[l.Topic]++
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

// jittered keeps those that failed together from trying again together.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// avoidFor is how long a topic whose job was released is left alone: its limits are on their way to Redis.
const avoidFor = time.Second

func (s *source) noteReleased(topic string) {
	s.mu.Lock()
	s.avoided[topic] = time.Now().Add(avoidFor)
	s.mu.Unlock()
}

func (s *source) avoid(busy map[string]int) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, until := range s.avoided {
		if time.Now().After(until) {
			delete(s.avoided, topic)
			continue
		}
		busy[topic] = 0
	}
	return busy
}
