package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// parallel tracks the tests that have called t.Parallel: testing.T panics at a second call.
var parallel sync.Map

var eventually = wait.For

func TestAJobIsPushedReservedAndDone(t *testing.T) {
	f := newFixture(t)
	r := f.push("shop.close", "o-1", 0, func(p *store.Push) {
		p.ContentType, p.TTR, p.MaxAttempts = "text/plain", 3*time.Second, 4
	})
	if r.Job.State != store.Ready || r.Duplicate {
		t.Fatalf("push = %+v", r)
	}
	f.stats("shop.close", 0, 1, 0, 0)
	ls := f.reserve(10)
	if len(ls) != 1 {
		t.Fatalf("reserved %d jobs", len(ls))
	}
	l := ls[0]
	if l.Topic != "shop.close" || l.ID != "o-1" || string(l.Body) != `{"id":"o-1"}` ||
		l.ContentType != "text/plain" || l.TTR != 3*time.Second ||
		l.MaxAttempts != 4 || l.Priority != store.Normal || l.Attempts != 0 {
		t.Fatalf("lease = %+v", l)
	}
	if d := l.LeaseUntil.Sub(l.DueAt); d < 4*time.Second || d > 5*time.Second {
		t.Fatalf("lease of %v for a TTR of 3s", d)
	}
	f.stats("shop.close", 0, 0, 1, 0)
	if j := f.get("shop.close", "o-1"); j.State != store.Running {
		t.Fatalf("state %s while reserved", j.State)
	}
	if len(f.reserve(10)) != 0 {
		t.Fatal("a job was reserved twice")
	}
	if held := f.settle(store.Done, nil, l); !held[0] {
		t.Fatal("the lease was lost")
	}
	f.gone("shop.close", "o-1")
	f.stats("shop.close", 0, 0, 0, 0)
	f.clean()
}

func TestADelayedJobBecomesReadyWhenDueAndNotBefore(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 500*time.Millisecond)
	f.push("t", "far", time.Hour)
	f.stats("t", 2, 0, 0, 0)
	due := f.get("t", "a").DueAt
	var a store.Advance
	eventually(t, "the job becomes ready", func() bool { // its topic gets its turn a little earlier
		if a = f.advance(); a.Now.Before(due.Add(-time.Millisecond)) && (a.Next.IsZero() || a.Next.After(due.Add(time.Millisecond))) {
			t.Fatalf("advance = %+v, due at %v", a, due)
		}
		return !a.Now.Before(due) && f.advance().Woken == 0 && f.get("t", "a").State == store.Ready
	})
	if j := f.get("t", "far"); j.State != store.Delayed || !j.NextAt.Equal(j.DueAt) {
		t.Fatalf("far job = %+v", j)
	}
	if err := f.q.Delete(f.ctx, "t", "far", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is reserved", func() bool {
		f.advance()
		ls := f.reserve(5)
		f.settle(store.Done, nil, ls...)
		return len(ls) == 1
	})
	f.advance()
	f.clean()
}

