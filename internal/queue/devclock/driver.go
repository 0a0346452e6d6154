package devclock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Clock is the time of an installation. It stands until an advance moves it.
type Clock struct{ ms atomic.Int64 }

// NewClock returns a clock that shows t, to the millisecond.
func NewClock(t time.Time) *Clock {
	c := &Clock{}
	c.set(t)
	return c
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }

func (c *Clock) set(t time.Time) { c.ms.Store(t.UnixMilli()) }

// Options of a Driver.
type Options struct {
	Clock  *Clock
	Bucket func() *store.Bucket // the one with all jobs
	// Schedules pushes the occurrences that have come, and returns when to call it again; zero: no more.
	Schedules func(ctx context.Context) (next time.Time, err error)
	// Call calls a job and settles its outcome.
	Call func(ctx context.Context, j *store.Job, now time.Time) Result
}

// Result is what became of a reserved job.
type Result struct {
	Attempt int
	Status  int    // of the answer; 0: none
	Outcome string // done, retry, snooze, dead, expired or Released
}

// Released is the outcome of a job that was not called and waits as before.
const Released = "released"

// Driver moves the clock.
type Driver struct {
	opts      Options
	advancing sync.Mutex
	tokens    int
	most      int // calls of an advance
}

// New returns a Driver; Start is called before its other methods.
func New(o Options) *Driver { return &Driver{opts: o, most: MaxCalls} }

// Start sets the clock in the bucket. After a restart of this process it goes on where it stood.
func (d *Driver) Start(ctx context.Context) error {
	at, err := d.opts.Bucket().StartClock(ctx, d.Now())
	if err == nil {
		d.opts.Clock.set(at)
	}
	return err
}

// Now returns the time that the clock shows.
func (d *Driver) Now() time.Time { return d.opts.Clock.Now() }

// Call is a callback of an advance.
type Call struct {
	Topic   string    `json:"topic"`
	ID      string    `json:"id"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Status  int       `json:"status"`
	Outcome string    `json:"outcome"`
}

// Advanced is what an advance did. Its JSON form is the API's.
type Advanced struct {
	Now       time.Time `json:"now"`
	Calls     []Call    `json:"calls"`               // not nil
	StoppedAt time.Time `json:"stopped_at,omitzero"` // when it made MaxCalls; zero: it came to its end
}

// MaxCalls is the most callbacks of one advance.
const MaxCalls = 100_000

// Errors of Advance.
var (
	ErrAdvancing = errors.New("the clock is being advanced by another request")
	ErrBackwards = errors.New("the clock cannot go back")
)

// Advance moves the clock to the time that to returns of its present one, and calls everything that falls due until
// then: in order of due time, priority and push. It stops at an event when ctx is done.
func (d *Driver) Advance(ctx context.Context, to func(now time.Time) time.Time) (Advanced, error) {
	if !d.advancing.TryLock() {
		return Advanced{}, ErrAdvancing
	}
	defer d.advancing.Unlock()
	end := to(d.Now()).Truncate(time.Millisecond)
	if end.Before(d.Now()) {
		return Advanced{}, fmt.Errorf("%w: it shows %s", ErrBackwards, d.Now().Format(time.RFC3339Nano))
	}
	a := &advance{Driver: d, end: end, done: Advanced{Calls: []Call{}}}
	err := a.run(ctx)
	a.done.Now = d.Now()
	return a.done, err
}

// advance is one move of the clock.
type advance struct {
	*Driver
	end    time.Time
	done   Advanced
	passed []string // topics that cannot be called at this time
	idle   int      // rounds at this time that found nothing to do
}

// maxIdle is how many rounds find nothing to do before the clock goes on although an event should have come.
const maxIdle = 3

func (a *advance) run(ctx context.Context) error {
	for a.Now().Before(a.end) || a.idle <= maxIdle {
		if err := a.round(ctx); err != nil {
			return err
		}
		if len(a.done.Calls) >= a.most {
			a.done.StoppedAt = a.Now()
			return nil
		}
	}
	return nil
}

// round moves the clock to the next event unless something is due, and does everything that is.
func (a *advance) round(ctx context.Context) error {
	scheduled, err := a.opts.Schedules(ctx)
	if err != nil {
		return fmt.Errorf("push occurrences: %w", err)
	}
	to := a.end
	if next := store.CeilMilli(scheduled); !scheduled.IsZero() && next.Before(to) {
		to = next
	}
	moved, woken, err := a.move(ctx, to)
	if err != nil || moved && !woken {
		return err
	}
	a.idle++
	return a.callDue(ctx)
}

// move moves the clock to the next event, but not past a time, and wakes what falls due. It reports whether the clock
// has moved, and whether anything was woken.
func (a *advance) move(ctx context.Context, to time.Time) (moved, woken bool, err error) {
	now := a.Now()
	passes := a.idle > 0 && len(a.passed) > 0
	if a.idle > maxIdle {
		to, passes = now.Add(time.Millisecond), true
	}
	for more := true; more; {
		step, err := a.opts.Bucket().AdvanceTo(ctx, to, passes)
		if err != nil {
			return false, false, fmt.Errorf("move the clock to %s: %w", to.Format(time.RFC3339Nano), err)
		}
		a.opts.Clock.set(step.Now)
		woken = woken || step.Woken > 0 || step.Expired > 0
		to, more = step.Now, step.More
	}
	if moved = a.Now().After(now); moved {
		a.passed, a.idle = nil, 0
	}
	return moved, woken, nil
}

// callDue calls the due jobs, one after another.
func (a *advance) callDue(ctx context.Context) error {
	for len(a.done.Calls) < a.most {
		if err := ctx.Err(); err != nil {
			return err
		}
		a.tokens++
		reserving := context.WithoutCancel(ctx) // otherwise a job might be leased, and its reply lost
		got, next, err := a.opts.Bucket().ReserveFirst(reserving, fmt.Sprint("dev", a.tokens), a.passed)
		if err != nil {
			return fmt.Errorf("reserve: %w", err)
		}
		if len(got.Jobs) > 0 {
			a.call(ctx, got)
		}
		if len(got.Jobs) == 0 || !next.IsZero() {
			return nil // if the call made another job due, the clock does not move before it is called
		}
	}
	return nil
}

// call calls the reserved job.
func (a *advance) call(ctx context.Context, got store.Reserved) {
	j, now := got.Jobs[0], a.Now()
	r := a.opts.Call(ctx, j, now)
	a.idle = 0
	if r.Outcome == Released {
		a.passed = append(a.passed, j.Topic)
		return
	}
	a.done.Calls = append(a.done.Calls, Call{j.Topic, j.ID, r.Attempt, now, r.Status, r.Outcome})
}
