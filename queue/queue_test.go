package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) {
	// After failures the client's pool tries to dial until it notices, within a second, that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// startRedis runs a private redis-server and returns its URL. Tests that have one run in parallel.
func startRedis(t testing.TB, args ...string) (url string, cmd *exec.Cmd) {
	t.Helper()
	inParallel(t)
	dir, err := os.MkdirTemp("", "wkq") // t.TempDir can be too long for a Unix socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sock := filepath.Join(dir, "s")
	cmd = exec.Command("redis-server", append([]string{"--port", "0", "--unixsocket", sock, "--dir", dir, "--save", "",
		"--enable-debug-command", "yes"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start redis-server: %v (apt-get install redis-server)", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: sock})
	defer func() { _ = c.Close() }()
	eventually(t, "redis-server answers", func() bool { return c.Ping(context.Background()).Err() == nil })
	return "unix://" + sock, cmd
}

// parallel has the tests that are marked as parallel: testing.T panics when it is told twice.
var parallel sync.Map

func inParallel(t testing.TB) {
	if test, ok := t.(*testing.T); ok {
		if _, marked := parallel.LoadOrStore(t, true); !marked {
			test.Parallel()
		}
	}
}

var eventually = wait.For

type fixture struct {
	*testing.T
	ctx context.Context
	q   *Queue
	s   *Shard
	n   int
}

func newFixture(t *testing.T) *fixture {
	url, _ := startRedis(t)
	return fixtureOn(t, url, Options{})
}

// fixtureOn is a fixture on a Redis that runs already.
func fixtureOn(t *testing.T, url string, o Options) *fixture {
	t.Helper()
	q := Open(o)
	t.Cleanup(func() { _ = q.Close() })
	if err := q.SetShards(t.Context(), []ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards()[0]}
}

func (f *fixture) push(topic, id string, delay time.Duration, more ...func(*Push)) Result {
	f.Helper()
	p := Push{Topic: topic, ID: id, Body: []byte(`{"id":"` + id + `"}`), Delay: delay, Priority: Normal}
	for _, m := range more {
		m(&p)
	}
	r := f.q.Push(f.ctx, p)
	if r.Err != nil {
		f.Fatalf("push %s/%s: %v", topic, id, r.Err)
	}
	return r
}

func (f *fixture) advance() Advance {
	f.Helper()
	a, err := f.s.Advance(f.ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	return a
}

func (f *fixture) reserve(n int, more ...func(*Reserve)) []*Lease {
	f.Helper()
	f.n++
	r := Reserve{Worker: "w", Token: fmt.Sprint("t", f.n), Max: n, Pattern: "0102010201"}
	for _, m := range more {
		m(&r)
	}
	got, err := f.s.Reserve(f.ctx, 0, r)
	if err != nil {
		f.Fatal(err)
	}
	return got.Jobs
}

func (f *fixture) settle(v Verdict, more func(*Settlement), ls ...*Lease) []bool {
	f.Helper()
	var st []Settlement
	for _, l := range ls {
		x := Settlement{Lease: l, Verdict: v, Endpoint: EndpointUp}
		if v != Release && v != Expire {
			x.Attempt = &Attempt{StartedAt: 1, TookMS: 2, Status: 500, Answer: "no"}
		}
		if more != nil {
			more(&x)
		}
		st = append(st, x)
	}
	held, err := f.s.Settle(f.ctx, 0, st)
	if err != nil {
		f.Fatal(err)
	}
	return held
}

func (f *fixture) get(topic, id string) *Job {
	f.Helper()
	j, err := f.q.Get(f.ctx, topic, id)
	if err != nil {
		f.Fatalf("get %s/%s: %v", topic, id, err)
	}
	return j
}

func (f *fixture) gone(topic, id string) {
	f.Helper()
	if j, err := f.q.Get(f.ctx, topic, id); !errors.Is(err, ErrNotFound) {
		f.Fatalf("get %s/%s = %+v, %v; want it gone", topic, id, j, err)
	}
}

func (f *fixture) stats(topic string, d, r, u, x int64) {
	f.Helper()
	m, err := f.q.Stats(f.ctx, []string{topic})
	if err != nil {
		f.Fatal(err)
	}
	if s := m[topic]; s.Delayed != d || s.Ready != r || s.Running != u || s.Dead != x {
		f.Fatalf("stats of %s = %+v; want delayed %d ready %d running %d dead %d", topic, s, d, r, u, x)
	}
}

// clean fails when anything but configuration is left in Redis.
func (f *fixture) clean() {
	f.Helper()
	keys, err := f.s.client.Keys(f.ctx, "*").Result()
	if err != nil {
		f.Fatal(err)
	}
	for _, k := range keys {
		switch k := strings.TrimPrefix(k, prefix(0)); {
		case k == "tok" && f.s.client.HLen(f.ctx, prefix(0)+k).Val() == 1: // what makes it a table
		case k == "cur" && len(slices.DeleteFunc(f.s.client.HKeys(f.ctx, prefix(0)+k).Val(), func(k string) bool { return k == "" || k == "/" })) == 0:
		case k == "seq", k == "rev", k == "pos", k == "idle", k == "split", k == "conf", k == "probe", k[0] == 'n', strings.HasPrefix(k, "v:"), strings.HasPrefix(k, "w:"), strings.HasPrefix(k, "f:"), k == "due", k == "act", strings.HasPrefix(k, "t:"):
		default:
			f.Errorf("%s is left in Redis", k)
		}
	}
}

func TestAJobIsPushedReservedAndDone(t *testing.T) {
	f := newFixture(t)
	r := f.push("shop.close", "o-1", 0, func(p *Push) { p.ContentType = "text/plain"; p.TTR = 3 * time.Second; p.MaxAttempts = 4 })
	if r.Job.State != Ready || r.Duplicate {
		t.Fatalf("push = %+v", r)
	}
	f.stats("shop.close", 0, 1, 0, 0)
	ls := f.reserve(10)
	if len(ls) != 1 {
		t.Fatalf("reserved %d jobs", len(ls))
	}
	l := ls[0]
	if l.Topic != "shop.close" || l.ID != "o-1" || string(l.Body) != `{"id":"o-1"}` || l.ContentType != "text/plain" || l.TTR != 3*time.Second ||
		l.MaxAttempts != 4 || l.Priority != Normal || l.Attempts != 0 {
		t.Fatalf("lease = %+v", l)
	}
	if d := l.LeaseUntil.Sub(l.DueAt); d < 4*time.Second || d > 5*time.Second {
		t.Fatalf("lease of %v for a TTR of 3s", d)
	}
	f.stats("shop.close", 0, 0, 1, 0)
	if j := f.get("shop.close", "o-1"); j.State != Running {
		t.Fatalf("state %s while reserved", j.State)
	}
	if len(f.reserve(10)) != 0 {
		t.Fatal("a job was reserved twice")
	}
	if held := f.settle(Done, nil, l); !held[0] {
		t.Fatal("the lease was lost")
	}
	f.gone("shop.close", "o-1")
	f.stats("shop.close", 0, 0, 0, 0)
	f.clean()
}

func TestADelayedJobBecomesReadyWhenDueAndNotBefore(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 50*time.Millisecond)
	f.push("t", "far", time.Hour)
	f.stats("t", 2, 0, 0, 0)
	a := f.advance()
	if a.Moved != 0 || a.Next.IsZero() || a.Next.Sub(a.Now) > 50*time.Millisecond {
		t.Fatalf("advance = %+v", a)
	}
	eventually(t, "the job moves", func() bool { a = f.advance(); return a.Moved == 1 })
	if due := f.get("t", "a").DueAt; a.Now.Before(due) {
		t.Fatalf("moved at %v, due at %v", a.Now, due)
	}
	if d := a.Next.Sub(a.Now); d < 57*time.Minute || d > time.Hour {
		t.Fatalf("next event in %v; want the opening of the far page", d)
	}
	if j := f.get("t", "far"); j.State != Delayed || !j.NextAt.Equal(j.DueAt) {
		t.Fatalf("far job = %+v", j)
	}
	if err := f.q.Delete(f.ctx, "t", "far"); err != nil {
		t.Fatal(err)
	}
	f.settle(Done, nil, f.reserve(5)...)
	f.advance()
	f.clean()
}

func TestARetriedJobKeepsItsAttemptsAndDies(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 0, func(p *Push) { p.Body = []byte(strings.Repeat("x", 5000)) })
	f.settle(Retry, func(s *Settlement) { s.Delay = 20 * time.Millisecond; s.Attempt.Error = "first" }, f.reserve(1)...)
	j := f.get("t", "a")
	if j.State != Delayed || j.Attempts != 1 || len(j.History) != 1 || j.History[0].Error != "first" || j.History[0].N != 1 || len(j.Body) != 5000 {
		t.Fatalf("after a failure: %+v", j)
	}
	if !j.NextAt.After(j.DueAt) {
		t.Fatalf("next at %v, due at %v", j.NextAt, j.DueAt)
	}
	eventually(t, "the retry is due", func() bool { return f.advance().Moved == 1 })
	ls := f.reserve(1)
	if ls[0].Attempts != 1 || len(ls[0].Body) != 5000 {
		t.Fatalf("second lease = %+v", ls[0].Job)
	}
	f.settle(Snooze, func(s *Settlement) { s.Delay = time.Millisecond }, ls...)
	if j := f.get("t", "a"); j.Attempts != 1 || j.Snoozes != 1 {
		t.Fatalf("after a snooze: %+v", j)
	}
	eventually(t, "the snooze ends", func() bool { return f.advance().Moved == 1 })
	f.settle(Bury, func(s *Settlement) { s.Reason = "attempts" }, f.reserve(1)...)
	j = f.get("t", "a")
	if j.State != Dead || j.DeadReason != "attempts" || j.Attempts != 2 || len(j.History) != 3 || j.DeadAt.IsZero() {
		t.Fatalf("dead: %+v", j)
	}
	f.stats("t", 0, 0, 0, 1)
	if n, err := f.q.RedriveDead(f.ctx, "t", []string{"a", "nobody"}, 0); n != 1 || err != nil {
		t.Fatalf("redrive = %d, %v", n, err)
	}
	if j := f.get("t", "a"); j.State != Ready || j.Attempts != 0 {
		t.Fatalf("redriven: %+v", j)
	}
	f.settle(Bury, func(s *Settlement) { s.Reason = "gone" }, f.reserve(1)...)
	if n, err := f.q.DeleteDead(f.ctx, "t", nil, 10); n != 1 || err != nil {
		t.Fatalf("delete dead = %d, %v", n, err)
	}
	f.gone("t", "a")
	f.clean()
}

func TestASecondPushOfAnIDKeepsReplacesOrIsRefused(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", time.Hour)
	if r := f.push("t", "a", 0); !r.Duplicate || r.Job.State != Delayed {
		t.Fatalf("keep = %+v", r)
	}
	if r := f.push("other", "a", 0); r.Duplicate {
		t.Fatal("the same id under another topic counts as a duplicate")
	}
	p := Push{Topic: "t", ID: "a", OnDuplicate: Refuse}
	if r := f.q.Push(f.ctx, p); !errors.Is(r.Err, ErrDuplicate) {
		t.Fatalf("refuse = %v", r.Err)
	}
	if r := f.push("t", "a", 0, func(p *Push) { p.OnDuplicate = Replace; p.Body = []byte("new") }); !r.Duplicate || r.Job.State != Ready {
		t.Fatalf("replace = %+v", r)
	}
	if j := f.get("t", "a"); string(j.Body) != "new" {
		t.Fatalf("body %q", j.Body)
	}
	f.stats("t", 0, 1, 0, 0)
	ls := f.reserve(10)
	f.push("t", "a", time.Minute, func(p *Push) { p.OnDuplicate = Replace })
	for i, h := range f.settle(Done, nil, ls...) {
		if h != (ls[i].Topic == "other") {
			t.Fatalf("%s/%s: held = %v after its replacement", ls[i].Topic, ls[i].ID, h)
		}
	}
	f.stats("t", 1, 0, 0, 0)
}

func TestAnExpiredLeaseComesBackAndCounts(t *testing.T) {
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx, []TopicConf{{Name: "t", TTR: 10 * time.Millisecond, MaxAttempts: 2}}); err != nil {
		t.Fatal(err)
	}
	f.push("t", "a", 0)
	ls := f.reserve(1)
	if a := f.advance(); a.Expired != 0 {
		t.Fatal("a lease expired early")
	}
	eventually(t, "the lease expires", func() bool { return f.advance().Expired == 1 })
	j := f.get("t", "a")
	if j.State != Ready || j.Attempts != 1 || len(j.History) != 1 || !strings.Contains(j.History[0].Error, "dispatcher") {
		t.Fatalf("after the lease: %+v", j)
	}
	if f.settle(Done, nil, ls...)[0] {
		t.Fatal("a lost lease settled a job")
	}
	f.reserve(1)
	eventually(t, "the second lease expires", func() bool { return f.advance().Expired == 1 })
	if j := f.get("t", "a"); j.State != Dead || j.DeadReason != "lease" || j.Attempts != 2 || len(j.History) != 2 {
		t.Fatalf("after two leases of two: %+v", j)
	}
}

func TestAnExtendedLeaseHolds(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 0)
	ls := f.reserve(1, func(r *Reserve) { r.LeaseCap = time.Millisecond })
	held, err := f.s.Extend(f.ctx, 0, ls, time.Minute)
	if err != nil || !held[0] {
		t.Fatalf("extend = %v, %v", held, err)
	}
	if j := f.get("t", "a"); time.Until(j.LeaseUntil) < 50*time.Second {
		t.Fatalf("lease until %v", j.LeaseUntil)
	}
	if err := f.q.Delete(f.ctx, "t", "a"); err != nil {
		t.Fatal(err)
	}
	if held, _ := f.s.Extend(f.ctx, 0, ls, time.Minute); held[0] {
		t.Fatal("the lease of a deleted job was extended")
	}
	f.clean()
}

func TestTheSameTokenReturnsTheSameJobs(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		f.push("t", fmt.Sprint(i), 0)
	}
	same := func(r *Reserve) { r.Token = "lost-reply" }
	again := func(r *Reserve) { r.Again = true }
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
		for p := High; p <= Low; p++ {
			f.push("t", fmt.Sprintf("%s-%d", p, i), 0, func(x *Push) { x.Priority = p })
		}
	}
	count := map[Priority]int{}
	for i := range 100 { // one at a time: every ten are 5, 3, 2
		ls := f.reserve(1)
		count[ls[0].Priority]++
		f.settle(Done, nil, ls...)
		if i%10 == 9 {
			if count[High] != 5 || count[Normal] != 3 || count[Low] != 2 {
				t.Fatalf("jobs %d to %d: %v", i-9, i, count)
			}
			clear(count)
		}
	}
	for _, l := range f.reserve(30) {
		count[l.Priority]++
	}
	if count[High] != 10 || count[Normal]+count[Low] != 20 || count[Normal] < 11 {
		t.Fatalf("with ten high ones left: %v; want 10 high, the rest 3:2", count)
	}
}

