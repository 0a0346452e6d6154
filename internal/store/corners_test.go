package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// TestANamespacesTopicLeavesNothing when its last jobs end together, though its window grew.
func TestANamespacesTopicLeavesNothing(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "n.*", TTR: time.Minute})
	for i := range 30 {
		f.push("n.a", fmt.Sprint(i), 0)
	}
	f.settle(store.Done, nil, f.reserve(30)...)
	if f.s.Redis().Exists(f.ctx, store.Prefix(0)+"c:n.a").Val() != 0 {
		t.Error("the window of a topic without jobs is left in Redis")
	}
}

// TestAPushReplacesADamagedRecord instead of being answered without being stored.
func TestAPushReplacesADamagedRecord(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", time.Hour)
	f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", "a", "\xfe\x01?and so on")
	f.push("t", "a", 0)
	if ls := f.reserve(10); len(ls) != 1 {
		t.Fatalf("reserved %d jobs; want the one that was pushed", len(ls))
	}
}

// TestADamagedRecordInAListOfAMinuteBecomesDead too.
func TestADamagedRecordInAListOfAMinuteBecomesDead(t *testing.T) {
	f := newFixture(t)
	f.listEarly()
	f.push("t", "a", time.Hour)
	f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", "a", "\xfe\x01?and so on")
	if err := bringNear(f.ctx, f.s, "t"); err != nil {
		t.Fatal(err)
	}
	f.reserve(10)
	f.stats("t", 0, 0, 0, 1)
}

// TestADamagedRecordOfARunningJobBecomesDead when its lease ends.
func TestADamagedRecordOfARunningJobBecomesDead(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 0)
	f.reserve(1, func(r *store.Reserve) { r.LeaseCap = time.Millisecond })
	f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", "a", "\xfe\x01?and so on")
	eventually(t, "the job is dead", func() bool {
		f.advance()
		f.reserve(1)
		st, err := f.q.Stats(f.ctx, []string{"t"})
		return err == nil && st["t"].Dead == 1
	})
}

// TestManyLeasesEndTogether: all jobs of a dispatcher that was killed are ready again at once.
func TestManyLeasesEndTogether(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 5})
	f.s.Redis().HSet(f.ctx, store.Prefix(0)+"c:t", "window", 1000, "windowAt", time.Now().UnixMilli())
	const n = 256
	for i := range n {
		f.push("t", fmt.Sprint(i), 0)
	}
	short := func(r *store.Reserve) { r.LeaseCap = time.Millisecond }
	if got := len(f.reserve(128, short)) + len(f.reserve(128, short)); got != n {
		t.Fatalf("reserved %d", got)
	}
	ended := 0
	wait.For(t, "the leases to expire", func() bool {
		ended += f.advance().Expired
		return ended >= n
	})
	if ended != n {
		t.Errorf("%d of %d expired leases ended", ended, n)
	}
}

// TestOneAdvanceForEachDueJob: the time that Advance names is not before the job is due.
func TestOneAdvanceForEachDueJob(t *testing.T) {
	f := newFixture(t)
	for i := range 10 {
		f.push("t", fmt.Sprint(i), 20*time.Millisecond)
		a := f.advance()
		for time.Now().Before(a.Next) { // the fixture's Redis has this clock
			time.Sleep(10 * time.Microsecond)
		}
		if !a.Next.IsZero() { // on a busy machine the job may have been due at once
			a = f.advance()
		}
		if a.Woken != 1 || a.More {
			t.Fatalf("at the time that it named Advance found %+v", a)
		}
		f.settle(store.Done, nil, f.reserve(1)...)
	}
}

// TestAnswersMayHaveAnySpace.
func TestAnswersMayHaveAnySpace(t *testing.T) {
	f := newFixture(t)
	f.remember("t", store.RememberLast)
	answer := "a\u00a0b\u3000c\u0085d\te f"
	f.push("t", "a", 0, func(p *store.Push) { p.Headers = map[string]string{"X": answer} })
	f.settle(store.Done, func(x *store.End) { x.Attempt.Answer = answer }, f.reserve(1)...)
	j := f.recall("t", "a")
	if j.History[0].Answer != answer || j.Headers["X"] != answer {
		t.Errorf("recalled %+v", j)
	}
}

// TestNewSettingsOfANamespaceBringParkedTopicsBack at once.
func TestNewSettingsOfANamespaceBringParkedTopicsBack(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "n.*", TTR: time.Minute, RateLimit: 0.001})
	for _, id := range []string{"a", "b", "c"} {
		f.push("n.t", id, 0)
	}
	f.reserve(1)
	if ls := f.reserve(1); len(ls) != 0 {
		t.Fatalf("reserved %d jobs against the rate", len(ls))
	}
	f.setTopics(store.TopicConf{Name: "n.*", TTR: time.Minute})
	f.advance()
	if ls := f.reserve(2); len(ls) != 2 {
		t.Errorf("reserved %d jobs after the limit was removed; want 2", len(ls))
	}
}

// TestADispatcherThatMayTakeNoMoreOfATopicIsNotToldToAskAgain.
func TestADispatcherThatMayTakeNoMoreOfATopicIsNotToldToAskAgain(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 0)
	r := store.Reserve{Worker: "w", Token: "x", Max: 4, Pattern: "0102010201", Busy: map[string]int{"t": 0}}
	if got, err := f.b.Reserve(f.ctx, r); err != nil || got.More || len(got.Jobs) != 0 {
		t.Errorf("reserved %+v, %v", got, err)
	}
	if ls := f.reserve(1); len(ls) != 1 {
		t.Error("another dispatcher does not get the job")
	}
}

