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

// TestTheDeadOfANamespaceAreFoundAtOnce: a topic without dead jobs costs one command.
func TestTheDeadOfANamespaceAreFoundAtOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("x.*")
	for n := range 200 {
		f.push(fmt.Sprint("x.q", n), "1", time.Hour)
	}
	f.push("x.dead", "1", 0)
	f.ended(store.End{Lease: f.take(1, "x.dead")[0].Lease, Verb: store.Bury})
	before := f.calls()
	if jobs, next, err := f.q.List(f.ctx, "x.*", store.Dead, "", 10); err != nil || len(jobs) != 1 || next != "" {
		t.Errorf("the dead jobs are %+v %s %v", jobs, next, err)
	}
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "x.*", Limit: 10}); n != 1 || err != nil {
		t.Errorf("redriven %d, %v", n, err)
	}
	if n := f.calls() - before; n > 2*2*201 {
		t.Errorf("%d commands for one dead job", n)
	}
}

// TestTenThousandQueuesLeaveNothing: each is for one synchronous job, created by a push and emptied by its worker.
func TestTenThousandQueuesLeaveNothing(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "sync.*", Pull: true, TTR: time.Minute, MaxAttempts: 3})
	const queues, step = 10_000, store.TakeLimit
	for first := 0; first < queues; first += step {
		pushes, names := make([]store.Push, step), make([]string, step)
		for i := range names {
			names[i] = fmt.Sprint("sync.q", first+i)
			pushes[i] = store.Push{Topic: names[i], ID: "x", Body: []byte(`{}`), Priority: store.Normal}
		}
		for _, r := range f.q.PushBatch(f.ctx, pushes) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		jobs := f.take(step, names...)
		if len(jobs) != step {
			t.Fatalf("took %d of %d", len(jobs), step)
		}
		acks := make([]store.End, len(jobs))
		for i := range jobs {
			acks[i] = store.End{Lease: jobs[i].Lease, Verb: store.Done}
		}
		for _, d := range f.q.End(f.ctx, acks) {
			if d.Err != nil {
				t.Fatal(d.Err)
			}
		}
	}
	f.stats("sync.*", 0, 0, 0, 0)
	for _, key := range f.s.Redis().Keys(f.ctx, "*").Val() {
		var members []string
		switch f.s.Redis().Type(f.ctx, key).Val() {
		case "hash":
			members = f.s.Redis().HKeys(f.ctx, key).Val()
		case "zset":
			members = f.s.Redis().ZRange(f.ctx, key, 0, -1).Val()
		}
		for _, text := range append(members, key) {
			if strings.Contains(text, "sync.q") {
				t.Fatalf("%s of %s is left", text, key)
			}
		}
	}
}

// TestTopicsMadeByUseLeaveNothing: their namespace has the settings and the totals.
func TestTopicsMadeByUseLeaveNothing(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "x.ns.*", TTR: time.Minute, MaxAttempts: 1, Pull: true})
	f.flush()
	f.s.ForgetTopicsForTest()
	f.setTopics(store.TopicConf{Name: "x.ns.*", TTR: time.Minute, MaxAttempts: 1, Pull: true})
	const n = 300
	for i := range n {
		topic := fmt.Sprint("x.ns.q", i)
		f.push(topic, "taken", 0, func(p *store.Push) { p.TTL = time.Hour })
		f.push(topic, "deleted", 0)
		f.push(topic, "delayed", time.Duration(i%2)*time.Hour+100*time.Second)
	}
	f.stats("x.ns.*", n, 2*n, 0, 0)
	f.stats("x.ns.q7", 1, 2, 0, 0)
	if members, err := f.q.Members(f.ctx, "x.ns.*"); len(members) != n || err != nil {
		t.Fatalf("%d members, %v", len(members), err)
	}
	for i := range n {
		topic := fmt.Sprint("x.ns.q", i)
		jobs := f.take(1, topic)
		if len(jobs) != 1 || jobs[0].ID != "taken" {
			t.Fatalf("took %v of %s", idsOf(jobs), topic)
		}
		f.ended(store.End{Lease: jobs[0].Lease, Verb: store.Done})
		f.ended(store.End{Ref: store.Ref{topic, "deleted"}, In: []store.State{store.Ready}, Verb: store.Done})
		if err := f.q.Delete(f.ctx, topic, "delayed", nil); err != nil {
			t.Fatal(err)
		}
	}
	f.balancedTopics("x.ns.*")
	f.stats("x.ns.*", 0, 0, 0, 0)
	eventually(t, "no time of a topic is left", func() bool {
		for _, m := range f.s.Redis().ZRange(f.ctx, store.Prefix(0)+"next", 0, -1).Val() {
			f.s.Redis().ZAddArgs(f.ctx, store.Prefix(0)+"next", zeroScore(m))
		}
		f.advance()
		return f.s.Redis().Exists(f.ctx, store.Prefix(0)+"next").Val() == 0
	})
	for _, key := range f.s.Redis().Keys(f.ctx, "*").Val() {
		if strings.Contains(key, "x.ns.q") {
			t.Errorf("%s is left", key)
		}
		if f.s.Redis().Type(f.ctx, key).Val() == "hash" {
			for _, field := range f.s.Redis().HKeys(f.ctx, key).Val() {
				if strings.HasPrefix(field, "x.ns.q") {
					t.Errorf("%s of %s is left", field, key)
				}
			}
		}
	}
	if act := f.s.Redis().ZRange(f.ctx, store.Prefix(0)+"act", 0, -1).Val(); !slices.Equal(act, []string{"x.ns.*"}) {
		t.Errorf("act has %v", act)
	}
	f.clean()
}

