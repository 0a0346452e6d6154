package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

// fake is the owner of a Batcher whose calls last until the test lets them end.
type fake struct {
	*Batcher[string, string]
	calls  chan []string // values of the calls that have begun
	end    chan struct{} // each value lets a call end; closed: all end
	closed atomic.Bool
	wg     sync.WaitGroup
}

var limits = Options{Calls: 2, Jobs: 10, LargeJobs: 4, Bytes: 100, Topics: 5, SecondAt: 6, Waiting: 50}

func newFake(t *testing.T, o Options) *fake {
	f := &fake{calls: make(chan []string, 100), end: make(chan struct{})}
	o.Start = func(run func()) bool {
		if f.closed.Load() {
			return false
		}
		f.wg.Go(run)
		return true
	}
	o.Refused = func(err error) error { return fmt.Errorf("refused: %w", err) }
	f.Batcher = New(o, func(_ int, batch []*Request[string, string]) {
		values := make([]string, len(batch))
		for i, r := range batch {
			values[i] = r.Value
		}
		f.calls <- values
		<-f.end
		for _, r := range batch {
			r.Answer("answer to "+r.Value, nil)
		}
	})
	t.Cleanup(f.finish)
	return f
}

// finish lets all calls end.
func (f *fake) finish() {
	if f.closed.CompareAndSwap(false, true) {
		close(f.end)
	}
	f.wg.Wait()
}

func (f *fake) add(values ...string) {
	for _, v := range values {
		f.Add(v, Size{Jobs: 1})
	}
}

// busy makes one call that does not end.
func (f *fake) busy() {
	f.add("first")
	<-f.calls
}

func TestARequestIsSentAtOnceAndTheNextOnesTogether(t *testing.T) {
	f := newFake(t, limits)
	first := f.Add("a", Size{Jobs: 1})
	if got := <-f.calls; !slices.Equal(got, []string{"a"}) {
		t.Fatalf("sent %q", got)
	}
	f.add("b", "c")
	if len(f.calls) > 0 {
		t.Error("two requests have a second call of their own")
	}
	f.end <- struct{}{}
	if got, err := first.Wait(t.Context()); got != "answer to a" || err != nil {
		t.Errorf("answered %q, %v", got, err)
	}
	if got := <-f.calls; !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("then sent %q", got)
	}
}

func TestManyRequestsAreWorthASecondCall(t *testing.T) {
	f := newFake(t, limits)
	f.busy()
	f.add("1", "2", "3", "4", "5", "6")
	if got := <-f.calls; len(got) != limits.SecondAt {
		t.Errorf("sent %q", got)
	}
	f.add(strings.Fields(strings.Repeat("x ", 20))...)
	if len(f.calls) > 0 {
		t.Errorf("more than %d calls are under way", limits.Calls)
	}
}

// TestACallIsBounded: by jobs, bytes and topics; a request that alone is larger has a call of its own.
func TestACallIsBounded(t *testing.T) {
	topics := func(names ...string) func(map[string]bool) float64 {
		return func(seen map[string]bool) (n float64) {
			for _, name := range names {
				if !seen[name] {
					seen[name] = true
					n++
				}
			}
			return n
		}
	}
	for what, c := range map[string]struct {
		sizes []Size
		want  []int
	}{
		"jobs":        {[]Size{{Jobs: 4}, {Jobs: 6}, {Jobs: 1}, {Jobs: 30}, {Jobs: 1}}, []int{2, 1, 1, 1}},
		"large parts": {[]Size{{Jobs: 2, Large: true}, {Jobs: 2, Large: true}, {Jobs: 1, Large: true}}, []int{2, 1}},
		"bytes":       {[]Size{{Bytes: 60}, {Bytes: 40}, {Bytes: 1}, {Bytes: 500}}, []int{2, 1, 1}},
		"topics": {[]Size{
			{Topics: topics("a", "b", "c")}, {Topics: topics("d", "b", "c")}, {Topics: topics("e", "f")},
			{Topics: topics("a", "b", "c", "d", "e", "f", "g")},
		}, []int{2, 1, 1}},
		"the same topics": {[]Size{{Topics: topics("a", "b")}, {Topics: topics("a", "b")}, {Topics: topics("b")}}, []int{3}},
	} {
		o := limits
		o.Calls, o.SecondAt = 1, 1000
		f := newFake(t, o)
		f.busy()
		for _, size := range c.sizes {
			f.Add("x", size)
		}
		f.finish()
		var got []int
		for len(f.calls) > 0 {
			got = append(got, len(<-f.calls))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the calls have %v requests, want %v", what, got, c.want)
		}
	}
}

// TestSmallRequestsOvertakeLargeOnes: while parts of large requests wait and all calls carry some, the next call has the
// other requests.
func TestSmallRequestsOvertakeLargeOnes(t *testing.T) {
	f := newFake(t, limits)
	for i := range 40 {
		f.Add(fmt.Sprint("large ", i), Size{Jobs: 2, Large: true})
	}
	for range limits.Calls {
		<-f.calls
	}
	for range 3 {
		f.add("small")
		f.end <- struct{}{}
		if got := <-f.calls; !slices.Equal(got, []string{"small"}) {
			t.Fatalf("sent %q", got)
		}
		f.end <- struct{}{} // of the small one, or of the other large one, which the next call follows
		if got := <-f.calls; len(got) > limits.LargeJobs/2 || !strings.HasPrefix(got[0], "large") {
			t.Fatalf("then sent %q", got)
		}
		if len(f.calls) > 0 {
			t.Fatal("more calls than slots")
		}
		f.idleSmall(t)
	}
	f.finish()
	for len(f.calls) > 0 {
		if got := <-f.calls; !strings.HasPrefix(got[0], "large") {
			t.Errorf("then sent %q", got)
		}
	}
}

