package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestExpiredJobsAreSwept even when no worker takes jobs: they become dead or are removed, and no key for their topic
// remains.
func TestExpiredJobsAreSwept(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "dead", Pull: true}, store.TopicConf{Name: "drop", Pull: true, Drop: true},
		store.TopicConf{Name: "push"})
	names := []string{"dead", "drop", "push"}
	for _, topic := range names {
		f.push(topic, "later", 0, func(p *store.Push) { p.TTL = time.Hour })
		f.push(topic, "soon", 0, func(p *store.Push) { p.TTL = time.Millisecond })
		f.push(topic, "delayed", 50*time.Millisecond, func(p *store.Push) { p.TTL = time.Millisecond })
	}
	eventually(t, "they are swept", func() bool {
		f.advance()
		st, err := f.q.Stats(f.ctx, names)
		return err == nil && st["dead"].Dead == 2 && st["push"].Dead == 2 && st["drop"].Ready == 1
	})
	f.stats("dead", 0, 1, 0, 2)
	f.stats("drop", 0, 1, 0, 0)
	f.stats("push", 0, 1, 0, 2)
	if j := f.get("dead", "soon"); j.DeadReason != "expired" {
		t.Errorf("swept: %+v", j)
	}
	for _, topic := range names {
		if err := f.q.Delete(f.ctx, topic, "later", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: topic, Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	f.advance()
	f.reserve(1) // finds no job, and removes the whole list
	f.clean()
	for i := range 3 { // a topic whose jobs have expired has no turn
		f.push("push", fmt.Sprint(i), 0, func(p *store.Push) { p.TTL = time.Millisecond })
		eventually(t, "it is swept", func() bool {
			f.advance()
			m, err := f.q.Stats(f.ctx, []string{"push"})
			return err == nil && m["push"].Ready == 0
		})
	}
	f.push("push", "last", 0)
	if n := f.s.Redis().ZCard(f.ctx, store.Prefix(0)+"q:normal").Val(); n > 1 {
		t.Errorf("its topic has %d turns", n)
	}
}

// TestARedrivenJobIsSwept: it gets its time to live when its topic has no other job that expires.
func TestARedrivenJobIsSwept(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0)
	f.ended(store.End{Lease: f.take(1, "t")[0].Lease, Verb: store.Bury})
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "t", As: &store.Renewal{MaxAttempts: 1, TTL: time.Millisecond}, Limit: 1}); n != 1 || err != nil {
		t.Fatalf("re-drove %d, %v", n, err)
	}
	eventually(t, "it is swept", func() bool {
		f.advance()
		return f.get("t", "a").DeadReason == "expired"
	})
}

// TestAJobBehindDeletedOnesIsSwept: an expired job ends however many jobs before it were deleted.
func TestAJobBehindDeletedOnesIsSwept(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "pull", Pull: true}, store.TopicConf{Name: "push"})
	names := []string{"pull", "push"}
	const deleted = 250
	for _, topic := range names {
		for i := range deleted {
			f.push(topic, fmt.Sprint(i), 0)
		}
		f.push(topic, "soon", 0, func(p *store.Push) { p.TTL = time.Millisecond })
		for i := range deleted {
			if err := f.q.Delete(f.ctx, topic, fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "they are swept", func() bool {
		f.advance()
		st, err := f.q.Stats(f.ctx, names)
		return err == nil && st["pull"].Dead == 1 && st["push"].Dead == 1
	})
}

func TestJobsExpireByTheirOwnTime(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 3, Pull: true},
		store.TopicConf{Name: "drop", TTR: time.Minute, MaxAttempts: 3, Pull: true, Drop: true}, store.TopicConf{Name: "push"})
	for _, topic := range []string{"t", "drop", "push"} {
		f.push(topic, "soon", 0, func(p *store.Push) { p.TTL = time.Millisecond })
		f.push(topic, "past", 0, func(p *store.Push) { p.ExpiresAt = time.Unix(1, 0) })
		f.push(topic, "later", 0, func(p *store.Push) { p.TTL = time.Hour })
	}
	later := f.get("t", "later")
	if d := later.ExpiresAt.Sub(later.CreatedAt); d != time.Hour {
		t.Fatalf("it expires %v after its push", d)
	}
	time.Sleep(5 * time.Millisecond) // what is tested is that time has passed
	if got := f.take(10, "t", "drop"); !slices.Equal(idsOf(got), []string{"later", "later"}) {
		t.Fatalf("took %v", idsOf(got))
	}
	if ls := f.reserve(10); len(ls) != 1 || ls[0].ID != "later" {
		t.Fatalf("reserved %d", len(ls))
	}
	if j := f.get("t", "soon"); j.State != store.Dead || j.DeadReason != "expired" {
		t.Fatalf("expired: %+v", j)
	}
	f.gone("drop", "soon")
	f.stats("drop", 0, 0, 1, 0)
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "t", Limit: 10}); n != 2 || err != nil {
		t.Fatalf("re-drove %d, %v", n, err)
	}
	if got := f.take(10, "t"); len(got) != 2 || !got[0].ExpiresAt.IsZero() {
		t.Fatalf("took %+v of the re-driven jobs", got)
	}
	f.balancedTopics("t", "drop", "push")
}

// TestAListOfReplacedJobsStaysShort while nobody takes them, as in a topic that is paused for days.
func TestAListOfReplacedJobsStaysShort(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "push", Paused: true}, store.TopicConf{Name: "pull", Pull: true})
	for _, topic := range []string{"push", "pull"} {
		for i := range 1000 {
			id := fmt.Sprint(rand.IntN(5))
			f.push(topic, id, 0, func(p *store.Push) { p.OnDuplicate, p.Body = store.Replace, []byte(fmt.Sprint(i)) })
			body := []byte("changed")
			if _, err := f.q.Change(f.ctx, topic, id, store.Change{Body: &body}); err != nil {
				t.Fatal(err)
			}
		}
		if n := f.s.Redis().ZCard(f.ctx, store.Prefix(0)+"w:normal:"+topic).Val(); n != 5 {
			t.Errorf("%d of 5 jobs of %s wait", n, topic)
		}
		f.stats(topic, 0, 5, 0, 0)
	}
	f.setTopics(store.TopicConf{Name: "push", TTR: time.Minute})
	if jobs := f.reserve(10); len(jobs) != 5 {
		t.Errorf("reserved %d jobs", len(jobs))
	}
	if jobs := f.take(10, "pull"); len(jobs) != 5 {
		t.Errorf("took %d jobs", len(jobs))
	}
}
