package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// standing is a fixture whose clock stands. It begins an hour in the past: while the clock stands, real time goes on.
type standing struct {
	*fixture
	start time.Time
	ms    atomic.Int64
}

func newStanding(t *testing.T) *standing {
	url, _ := startRedis(t)
	s := &standing{start: time.Now().Add(-time.Hour).Truncate(time.Millisecond)}
	s.ms.Store(s.start.UnixMilli())
	s.fixture = fixtureOn(t, url, store.Options{
		StandingClock: func() time.Time { return time.UnixMilli(s.ms.Load()) },
	})
	if at, err := s.b.StartClock(s.ctx, s.start); err != nil || !at.Equal(s.start) {
		t.Fatalf("the clock starts at %s, %v; want %s", at, err, s.start)
	}
	return s
}

// pass moves the clock to so long after the start, and wakes what has fallen due.
func (f *standing) pass(d time.Duration) {
	f.Helper()
	at := f.start.Add(d)
	f.ms.Store(at.UnixMilli())
	for more := true; more; {
		a, err := f.b.AdvanceTo(f.ctx, at, true)
		if err != nil {
			f.Fatal(err)
		}
		more = a.More || a.Now.Before(at)
	}
}

// first reserves and delivers one job after another, and returns their topics and ids, and when the next event comes.
func (f *standing) first(passed ...string) (jobs []string, next time.Time) {
	f.Helper()
	for {
		f.n++
		got, at, err := f.b.ReserveFirst(f.ctx, fmt.Sprint("t", f.n), passed)
		if err != nil {
			f.Fatal(err)
		}
		if len(got.Jobs) == 0 {
			return jobs, at
		}
		for _, j := range got.Jobs {
			jobs = append(jobs, j.Topic+"/"+j.ID)
		}
		f.settle(store.Done, nil, got.Jobs...)
	}
}

func (f *standing) wantFirst(want string, passed ...string) time.Time {
	f.Helper()
	jobs, next := f.first(passed...)
	if got := strings.Join(jobs, " "); got != want {
		f.Fatalf("reserved %s; want %s", got, want)
	}
	return next
}

// TestAdvanceToStopsAtEachEvent, and stays while a job is due, unless it is told to pass it.
func TestAdvanceToStopsAtEachEvent(t *testing.T) {
	f := newStanding(t)
	f.push("t", "minute", time.Minute)
	f.push("t", "hour", time.Hour)
	to := func(d time.Duration, passes bool) time.Duration {
		t.Helper()
		a, err := f.b.AdvanceTo(f.ctx, f.start.Add(d), passes)
		if err != nil {
			t.Fatal(err)
		}
		f.ms.Store(a.Now.UnixMilli())
		return a.Now.Sub(f.start)
	}
	for range 5 {
		if at := to(2*time.Hour, false); at > time.Minute {
			t.Fatalf("the clock passed a due job: %s", at)
		}
	}
	if at := to(time.Minute+time.Second, true); at != time.Minute+time.Second {
		t.Errorf("the clock was to pass the due job, and shows %s", at)
	}
	f.wantFirst("t/minute")
	for range 5 {
		to(30*time.Minute, false)
	}
	if at := to(0, false); at != 30*time.Minute {
		t.Errorf("nothing is due, and the clock shows %s", at)
	}
}

// TestReserveFirstTakesByDueTimePriorityAndPush over all topics, not in turns.
func TestReserveFirstTakesByDueTimePriorityAndPush(t *testing.T) {
	f := newStanding(t)
	of := func(p store.Priority) func(*store.Push) { return func(x *store.Push) { x.Priority = p } }
	f.push("b", "second", time.Minute)
	f.push("a", "third", time.Minute)
	f.push("b", "low", time.Minute, of(store.Low))
	f.push("b", "high", time.Minute, of(store.High))
	f.push("z", "early", time.Minute-time.Millisecond, of(store.Low))
	f.push("a", "fourth", time.Minute)
	f.push("c", "later", time.Hour, of(store.High))
	if next := f.wantFirst(""); next.IsZero() || next.After(f.start.Add(time.Minute-time.Millisecond)) {
		t.Errorf("the next event is at %s", next)
	}
	f.pass(time.Minute)
	next := f.wantFirst("z/early b/high b/second a/third a/fourth b/low")
	if next.IsZero() || next.After(f.start.Add(time.Hour)) || next.Before(f.start.Add(59*time.Minute)) {
		t.Errorf("the next event is at %s", next)
	}
	f.pass(time.Hour)
	if next := f.wantFirst("c/later"); !next.IsZero() {
		t.Errorf("with no job left, the next event is at %s", next)
	}
}

// TestReserveFirstPassesOverTopicsThatMayNotBeCalled, by the caller's word or by their limits.
func TestReserveFirstPassesOverTopicsThatMayNotBeCalled(t *testing.T) {
	f := newStanding(t)
	if err := f.q.SetTopics(f.ctx, slices.Values([]store.TopicConf{
		{Name: "paused", TTR: time.Minute, MaxAttempts: 3, Paused: true},
		{Name: "paced", TTR: time.Minute, MaxAttempts: 3, RateLimit: 1},
		{Name: "free", TTR: time.Minute, MaxAttempts: 3},
		{Name: "passed", TTR: time.Minute, MaxAttempts: 3},
	})); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"paused", "passed", "paced", "free"} {
		f.push(topic, "1", 0)
		f.push(topic, "2", 0)
	}
	next := f.wantFirst("paced/1 free/1 free/2", "passed")
	if want := f.start.Add(time.Second); next.Before(f.start) || next.After(want) {
		t.Fatalf("the next event is at %s; the rate allows one more job at %s", next, want)
	}
	f.wantFirst("passed/1 passed/2")
	f.pass(time.Second)
	f.wantFirst("paced/2")
}

// TestReserveFirstGoesOnAfterJobsThatCannotBeLeased: while one that can is due, it is reserved.
func TestReserveFirstGoesOnAfterJobsThatCannotBeLeased(t *testing.T) {
	f := newStanding(t)
	for i := range 5 {
		f.push("t", fmt.Sprint("damaged", i), 0)
		f.push("t", fmt.Sprint(i), 0)
	}
	for i := range 5 {
		f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", fmt.Sprint("damaged", i), "\xfe\x01?and so on")
	}
	f.s.Redis().HDel(f.ctx, store.Prefix(0)+"j:t", "0")
	f.wantFirst("t/1 t/2 t/3 t/4")
	f.stats("t", 0, 0, 0, 5)
}

// TestAStandingClockLetsNothingExpireByItself: a group that is closed for ten minutes stays closed while the clock
// stands, however long that is.
func TestAStandingClockLetsNothingExpireByItself(t *testing.T) {
	f := newStanding(t)
	if _, err := f.q.CancelGroup(f.ctx, "order", []string{"*"}, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	push := func(id string) error {
		return f.q.Push(f.ctx, store.Push{Topic: "t", ID: id, Body: []byte("1"), Priority: store.Normal, Group: "order"}).Err
	}
	if err := push("a"); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("a push into the closed group: %v", err)
	}
	f.pass(10 * time.Minute)
	if err := push("b"); err != nil {
		t.Fatalf("a push after ten minutes: %v", err)
	}
}
