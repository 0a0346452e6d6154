package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/store"
)

func longText(id string) []byte { return []byte(`"` + id + strings.Repeat("x", store.LongBody) + `"`) }

var (
	allVerbs     = []store.Verb{store.Done, store.Retry, store.Snooze, store.Bury, store.Release, store.Expire}
	allEndpoints = []store.Endpoint{store.EndpointUnknown, store.EndpointUp, store.EndpointDown}
)

// A call settles jobs of several topics, pages and tokens with all verbs, in any order. Each job gets its own
// outcome, and the answers are in the order of the settlements, including those for ended leases and for a lease that
// the call has twice.
func TestEachOfManySettlementsGetsItsVerdictAndItsAnswer(t *testing.T) {
	f := newFixture(t)
	topics := []string{"a", "b", "c"}
	for i := range 96 {
		f.push(topics[i%3], fmt.Sprint(i), 0, func(p *store.Push) {
			if p.Priority = store.Priority(i % 2); i%5 == 0 {
				p.Body = longText(p.ID)
			}
		})
	}
	var st []store.End
	for len(st) < 96 {
		for _, l := range f.reserve(20) {
			x := store.End{Lease: l.Lease, Verb: allVerbs[len(st)%6], Delay: time.Hour, Reason: l.ID,
				Endpoint: allEndpoints[len(st)%3]}
			if x.Verb != store.Release && x.Verb != store.Expire {
				x.Attempt = &store.Attempt{StartedAt: 1, Error: l.ID}
			}
			if x.Verb == store.Release {
				x.Delay, x.AtHead = 0, true
			}
			st = append(st, x)
		}
	}
	rand.Shuffle(len(st), func(i, j int) { st[i], st[j] = st[j], st[i] })
	holds := make([]bool, len(st))
	for i := range st {
		if holds[i] = i%7 != 0; !holds[i] {
			other := *st[i].Lease
			other.Token += "x"
			st[i].Lease = &other
		}
	}
	foreign := *st[1].Lease
	foreign.Token = "" // sorts before the right one
	strange := st[1]
	strange.Lease = &foreign
	ended, err := f.b.End(f.ctx, append(st, strange, st[1]))
	if err != nil {
		t.Fatal(err)
	}
	got := held(ended)
	if n := len(st); got[n] || got[1] == got[n+1] {
		t.Errorf("a lease that the call has twice, and once with another token: held %v, %v and %v", got[1], got[n+1],
			got[n])
	}
	got[1] = true
	for i := range st {
		if got[i] != holds[i] {
			t.Errorf("settlement %d: held = %v", i, got[i])
		}
		f.settled(&st[i], holds[i])
	}
	for _, topic := range topics {
		f.totals(topic)
	}
	again, err := f.b.End(f.ctx, st)
	for i, h := range held(again) {
		if h || err != nil {
			t.Errorf("settlement %d of the repeated call: held = %v, %v", i, h, err)
		}
	}
}

// settled checks the outcome of a settlement.
func (f *fixture) settled(x *store.End, held bool) {
	f.Helper()
	l := x.Lease
	if x.Verb == store.Done && held {
		f.gone(l.Topic, l.ID)
		return
	}
	want, reason, history := store.Running, "", 0
	if held {
		want = map[store.Verb]store.State{store.Retry: store.Delayed, store.Snooze: store.Delayed, store.Bury: store.Dead, store.Expire: store.Dead, store.Release: store.Ready}[x.Verb]
		if x.Attempt != nil {
			history = 1
		}
		if want == store.Dead {
			reason = x.Reason
		}
	}
	j := f.get(l.Topic, l.ID)
	if j.State != want || !slices.Contains([]string{`{"id":"` + l.ID + `"}`, string(longText(l.ID))}, string(j.Body)) ||
		j.DeadReason != reason || len(j.History) != history ||
		history == 1 && j.History[0].Error != l.ID {
		f.Errorf("%s/%s after verb %s (held %v) is %s, dead for %q, after %+v", l.Topic, l.ID, x.Verb, held,
			j.State, j.DeadReason, j.History)
	}
}