// TestARestoredJobTakesTheIdOfAFinishedOne, whose attempts and count go.
func TestARestoredJobTakesTheIdOfAFinishedOne(t *testing.T) {
	f := newFixture(t)
	f.remember("t", store.RememberLast)
	f.push("t", "a", 0)
	f.settle(store.Retry, nil, f.reserve(1)...)
	f.settle(store.Done, nil, f.reserve(1)...)
	job := store.Job{Topic: "t", ID: "a", State: store.Delayed, CreatedAt: time.UnixMilli(5), DueAt: time.Now().Add(time.Hour)}
	f.restore(f.b, &job)
	if n := f.s.Redis().Get(f.ctx, store.Prefix(0)+"fin").Val(); n != "0" {
		t.Errorf("%s finished jobs are counted; want none", n)
	}
	if j := f.get("t", "a"); len(j.History) != 0 {
		t.Errorf("the restored job has attempts of the finished one: %+v", j.History)
	}
	f.stats("t", 1, 0, 0, 0)
}

// TestClearingATopicHasTheRevisionOfItsBeginning: jobs pushed meanwhile may stay, and a replay must not clear them.
func TestClearingATopicHasTheRevisionOfItsBeginning(t *testing.T) {
	url, _ := startRedis(t)
	var recorded []string
	f := fixtureOn(t, url, store.Options{Changed: func(kind store.ChangeKind, jobs []store.Job) error {
		recorded = append(recorded, fmt.Sprint(kind, " ", jobs[0].Revision))
		return nil
	}})
	for i := range 1000 { // deleted in several steps
		f.push("t", fmt.Sprint(i), time.Hour)
	}
	before, _ := f.s.Redis().Get(f.ctx, store.Prefix(0)+"rev").Int64()
	if n, err := f.q.DropTopic(f.ctx, "t"); n != 1000 || err != nil {
		t.Fatal(n, err)
	}
	if want := fmt.Sprint("clear ", before+1); len(recorded) != 1 || recorded[0] != want {
		t.Errorf("recorded %q, want %q", recorded, want)
	}
}

// TestAWorkerThatWaitsIsToldOfALaterJob when the one before was deleted while all places of the topic were taken.
func TestAWorkerThatWaitsIsToldOfALaterJob(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Hour, MaxAttempts: 3, Pull: true, MaxInFlight: 1})
	f.push("t", "held", 0)
	held := f.take(1, "t")
	f.push("t", "deleted", 0)
	f.push("t", "later", 30*time.Second)
	f.advance()
	if _, err := f.b.Take(f.ctx, []store.TakeRequest{{Topics: []string{"t"}, Max: 1}}, []string{"t"}); err != nil {
		t.Fatal(err)
	}
	f.s.Redis().ZAdd(f.ctx, store.Prefix(0)+"next", redis.Z{Score: 1, Member: "t"})
	f.advance()
	if err := f.q.Delete(f.ctx, "t", "deleted", nil); err != nil {
		t.Fatal(err)
	}
	f.ended(store.End{Lease: held[0].Lease, Verb: store.Done})
	next := f.s.Redis().ZScore(f.ctx, store.Prefix(0)+"next", "t").Val()
	if next == 0 || next > float64(time.Now().Add(40*time.Second).UnixMilli()) {
		t.Errorf("the next event of the topic is at %.0f", next)
	}
}

// TestDeletingALeasedJobFreesItsPlace for workers that wait.
func TestDeletingALeasedJobFreesItsPlace(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Hour, MaxAttempts: 3, Pull: true, MaxInFlight: 1})
	f.push("t", "held", 0)
	f.take(1, "t")
	f.push("t", "next", 0)
	f.advance()
	if _, err := f.b.Take(f.ctx, []store.TakeRequest{{Topics: []string{"t"}, Max: 1}}, []string{"t"}); err != nil {
		t.Fatal(err)
	}
	if err := f.q.Delete(f.ctx, "t", "held", nil); err != nil {
		t.Fatal(err)
	}
	if a := f.advance(); a.Woken != 1 {
		t.Errorf("the waiting worker is not told: %+v", a)
	}
}

// TestAnIdleTopicStartsWithASmallWindow however large its window had grown, or however small a failing endpoint had
// made it: also for the calls after the first.
func TestAnIdleTopicStartsWithASmallWindow(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "grown", TTR: time.Minute}, store.TopicConf{Name: "small", TTR: time.Minute})
	long := time.Now().Add(-time.Minute).UnixMilli()
	for topic, window := range map[string]int{"grown": 1000, "small": 4} {
		f.s.Redis().HSet(f.ctx, store.Prefix(0)+"c:"+topic, "window", window, "windowAt", long)
		for i := range 100 {
			f.push(topic, fmt.Sprint(i), 0)
		}
	}
	running := map[string]int{}
	first := f.reserve(256)
	for _, l := range first {
		running[l.Topic]++
	}
	if running["grown"] != 32 || running["small"] != 32 {
		t.Fatalf("running at first: %v; want 32 of each topic", running)
	}
	f.settle(store.Done, nil, first...)
	for topic, want := range map[string]int64{"grown": 64, "small": 64} { // it doubles, as that of a new topic
		limits, err := f.figures().TopicLimits(f.ctx, []string{topic})
		if err != nil || limits[topic].Window != want {
			t.Errorf("the window of the topic %s is %d, %v; want %d", topic, limits[topic].Window, err, want)
		}
	}
}