// TestEmptyPlacesDoNotHoldUpOtherTopics: a long ready list whose jobs were all deleted is passed over step by step, and others have their turn
// in between.
func TestEmptyPlacesDoNotHoldUpOtherTopics(t *testing.T) {
	f := newFixture(t)
	var pushes []Push
	for i := range 3000 {
		pushes = append(pushes, Push{Topic: "deleted", ID: fmt.Sprint(i), Priority: Normal})
	}
	f.q.PushBatch(f.ctx, pushes)
	for _, p := range pushes {
		if err := f.q.Delete(f.ctx, p.Topic, p.ID); err != nil {
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
	for f.s.client.Exists(f.ctx, prefix(0)+"r:1:deleted").Val() == 1 {
		if got, err := f.s.Reserve(f.ctx, 0, Reserve{Worker: "w", Token: fmt.Sprint(calls), Max: 10, Pattern: "0102010201"}); err != nil || len(got.Jobs) == 0 && !got.More &&
			f.s.client.Exists(f.ctx, prefix(0)+"r:1:deleted").Val() == 1 {
			t.Fatalf("after %d calls there is more, and it does not say so: %+v, %v", calls, got, err)
		}
		calls++
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

func TestMaxInFlightHolds(t *testing.T) {
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx, []TopicConf{{Name: "t", TTR: time.Minute, MaxAttempts: 3, MaxInFlight: 2}}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		f.push("t", fmt.Sprint(i), 0)
	}
	ls := f.reserve(10)
	if len(ls) != 2 || len(f.reserve(10)) != 0 {
		t.Fatalf("%d in flight with a limit of 2", len(ls))
	}
	f.settle(Done, nil, ls[0])
	if n := len(f.reserve(10)); n != 1 {
		t.Fatalf("%d more after one was done", n)
	}
}

func TestRateLimitHolds(t *testing.T) {
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx, []TopicConf{{Name: "t", TTR: time.Minute, MaxAttempts: 3, RateLimit: 100}}); err != nil {
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
		f.settle(Done, nil, ls...)
		return n >= 50
	})
	took := time.Since(start)
	if most := int(took.Seconds()*100) + 7; n > most {
		t.Fatalf("%d jobs in %v at 100 a second", n, took)
	}
	if took > 20*time.Second {
		t.Fatalf("50 jobs took %v at 100 a second", took)
	}
}

func TestAPausedTopicWaitsAndGoesOn(t *testing.T) {
	f := newFixture(t)
	conf := TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 3, Paused: true}
	if err := f.q.SetTopics(f.ctx, []TopicConf{conf}); err != nil {
		t.Fatal(err)
	}
	f.push("t", "a", 0)
	f.push("u", "b", 0)
	if ls := f.reserve(10); len(ls) != 1 || ls[0].Topic != "u" {
		t.Fatalf("reserved %d jobs with t paused", len(ls))
	}
	conf.Paused = false
	if err := f.q.SetTopics(f.ctx, []TopicConf{conf}); err != nil {
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
	down := func(s *Settlement) { s.Endpoint = EndpointDown; s.Delay = time.Hour }
	f.settle(Retry, down, f.reserve(20)...)
	f.settle(Retry, down, f.reserve(20)...)
	if n := len(f.reserve(20)); n != 0 {
		t.Fatalf("%d jobs reserved while the breaker is open", n)
	}
	var probe []*Lease
	eventually(t, "a probe", func() bool { f.advance(); probe = f.reserve(20); return len(probe) > 0 })
	if len(probe) != 1 || len(f.reserve(20)) != 0 {
		t.Fatalf("%d probes at once", len(probe))
	}
	f.settle(Done, nil, probe...)
	if n := len(f.reserve(20)); n < 2 {
		t.Fatalf("%d jobs reserved after the endpoint answered", n)
	}
	if j := f.get("t", "99"); j.Attempts != 0 {
		t.Fatalf("a job that was not called has %d attempts", j.Attempts)
	}
}

func TestCallsRampUp(t *testing.T) {
	f := newFixture(t)
	var batch []Push
	for i := range 900 {
		batch = append(batch, Push{Topic: "t", ID: fmt.Sprint(i)})
	}
	for _, r := range f.q.PushBatch(f.ctx, batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	var seen []int
	for range 4 {
		var ls []*Lease
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
			f.settle(Done, nil, ls[:n]...)
			ls = ls[n:]
		}
	}
	if seen[0] != 32 || seen[1] <= seen[0] || seen[3] < 100 {
		t.Fatalf("calls in flight grew as %v", seen)
	}
}

func TestChangesAndRunNow(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", time.Hour)
	low, body, soon := Low, []byte(strings.Repeat("y", 2000)), 90*time.Minute
	j, err := f.q.Change(f.ctx, "t", "a", Change{Priority: &low, Body: &body, Delay: &soon})
	if err != nil || j.State != Delayed || j.Priority != Low || len(j.Body) != 2000 || j.DueAt.Sub(j.CreatedAt) < 89*time.Minute {
		t.Fatalf("change = %+v, %v", j, err)
	}
	f.stats("t", 1, 0, 0, 0)
	if j, err = f.q.RunNow(f.ctx, "t", "a"); err != nil || j.State != Ready || len(j.Body) != 2000 {
		t.Fatalf("run = %+v, %v", j, err)
	}
	ls := f.reserve(1)
	if _, err = f.q.Change(f.ctx, "t", "a", Change{Priority: &low}); !errors.Is(err, ErrRunning) {
		t.Fatalf("change of a running job: %v", err)
	}
	f.settle(Retry, func(s *Settlement) { s.Delay = time.Hour }, ls...)
	if j, err = f.q.RunNow(f.ctx, "t", "a"); err != nil || j.State != Ready || j.Attempts != 1 {
		t.Fatalf("run of a waiting retry = %+v, %v", j, err)
	}
	f.settle(Bury, func(s *Settlement) { s.Reason = "attempts" }, f.reserve(1)...)
	if _, err = f.q.Change(f.ctx, "t", "a", Change{Priority: &low}); !errors.Is(err, ErrDead) {
		t.Fatalf("change of a dead job: %v", err)
	}
	if j, err = f.q.RunNow(f.ctx, "t", "a"); err != nil || j.State != Ready || j.Attempts != 0 {
		t.Fatalf("run of a dead job = %+v, %v", j, err)
	}
	if _, err = f.q.RunNow(f.ctx, "t", "nobody"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("run of nothing: %v", err)
	}
	f.settle(Done, nil, f.reserve(1)...)
	f.clean()
}

func TestListsGoThroughEveryJobOnce(t *testing.T) {
	f := newFixture(t)
	var batch []Push
	want := map[State]int{Delayed: 0, Ready: 250}
	for i := range 2500 {
		batch = append(batch, Push{Topic: "t", ID: fmt.Sprint("far", i), Delay: time.Hour + time.Duration(i)*100*time.Millisecond})
		want[Delayed]++
	}
	for i := range 250 {
		batch = append(batch, Push{Topic: "t", ID: fmt.Sprint("near", i), Delay: 30 * time.Second},
			Push{Topic: "t", ID: fmt.Sprint("ready", i), Priority: Priority(i % 3)})
		want[Delayed]++
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
	if _, _, err := f.q.List(f.ctx, "t", Ready, "garbage", 10); !errors.Is(err, ErrCursor) {
		t.Fatalf("a garbage cursor: %v", err)
	}
	if n, err := f.q.DropTopic(f.ctx, "t"); err != nil || n != 3000 {
		t.Fatalf("dropped %d, %v", n, err)
	}
	f.stats("t", 0, 0, 0, 0)
	f.clean()
}

func TestAFullRedisRefusesPushesAndDrains(t *testing.T) {
	f := newFixture(t)
	for i := range 50 {
		f.push("t", fmt.Sprint(i), 0)
	}
	before := f.s.client.DBSize(f.ctx).Val()
	f.s.client.ConfigSet(f.ctx, "maxmemory", "1")
	r := f.q.Push(f.ctx, Push{Topic: "t", ID: "no"})
	var un *UnavailableError
	if !errors.As(r.Err, &un) || un.Reason != "full" {
		t.Fatalf("push = %v", r.Err)
	}
	if after := f.s.client.DBSize(f.ctx).Val(); after != before {
		t.Fatalf("%d keys, then %d", before, after)
	}
	f.settle(Retry, func(s *Settlement) { s.Delay = time.Hour }, f.reserve(5)...)
	f.settle(Done, nil, f.reserve(5)...)
	f.advance()
	f.stats("t", 5, 40, 0, 0)
}

func TestACorruptRecordDiesAloneAndNeighboursGoOn(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		f.push("t", fmt.Sprint(i), 0)
	}
	f.s.client.LSet(f.ctx, prefix(0)+"p:1", 2, "junk")
	if ls := f.reserve(10); len(ls) != 2 {
		t.Fatalf("reserved %d; want the two that can be read", len(ls))
	}
	f.stats("t", 0, 0, 2, 1)
	if n, err := f.q.DeleteDead(f.ctx, "t", nil, 10); n != 1 || err != nil {
		t.Fatalf("delete dead = %d, %v", n, err)
	}
}

func TestWakeUpsTellTimersAndDispatchers(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	wake := f.s.Wakeups(ctx)
	if w := <-wake; w.Kind != WakeReconnect {
		t.Fatalf("first %+v", w)
	}
	f.push("t", "a", time.Minute)
	if w := <-wake; w.Kind != WakeTimer {
		t.Fatalf("after a delayed push %+v", w)
	}
	f.push("t", "later", time.Hour) // wakes nobody
	f.reserve(1)                    // finds nothing: a dispatcher waits
	f.push("t", "b", 0)
	if w := <-wake; w.Kind != WakeDispatcher {
		t.Fatalf("after a push that is ready %+v", w)
	}
	f.q.Announce(ctx, 7)
	if w := <-wake; w.Kind != WakeRegistry {
		t.Fatalf("after an announcement %+v", w)
	}
}

func TestCheapLooksSeeWhatThereIsAndLeaveNoNote(t *testing.T) {
	f := newFixture(t)
	look := func(when string, nothing, nothingReady bool) {
		t.Helper()
		if got, err := f.s.Nothing(f.ctx, 0); err != nil || got != nothing {
			t.Errorf("%s: nothing at all: %v, %v", when, got, err)
		}
		if got, err := f.s.NothingReady(f.ctx, 0); err != nil || got != nothingReady {
			t.Errorf("%s: nothing is ready: %v, %v", when, got, err)
		}
	}
	look("at first", true, true)
	f.push("t", "later", time.Hour)
	look("with a delayed job", false, true)
	f.s.client.FlushDB(f.ctx)
	for _, p := range []Priority{High, Normal, Low} {
		if r := f.q.Push(f.ctx, Push{Topic: "t", ID: "now", Body: []byte("1"), Priority: p}); r.Err != nil {
			t.Fatal(r.Err)
		}
		look("with a job that is ready", true, false)
		l := f.reserve(1)[0]
		look("with a job under a lease", false, true)
		f.settle(Done, nil, l)
		f.s.client.Del(f.ctx, prefix(0)+"idle")
		f.reserve(1)
		if n := f.s.client.Exists(f.ctx, prefix(0)+"idle").Val(); n != 1 {
			t.Error("a reserve that found nothing left no note")
		}
		f.s.client.Del(f.ctx, prefix(0)+"idle")
		look("after it", true, true)
		if n := f.s.client.Exists(f.ctx, prefix(0)+"idle").Val(); n != 0 {
			t.Error("a look left a note")
		}
	}
	f.s.client.ZAdd(f.ctx, prefix(0)+"park", redis.Z{Score: 1, Member: "0:t"})
	look("with a topic that is parked", false, true)
}

func TestConcurrentPushesAreAllStoredOnce(t *testing.T) {
	f := newFixture(t)
	const n = 3000
	errs := make(chan error, n)
	for i := range n {
		go func() {
			errs <- f.q.Push(f.ctx, Push{Topic: "t", ID: fmt.Sprint(i), Delay: time.Hour}).Err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	f.stats("t", n, 0, 0, 0)
}

func TestAPushAlwaysFindsAnActiveShard(t *testing.T) {
	q := Open(Options{})
	defer func() { _ = q.Close() }()
	urlA, _ := startRedis(t)
	urlB, _ := startRedis(t)
	set := func(configs ...ShardConfig) {
		if err := q.SetShards(t.Context(), configs); err != nil {
			t.Error(err)
		}
	}
	set(ShardConfig{"a", urlA, "active"})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for range 300 {
			set(ShardConfig{"a", urlA, "draining"}, ShardConfig{"b", urlB, "active"})
			set(ShardConfig{"a", urlA, "active"}, ShardConfig{"b", urlB, "draining"})
		}
	})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if r := q.Push(t.Context(), Push{Topic: "t", ID: NewID(), Delay: time.Hour, Fresh: true}); r.Err != nil {
					t.Error(r.Err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestADownShardsJobsWaitAndNewOnesGoElsewhere(t *testing.T) {
	urlA, cmd := startRedis(t)
	urlB, _ := startRedis(t)
	q := Open(Options{Timeout: 500 * time.Millisecond})
	defer func() { _ = q.Close() }()
	ctx := t.Context()
	if err := q.SetShards(ctx, []ShardConfig{{"a", urlA, "active"}, {"b", urlB, "active"}}); err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for i := range 200 {
		r := q.Push(ctx, Push{Topic: "t", ID: fmt.Sprint(i), Delay: time.Hour})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		on[r.Job.Shard]++
	}
	if on["a"] < 60 || on["b"] < 60 {
		t.Fatalf("spread %v", on)
	}
	_ = cmd.Process.Kill()
	for i := range 50 {
		r := q.Push(ctx, Push{Topic: "t", ID: fmt.Sprint("later", i), Delay: time.Hour})
		if r.Err != nil || r.Job.Shard != "b" {
			t.Fatalf("push with a down: %+v", r)
		}
	}
	if r := q.Push(ctx, Push{Topic: "t", ID: "later0"}); !r.Duplicate {
		t.Fatalf("a duplicate away from home: %+v", r)
	}
	var un *UnavailableError
	if _, err := q.Get(ctx, "t", "nobody"); !errors.As(err, &un) {
		t.Fatalf("get of an unknown job with a shard down: %v", err)
	}
	if j, err := q.Get(ctx, "t", "later7"); err != nil || j.Shard != "b" {
		t.Fatalf("get = %+v, %v", j, err)
	}
}

// TestAShardThatIsReplacedStaysOpenForWhatIsUnderWay: what came of its calls is not left to their leases.
func TestAShardThatIsReplacedStaysOpenForWhatIsUnderWay(t *testing.T) {
	f := newFixture(t)
	f.push("t", "1", 0)
	jobs := f.reserve(1)
	elsewhere, _ := startRedis(t)
	if err := f.q.SetShards(f.ctx, []ShardConfig{{"a", elsewhere, "active"}}); err != nil {
		t.Fatal(err)
	}
	if held := f.settle(Done, nil, jobs...); !held[0] {
		t.Error("the outcome was refused")
	}
}
