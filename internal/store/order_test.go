package store_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// pushOrder pushes a job with an order.
func (f *fixture) pushOrder(topic, id string, order uint32, delay time.Duration) {
	f.Helper()
	f.push(topic, id, delay, func(p *store.Push) { p.Order = &order })
}

// taken takes n jobs of topics by their order, and returns their ids.
func (f *fixture) taken(n int, topics ...string) string {
	f.Helper()
	var ids []string
	for range n {
		for _, job := range f.takeAs(store.TakeRequest{Topics: topics, Order: store.Ordered, Max: 1}) {
			ids = append(ids, job.ID)
		}
	}
	return strings.Join(ids, " ")
}

// TestOrderDecidesOverAllTopics of a call, then the id as a number, and jobs without an order come last.
func TestOrderDecidesOverAllTopics(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("a", "b", "c")
	f.push("c", "none", 0)
	f.pushOrder("a", "10", 7, 0)
	f.pushOrder("b", "9", 7, 0)
	f.pushOrder("b", "x", 7, 0)
	f.pushOrder("a", "18446744073709551615", 7, 0)
	f.pushOrder("c", "1", 1<<32-1, 0)
	f.pushOrder("b", "2", 0, 0)
	if got := f.taken(8, "c", "a", "b", "empty"); got != "2 9 10 18446744073709551615 x 1 none" {
		t.Errorf("taken: %s", got)
	}
	f.pushOrder("a", "3", 5, 0)
	f.pushOrder("a", "4", 4, 0)
	f.pushOrder("b", "5", 3, 0)
	var all []string
	for _, job := range f.takeAs(store.TakeRequest{Topics: []string{"a", "b"}, Order: store.Ordered, Max: 10}) {
		all = append(all, job.ID)
	}
	if got := strings.Join(all, " "); got != "5 4 3" {
		t.Errorf("taken at once: %s", got)
	}
}

// TestAReleasedJobKeepsItsPlaceAmongEquals, unless it gets another order.
func TestAReleasedJobKeepsItsPlaceAmongEquals(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("a")
	f.pushOrder("a", "1", 5, 0)
	f.pushOrder("a", "2", 5, 0)
	for _, e := range []store.End{{Verb: store.Release}, {Verb: store.Release, AtHead: true}, {Verb: store.Fail, Retry: []time.Duration{0}}} {
		first := f.takeAs(store.TakeRequest{Topics: []string{"a"}, Order: store.Ordered, Max: 1})[0]
		e.Lease = first.Lease
		if f.ended(e); first.ID != "1" {
			t.Fatalf("before the %s: %s", e.Verb, first.ID)
		}
	}
	first := f.take(1, "a")[0]
	f.ended(store.End{Lease: first.Lease, Verb: store.Release, Order: new(uint32(6))})
	if job := f.get("a", "1"); job.Order == nil || *job.Order != 6 || job.Priority != store.High {
		t.Errorf("released with another order: %+v", job)
	}
	if got := f.taken(3, "a"); got != "2 1" {
		t.Errorf("then taken: %s", got)
	}
}

// TestTimersOrderWhatFallsDue, more than one call of take would, so that the order of a busy topic is exact.
func TestTimersOrderWhatFallsDue(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("a")
	const n = 1200
	list := make([]store.Push, n)
	for i := range list {
		list[i] = store.Push{Topic: "a", ID: fmt.Sprint(i), Delay: 300 * time.Millisecond, Order: new(uint32(n - i))}
	}
	for _, r := range f.q.PushBatch(f.ctx, list) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	eventually(t, "the last one has its place", func() bool {
		f.advance()
		return f.s.Redis().ZCount(f.ctx, store.Prefix(0)+"o:a", "-inf", "4294967295").Val() == n
	})
	if got := f.taken(2, "a"); got != "1199 1198" {
		t.Errorf("taken: %s", got)
	}
	first, err := f.q.First(f.ctx, "a")
	if err != nil || len(first) != store.ListStep || first[0].ID != "1197" {
		t.Errorf("%d are the first, %v", len(first), err)
	}
}

// TestADamagedRecordInAnOrderIsSetAside, and leaves nothing once it is deleted.
func TestADamagedRecordInAnOrderIsSetAside(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("a")
	f.pushOrder("a", "1", 5, 0)
	f.pushOrder("a", "2", 6, 0)
	f.pushOrder("a", "3", 6, time.Hour)
	for _, id := range []string{"1", "3"} {
		f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:a", id, "\xfe\x01?and so on")
	}
	if got := f.taken(2, "a"); got != "2" {
		t.Errorf("taken: %s", got)
	}
	if _, err := f.q.DropTopic(f.ctx, "a"); err != nil {
		t.Fatal(err)
	}
	f.clean()
}

// TestAnOrderIsMovedToAnotherShard, with the job.
func TestAnOrderIsMovedToAnotherShard(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("a")
	f.pushOrder("a", "1", 5, time.Hour)
	job := f.get("a", "1")
	f.pushOrder("a", "2", 6, 0)
	job.ID, job.DueAt, job.NextAt = "3", job.CreatedAt, time.Time{}
	f.restore(f.b, job)
	if got := f.taken(2, "a"); got != "3 2" {
		t.Errorf("taken: %s", got)
	}
}

// TestOtherTopicsPayNothingForAnOrder: no script of their jobs' lives asks for one.
func TestOtherTopicsPayNothingForAnOrder(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("p")
	monitor, err := net.Dial("unix", strings.TrimPrefix(f.s.URLForTest(), "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = monitor.Close() }()
	_ = monitor.SetReadDeadline(time.Now().Add(wait.Limit))
	commands := bufio.NewScanner(monitor)
	if _, err := io.WriteString(monitor, "MONITOR\r\n"); err != nil || !commands.Scan() {
		t.Fatalf("monitor: %v, %v", err, commands.Err())
	}
	for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
		f.push("t", "1", delay)
		f.push("p", "1", delay)
		f.advanceUntilReady("t")
		f.advanceUntilReady("p")
		f.settle(store.Retry, nil, f.reserve(1)...)
		f.ended(store.End{Lease: f.take(1, "p")[0].Lease, Verb: store.Release})
		for _, topic := range []string{"t", "p"} {
			if err := f.q.Delete(f.ctx, topic, "1", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.s.Redis().Set(f.ctx, "end", 1, 0)
	n := 0
	for commands.Scan() && !strings.Contains(commands.Text(), `"end"`) {
		n++
		if line := commands.Text(); strings.Contains(line, " lua]") && strings.Contains(line, "}:o:") {
			t.Errorf("a script calls %s", line)
		}
	}
	if n == 0 || commands.Err() != nil {
		t.Errorf("%d commands, %v", n, commands.Err())
	}
}
