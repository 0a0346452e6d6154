package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// remember sets how long a topic remembers finished jobs.
func (f *fixture) remember(topic string, d time.Duration) {
	f.Helper()
	f.lasting(topic, d, 10*time.Second)
}

// lasting is the configuration of a topic with the given duration for finished jobs and for leases.
func (f *fixture) lasting(topic string, remember, ttr time.Duration) {
	f.Helper()
	f.conf(topic, store.KeepForTest(store.TopicConf{TTR: ttr, MaxAttempts: 10, Remember: remember}, store.LastFinished, store.MaxLast))
}

func (f *fixture) conf(topic string, c store.TopicConf) {
	f.Helper()
	c.Name = topic
	if _, err := f.b.Call(f.ctx, store.ConfigureScript, c.AppendToForTest(nil)...); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) recall(topic, id string) *store.Job {
	f.Helper()
	j, err := f.q.Get(f.ctx, topic, id, store.Finished)
	if err != nil {
		f.Fatalf("recall %s/%s: %v", topic, id, err)
	}
	return j
}

func (f *fixture) forgotten(topic, id string) {
	f.Helper()
	if j, err := f.q.Get(f.ctx, topic, id, store.Finished); !errors.Is(err, store.ErrNotFound) {
		f.Fatalf("recall %s/%s = %+v, %v; want it forgotten", topic, id, j, err)
	}
}

// forgetAll calls the timer's step until it has removed all pages that are too old.
func (f *fixture) forgetAll() {
	f.Helper()
	eventually(f.T, "the timer has nothing more to do", func() bool {
		a := f.advance()
		return a.Next.IsZero() || a.Next.After(a.Now.Add(time.Second))
	})
}

// deliver settles all jobs that are ready as delivered now.
func (f *fixture) deliver() (ended []*store.Job) {
	f.Helper()
	for {
		ls := f.reserve(100)
		if len(ls) == 0 {
			return ended
		}
		due := map[store.Ref]time.Time{}
		for _, l := range ls {
			due[l.Lease.Ref] = l.DueAt
		}
		f.settle(store.Done, func(e *store.End) {
			e.Attempt = &store.Attempt{StartedAt: due[e.Lease.Ref].UnixMilli() + 4, TookMS: 12.5, Status: 200, Answer: "ok"}
		}, ls...)
		ended = append(ended, ls...)
	}
}

func TestAFinishedJobCanBeFound(t *testing.T) {
	f := newFixture(t)
	f.remember("shop.close", store.RememberLast)
	f.push("shop.close", "order-42", 0, func(p *store.Push) {
		p.TTR, p.Headers, p.Priority = 3*time.Second, map[string]string{"X-A": "1"}, store.High
	})
	f.settle(store.Retry, func(s *store.End) { s.Attempt.Error = "first" }, f.reserve(1)...)
	f.advanceUntilReady("shop.close")
	f.deliver()
	j := f.recall("shop.close", "order-42")
	if j.State != store.Finished || j.Attempts != 2 || j.Late() != 4*time.Millisecond ||
		string(j.Body) != `{"id":"order-42"}` ||
		j.TTR != 3*time.Second || j.Priority != store.High || j.Headers["X-A"] != "1" || j.Shard != "a" ||
		!j.FinishedAt.Equal(j.DueAt.Add(16500*time.Microsecond)) {
		t.Fatalf("finished: %+v", j)
	}
	if h := j.History; len(h) != 2 || h[0].Error != "first" || h[1].N != 2 || h[1].Status != 200 ||
		h[1].Answer != "ok" || h[1].TookMS != 12.5 {
		t.Fatalf("history: %+v", h)
	}
	refs := []store.Ref{{Topic: "other", ID: "order-42"}, {Topic: "shop.close", ID: "order-42"}}
	if found, err := f.q.Find(f.ctx, refs); err != nil || found[0] != nil || found[1].State != store.Finished {
		t.Fatalf("find = %+v, %v", found, err)
	}
	if err := f.q.Delete(f.ctx, "shop.close", "order-42", nil); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("delete of a finished job = %v", err)
	}
	if r := f.push("shop.close", "order-42", time.Hour); r.Duplicate {
		t.Fatalf("the last finished jobs count as duplicates: %+v", r)
	}
	if j := f.recall("shop.close", "order-42"); j.State != store.Delayed {
		t.Fatalf("pushed again: %+v", j)
	}
	f.balancedTopics("shop.close")
	f.stats("shop.close", 1, 0, 0, 0)
}

