package queue

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// deaf returns two hosts with two shards. While isDeaf, the first host gets no answers from shard a, which still
// executes its requests.
func deaf(t *testing.T) (first, second *fixture, isDeaf *atomic.Bool, left *sync.Map) {
	urlA, _ := startRedis(t)
	urlB, _ := startRedis(t)
	isDeaf, left = new(atomic.Bool), new(sync.Map)
	link := proxied(t, urlA, func() (request, answer func([]byte) bool) {
		return func([]byte) bool { return true }, func([]byte) bool { return !isDeaf.Load() }
	})
	host := func(a string, o Options) *fixture {
		q := open(o)
		t.Cleanup(func() { _ = q.Close() })
		if err := q.SetShards(t.Context(),
			[]ShardConfig{{Name: "a", URL: a, State: "active"}, {Name: "b", URL: urlB, State: "active"}}); err != nil {
			t.Fatal(err)
		}
		f := &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards()[0]}
		f.push("warm", f.homeIs("a", "warm"), time.Hour) // else a refuses the first push: its clock is not known yet
		return f
	}
	changed := func(kind ChangeKind, jobs []Job) error {
		if kind == MovedOut {
			left.Store(jobs[0].ID, jobs[0].Shard)
		}
		return nil
	}
	return host(link, Options{Timeout: 5 * time.Second, Changed: changed}), host(urlA, Options{}), isDeaf, left
}

// passDoubts waits until jobs that are pushed from now on cannot be confused with those of unanswered pushes. It reads
// the shard's clock over another link.
func (f *fixture) passDoubts(s, link *Shard) {
	f.Helper()
	s.doubtMu.Lock()
	list := slices.Clone(s.doubtful)
	s.doubtMu.Unlock()
	eventually(f, "a job that is pushed now is a different one", func() bool {
		now := link.client.Time(f.ctx).Val().UnixMilli()
		return !slices.ContainsFunc(list, func(d doubt) bool { return now <= d.to })
	})
}

// TestAPushWhoseAnswerWasLostLeavesNoCopy: the job is in the next shard, and the copy in its home is removed, with a
// line in the journal, as soon as the home answers again.
func TestAPushWhoseAnswerWasLostLeavesNoCopy(t *testing.T) {
	first, second, isDeaf, left := deaf(t)
	id := first.homeIs("a", "t")
	isDeaf.Store(true)
	if r := first.push("t", id, time.Hour); r.Job.Shard != "b" || r.Duplicate {
		t.Fatalf("pushed while a does not answer: %+v", r)
	}
	if j, err := second.s.get(t.Context(), "t", id); err != nil || j == nil {
		t.Fatalf("a has not stored it: %v", err)
	}
	isDeaf.Store(false)
	eventually(t, "the copy is gone", func() bool {
		j, err := second.s.get(t.Context(), "t", id)
		return err == nil && j == nil
	})
	eventually(t, "it is recorded", func() bool { in, _ := left.Load(id); return in == "a" })
	if j := second.get("t", id); j.Shard != "b" {
		t.Errorf("the job is %+v", j)
	}
}

// TestOnlyTheCopyOfTheLostPushIsRemoved: no copy that was changed, and no job that was pushed since.
func TestOnlyTheCopyOfTheLostPushIsRemoved(t *testing.T) {
	first, second, isDeaf, _ := deaf(t)
	id, changed, gone := first.homeIs("a", "again"), first.homeIs("a", "changed"), first.homeIs("a", "gone")
	isDeaf.Store(true)
	results := first.q.PushBatch(first.ctx, []Push{
		{Topic: "again", ID: id, Priority: Normal}, {Topic: "changed", ID: changed, Priority: Normal, Delay: time.Hour},
		{Topic: "gone", ID: gone, Priority: Normal, Delay: time.Hour},
	})
	for _, r := range results {
		if r.Err != nil || r.Job.Shard != "b" {
			t.Fatalf("pushed while a does not answer: %+v", r)
		}
	}
	body := []byte(`"new"`)
	if _, err := second.q.Change(second.ctx, "changed", changed, Change{Body: &body}); err != nil {
		t.Fatal(err)
	}
	for _, second.s = range second.q.Shards() {
		second.settle(Done, nil, second.reserve(1)...)
	}
	first.passDoubts(first.s, second.s)
	if r := second.q.Push(second.ctx, Push{Topic: "again", ID: id, Priority: Normal}); r.Err != nil || r.Duplicate {
		t.Fatalf("pushed again: %+v", r)
	}
	isDeaf.Store(false)
	second.s = second.q.Shards()[0]
	eventually(t, "the unchanged copy is gone", func() bool {
		j, err := second.s.get(t.Context(), "gone", gone)
		return err == nil && j == nil
	})
	for topic, id := range map[string]string{"again": id, "changed": changed} {
		if j, err := second.s.get(t.Context(), topic, id); err != nil || j == nil {
			t.Errorf("the job of topic %s was removed: %v", topic, err)
		}
	}
}