func TestARetriedJobKeepsItsAttemptsAndDies(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 0, func(p *store.Push) { p.Body = []byte(strings.Repeat("x", 5000)) })
	f.settle(store.Retry, func(s *store.End) { s.Delay = time.Hour; s.Attempt.Error = "first" }, f.reserve(1)...)
	j := f.get("t", "a")
	if j.State != store.Delayed || j.Attempts != 1 || len(j.History) != 1 || j.History[0].Error != "first" ||
		j.History[0].N != 1 || len(j.Body) != 5000 {
		t.Fatalf("after a failure: %+v", j)
	}
	if !j.NextAt.After(j.DueAt) {
		t.Fatalf("next at %v, due at %v", j.NextAt, j.DueAt)
	}
	if _, err := f.q.RunNow(f.ctx, "t", "a", nil); err != nil {
		t.Fatal(err)
	}
	ls := f.reserve(1)
	if ls[0].Attempts != 1 || len(ls[0].Body) != 5000 {
		t.Fatalf("second lease = %+v", ls[0])
	}
	f.settle(store.Snooze, func(s *store.End) { s.Delay = time.Millisecond }, ls...)
	if j := f.get("t", "a"); j.Attempts != 1 || j.Snoozes != 1 {
		t.Fatalf("after a snooze: %+v", j)
	}
	f.advanceUntilReady("t")
	f.settle(store.Bury, func(s *store.End) { s.Reason = "attempts" }, f.reserve(1)...)
	j = f.get("t", "a")
	if j.State != store.Dead || j.DeadReason != "attempts" || j.Attempts != 2 || len(j.History) != 3 || j.DeadAt.IsZero() {
		t.Fatalf("dead: %+v", j)
	}
	f.stats("t", 0, 0, 0, 1)
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "t", IDs: []string{"a", "nobody"}}); n != 1 || err != nil {
		t.Fatalf("redrive = %d, %v", n, err)
	}
	if j := f.get("t", "a"); j.State != store.Ready || j.Attempts != 0 {
		t.Fatalf("redriven: %+v", j)
	}
	f.settle(store.Bury, func(s *store.End) { s.Reason = "gone" }, f.reserve(1)...)
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: "t", Limit: 10}); n != 1 || err != nil {
		t.Fatalf("delete dead = %d, %v", n, err)
	}
	f.gone("t", "a")
	f.clean()
}

func TestASecondPushOfAnIDKeepsReplacesOrIsRefused(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", time.Hour)
	if r := f.push("t", "a", 0); !r.Duplicate || r.Job.State != store.Delayed {
		t.Fatalf("keep = %+v", r)
	}
	if r := f.push("other", "a", 0); r.Duplicate {
		t.Fatal("the same id under another topic counts as a duplicate")
	}
	p := store.Push{Topic: "t", ID: "a", OnDuplicate: store.Refuse}
	if r := f.q.Push(f.ctx, p); !errors.Is(r.Err, store.ErrDuplicate) {
		t.Fatalf("refuse = %v", r.Err)
	}
	if r := f.push("t", "a", 0, func(p *store.Push) { p.OnDuplicate = store.Replace; p.Body = []byte("new") }); !r.Duplicate ||
		r.Job.State != store.Ready {
		t.Fatalf("replace = %+v", r)
	}
	if j := f.get("t", "a"); string(j.Body) != "new" {
		t.Fatalf("body %q", j.Body)
	}
	f.stats("t", 0, 1, 0, 0)
	ls := f.reserve(10)
	f.push("t", "a", time.Minute, func(p *store.Push) { p.OnDuplicate = store.Replace })
	for i, h := range f.settle(store.Done, nil, ls...) {
		if h != (ls[i].Topic == "other") {
			t.Fatalf("%s/%s: held = %v after the replacement", ls[i].Topic, ls[i].ID, h)
		}
	}
	f.stats("t", 1, 0, 0, 0)
}

