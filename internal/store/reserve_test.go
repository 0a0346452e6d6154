package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

func TestAnExpiredLeaseComesBackAndCounts(t *testing.T) {
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx,
		slices.Values([]store.TopicConf{{Name: "t", TTR: 10 * time.Millisecond, MaxAttempts: 2}})); err != nil {
		t.Fatal(err)
	}
	f.push("t", "a", 0)
	ls := f.reserve(1)
	var a store.Advance
	eventually(t, "the lease expires", func() bool { a = f.advance(); return a.Expired == 1 })
	if a.Now.Before(ls[0].LeaseUntil) {
		t.Fatalf("a lease until %v expired at %v", ls[0].LeaseUntil, a.Now)
	}
	j := f.get("t", "a")
	if j.State != store.Ready || j.Attempts != 1 || len(j.History) != 1 ||
		!strings.Contains(j.History[0].Error, "lease expired") {
		t.Fatalf("after the lease: %+v", j)
	}
	if f.settle(store.Done, nil, ls...)[0] {
		t.Fatal("a lost lease settled a job")
	}
	f.reserve(1)
	eventually(t, "the second lease expires", func() bool { return f.advance().Expired == 1 })
	if j := f.get("t", "a"); j.State != store.Dead || j.DeadReason != "lease" || j.Attempts != 2 || len(j.History) != 2 {
		t.Fatalf("after two leases of two: %+v", j)
	}
}

func TestAnExtendedLeaseHolds(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 0)
	ls := f.reserve(1, func(r *store.Reserve) { r.LeaseCap = time.Millisecond })
	extended := func() []bool {
		return f.settle(store.Extend, func(e *store.End) { e.Delay = time.Hour }, ls...)
	}
	if !extended()[0] {
		t.Fatal("the lease was not extended")
	}
	if j := f.get("t", "a"); time.Until(j.LeaseUntil) < 50*time.Minute {
		t.Fatalf("lease until %v", j.LeaseUntil)
	}
	if err := f.q.Delete(f.ctx, "t", "a", nil); err != nil {
		t.Fatal(err)
	}
	if extended()[0] {
		t.Fatal("the lease of a deleted job was extended")
	}
	f.clean()
}

// Adjacent jobs of a page are read together; each has its own record, even after an empty entry, and none is read from
// the next page.
func TestNeighborsAreReservedWithTheirOwnRecords(t *testing.T) {
	f := newFixture(t)
	const jobs, away = 1100, 7
	var pushes []store.Push
	for i := range jobs {
		pushes = append(pushes, store.Push{Topic: "t", ID: fmt.Sprint(i), Body: fmt.Append(nil, i)})
	}
	for _, r := range f.q.PushBatch(f.ctx, pushes) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if err := f.q.Delete(f.ctx, "t", fmt.Sprint(away), nil); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for len(seen) < jobs-1 {
		ls := f.reserve(store.ReserveLimit)
		if len(ls) == 0 {
			t.Fatalf("nothing is ready after %d jobs", len(seen))
		}
		for _, l := range ls {
			if string(l.Body) != l.ID || seen[l.ID] || l.ID == fmt.Sprint(away) {
				t.Fatalf("job %s with body %s, reserved before: %t", l.ID, l.Body, seen[l.ID])
			}
			seen[l.ID] = true
		}
		f.settle(store.Done, nil, ls...)
	}
	f.clean()
}

func TestTheSameTokenReturnsTheSameJobs(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		f.push("t", fmt.Sprint(i), 0)
	}
	same := func(r *store.Reserve) { r.Token = "lost-reply" }
	again := func(r *store.Reserve) { r.Again = true }
	a, b := f.reserve(3, same), f.reserve(3, same, again)
	if len(a) != 3 || len(b) != 3 {
		t.Fatalf("reserved %d, then %d", len(a), len(b))
	}
	for i := range a {
		if a[i].ID != b[i].ID {
			t.Fatalf("job %d: %s, then %s", i, a[i].ID, b[i].ID)
		}
	}
	if rest := f.reserve(9); len(rest) != 2 {
		t.Fatalf("%d jobs left; want 2", len(rest))
	}
}

func TestPrioritiesAreServedFiveThreeTwo(t *testing.T) {
	f := newFixture(t)
	for i := range 60 {
		for p := store.High; p <= store.Low; p++ {
			f.push("t", fmt.Sprintf("%s-%d", p, i), 0, func(x *store.Push) { x.Priority = p })
		}
	}
	count := map[store.Priority]int{}
	for i := range 100 { // one at a time: every ten are 5, 3, 2
		ls := f.reserve(1)
		count[ls[0].Priority]++
		f.settle(store.Done, nil, ls...)
		if i%10 == 9 {
			if count[store.High] != 5 || count[store.Normal] != 3 || count[store.Low] != 2 {
				t.Fatalf("jobs %d to %d: %v", i-9, i, count)
			}
			clear(count)
		}
	}
	for _, l := range f.reserve(30) {
		count[l.Priority]++
	}
	if count[store.High] != 10 || count[store.Normal]+count[store.Low] != 20 || count[store.Normal] < 11 {
		t.Fatalf("with ten high ones left: %v; want 10 high, the rest 3:2", count)
	}
}