func TestFinishedJobsAreListedByPrefixTheLastFirst(t *testing.T) {
	for name, d := range map[string]time.Duration{"last": store.RememberLast, "duration": time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.remember("t", d)
			const n = 1400 // more than fit in a page
			for i := range n {
				f.push("t", fmt.Sprintf("%d-%04d", i%2, i), 0)
			}
			var ended []string
			for _, l := range f.deliver() {
				ended = append(ended, l.ID)
			}
			slices.Reverse(ended)
			if d == store.RememberLast {
				ended = ended[:store.LastFinished]
			}
			for _, prefix := range []string{"", "1-", "1-000", "none"} {
				want := slices.DeleteFunc(
					slices.Clone(ended), func(id string) bool { return !strings.HasPrefix(id, prefix) })
				if got := f.listFinished("t", prefix, 70); !slices.Equal(got, want) {
					t.Errorf("%d finished jobs begin with %q; want %d", len(got), prefix, len(want))
				}
			}
			for _, id := range ended {
				if j := f.recall("t", id); j.State != store.Finished || j.ID != id {
					t.Fatalf("get %s = %+v", id, j)
				}
			}
		})
	}
}

func (f *fixture) listFinished(topic, prefix string, limit int) (ids []string) {
	f.Helper()
	for cursor := ""; ; {
		jobs, next, err := f.q.ListFinished(f.ctx, topic, prefix, cursor, limit)
		if err != nil || len(jobs) > limit {
			f.Fatalf("list = %d jobs, %v", len(jobs), err)
		}
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		if next == "" {
			return ids
		}
		cursor = next
	}
}

// nextMillisecond waits for the next millisecond of Redis's clock, because the time since a topic's last activity has a
// resolution of a millisecond.
func (f *fixture) nextMillisecond() {
	f.Helper()
	began := f.s.Redis().Time(f.ctx).Val().UnixMilli()
	eventually(f.T, "Redis's clock to advance", func() bool { return f.s.Redis().Time(f.ctx).Val().UnixMilli() > began })
}

// A settlement may remove the last jobs of several inactive topics.
func TestFinishedJobsOfSeveralQuietTopicsAreForgottenAtOnce(t *testing.T) {
	f := newFixture(t)
	for _, topic := range []string{"a", "b", "c", "many"} {
		f.conf(topic, store.KeepForTest(store.TopicConf{TTR: 10 * time.Second, MaxAttempts: 10, Remember: store.RememberLast}, 5, 8))
	}
	for _, topic := range []string{"a", "b", "c"} {
		f.push(topic, "1", 0)
		f.push(topic, "2", 0)
		f.deliver()
		f.nextMillisecond()
	}
	for i := range 5 {
		f.push("many", fmt.Sprint(i), 0)
	}
	f.deliver()
	for topic, want := range map[string]int{"a": 0, "b": 1, "c": 2, "many": 5} {
		got := f.listFinished(topic, "", 10)
		if len(got) != want {
			t.Errorf("%s remembers %v; want its last %d", topic, got, want)
		}
	}
	quiet := f.s.Redis().ZRange(f.ctx, store.Prefix(0)+"fins", 0, -1).Val()
	if n := f.s.Redis().Get(f.ctx, store.Prefix(0)+"fin").Val(); n != "8" || !slices.Equal(quiet, []string{"b", "c", "many"}) {
		t.Errorf("the counter is %s, the list has %v", n, quiet)
	}
}