func TestChangesAndRunNow(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", time.Hour)
	low, body, soon := store.Low, []byte(strings.Repeat("y", 2000)), 90*time.Minute
	j, err := f.q.Change(f.ctx, "t", "a", store.Change{Priority: &low, Body: &body, Delay: &soon})
	if err != nil || j.State != store.Delayed || j.Priority != store.Low || len(j.Body) != 2000 ||
		j.DueAt.Sub(j.CreatedAt) < 89*time.Minute {
		t.Fatalf("change = %+v, %v", j, err)
	}
	f.stats("t", 1, 0, 0, 0)
	if j, err = f.q.RunNow(f.ctx, "t", "a", nil); err != nil || j.State != store.Ready || len(j.Body) != 2000 {
		t.Fatalf("run = %+v, %v", j, err)
	}
	ls := f.reserve(1)
	if _, err = f.q.Change(f.ctx, "t", "a", store.Change{Priority: &low}); !errors.Is(err, store.ErrRunning) {
		t.Fatalf("change of a running job: %v", err)
	}
	f.settle(store.Retry, func(s *store.End) { s.Delay = time.Hour }, ls...)
	if j, err = f.q.RunNow(f.ctx, "t", "a", nil); err != nil || j.State != store.Ready || j.Attempts != 1 {
		t.Fatalf("run of a waiting retry = %+v, %v", j, err)
	}
	f.settle(store.Bury, func(s *store.End) { s.Reason = "attempts" }, f.reserve(1)...)
	if _, err = f.q.Change(f.ctx, "t", "a", store.Change{Priority: &low}); !errors.Is(err, store.ErrDead) {
		t.Fatalf("change of a dead job: %v", err)
	}
	if j, err = f.q.RunNow(f.ctx, "t", "a", nil); err != nil || j.State != store.Ready || j.Attempts != 0 {
		t.Fatalf("run of a dead job = %+v, %v", j, err)
	}
	if _, err = f.q.RunNow(f.ctx, "t", "nobody", nil); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("run of an unknown job: %v", err)
	}
	part := 1500 * time.Microsecond // is never early
	if j, err = f.q.Change(f.ctx, "t", "a", store.Change{Delay: &part}); err != nil || j.DueAt.Sub(j.ChangedAt) < part {
		t.Fatalf("a delay of %v is %v, %v", part, j.DueAt.Sub(j.ChangedAt), err)
	}
	if _, err = f.q.RunNow(f.ctx, "t", "a", nil); err != nil {
		t.Fatal(err)
	}
	f.settle(store.Done, nil, f.reserve(1)...)
	f.clean()
}