// TestReadyJobsThatAreDeletedOneByOneLeaveNothing, however many they were and although no worker takes jobs any more.
func TestReadyJobsThatAreDeletedOneByOneLeaveNothing(t *testing.T) {
	f := newFixture(t)
	f.setTopics(store.TopicConf{Name: "x.*", TTR: time.Minute, MaxAttempts: 1, Pull: true})
	const n = 300
	for i := range n {
		f.push("x.q", fmt.Sprint(i), 0)
	}
	for i := range n {
		if err := f.q.Delete(f.ctx, "x.q", fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	f.clean()
}

func TestATopicMovesBetweenNamespaces(t *testing.T) {
	f := newFixture(t)
	f.push("x.q", "early", 0) // before this process knows its settings: the namespace has just been created
	f.setTopics(store.TopicConf{Name: "x.*", TTR: time.Minute, MaxAttempts: 1, Pull: true})
	f.push("x.q", "late", 0)
	f.stats("x.*", 0, 2, 0, 0)
	f.balancedTopics("x.*")
	if ls := f.reserve(10); len(ls) != 0 {
		t.Fatalf("a dispatcher reserved %d", len(ls))
	}
	own := store.TopicConf{Name: "x.q", TTR: time.Minute, MaxAttempts: 1, Pull: true}
	f.setTopics(store.TopicConf{Name: "x.*", TTR: time.Minute, MaxAttempts: 1, Pull: true}, own)
	f.stats("x.*", 0, 0, 0, 0)
	f.balancedTopics("x.*", "x.q")
	if err := f.q.SetTopics(f.ctx, nil, []store.TopicConf{{Name: "x.q", Gone: true}}...); err != nil {
		t.Fatal(err)
	}
	f.stats("x.*", 0, 2, 0, 0)
	f.balancedTopics("x.*")
	if n, err := f.q.DropTopic(f.ctx, "x.*"); n != 2 || err != nil {
		t.Fatalf("dropped %d, %v", n, err)
	}
	f.stats("x.*", 0, 0, 0, 0)
	f.balancedTopics("x.*")
}

// TestANamespaceIsListedTopicByTopic, page by page; its dead jobs are re-driven and deleted together.
func TestANamespaceIsListedTopicByTopic(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("x.*")
	var want []string
	for _, topic := range []string{"x.a", "x.b", "x.c"} {
		for i := range 3 {
			want = append(want, f.push(topic, fmt.Sprint(topic, i), 0).Job.ID)
		}
	}
	f.push("other.a", "not-in-it", 0)
	list := func(state store.State) (ids []string) {
		t.Helper()
		for cursor := ""; ; {
			jobs, next, err := f.q.List(f.ctx, "x.*", state, cursor, 2)
			if err != nil || len(jobs) > 2 {
				t.Fatalf("page %q: %d jobs, %v", cursor, len(jobs), err)
			}
			for _, j := range jobs {
				ids = append(ids, j.ID)
			}
			if cursor = next; cursor == "" {
				return ids
			}
		}
	}
	if got := list(store.Ready); !slices.Equal(got, want) {
		t.Fatalf("listed %q, not %q", got, want)
	}
	for _, cursor := range []string{"%", "eA", "YQo"} {
		if _, _, err := f.q.List(f.ctx, "x.*", store.Ready, cursor, 2); !errors.Is(err, store.ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	for _, job := range f.take(9, "x.a", "x.b", "x.c") {
		f.ended(store.End{Lease: job.Lease, Verb: store.Bury})
	}
	if got := list(store.Dead); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Fatalf("dead are %q, not %q", got, want)
	}
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "x.*", Limit: 4}); n != 4 || err != nil {
		t.Fatalf("re-drove %d, %v", n, err)
	}
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: "x.*", IDs: []string{"x.b2", "x.c2", "none"}}); n != 2 || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	f.stats("x.*", 0, 4, 0, 3)
}