func TestAnIdIsADuplicateForAsLongAsItIsRemembered(t *testing.T) {
	f := newFixture(t)
	f.remember("t", time.Hour)
	f.push("t", "a", 0)
	f.deliver()
	if r := f.push("t", "a", 0); !r.Duplicate || r.Job.State != store.Finished || r.Job.Attempts != 1 {
		t.Fatalf("keep = %+v", r)
	}
	if r := f.q.Push(f.ctx, store.Push{Topic: "t", ID: "a", OnDuplicate: store.Refuse}); !errors.Is(r.Err, store.ErrDuplicate) {
		t.Fatalf("refuse = %+v", r)
	}
	if len(f.reserve(1)) != 0 {
		t.Fatal("a duplicate became ready")
	}
	if r := f.push("t", "a", 0, func(p *store.Push) { p.OnDuplicate = store.Replace }); r.Duplicate || r.Job.State != store.Ready {
		t.Fatalf("replace = %+v", r)
	}
	f.deliver()
	f.balancedTopics("t")
	f.remember("t", 50*time.Millisecond)
	eventually(t, "the duration is over", func() bool {
		f.advance()
		return !f.push("t", "a", 0).Duplicate
	})
	f.deliver()
	f.remember("t", 0)
	f.forgetAll()
	f.forgotten("t", "a")
}

// TestLongAttemptsDamageNoFinishedJob: a dispatcher stores longer attempts than the record of a finished job can hold.
func TestLongAttemptsDamageNoFinishedJob(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Hour, MaxAttempts: 100})
	f.push("t", "a", 0)
	for range store.HistoryLimit {
		f.settle(store.Retry, func(x *store.End) { x.Attempt.Answer = strings.Repeat("\x01", 1024) }, f.reserve(1)...)
		f.advanceUntilReady("t")
	}
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Hour, MaxAttempts: 100, Pull: true, Remember: time.Hour})
	f.ended(store.End{Lease: f.take(1, "t")[0].Lease, Verb: store.Done, Attempt: &store.Attempt{Answer: `1`}})
	j := f.recall("t", "a")
	if n := len(j.History); j.Attempts != store.HistoryLimit+1 || n != store.HistoryLimit || j.History[n-1].Answer != "1" {
		t.Errorf("%d attempts, %d of them in the history: %+v", j.Attempts, n, j)
	}
}

func TestWhatIsTooOldGoesFromRedis(t *testing.T) {
	f := newFixture(t)
	f.remember("t", 100*time.Millisecond)
	const n = 1500
	for i := range n {
		f.push("t", fmt.Sprint(i), 0)
	}
	f.deliver()
	if next, err := f.b.NextEvent(f.ctx); next.IsZero() || err != nil {
		t.Fatalf("the timer has nothing to do: %v, %v", next, err)
	}
	again := func(p *store.Push) { p.OnDuplicate = store.Replace }
	f.push("t", "7", 0, again) // its record is no longer that of a finished job
	eventually(t, "the timer forgets", func() bool {
		f.advance()
		return f.s.Redis().Exists(f.ctx, store.Prefix(0)+"fin:t").Val() == 0
	})
	if j := f.recall("t", "7"); j.State != store.Ready && j.State != store.Finished {
		t.Fatalf("the job that was pushed meanwhile: %+v", j)
	}
	f.remember("t", 0)
	f.deliver()
	f.forgetAll()
	f.clean()
}

func TestATopicThatIsDroppedOrRemembersNothingForgets(t *testing.T) {
	f := newFixture(t)
	forget := map[string]func(topic string){
		"drop": func(topic string) { _, _ = f.q.DropTopic(f.ctx, topic) },
		"0":    func(topic string) { f.remember(topic, 0) },
	}
	for how, do := range forget {
		for _, d := range []time.Duration{store.RememberLast, time.Hour} {
			f.remember("t", d)
			f.push("t", "a", 0)
			f.deliver()
			do("t")
			f.forgetAll()
			if j, err := f.q.Get(f.ctx, "t", "a", store.Finished); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s, %v: %+v, %v", how, d, j, err)
			}
			f.clean()
		}
	}
}