// A change of the due time is refused when the job could never be called at that time.
func TestChangeKeepsTheDueTimeBeforeTheExpiry(t *testing.T) {
	f := newFixture(t)
	expires := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	p := store.Push{Topic: "t", ID: "a", Body: []byte("1"), Delay: time.Minute, ExpiresAt: expires}
	if r := f.q.Push(f.ctx, p); r.Err != nil {
		t.Fatal(r.Err)
	}
	late, later, before := expires, 2*time.Hour, expires.Add(-time.Millisecond)
	for _, c := range []store.Change{{DueAt: &late}, {Delay: &later}} {
		if _, err := f.q.Change(f.ctx, "t", "a", c); !errors.Is(err, store.ErrExpires) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if j := f.get("t", "a"); j.DueAt.After(time.Now().Add(2 * time.Minute)) {
		t.Errorf("a refused change made it due at %v", j.DueAt)
	}
	if j, err := f.q.Change(f.ctx, "t", "a", store.Change{DueAt: &before}); err != nil || !j.DueAt.Equal(before) {
		t.Errorf("%+v, %v", j, err)
	}
	if j, err := f.q.RunNow(f.ctx, "t", "a", nil); err != nil || j.State != store.Ready {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestThePushKnowsTheETag of the job that it stored, without reading it.
func TestThePushKnowsTheETag(t *testing.T) {
	f := newFixture(t)
	now, order := time.Now(), uint32(7)
	list := []store.Push{
		{Body: []byte("1")}, {Delay: time.Hour}, {DueAt: now.Add(time.Minute), Priority: store.High},
		{DueAt: now.Add(-time.Hour), Body: bytes.Repeat([]byte("x"), 500)}, {Body: bytes.Repeat([]byte("x"), 448)},
		{TTL: time.Hour, Headers: map[string]string{"A": "b c"}, ContentType: "text/plain; charset=utf-8"},
		{ExpiresAt: now.Add(time.Hour), Group: "order 42", Key: "ä", MaxAttempts: 3, TTR: time.Second, Order: &order},
		{Retry: []time.Duration{0, time.Microsecond, time.Hour}, URL: "https://h/x", Awaited: true, Quota: "7",
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}
	for i := range list {
		list[i].Topic, list[i].ID = "t", fmt.Sprint(i)
	}
	check := func(results []store.Result) {
		t.Helper()
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if job := f.get("t", r.Job.ID); job.ETag != r.Job.ETag {
				t.Errorf("push %s: ETag %q, read %q", r.Job.ID, r.Job.ETag, job.ETag)
			}
		}
	}
	check(f.q.PushBatch(f.ctx, list))
	check(f.q.PushBatch(f.ctx, list)) // duplicates
	for i := range list {
		list[i].OnDuplicate = store.Replace
	}
	check(f.q.PushBatch(f.ctx, list))
}

// TestAnETagIsOfOneState: an ETag stays the same while its job is unchanged, however the job is read, and changes with
// every change. A request with an outdated ETag does not change, run or delete the job.
func TestAnETagIsOfOneState(t *testing.T) {
	f := newFixture(t)
	seen := map[string]bool{}
	current := func(what string) store.Match {
		t.Helper()
		etag := f.get("t", "a").ETag
		if listed, err := f.q.Find(f.ctx, []store.Ref{{Topic: "t", ID: "a"}}); err != nil || listed[0].ETag != etag ||
			len(etag) != 16 {
			t.Fatalf("%s: %q, in a list %+v, %v", what, etag, listed, err)
		}
		if seen[etag] {
			t.Errorf("%s: it has an ETag of an earlier state", what)
		}
		seen[etag] = true
		return store.Match{etag}
	}
	soon, later := time.Minute, time.Hour
	body := []byte(strings.Repeat("y", 2000))
	f.push("t", "a", time.Hour)
	pushed := current("pushed")
	j, err := f.q.Change(f.ctx, "t", "a", store.Change{Delay: &soon, Body: &body, Match: pushed})
	changed := current("changed")
	if err != nil || !slices.Equal(changed, store.Match{j.ETag}) {
		t.Fatalf("change: %+v, %v", j, err)
	}
	for _, m := range []store.Match{pushed, {}} {
		if _, err := f.q.Change(f.ctx, "t", "a", store.Change{Delay: &later, Match: m}); !errors.Is(err, store.ErrChanged) {
			t.Errorf("change of another state: %v", err)
		}
		if _, err := f.q.RunNow(f.ctx, "t", "a", m); !errors.Is(err, store.ErrChanged) {
			t.Errorf("run of another state: %v", err)
		}
		if err := f.q.Delete(f.ctx, "t", "a", m); !errors.Is(err, store.ErrChanged) {
			t.Errorf("deletion of another state: %v", err)
		}
	}
	if j, err = f.q.RunNow(f.ctx, "t", "a", append(pushed, changed...)); err != nil ||
		!slices.Equal(current("ready"), store.Match{j.ETag}) {
		t.Fatalf("run: %+v, %v", j, err)
	}
	ls := f.reserve(1)
	current("running")
	f.settle(store.Retry, func(s *store.End) { s.Delay = time.Hour }, ls...)
	current("after an attempt")
	if _, err := f.q.RunNow(f.ctx, "t", "a", nil); err != nil {
		t.Fatal(err)
	}
	f.settle(store.Bury, func(s *store.End) { s.Reason = "attempts" }, f.reserve(1)...)
	if err := f.q.Delete(f.ctx, "t", "a", current("dead")); err != nil {
		t.Fatal(err)
	}
	f.gone("t", "a")
	f.clean()
}

// TestNoCallbackStartsAfterADeletion: a dispatcher that reserved a job may start its callback for StartWindow, or for
// as long as a dispatcher has stored because Redis is slow.
func TestNoCallbackStartsAfterADeletion(t *testing.T) {
	f := newFixture(t)
	remove := map[string]func() error{
		"a job": func() error { return f.q.Delete(f.ctx, "t", "a", nil) },
		"jobs of a topic": func() error {
			_, err := f.q.DropTopic(f.ctx, "t")
			return err
		},
	}
	for _, window := range []time.Duration{store.StartWindow, time.Second} {
		if window > store.StartWindow {
			stored, err := f.b.WidenStart(f.ctx, window/2)
			if err != nil || stored != window {
				t.Fatalf("the window is %s, %v", stored, err)
			}
			if _, err := f.b.WidenStart(f.ctx, window/4); err != nil { // by another dispatcher
				t.Fatal(err)
			}
		}
		for name, remove := range remove {
			f.push("t", "a", 0)
			f.push("t", "b", time.Hour, func(p *store.Push) { p.OnDuplicate = store.Replace })
			f.reserve(1)
			began := time.Now()
			if err := remove(); err != nil {
				t.Fatal(name, err)
			}
			if took := time.Since(began); took < window {
				t.Errorf("%s: the answer arrived after %s; the callback may start until %s", name, took, window)
			}
		}
	}
}

func TestListsGoThroughEveryJobOnce(t *testing.T) {
	f := newFixture(t)
	var batch []store.Push
	want := map[store.State]int{store.Delayed: 0, store.Ready: 250}
	for i := range 2500 {
		batch = append(batch, store.Push{Topic: "t", ID: fmt.Sprint("far", i),
			Delay: time.Hour + time.Duration(i)*100*time.Millisecond})
		want[store.Delayed]++
	}
	for i := range 250 {
		batch = append(batch, store.Push{Topic: "t", ID: fmt.Sprint("near", i), Delay: 30 * time.Second},
			store.Push{Topic: "t", ID: fmt.Sprint("ready", i), Priority: store.Priority(i % 3)})
		want[store.Delayed]++
	}
	for _, r := range f.q.PushBatch(f.ctx, batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for state, n := range want {
		seen := map[string]bool{}
		for cursor, pages := "", 0; ; pages++ {
			jobs, next, err := f.q.List(f.ctx, "t", state, cursor, 77)
			if err != nil || pages > n {
				t.Fatal(err, pages)
			}
			for _, j := range jobs {
				if seen[j.ID] || j.State != state {
					t.Fatalf("%s listed again, or in state %s", j.ID, j.State)
				}
				seen[j.ID] = true
			}
			if cursor = next; next == "" {
				break
			}
		}
		if len(seen) != n {
			t.Fatalf("%s: %d jobs listed; want %d", state, len(seen), n)
		}
	}
	if _, _, err := f.q.List(f.ctx, "t", store.Ready, "garbage", 10); !errors.Is(err, store.ErrCursor) {
		t.Fatalf("a garbage cursor: %v", err)
	}
	if n, err := f.q.DropTopic(f.ctx, "t"); err != nil || n != 3000 {
		t.Fatalf("dropped %d, %v", n, err)
	}
	f.stats("t", 0, 0, 0, 0)
	for f.advance().More {
	}
	f.clean()
}

func TestAFullRedisRefusesPushesAndDrains(t *testing.T) {
	f := newFixture(t)
	for i := range 50 {
		f.push("t", fmt.Sprint(i), 0)
	}
	before := f.s.Redis().DBSize(f.ctx).Val()
	f.s.Redis().ConfigSet(f.ctx, "maxmemory", "1")
	r := f.q.Push(f.ctx, store.Push{Topic: "t", ID: "no"})
	var un *store.UnavailableError
	if !errors.As(r.Err, &un) || un.Reason != "full" {
		t.Fatalf("push = %v", r.Err)
	}
	if after := f.s.Redis().DBSize(f.ctx).Val(); after != before {
		t.Fatalf("%d keys, then %d", before, after)
	}
	f.settle(store.Retry, func(s *store.End) { s.Delay = time.Hour }, f.reserve(5)...)
	f.settle(store.Done, nil, f.reserve(5)...)
	f.advance()
	f.stats("t", 5, 40, 0, 0)
}

// TestRefusedPushesAreCounted: those of each topic with their reason, but not those that are answered otherwise.
func TestRefusedPushesAreCounted(t *testing.T) {
	f := newFixture(t)
	var refused []string
	q := open(store.Options{Refused: func(topic, reason string) { refused = append(refused, topic+" "+reason) }})
	t.Cleanup(func() { _ = q.Close() })
	q.Push(f.ctx, store.Push{Topic: "t", ID: "none"}) // there is no shard
	if err := q.Shards.Set([]store.ShardConfig{{Name: f.s.Name(), URL: f.s.URLForTest(), State: "active"}}); err != nil {
		t.Fatal(err)
	}
	list := []store.Push{{Topic: "t", ID: "1"}, {Topic: "u", ID: "2"}, {Topic: "t", ID: "3", Delay: 2 * store.MaxDelay}}
	wait.For(t, "the shard to accept pushes", func() bool { return q.PushBatch(f.ctx, list)[0].Err == nil })
	q.Push(f.ctx, store.Push{Topic: "t", ID: "1", OnDuplicate: store.Refuse})
	refused = slices.DeleteFunc(refused, func(r string) bool { return strings.HasSuffix(r, " down") })
	f.s.Redis().ConfigSet(f.ctx, "maxmemory", "1")
	q.PushBatch(f.ctx, []store.Push{{Topic: "t", ID: "4"}, {Topic: "u", ID: "5"}})
	q.Push(f.ctx, store.Push{Topic: "u", ID: "6"})
	if !slices.Equal(refused, []string{"t full", "u full", "u full"}) {
		t.Errorf("refused: %q", refused)
	}
}

// The limits of all topics are set again after a server that lost them is back.
func TestLimitsOfTopicsFollow(t *testing.T) {
	f := newFixture(t)
	told := make(chan struct{}, 10)
	q := open(store.Options{Announced: func() { told <- struct{}{} }})
	t.Cleanup(func() { _ = q.Close() })
	confs := []store.TopicConf{{Name: "a", TTR: time.Second, MaxAttempts: 1}, {Name: "b", TTR: time.Second, MaxAttempts: 2}}
	if err := q.Shards.Set([]store.ShardConfig{{Name: f.s.Name(), URL: f.s.URLForTest(), State: "active"}}); err != nil {
		t.Fatal(err)
	}
	<-told // it has connected
	if err := q.SetTopics(f.ctx, func(yield func(store.TopicConf) bool) { slices.Values(confs)(yield) }); err != nil {
		t.Fatal(err)
	}
	conf := func(topic string) string {
		return fmt.Sprint(f.s.Redis().HMGet(f.ctx, "wk:{0}:c:"+topic, "ttr", "max", "flight").Val())
	}
	const none = "[<nil> <nil> <nil>]"
	if conf("a") != "[1000 1 <nil>]" || conf("b") != "[1000 2 <nil>]" {
		t.Fatalf("a has %q, b has %q", conf("a"), conf("b"))
	}
	f.s.Redis().FlushDB(f.ctx)
	confs[0].MaxAttempts = 7
	if err := q.SetTopics(f.ctx, nil, confs[:1]...); err != nil || conf("a") != "[1000 7 <nil>]" || conf("b") != none {
		t.Fatalf("%v; of one change a has %q, b has %q", err, conf("a"), conf("b"))
	}
	f.s.Redis().Do(f.ctx, "CLIENT", "KILL", "TYPE", "pubsub")
	eventually(t, "all are set again", func() bool { return conf("b") == "[1000 2 <nil>]" })
}

// TestDroppingATopicLeavesNothing behind, not even the entries of deleted jobs, which only a later step may find.
func TestDroppingATopicLeavesNothing(t *testing.T) {
	f := newFixture(t)
	const deleted, left = 3 * store.DeadStep, 10
	for i := range deleted + left {
		f.push("t", fmt.Sprint(i), 0)
	}
	for i := range deleted {
		if err := f.q.Delete(f.ctx, "t", fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := f.q.DropTopic(f.ctx, "t"); n != left || err != nil {
		t.Errorf("dropped %d, %v", n, err)
	}
	f.clean()
}

func TestConcurrentPushesAreAllStoredOnce(t *testing.T) {
	f := newFixture(t)
	const n = 3000
	errs := make(chan error, n)
	for i := range n {
		go func() {
			errs <- f.q.Push(f.ctx, store.Push{Topic: "t", ID: fmt.Sprint(i), Delay: time.Hour}).Err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	f.stats("t", n, 0, 0, 0)
}
