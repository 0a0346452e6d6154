package dispatcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// A source reserves from one bucket of one shard.
type source struct {
	d       *Dispatcher
	shard   Shard
	bucket  int
	wake    chan struct{}
	settler *settler
	leases  *keeper
	calls   sync.WaitGroup

	mu      sync.Mutex
	avoided map[string]time.Time // topics whose jobs were released, until their limits reach Redis
}

func newSource(d *Dispatcher, s Shard, bucket int) *source {
	src := &source{d: d, shard: s, bucket: bucket, wake: make(chan struct{}, 1), avoided: map[string]time.Time{}}
	src.settler = &settler{src: src}
	src.leases = &keeper{src: src, held: map[*queue.Lease]*hold{}}
	return src
}

func (s *source) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

const (
	leaseCap   = 15 * time.Second
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// run reserves until ctx is done, then waits for the calls that are under way and for their settling.
func (s *source) run(ctx context.Context) {
	var wg sync.WaitGroup
	kctx, stop := context.WithCancel(context.Background())
	wg.Go(func() { s.leases.run(kctx) })
	for ctx.Err() == nil {
		if s.reserve(ctx) {
			continue
		}
		s.idle(ctx)
	}
	s.calls.Wait()
	s.settler.wait()
	stop()
	wg.Wait()
}

// idle waits until there may be work.
func (s *source) idle(ctx context.Context) {
	poll := time.NewTimer(s.poll())
	defer poll.Stop()
	select {
	case <-ctx.Done():
	case <-s.wake:
	case <-poll.C:
	}
}

func (s *source) poll() time.Duration {
	if s.d.opts.Poll > 0 {
		return s.d.opts.Poll
	}
	return max(time.Second, time.Duration(s.shard.Buckets())*300*time.Millisecond)
}

// reserve fills places and says whether there may be more at once. The same token is asked again until an answer comes: a
// reservation whose answer got lost is found again.
func (s *source) reserve(ctx context.Context) (more bool) {
	n := s.d.places.take(ctx, queue.ReserveLimit)
	if n == 0 {
		return false
	}
	r := queue.Reserve{
		Worker: s.d.worker, Token: fmt.Sprintf("%s%d", s.d.worker, s.d.tokens.Add(1)), Max: n, Pattern: s.d.opts.Pattern, LeaseCap: leaseCap,
	}
	r.TopicMax, r.Busy = s.d.places.shares(n)
	r.Busy = s.avoid(r.Busy)
	got, sent, err := s.ask(ctx, r)
	if err != nil {
		s.d.places.give(n)
		return false
	}
	s.d.metrics.batch.Observe(float64(len(got.Jobs)))
	for _, l := range got.Jobs {
		s.d.places.use(l.Topic)
		s.calls.Add(1)
		go s.handle(&reservation{Lease: l, sent: sent, now: got.Now})
	}
	s.d.places.give(n - len(got.Jobs))
	if len(got.Jobs) == n {
		return true
	}
	if !limited(r, got.Jobs) {
		return false
	}
	return s.waitForPlaces(ctx)
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

// waitForPlaces is idle that ends when places get free, too.
func (s *source) waitForPlaces(ctx context.Context) bool {
	poll := time.NewTimer(s.poll())
	defer poll.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-s.wake:
	case <-poll.C:
	case <-s.d.places.changed():
	}
	return true
}

func (s *source) ask(ctx context.Context, r queue.Reserve) (got queue.Reserved, sent time.Time, err error) {
	for backoff := time.Duration(0); ; {
		sent = time.Now()
		if got, err = s.shard.Reserve(ctx, s.bucket, r); err == nil {
			return got, sent, nil
		}
		if ctx.Err() != nil {
			return got, sent, err
		}
		if backoff == 0 {
			s.d.opts.Logger.Warn("jobs cannot be reserved; trying again", "shard", s.shard.Name(), "error", err)
		}
		r.Again = true
		backoff = min(max(2*backoff, minBackoff), maxBackoff)
		pause(ctx, backoff/2+rand.N(backoff))
	}
}

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
		if busy == nil {
			busy = map[string]int{}
		}
		busy[topic] = 0
	}
	return busy
}