// TestEmptyPlacesDoNotHoldUpOtherTopics: a topic whose many ready jobs were deleted does not delay other topics.
func TestEmptyPlacesDoNotHoldUpOtherTopics(t *testing.T) {
	f := newFixture(t)
	var pushes []store.Push
	for i := range 3000 {
		pushes = append(pushes, store.Push{Topic: "deleted", ID: fmt.Sprint(i), Priority: store.Normal})
	}
	f.q.PushBatch(f.ctx, pushes)
	for _, p := range pushes {
		if err := f.q.Delete(f.ctx, p.Topic, p.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	f.push("other", "a", 0)
	calls := 1
	for ; len(f.reserve(10)) == 0; calls++ {
	}
	if calls > 2 {
		t.Errorf("the other topic's job was reserved by call %d", calls)
	}
}

func TestTopicsOfAPriorityTakeTurns(t *testing.T) {
	f := newFixture(t)
	for i := range 200 {
		f.push("flood", fmt.Sprint(i), 0)
	}
	for i := range 5 {
		f.push("small", fmt.Sprint(i), 0)
		f.push("tiny", fmt.Sprint(i), 0)
	}
	count := map[string]int{}
	for _, l := range f.reserve(15) {
		count[l.Topic]++
	}
	if count["small"] < 4 || count["tiny"] < 4 {
		t.Fatalf("of 15: %v", count)
	}
}

// With many topics, a call reserves several jobs of each, because a topic costs more than a job; turns stay equal.
func TestManyTopicsTakeTurnsWithSomeJobsEach(t *testing.T) {
	f := newFixture(t)
	const topics, jobs, most = 64, 8, 4
	for i := range topics * jobs {
		f.push(fmt.Sprint("t", i%topics), fmt.Sprint(i), 0)
	}
	count := map[string]int{}
	for call := range topics * jobs / store.ReserveLimit {
		of := map[string]int{}
		for _, l := range f.reserve(store.ReserveLimit) {
			of[l.Topic]++
			count[l.Topic]++
		}
		for topic, n := range of {
			if n != most {
				t.Errorf("call %d takes %d jobs of %s", call, n, topic)
			}
		}
		if turns := (call + 1) * store.ReserveLimit / most; len(count) != min(turns, topics) {
			t.Errorf("after call %d %d topics had a turn", call, len(count))
		}
	}
	if len(count) != topics {
		t.Fatalf("jobs of %d topics", len(count))
	}
}

func TestMaxInFlightHolds(t *testing.T) {
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx, slices.Values([]store.TopicConf{{Name: "t", TTR: time.Minute, MaxAttempts: 3,
		MaxInFlight: 2}})); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		f.push("t", fmt.Sprint(i), 0)
	}
	ls := f.reserve(10)
	if len(ls) != 2 || len(f.reserve(10)) != 0 {
		t.Fatalf("%d in flight with a limit of 2", len(ls))
	}
	f.settle(store.Done, nil, ls[0])
	if n := len(f.reserve(10)); n != 1 {
		t.Fatalf("%d more after one was done", n)
	}
}

func TestRateLimitHolds(t *testing.T) {
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx, slices.Values([]store.TopicConf{{Name: "t", TTR: time.Minute, MaxAttempts: 3,
		RateLimit: 100}})); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		f.push("t", fmt.Sprint(i), 0)
	}
	start, n := time.Now(), 0
	eventually(t, "50 jobs", func() bool {
		f.advance()
		ls := f.reserve(100)
		n += len(ls)
		f.settle(store.Done, nil, ls...)
		return n >= 50
	})
	took := time.Since(start)
	if most := int(took.Seconds()*100) + 7; n > most {
		t.Fatalf("%d jobs in %v at 100 a second", n, took)
	}
	if took > time.Minute {
		t.Fatalf("50 jobs took %v at 100 a second", took)
	}
}

// TestAHigherRateHoldsAtOnce, although the lower rate allowed the next job only a quarter of an hour later.
func TestAHigherRateHoldsAtOnce(t *testing.T) {
	f := newFixture(t)
	for _, pull := range []bool{false, true} {
		conf := store.TopicConf{Name: fmt.Sprint("t", pull), TTR: time.Hour, MaxAttempts: 3, RateLimit: 0.001, Pull: pull}
		f.setTopics(conf)
		f.push(conf.Name, "1", 0)
		f.push(conf.Name, "2", 0)
		get := func() int {
			if pull {
				return len(f.take(1, conf.Name))
			}
			return len(f.reserve(1))
		}
		if first, second := get(), get(); first != 1 || second != 0 {
			t.Fatalf("%d and %d jobs at one in 1000 s", first, second)
		}
		conf.RateLimit = 100
		f.setTopics(conf)
		eventually(t, "the next job", func() bool { return get() == 1 })
	}
}