// idleSmall lets calls end until none has small requests.
func (f *fake) idleSmall(t *testing.T) {
	t.Helper()
	for {
		f.mu.Lock()
		idle := f.small.inFlight == 0
		f.mu.Unlock()
		if idle {
			return
		}
		f.end <- struct{}{}
		<-f.calls
	}
}

func TestTooManyWaitingRequestsAreRefused(t *testing.T) {
	o := limits
	o.Calls = 1
	f := newFake(t, o)
	f.busy()
	waiting := make([]*Request[string, string], limits.Waiting+1)
	for i := range waiting {
		waiting[i] = f.Add("x", Size{Jobs: 1})
	}
	if _, err := f.Add("y", Size{Jobs: 1}).Wait(t.Context()); !errors.Is(err, ErrOverloaded) ||
		!strings.HasPrefix(err.Error(), "refused") {
		t.Errorf("one more: %v", err)
	}
	large := f.Add("z", Size{Jobs: 1, Large: true})
	f.finish()
	for _, r := range append(waiting, large) {
		if _, err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARequestThatHasWaitedTooLongIsRefused(t *testing.T) {
	o := limits
	o.Calls, o.Wait = 1, time.Minute
	f := newFake(t, o)
	f.busy()
	late, inTime := f.Add("late", Size{Jobs: 1}), f.Add("in time", Size{Jobs: 1})
	late.since = late.since.Add(-2 * o.Wait)
	f.end <- struct{}{}
	if got := <-f.calls; !slices.Equal(got, []string{"in time"}) {
		t.Errorf("sent %q", got)
	}
	f.finish()
	if _, err := late.Wait(t.Context()); !errors.Is(err, ErrOverloaded) {
		t.Errorf("the late one: %v", err)
	}
	if _, err := inTime.Wait(t.Context()); err != nil {
		t.Errorf("the other: %v", err)
	}
}

// TestAClosedOwnerAnswersEveryRequest: no caller waits for an answer that never arrives, and no slot is lost.
func TestAClosedOwnerAnswersEveryRequest(t *testing.T) {
	f := newFake(t, limits)
	f.finish()
	for range 3 * limits.Calls {
		if _, err := f.Add("x", Size{Jobs: 1}).Wait(t.Context()); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
}

// TestSlotsAreExclusive: no two calls that are under way have the same slot.
func TestSlotsAreExclusive(t *testing.T) {
	const calls = 4
	var used [calls]atomic.Bool
	var wg sync.WaitGroup
	b := New(Options{
		Calls: calls, Jobs: 3, LargeJobs: 2, SecondAt: 2, Waiting: 1000,
		Start: func(run func()) bool { wg.Go(run); return true },
	}, func(slot int, batch []*Request[int, int]) {
		if used[slot].Swap(true) {
			t.Errorf("two calls have the slot %d", slot)
		}
		for _, r := range batch {
			r.Answer(-r.Value, nil)
		}
		used[slot].Store(false)
	})
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for n := range 200 {
				if got, err := b.Add(n, Size{Jobs: 1, Large: i%2 == 0}).Wait(t.Context()); got != -n || err != nil {
					t.Errorf("answered %d, %v", got, err)
				}
			}
		})
	}
	callers.Wait()
	wg.Wait()
	if len(b.free) != calls {
		t.Errorf("%d of %d slots are free at the end", len(b.free), calls)
	}
}

// TestWhoeverAnswersLearnsThatTheCallerHasLeft.
func TestWhoeverAnswersLearnsThatTheCallerHasLeft(t *testing.T) {
	begun, taken := make(chan *Request[string, string], 1), make(chan bool)
	var wg sync.WaitGroup
	o := limits
	o.Start = func(run func()) bool { wg.Go(run); return true }
	b := New(o, func(_ int, batch []*Request[string, string]) {
		begun <- batch[0]
		wait.For(t, "the caller leaves", batch[0].Left)
		taken <- batch[0].Answer("late", nil)
	})
	ctx, cancel := context.WithCancel(t.Context())
	r := b.Add("a", Size{Jobs: 1})
	if (<-begun).Left() {
		t.Error("it has left before its context ended")
	}
	cancel()
	if got, err := r.Wait(ctx); got != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("answered %q, %v", got, err)
	}
	if <-taken {
		t.Error("the answer was taken")
	}
	wg.Wait()
}

func TestListGivesEachRequestItsPart(t *testing.T) {
	var lists [][]int
	begin := make(chan struct{})
	var wg sync.WaitGroup
	o := limits
	o.Calls, o.Start = 1, func(run func()) bool { wg.Go(run); return true }
	b := New(o, List(func(list []int) []string {
		<-begin
		lists = append(lists, list)
		answers := make([]string, len(list))
		for i, n := range list {
			answers[i] = fmt.Sprint(n)
		}
		return answers
	}))
	var requests []*Request[[]int, []string]
	for _, list := range [][]int{{1, 2}, {3}, {4, 5, 6}} {
		requests = append(requests, b.Add(list, Size{Jobs: len(list)}))
	}
	close(begin)
	for i, want := range [][]string{{"1", "2"}, {"3"}, {"4", "5", "6"}} {
		got, err := requests[i].Wait(t.Context())
		if err != nil || !slices.Equal(got, want) || cap(got) != len(want) {
			t.Errorf("request %d: %q, %v", i, got, err)
		}
	}
	wg.Wait()
	if len(lists) != 2 || !slices.Equal(lists[1], []int{3, 4, 5, 6}) {
		t.Errorf("the calls have %v", lists)
	}
}
