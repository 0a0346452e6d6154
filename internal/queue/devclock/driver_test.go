package devclock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/devclock"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/leaks"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// fixture is a queue whose clock a driver moves. Calls deliver their jobs, unless a test says otherwise.
type fixture struct {
	*testing.T
	*devclock.Driver
	queue  *queue.Queue
	start  time.Time
	called []string
	call   func(ctx context.Context, j *store.Job) store.Verb
	fires  func(now time.Time) (next time.Time) // schedules
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{Quick: true})
	clock := devclock.NewClock(time.Now())
	f := &fixture{
		T: t, start: clock.Now(),
		call:  func(context.Context, *store.Job) store.Verb { return store.Done },
		fires: func(time.Time) time.Time { return time.Time{} },
		queue: queue.Open(store.Options{Timeout: wait.Limit, StandingClock: clock.Now}),
	}
	t.Cleanup(func() { _ = f.queue.Close() })
	shards := []store.ShardConfig{{Name: "a", URL: redis.URL(), State: "active"}}
	if err := f.queue.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the shard is adopted", func() bool {
		return queuetest.Adopt(t.Context(), f.queue.Shards.All()[0]) == nil
	})
	f.Driver = devclock.New(devclock.Options{
		Clock: clock, Bucket: f.bucket, Call: f.callAndSettle,
		Schedules: func(context.Context) (time.Time, error) { return f.fires(clock.Now()), nil },
	})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) bucket() *store.Bucket { return f.queue.Shards.Buckets()[0] }

func (f *fixture) callAndSettle(ctx context.Context, j *store.Job, now time.Time) devclock.Result {
	f.called = append(f.called, fmt.Sprintf("%s at %s", j.ID, now.Sub(f.start)))
	end := store.End{Lease: j.Lease, Verb: f.call(ctx, j), AtHead: true, Endpoint: store.EndpointUp}
	if _, err := f.bucket().End(context.WithoutCancel(ctx), []store.End{end}); err != nil {
		f.Error(err)
	}
	if end.Verb == store.Release {
		return devclock.Result{Outcome: devclock.Released}
	}
	return devclock.Result{Attempt: 1, Status: 200, Outcome: "done"}
}

func (f *fixture) push(topic, id string, delay time.Duration) {
	f.Helper()
	r := f.queue.Push(f.Context(), store.Push{
		Topic: topic, ID: id, Body: []byte("1"), Delay: delay, Priority: store.Normal,
	})
	if r.Err != nil {
		f.Fatal(r.Err)
	}
}

func by(d time.Duration) func(time.Time) time.Time {
	return func(now time.Time) time.Time { return now.Add(d) }
}

func (f *fixture) advance(d time.Duration) devclock.Advanced {
	f.Helper()
	done, err := f.Advance(f.Context(), by(d))
	if err != nil {
		f.Fatal(err)
	}
	return done
}

func (f *fixture) wantCalled(want ...string) {
	f.Helper()
	if !slices.Equal(f.called, want) {
		f.Fatalf("called %s; want %s", strings.Join(f.called, ", "), strings.Join(want, ", "))
	}
	f.called = nil
}

// TestAdvanceCallsAtEachDueTime, and what a call pushes, and ends where it was told to.
func TestAdvanceCallsAtEachDueTime(t *testing.T) {
	f := newFixture(t)
	f.push("t", "hour", time.Hour)
	f.push("u", "minute", time.Minute)
	f.push("t", "day", 24*time.Hour)
	f.call = func(_ context.Context, j *store.Job) store.Verb {
		if j.ID == "minute" {
			f.push("u", "pushed", 2*time.Minute)
		}
		return store.Done
	}
	done := f.advance(2 * time.Hour)
	f.wantCalled("minute at 1m0s", "pushed at 3m0s", "hour at 1h0m0s")
	if len(done.Calls) != 3 || !done.Now.Equal(f.start.Add(2*time.Hour)) || !f.Now().Equal(done.Now) ||
		!done.StoppedAt.IsZero() {
		t.Errorf("%+v", done)
	}
	f.advance(0)
	f.wantCalled()
}