func TestAPausedTopicWaitsAndContinues(t *testing.T) {
	f := newFixture(t)
	conf := store.TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 3, Paused: true}
	if err := f.q.SetTopics(f.ctx, slices.Values([]store.TopicConf{conf})); err != nil {
		t.Fatal(err)
	}
	f.push("t", "a", 0)
	f.push("u", "b", 0)
	if ls := f.reserve(10); len(ls) != 1 || ls[0].Topic != "u" {
		t.Fatalf("reserved %d jobs with t paused", len(ls))
	}
	conf.Paused = false
	if err := f.q.SetTopics(f.ctx, slices.Values([]store.TopicConf{conf})); err != nil {
		t.Fatal(err)
	}
	if ls := f.reserve(10); len(ls) != 1 {
		t.Fatalf("reserved %d jobs after t was resumed", len(ls))
	}
}

func TestADeadEndpointIsProbedOneCallAtATime(t *testing.T) {
	f := newFixture(t)
	for i := range 100 {
		f.push("t", fmt.Sprint(i), 0)
	}
	down := func(s *store.End) { s.Endpoint = store.EndpointDown; s.Delay = time.Hour }
	calls := f.reserve(20)
	opened := time.Now()
	f.settle(store.Retry, down, calls...)
	probe := f.reserve(20)
	if len(probe) > 0 && time.Since(opened) < time.Second {
		t.Fatalf("%d jobs reserved while the breaker is open", len(probe))
	}
	eventually(t, "a probe", func() bool {
		f.advance()
		probe = append(probe, f.reserve(20)...)
		return len(probe) > 0
	})
	if len(probe) != 1 || len(f.reserve(20)) != 0 {
		t.Fatalf("%d probes at once", len(probe))
	}
	f.settle(store.Done, nil, probe...)
	if n := len(f.reserve(20)); n < 2 {
		t.Fatalf("%d jobs reserved after the endpoint answered", n)
	}
	if j := f.get("t", "99"); j.Attempts != 0 {
		t.Fatalf("a job that was not called has %d attempts", j.Attempts)
	}
}

func TestCallsRampUp(t *testing.T) {
	f := newFixture(t)
	var batch []store.Push
	for i := range 900 {
		batch = append(batch, store.Push{Topic: "t", ID: fmt.Sprint(i)})
	}
	for _, r := range f.q.PushBatch(f.ctx, batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	var seen []int
	for range 4 {
		var ls []*store.Job
		for {
			more := f.reserve(100)
			ls = append(ls, more...)
			if len(more) == 0 {
				break
			}
		}
		seen = append(seen, len(ls))
		for len(ls) > 0 {
			n := min(100, len(ls))
			f.settle(store.Done, nil, ls[:n]...)
			ls = ls[n:]
		}
	}
	if seen[0] != 32 || seen[1] <= seen[0] || seen[3] < 100 {
		t.Fatalf("calls in flight grew as %v", seen)
	}
}

func TestACorruptRecordDiesAloneAndNeighboursContinue(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		f.push("t", fmt.Sprint(i), 0)
	}
	f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", "1", "junk")
	if ls := f.reserve(10); len(ls) != 2 {
		t.Fatalf("reserved %d; want the two readable jobs", len(ls))
	}
	f.stats("t", 0, 0, 2, 1)
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: "t", Limit: 10}); n != 1 || err != nil {
		t.Fatalf("delete dead = %d, %v", n, err)
	}
}

// TestABreakerProbesWhenAsked: one job is called at once, although the next probe is an hour away; if the endpoint
// fails again, the breaker waits again.
func TestABreakerProbesWhenAsked(t *testing.T) {
	f := newFixture(t)
	for i := range 100 {
		f.push("t", fmt.Sprint(i), 0)
	}
	if open, err := f.q.ProbeNow(f.ctx, "t"); open || err != nil {
		t.Fatalf("a closed breaker is open: %v, %v", open, err)
	}
	down := func(s *store.End) { s.Endpoint = store.EndpointDown; s.Delay = time.Hour }
	f.settle(store.Retry, down, f.reserve(20)...)
	f.s.Redis().HSet(f.ctx, store.Prefix(0)+"c:t", "open", time.Now().Add(time.Hour).UnixMilli(), "probe", 60000)
	if ls := f.reserve(20); len(ls) != 0 {
		t.Fatalf("%d jobs reserved an hour before the next probe", len(ls))
	}
	for range 2 {
		if open, err := f.q.ProbeNow(f.ctx, "t"); !open || err != nil {
			t.Fatalf("the open breaker is closed: %v, %v", open, err)
		}
		f.advance()
		probe := f.reserve(20)
		if len(probe) != 1 || len(f.reserve(20)) != 0 {
			t.Fatalf("%d probes at once", len(probe))
		}
		f.settle(store.Retry, down, probe...)
		if ls := f.reserve(20); len(ls) != 0 {
			t.Fatalf("%d jobs reserved after the probe failed", len(ls))
		}
	}
}