func TestAJobThatAWorkerHasDoneIsRemembered(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "p", TTR: time.Minute, MaxAttempts: 3, Pull: true, Remember: time.Hour})
	f.push("p", "a", 0)
	f.ended(store.End{Lease: f.take(1, "p")[0].Lease, Verb: store.Fail, Attempt: &store.Attempt{Error: "no"}, Retry: []time.Duration{0}})
	f.ended(store.End{Lease: f.take(1, "p")[0].Lease, Verb: store.Done, Attempt: &store.Attempt{Answer: `{"pages":3}`}})
	j := f.recall("p", "a")
	if j.State != store.Finished || j.Attempts != 2 || len(j.History) != 2 || j.History[0].Error != "no" ||
		j.History[1].Answer != `{"pages":3}` || j.Late() < 0 ||
		j.Late() > time.Minute || string(j.Body) != `{"id":"a"}` || time.Since(j.FinishedAt) > time.Minute {
		t.Fatalf("finished: %+v", j)
	}
	if r := f.push("p", "a", 0); !r.Duplicate {
		t.Fatalf("push = %+v", r)
	}
	f.push("p", "long", 0)
	f.ended(store.End{Lease: f.take(1, "p")[0].Lease, Verb: store.Done,
		Attempt: &store.Attempt{Answer: `"` + strings.Repeat("é", 1000) + `"`}})
	if j := f.recall("p", "long"); len(j.History) != 1 || len(j.History[0].Answer) != 255 {
		t.Fatalf("of a long answer is remembered %+v", j.History)
	}
	f.balancedTopics("p")
}

// TestAJobThatIsMonthsLateIsRememberedFromItsEnd: its lateness does not fit in the record. Counted from its due time,
// its end would be weeks ago, and its id no longer a duplicate.
func TestAJobThatIsMonthsLateIsRememberedFromItsEnd(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "push", TTR: time.Minute, MaxAttempts: 3, Remember: time.Hour},
		store.TopicConf{Name: "pull", TTR: time.Minute, MaxAttempts: 3, Pull: true, Remember: time.Hour})
	old := func(p *store.Push) { p.DueAt = time.UnixMilli(1) }
	f.push("push", "a", 0, old)
	f.settle(store.Done, func(s *store.End) {
		s.Attempt = &store.Attempt{StartedAt: time.Now().UnixMilli(), Status: 200}
	}, f.reserve(1)...)
	f.push("pull", "a", 0, old)
	f.ended(store.End{Lease: f.take(1, "pull")[0].Lease, Verb: store.Done})
	for _, topic := range []string{"push", "pull"} {
		if r := f.push(topic, "a", 0); !r.Duplicate || time.Since(r.Job.FinishedAt).Abs() > time.Minute {
			t.Errorf("%s: a push of the same id: %+v", topic, r)
		}
	}
}

func TestAFinishedJobIsSentAgain(t *testing.T) {
	f := newFixture(t)
	f.remember("t", time.Hour)
	f.push("t", "a", 0, func(p *store.Push) { p.ContentType, p.MaxAttempts = "text/plain", 4 })
	f.push("t", "long", 0, func(p *store.Push) { p.Body = longText("long") })
	if _, err := f.q.Resend(f.ctx, "t", "a"); !errors.Is(err, store.ErrAlive) {
		t.Fatalf("resend of a ready job = %v", err)
	}
	f.deliver()
	if _, err := f.q.Resend(f.ctx, "t", "long"); !errors.Is(err, store.ErrBodyGone) {
		t.Fatalf("resend of a long job = %v", err)
	}
	if _, err := f.q.Resend(f.ctx, "t", "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("resend of an unknown job = %v", err)
	}
	j, err := f.q.Resend(f.ctx, "t", "a")
	if err != nil || j.State != store.Ready {
		t.Fatalf("resend = %+v, %v", j, err)
	}
	ls := f.deliver()
	if len(ls) != 1 || string(ls[0].Body) != `{"id":"a"}` || ls[0].ContentType != "text/plain" ||
		ls[0].MaxAttempts != 4 {
		t.Fatalf("delivered again: %+v", ls)
	}
	f.balancedTopics("t")
}

// With several shards, a job may have finished in a shard that is not its home.
func TestADuplicateIsFoundInAnotherShard(t *testing.T) {
	f, states := twoShards(t, store.Options{Remembers: func(string) bool { return true }})
	states("active", "active")
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 3, Remember: time.Hour})
	id := f.homeIs("b", "t")
	states("active", "draining")
	f.push("t", id, 0)
	f.deliver()
	states("active", "active")
	if r := f.push("t", id, 0); !r.Duplicate || r.Job.State != store.Finished {
		t.Fatalf("push = %+v", r)
	}
	if j, err := f.q.Resend(f.ctx, "t", id); err != nil || j.State != store.Ready {
		t.Fatalf("resend = %+v, %v", j, err)
	}
}
