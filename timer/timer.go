package timer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/store"
)

// Bucket is the part of a store.Bucket that a timer needs.
type Bucket interface {
	Name() string // of its shard
	Number() int
	Advance(ctx context.Context) (store.Advance, error)
	NextEvent(ctx context.Context) (time.Time, error)
	Wakeups(ctx context.Context) <-chan store.Wakeup
}

// Options of a Timer.
type Options struct {
	Buckets    func() []Bucket // returns the buckets in use; the same one must be the same value each time
	Changed    <-chan struct{} // receives when Buckets may have changed; nil: never
	Exact      bool            // use a kernel timer; the runtime's are a millisecond late
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

// New returns a Timer; Run starts it.
func New(o Options) *Timer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Timer{opts: o, metrics: newMetrics(o.Registerer)}
}

// Run runs the timer until ctx is done and everything it started has ended.
func (t *Timer) Run(ctx context.Context) error {
	store.RunEach(ctx, t.list, t.opts.Changed, t.watch)
	return nil
}

// list returns the buckets in use, and counts them.
func (t *Timer) list() []Bucket {
	list := t.opts.Buckets()
	t.buckets.Store(int32(len(list)))
	return list
}

const (
	minPause   = 200 * time.Microsecond // between two steps at a due time that moved no job
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	maxPoll    = 10 * time.Second
	never      = 100 * 365 * 24 * time.Hour

	// inARow is how many steps follow each other without a rest. Then the timer rests for as long as the last step
	// took, but at most maxRest, so that Redis can serve others. Even so, jobs become ready faster than they can be
	// called.
	inARow  = 4
	maxRest = 2 * time.Millisecond
)

// bucket is the state of one bucket.
type bucket struct {
	*Timer
	Bucket
	clock   clock
	at      time.Time // of its next step (monotonic)
	due     time.Time // the event that it waits for (monotonic); zero: it is not known
	next    time.Time // the same by Redis's clock; zero: there is none
	backoff time.Duration
	row     int // successive steps that left work to do
}

// watch steps one bucket until ctx is done.
func (t *Timer) watch(ctx context.Context, at Bucket) {
	b := &bucket{Timer: t, Bucket: at, clock: newClock()}
	wake := b.Wakeups(ctx)
	alarm := t.alarm(at)
	defer alarm.stop()
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-wake:
			b.woken(w)
		case <-alarm.rings:
		}
		if !b.at.After(time.Now()) {
			b.step(ctx)
		}
		alarm.set(time.Until(b.at))
	}
}

// alarm returns an alarm that rings at once.
func (t *Timer) alarm(at Bucket) alarm {
	if t.opts.Exact {
		a, err := kernelAlarm()
		if err == nil {
			return a
		}
		t.opts.Logger.Warn("no kernel timer: jobs may be a millisecond late", "shard", at.Name(), "error", err)
	}
	return runtimeAlarm()
}

// woken lets the next step be no later than the event of a wake-up.
func (b *bucket) woken(w store.Wakeup) {
	switch w.Kind {
	case store.WakeTimer:
		b.clock.read(w.Sent, time.Now())
		due := b.clock.when(w.Event)
		b.at = earlier(b.at, due)
		if due.Before(b.due) {
			b.due, b.next = due, w.Event
		}
	case store.WakeReconnect:
		b.at, b.due = time.Time{}, time.Time{}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// step advances the bucket once, unless it was only to poll and finds no other event than the one that it waits for. If
// it leaves work, the next step is due at once.
func (b *bucket) step(ctx context.Context) {
	start := time.Now()
	poll := start.Add(b.poll())
	if start.Before(b.due) {
		if next, err := b.NextEvent(ctx); err == nil && next.Equal(b.next) {
			b.at = earlier(poll, b.due)
			return
		}
	}
	a, err := b.Advance(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		b.failed(err)
		return
	}
	now := time.Now()
	took := now.Sub(start)
	if waited := !b.due.IsZero() && !start.Before(b.due); waited && a.Now.Before(b.next) {
		b.clock = newClock() // Redis's was set back, or is slower
	}
	b.clock.read(a.Now, now)
	b.backoff = 0
	b.metrics.observe(a, b.next, took)
	b.next = a.Next
	if a.More {
		b.at, b.due = time.Time{}, time.Time{}
		if b.row++; b.row > inARow {
			b.at = start.Add(took + min(took, maxRest))
		}
		return
	}
	b.row, b.due = 0, now.Add(never)
	if !a.Next.IsZero() {
		b.due = b.clock.when(a.Next)
		if soon := now.Add(minPause); b.due.Before(soon) {
			b.due = soon
		}
	}
	b.at = earlier(poll, b.due)
}

// failed delays the next step.
func (b *bucket) failed(err error) {
	if b.backoff == 0 {
		b.opts.Logger.Log(context.Background(), store.LevelOf(err), "cannot move due jobs; retrying",
			"shard", b.Name(), "bucket", b.Number(), "error", err)
	}
	b.metrics.failures.Inc()
	b.due = time.Time{}
	b.backoff = min(max(2*b.backoff, minBackoff), maxBackoff)
	b.at = time.Now().Add(b.backoff/2 + rand.N(b.backoff/2))
}

// poll returns the poll interval. It keeps an idle process below five commands a second, however many buckets there
// are.
func (t *Timer) poll() time.Duration {
	if t.opts.Poll > 0 {
		return t.opts.Poll
	}
	return min(max(time.Second, time.Duration(t.buckets.Load())*300*time.Millisecond), maxPoll)
}