// TestAdvanceStopsForSchedules at each of their times.
func TestAdvanceStopsForSchedules(t *testing.T) {
	f := newFixture(t)
	next := f.start.Add(time.Hour)
	f.fires = func(now time.Time) time.Time {
		for ; !next.After(now); next = next.Add(time.Hour) {
			f.push("t", fmt.Sprint("occurrence", next.Sub(f.start).Hours()), 0)
		}
		return next
	}
	f.advance(3*time.Hour + time.Minute)
	f.wantCalled("occurrence1 at 1h0m0s", "occurrence2 at 2h0m0s", "occurrence3 at 3h0m0s")
}

// TestReleasedJobsDoNotLoop: a job that cannot be called stops neither the others nor the clock.
func TestReleasedJobsDoNotLoop(t *testing.T) {
	f := newFixture(t)
	f.push("t", "never", 0)
	f.push("u", "other", time.Hour)
	released := 0
	f.call = func(_ context.Context, j *store.Job) store.Verb {
		if j.Topic == "u" {
			return store.Done
		}
		if released++; released > 100 {
			t.Error("it is called again and again")
			return store.Done
		}
		return store.Release
	}
	done := f.advance(24 * time.Hour)
	if len(done.Calls) != 1 || done.Calls[0].ID != "other" || !done.Calls[0].At.Equal(f.start.Add(time.Hour)) {
		t.Errorf("%+v", done)
	}
}

// TestAdvanceStopsAfterMaxCalls where it is, and goes on with the next request.
func TestAdvanceStopsAfterMaxCalls(t *testing.T) {
	f := newFixture(t)
	f.LimitForTest(3)
	for i := range 5 {
		f.push("t", fmt.Sprint(i), time.Duration(i)*time.Minute)
	}
	done := f.advance(time.Hour)
	if at := f.start.Add(2 * time.Minute); len(done.Calls) != 3 || !done.StoppedAt.Equal(at) || !done.Now.Equal(at) {
		t.Fatalf("%+v", done)
	}
	done = f.advance(time.Hour)
	if len(done.Calls) != 2 || !done.StoppedAt.IsZero() || !done.Now.Equal(f.start.Add(62*time.Minute)) {
		t.Fatalf("%+v", done)
	}
}

// TestAdvanceEndsWithItsContext: the clock stays where it is, and the rest is called by the next request.
func TestAdvanceEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	for i := range 4 {
		f.push("t", fmt.Sprint(i), time.Duration(i)*time.Minute)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.call = func(_ context.Context, j *store.Job) store.Verb {
		if j.ID == "1" {
			cancel()
		}
		return store.Done
	}
	if _, err := f.Advance(ctx, by(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Fatalf("ended with %v", err)
	}
	f.wantCalled("0 at 0s", "1 at 1m0s")
	if now := f.Now(); !now.Equal(f.start.Add(time.Minute)) {
		t.Errorf("the clock shows %s", now)
	}
	f.advance(time.Hour)
	f.wantCalled("2 at 2m0s", "3 at 3m0s")
}

// TestOneAdvanceAtATime, and none goes back.
func TestOneAdvanceAtATime(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", time.Minute)
	f.call = func(ctx context.Context, _ *store.Job) store.Verb {
		if _, err := f.Advance(ctx, by(time.Hour)); !errors.Is(err, devclock.ErrAdvancing) {
			t.Errorf("another advance meanwhile: %v", err)
		}
		return store.Done
	}
	f.advance(time.Hour)
	f.wantCalled("a at 1m0s")
	if _, err := f.Advance(t.Context(), by(-time.Millisecond)); !errors.Is(err, devclock.ErrBackwards) {
		t.Errorf("an advance to the past: %v", err)
	}
	if now := f.Now(); !now.Equal(f.start.Add(time.Hour)) {
		t.Errorf("the clock shows %s", now)
	}
}

// TestStartGoesOnWhereTheClockStood, as after a restart of the process.
func TestStartGoesOnWhereTheClockStood(t *testing.T) {
	f := newFixture(t)
	f.advance(48 * time.Hour)
	again := devclock.New(devclock.Options{Clock: devclock.NewClock(time.Now()), Bucket: f.bucket})
	if err := again.Start(t.Context()); err != nil || !again.Now().Equal(f.start.Add(48*time.Hour)) {
		t.Errorf("it shows %s, %v", again.Now(), err)
	}
}
