package timer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/pershard"
	"github.com/wakecall/wakecall/queue"
)

// Shard is the part of a queue.Shard that a timer needs.
type Shard interface {
	Name() string
	Buckets() int
	Advance(ctx context.Context, bucket int) (queue.Advance, error)
	Nothing(ctx context.Context, bucket int) (bool, error)
	Wakeups(ctx context.Context) <-chan queue.Wakeup
}

// Options of a Timer.
type Options struct {
	Shards     func() []Shard  // those in use now; the same shard must be the same value each time
	Changed    <-chan struct{} // ticks when Shards may have changed; nil: they never do
	Nudge      func()          // the registry changed, says a shard; may be nil
	Exact      bool            // count down by the kernel's timer, not by the runtime's with its milliseconds
	Poll       time.Duration   // how long a lost wake-up may go unnoticed; 0: a second, more with many buckets
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Timer is the timer role.
type Timer struct {
	opts    Options
	metrics *metrics
	buckets atomic.Int32 // of all shards
}

// New makes a timer; Run starts it.
func New(o Options) *Timer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Timer{opts: o, metrics: newMetrics(o.Registerer)}
}

// Run works until ctx is done and everything it started has ended.
func (t *Timer) Run(ctx context.Context) error {
	pershard.Run(ctx, t.shards, t.opts.Changed, t.watch)
	return nil
}

// shards lists the shards in use, and counts their buckets.
func (t *Timer) shards() []Shard {
	list := t.opts.Shards()
	buckets := 0
	for _, s := range list {
		buckets += s.Buckets()
	}
	t.buckets.Store(int32(buckets))
	return list
}

const (
	minPause   = 200 * time.Microsecond // between two steps that found nothing, though the moment had come
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	maxPoll    = 10 * time.Second

	// inARow is how many steps follow each other at once; then Redis is left to others for as long as each step took, if that was not long. Of a mass
	// that is due at the same moment, more is moved so than can be called.
	inARow  = 4
	maxRest = 2 * time.Millisecond
)

// bucket is when to look at one again.
type bucket struct {
	at      time.Time // monotonic
	next    time.Time // by Redis's clock, as the last step named it
	empty   bool      // as the last step left it; at is when to look all the same
	backoff time.Duration
	row     int // of steps that left work
}

// watch keeps one shard's buckets moving.
func (t *Timer) watch(ctx context.Context, s Shard) {
	buckets := make([]bucket, s.Buckets())
	wake := s.Wakeups(ctx)
	alarm := t.alarm(s)
	defer alarm.stop()
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-wake:
			t.woken(buckets, w)
		case <-alarm.rings:
		}
		alarm.set(time.Until(t.stepAll(ctx, s, buckets)))
	}
}

// alarm is one that has been set to ring at once.
func (t *Timer) alarm(s Shard) alarm {
	if t.opts.Exact {
		a, err := kernelAlarm()
		if err == nil {
			return a
		}
		t.opts.Logger.Warn("no timer of the kernel's; jobs may be a millisecond late", "shard", s.Name(), "error", err)
	}
	return runtimeAlarm()
}

func (t *Timer) woken(buckets []bucket, w queue.Wakeup) {
	switch {
	case w.Kind == queue.WakeTimer && w.Bucket >= 0 && w.Bucket < len(buckets):
		buckets[w.Bucket].at, buckets[w.Bucket].empty = time.Time{}, false
	case w.Kind == queue.WakeReconnect:
		for b := range buckets {
			buckets[b].at, buckets[b].empty = time.Time{}, false
		}
	case w.Kind == queue.WakeRegistry && t.opts.Nudge != nil:
		t.opts.Nudge()
	}
}

// stepAll advances the buckets whose moment has come and says when the next one's does.
func (t *Timer) stepAll(ctx context.Context, s Shard, buckets []bucket) time.Time {
	var soonest time.Time
	for b := range buckets {
		if !buckets[b].at.After(time.Now()) {
			t.step(ctx, s, b, &buckets[b])
		}
		if at := buckets[b].at; b == 0 || at.Before(soonest) {
			soonest = at
		}
	}
	return soonest
}

// step advances one bucket once. Where more is left its moment stays, so that the other buckets get their turn.
func (t *Timer) step(ctx context.Context, s Shard, n int, b *bucket) {
	poll := t.poll()
	start := time.Now()
	look := start.Add(poll)
	if b.empty {
		if nothing, err := s.Nothing(ctx, n); nothing && err == nil {
			b.at = look
			return
		}
		b.empty = false
	}
	a, err := s.Advance(ctx, n)
	took := time.Since(start)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if b.backoff == 0 {
			t.opts.Logger.Warn("due jobs cannot be moved; trying again", "shard", s.Name(), "bucket", n, "error", err)
		}
		t.metrics.failures.Inc()
		b.backoff = min(max(2*b.backoff, minBackoff), maxBackoff)
		b.at = time.Now().Add(b.backoff/2 + rand.N(b.backoff/2))
		return
	}
	b.backoff = 0
	t.metrics.observe(a, b.next, took)
	b.next = a.Next
	if a.More {
		b.at = time.Time{}
		if b.row++; b.row > inARow {
			b.at = start.Add(took + min(took, maxRest))
		}
		return
	}
	b.row = 0
	b.at = look
	if b.empty = a.Next.IsZero(); b.empty {
		return
	}
	// Redis took its clock between start and now: counting from now is never early for a caller that trusts it.
	next := start.Add(took + max(a.Next.Sub(a.Now), minPause))
	if next.Before(b.at) {
		b.at = next
	}
}

// poll keeps an idle process below five commands a second, however many buckets there are.
func (t *Timer) poll() time.Duration {
	if t.opts.Poll > 0 {
		return t.opts.Poll
	}
	return min(max(time.Second, time.Duration(t.buckets.Load())*300*time.Millisecond), maxPoll)
}