// The answer to a reserve has jobs of several topics, with and without body keys, attempts and TTRs of their own; each
// job has its own values, also when the same token is sent again.
func TestEachOfManyReservedJobsHasWhatIsItsOwn(t *testing.T) {
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx, slices.Values([]store.TopicConf{{Name: "a", TTR: 5 * time.Second, MaxAttempts: 3},
		{Name: "b", TTR: 7 * time.Second, MaxAttempts: 3}})); err != nil {
		t.Fatal(err)
	}
	want := map[string]store.Push{}
	for i := range 48 {
		topic := []string{"a", "b"}[i/2%2]
		f.push(topic, fmt.Sprint(i), 0, func(p *store.Push) {
			if i%4 == 0 {
				p.TTR = time.Duration(20+i%3) * time.Second
			}
			if i%5 == 0 {
				p.Body = longText(p.ID)
			}
			want[p.ID] = *p
		})
	}
	attempted := map[string]bool{}
	for _, l := range f.reserve(10) {
		attempted[l.ID] = true
		f.settle(store.Retry, func(s *store.End) { s.Attempt.Error = l.ID }, l)
	}
	eventually(t, "the retries are due", func() bool {
		f.advance()
		m, err := f.q.Stats(f.ctx, []string{"a", "b"})
		return err == nil && m["a"].Delayed+m["b"].Delayed == 0
	})

	r := store.Reserve{Worker: "w", Token: "all", Max: 48, Pattern: "0102010201"}
	var now time.Time
	for _, r.Again = range []bool{false, true} {
		got, err := f.b.Reserve(f.ctx, r)
		if err != nil || len(got.Jobs) != len(want) {
			t.Fatalf("reserved %d jobs, %v; want %d", len(got.Jobs), err, len(want))
		}
		if !r.Again {
			now = got.Now.Truncate(time.Millisecond)
		}
		seen := map[string]bool{}
		for _, l := range got.Jobs {
			seen[l.ID] = true
			p := want[l.ID]
			ttr := map[string]time.Duration{"a": 5 * time.Second, "b": 7 * time.Second}[p.Topic]
			if p.TTR > 0 {
				ttr = p.TTR
			}
			if l.Topic != p.Topic || string(l.Body) != string(p.Body) || !l.LeaseUntil.Equal(now.Add(ttr+store.LeaseGrace)) {
				t.Errorf("again %v: %s/%s until %v from now with %d bytes; want %s, %v", r.Again, l.Topic, l.ID,
					l.LeaseUntil.Sub(now), len(l.Body), p.Topic, ttr)
			}
			if made := len(l.History) == 1 && l.History[0].Error == l.ID; made != attempted[l.ID] ||
				l.Attempts != len(l.History) {
				t.Errorf("again %v: %s has %d attempts: %+v", r.Again, l.ID, l.Attempts, l.History)
			}
		}
		if len(seen) != len(want) {
			t.Errorf("again %v: %d different jobs", r.Again, len(seen))
		}
	}
}

// Answers in a form that this version's reserve script does not use are refused.
func TestAnAnswerOfAnotherFormIsRefused(t *testing.T) {
	f := newFixture(t)
	job := []any{"t", "a", "running normal 1 1 0 5 token=token\nbody", int64(2), "", ""}
	answer := func(more ...any) []any { return append([]any{int64(1), int64(5), int64(0)}, more...) }
	for name, c := range map[string]struct {
		reply any
		jobs  int
		ok    bool
	}{
		"no list":          {"OK", 0, false},
		"nothing":          {answer(), 0, true},
		"half a head":      {[]any{int64(1), int64(0)}, 0, false},
		"a job":            {answer(job...), 1, true},
		"two jobs":         {answer(append(job, job...)...), 2, true},
		"half a job":       {answer(job[:1]...), 0, false},
		"a job and a half": {answer(append(job, job[:1]...)...), 0, false},
		"an unread job":    {answer("t", "a", "no record", int64(2), "", ""), 0, true},
	} {
		got, err := f.b.ReservedForTest(c.reply, "token")
		if errors.Is(err, store.ErrReply) == c.ok || len(got.Jobs) != c.jobs {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A truncated record blocks no other job that is reserved or returned with it.
func TestARecordThatIsCutOffHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	for i := range 4 {
		f.push("t", fmt.Sprint(i), 0, func(p *store.Push) { p.TTR = 20 * time.Second })
	}
	jobs := store.Prefix(0) + "j:t"
	if err := f.s.Redis().HSet(f.ctx, jobs, "1", f.s.Redis().HGet(f.ctx, jobs, "1").Val()[:20]).Err(); err != nil {
		t.Fatal(err)
	}
	if got := f.reserve(4); len(got) != 3 {
		t.Fatalf("%d jobs beside the unreadable one", len(got))
	}
	for _, z := range f.s.Redis().ZRangeWithScores(f.ctx, store.Prefix(0)+"l:t", 0, -1).Val() {
		f.s.Redis().ZAdd(f.ctx, store.Prefix(0)+"l:t", redis.Z{Score: 1, Member: z.Member}) // the leases have expired
	}
	f.s.Redis().ZAdd(f.ctx, store.Prefix(0)+"next", redis.Z{Score: 1, Member: "t"})
	if a := f.advance(); a.Expired != 3 {
		t.Fatalf("%+v", a)
	}
	if got := f.reserve(4); len(got) != 3 {
		t.Fatalf("%d jobs beside the unreadable one, after the leases expired", len(got))
	}
}

// TestLostLeasesKeepTheLastAttempts: an expired lease counts as an attempt, and the oldest attempts are dropped.
func TestLostLeasesKeepTheLastAttempts(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("x", 8000)
	f.push("t", "a", 0, func(p *store.Push) { p.MaxAttempts = 1000 })
	for range 15 {
		f.settle(store.Retry, func(s *store.End) { s.Attempt.Answer = long }, f.reserve(1)...)
		f.advanceUntilReady("t")
	}
	for range 10 {
		if len(f.reserve(1, func(r *store.Reserve) { r.LeaseCap = time.Millisecond })) != 1 {
			t.Fatal("nothing was reserved")
		}
		f.s.Redis().ZAdd(f.ctx, store.Prefix(0)+"l:t", redis.Z{Score: 1, Member: "a"})
		f.s.Redis().ZAdd(f.ctx, store.Prefix(0)+"next", redis.Z{Score: 1, Member: "t"})
		f.advanceUntilReady("t")
	}
	j := f.get("t", "a")
	if j.Attempts != 25 || len(j.History) != store.HistoryLimit {
		t.Fatalf("%d attempts, of which %d are kept", j.Attempts, len(j.History))
	}
	for i, a := range j.History {
		if a.N != 6+i || (a.Answer == long) != (a.N <= 15) || (a.Error != "") != (a.N > 15) {
			t.Errorf("attempt %d is %d: %.60s %s", i, a.N, a.Answer, a.Error)
		}
	}
	jobs, _, err := f.q.List(f.ctx, "t", store.Ready, "", 10)
	if err != nil || len(jobs) != 1 || len(jobs[0].History) != 1 || jobs[0].History[0].N != 25 {
		t.Fatalf("listed %+v, %v", jobs, err)
	}
	f.settle(store.Retry, func(s *store.End) { s.Delay = time.Hour }, f.reserve(1)...)
	j = f.get("t", "a")
	if n := len(j.History); n != store.HistoryLimit || j.Attempts != 26 || j.History[n-1].N != 26 || j.History[n-2].N != 25 {
		t.Fatalf("after a settlement: %d, %+v", j.Attempts, j.History)
	}
}

// A job that is pushed with a due time long past has been waiting since its push.
func TestTheOldestReadyJobWaitsSinceItsPush(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 0, func(p *store.Push) { p.DueAt = time.UnixMilli(1) })
	m, err := f.q.Stats(f.ctx, []string{"t"})
	if s := m["t"]; err != nil || s.Ready != 1 || s.OldestReady > time.Hour {
		t.Errorf("stats = %+v, %v", s, err)
	}
}

func (f *fixture) advanceUntilReady(topic string) {
	f.Helper()
	eventually(f.T, "the job is ready", func() bool {
		m, err := f.q.Stats(f.ctx, []string{topic})
		a := f.advance() // after the count: a job that becomes ready between the two has no turn yet
		// It may have become due in this millisecond, before the next one begins.
		turn := a.Next.IsZero() || a.Next.Sub(a.Now) > time.Millisecond
		return err == nil && m[topic].Ready == 1 && turn
	})
}
