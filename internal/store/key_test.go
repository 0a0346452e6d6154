package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// perKey makes the jobs of each key of a topic be called one at a time.
func (f *fixture) perKey(topic string, more ...func(*store.TopicConf)) {
	f.Helper()
	c := store.TopicConf{TTR: time.Hour, MaxAttempts: 10, Key: store.KeyConf{MaxInFlight: 1}}
	for _, m := range more {
		m(&c)
	}
	f.conf(topic, c)
}

func withKey(key string) func(*store.Push) { return func(p *store.Push) { p.Key = key } }

// reserved reserves jobs, and returns them and their ids.
func (f *fixture) reserved(n int) ([]*store.Job, string) {
	f.Helper()
	f.advance()
	jobs := f.reserve(n)
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return jobs, strings.Join(ids, " ")
}

// expect reserves all due jobs and fails unless they are these.
func (f *fixture) expect(ids string) []*store.Job {
	f.Helper()
	jobs, got := f.reserved(10)
	if got != ids {
		f.Fatalf("reserved %q; want %q", got, ids)
	}
	return jobs
}

// past is a due time ms before now, to the millisecond.
func past(base time.Time, ms int) func(*store.Push) {
	return func(p *store.Push) { p.DueAt = base.Add(-time.Duration(ms) * time.Millisecond) }
}

// TestOneJobOfAKeyRunsAtATime, the first by due time, then by push, whatever its priority; other keys go on.
func TestOneJobOfAKeyRunsAtATime(t *testing.T) {
	f := newFixture(t)
	f.perKey("t")
	base := time.Now().Truncate(time.Millisecond)
	low := func(p *store.Push) { p.Priority = store.Low }
	high := func(p *store.Push) { p.Priority = store.High }
	f.push("t", "c", 0, past(base, 10), withKey("k"), high)
	f.push("t", "d", 0, past(base, 10), withKey("k"), high)
	f.push("t", "a", 0, past(base, 20), withKey("k"), low)
	f.push("t", "b", 0, past(base, 20), withKey("k"), high)
	f.push("t", "other", 0, past(base, 15), withKey("l"), high)
	f.push("t", "none", 0, past(base, 1), high)
	f.stats("t", 0, 6, 0, 0)
	first := f.expect("other none a") // a's turn is that of its priority
	f.stats("t", 0, 3, 3, 0)
	f.expect("")
	for _, next := range []string{"b", "c", "d", ""} {
		f.settle(store.Done, nil, first[len(first)-1])
		first = f.expect(next)
	}
	f.stats("t", 0, 0, 2, 0)
}

// TestARetryKeepsThePlaceOfItsKey, unless the topic skips jobs that wait for a retry.
func TestARetryKeepsThePlaceOfItsKey(t *testing.T) {
	for _, skip := range []bool{false, true} {
		t.Run(fmt.Sprint(skip), func(t *testing.T) {
			f := newFixture(t)
			f.perKey("t", func(c *store.TopicConf) { c.Key.SkipRetrying = skip })
			base := time.Now().Truncate(time.Millisecond)
			for _, id := range []string{"a", "b", "c"} {
				f.push("t", id, 0, past(base, 5), withKey("k"))
			}
			jobs := f.expect("a")
			f.settle(store.Retry, func(e *store.End) { e.Delay = time.Hour }, jobs...)
			if !skip {
				f.expect("")
				f.stats("t", 1, 2, 0, 0)
				if _, err := f.q.RunNow(f.ctx, "t", "a", nil); err != nil {
					t.Fatal(err)
				}
			}
			if skip {
				f.settle(store.Done, nil, f.expect("b")...)
				f.settle(store.Done, nil, f.expect("c")...)
				f.expect("")
				return
			}
			// It is due now, later than the others.
			f.settle(store.Done, nil, f.expect("b")...)
			f.settle(store.Release, nil, f.expect("c")...)
			f.settle(store.Retry, func(e *store.End) { e.Delay = 0 }, f.expect("c")...)
			f.settle(store.Done, nil, f.expect("c")...)
			f.settle(store.Bury, nil, f.expect("a")...)
			f.expect("")
		})
	}
}

// TestAnEarlierJobOvertakes the one of its key that is not due yet, and nothing of a key that has ended is left.
func TestAnEarlierJobOvertakes(t *testing.T) {
	f := newFixture(t)
	f.perKey("t")
	f.push("t", "far", time.Hour, withKey("k"))
	f.push("t", "later", 2*time.Hour, withKey("k"))
	f.push("t", "now", 0, withKey("k"))
	f.stats("t", 2, 1, 0, 0)
	f.settle(store.Done, nil, f.expect("now")...)
	for _, id := range []string{"far", "later"} {
		if _, err := f.q.RunNow(f.ctx, "t", id, nil); err != nil {
			t.Fatal(err)
		}
		f.settle(store.Done, nil, f.expect(id)...)
	}
	f.clean()
}

// TestWhatEndsAJobLetsTheNextOneOfItsKeyGo: in whatever way it ends or leaves the queue.
func TestWhatEndsAJobLetsTheNextOneOfItsKeyGo(t *testing.T) {
	running := func(verb store.Verb) func(*fixture, *store.Job) {
		return func(f *fixture, j *store.Job) { f.settle(verb, nil, j) }
	}
	for name, end := range map[string]func(*fixture, *store.Job){
		"done": running(store.Done), "bury": running(store.Bury), "expire": running(store.Expire),
		"delete": func(f *fixture, j *store.Job) {
			if _, err := f.b.Remove(f.ctx, "t", j.ID, nil, store.Memory); err != nil {
				f.Fatal(err)
			}
		},
		"replace": func(f *fixture, j *store.Job) {
			f.push("t", j.ID, time.Hour, withKey("other"), func(p *store.Push) { p.OnDuplicate = store.Replace })
		},
		"cancelled": func(f *fixture, j *store.Job) {
			if _, err := f.q.CancelGroup(f.ctx, "g", []string{"*"}, 0); err != nil {
				f.Fatal(err)
			}
			f.settle(store.Retry, nil, j)
		},
		"moved": func(f *fixture, j *store.Job) {
			f.settle(store.Release, nil, j)
			if _, err := f.q.Change(f.ctx, "t", "a", store.Change{Delay: new(time.Hour)}); err != nil {
				f.Fatal(err)
			}
		},
		"damaged": func(f *fixture, j *store.Job) {
			f.settle(store.Release, nil, j)
			f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", "a", "\xfe\x01?and so on")
			f.reserve(1)
		},
		"damaged while it runs": func(f *fixture, j *store.Job) {
			f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", "a", "\xfe\x01?and so on")
			f.push("t", "c", time.Hour, withKey("k"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.perKey("t")
			for _, id := range []string{"a", "b"} {
				f.push("t", id, 0, withKey("k"), func(p *store.Push) {
					if id == "a" {
						p.Group = "g"
					}
				})
			}
			end(f, f.expect("a")[0])
			f.settle(store.Done, nil, f.expect("b")...)
		})
	}
}

// TestAWaitingJobOfAKeyExpires: the admitted one when its turn comes, a held one at its time.
func TestAWaitingJobOfAKeyExpires(t *testing.T) {
	f := newFixture(t)
	f.perKey("t")
	short := func(p *store.Push) { p.TTL = 30 * time.Millisecond }
	f.push("t", "a", 0, withKey("k"), short)
	f.push("t", "b", 0, withKey("k"), short)
	f.push("t", "c", 0, withKey("k"))
	time.Sleep(50 * time.Millisecond) // time has to pass on the server
	f.reserve(10)
	eventually(t, "the held one has expired", func() bool { f.advance(); return f.get("t", "b").State == store.Dead })
	if j := f.get("t", "a"); j.State != store.Dead || j.DeadReason != "expired" {
		t.Errorf("the admitted one = %+v", j)
	}
	if j := f.get("t", "c"); j.State != store.Running {
		f.settle(store.Done, nil, f.expect("c")...)
	}
}

// TestSeveralJobsOfAKey run at a time when the topic says so; raising the limit lets more go.
func TestSeveralJobsOfAKey(t *testing.T) {
	f := newFixture(t)
	two := func(n int) { f.perKey("t", func(c *store.TopicConf) { c.Key.MaxInFlight = n }) }
	two(2)
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		f.push("t", id, 0, withKey("k"))
	}
	jobs := f.expect("a b")
	f.settle(store.Done, nil, jobs[1])
	f.expect("c")
	two(3)
	f.settle(store.Done, nil, jobs[0])
	f.expect("d e")
	f.perKey("t", func(c *store.TopicConf) { c.Key = store.KeyConf{} })
	f.push("t", "free", 0, withKey("k"))
	f.expect("free")
	if _, err := f.q.Change(f.ctx, "t", "f", store.Change{Priority: new(store.High)}); err != nil {
		t.Fatal(err)
	}
	f.push("t", "g", 0, withKey("k"))
	f.expect("f g")
}

// TestAKeyRestsAfterACall, as long as its rate says.
func TestAKeyRestsAfterACall(t *testing.T) {
	f := newFixture(t)
	f.perKey("t", func(c *store.TopicConf) { c.Key.RateLimit = 4 })
	for _, id := range []string{"a", "b"} {
		f.push("t", id, 0, withKey("k"))
	}
	f.push("t", "other", 0, withKey("l"))
	jobs := f.expect("a other")
	before := f.s.Redis().Time(f.ctx).Val()
	f.settle(store.Done, nil, jobs...)
	var next []*store.Job
	eventually(t, "the key has rested", func() bool { next, _ = f.reserved(1); return len(next) > 0 })
	if rested := f.s.Redis().Time(f.ctx).Val().Sub(before); next[0].ID != "b" || rested < 249*time.Millisecond {
		t.Errorf("%s after %v", next[0].ID, rested)
	}
	f.settle(store.Done, nil, next...)
	eventually(t, "nothing is left of the key", func() bool {
		return len(f.s.Redis().Keys(f.ctx, store.Prefix(0)+"k*").Val()) == 0
	})
}

// TestAHeldJobIsTakenByItsID, and counts while it runs.
func TestAHeldJobIsTakenByItsID(t *testing.T) {
	f := newFixture(t)
	f.conf("t", store.TopicConf{TTR: time.Hour, MaxAttempts: 3, Pull: true, Key: store.KeyConf{MaxInFlight: 1}})
	for _, id := range []string{"a", "b", "c"} {
		f.push("t", id, 0, withKey("k"))
	}
	first := f.take(5, "t")
	if len(first) != 1 || first[0].ID != "a" {
		t.Fatalf("took %+v", first)
	}
	second, err := f.q.TakeByID(f.ctx, "t", "b")
	if err != nil {
		t.Fatal(err)
	}
	f.ended(store.End{Lease: first[0].Lease, Verb: store.Done})
	if got := f.take(5, "t"); len(got) > 0 {
		t.Fatalf("took %+v while another of its key runs", got)
	}
	f.ended(store.End{Lease: second.Lease, Verb: store.Done})
	if got := f.take(5, "t"); len(got) != 1 || got[0].ID != "c" {
		t.Fatalf("took %+v", got)
	}
}

// TestHeldJobsAreListed among the others of their topic.
func TestHeldJobsAreListed(t *testing.T) {
	f := newFixture(t)
	f.perKey("t")
	for i := range 5 {
		f.push("t", fmt.Sprint("ready", i), 0, withKey("k"))
		f.push("t", fmt.Sprint("delayed", i), time.Hour, withKey("k"))
	}
	for _, state := range []store.State{store.Ready, store.Delayed} {
		n, cursor := 0, ""
		for {
			jobs, next, err := f.q.List(f.ctx, "t", state, cursor, 2)
			if err != nil {
				t.Fatal(err)
			}
			if n += len(jobs); next == "" {
				break
			}
			cursor = next
		}
		if n != 5 {
			t.Errorf("%d %s jobs are listed", n, state)
		}
	}
	f.stats("t", 5, 5, 0, 0)
}

// TestWhatAnotherShardHasKeepsItsPlace: jobs that are moved to another one, a retry among them.
func TestWhatAnotherShardHasKeepsItsPlace(t *testing.T) {
	f := newFixture(t)
	f.perKey("t")
	other := newFixture(t)
	other.perKey("t")
	base := time.Now().Truncate(time.Millisecond)
	f.push("t", "a", 0, past(base, 5), withKey("k"))
	f.push("t", "b", 0, past(base, 4), withKey("k"))
	f.settle(store.Retry, func(e *store.End) { e.Delay = time.Hour }, f.expect("a")...)
	a, b := f.get("t", "a"), f.get("t", "b")
	if b.Key != "k" {
		t.Fatalf("%+v", b)
	}
	other.restore(other.b, b, a)
	other.expect("")
	if _, err := other.b.Remove(f.ctx, "t", "a", nil, store.Memory); err != nil {
		t.Fatal(err)
	}
	other.expect("b")
	f.leave(f.b, a)
	f.expect("b")
}

// TestTheHomeOfAKey: one shard has the jobs of a key, and they are found by their ids; a duplicate with another key,
// too.
func TestTheHomeOfAKey(t *testing.T) {
	f, states := twoShards(t, store.Options{})
	states("active", "active")
	f.setTopics(store.TopicConf{Name: "t", TTR: time.Hour, MaxAttempts: 10, Key: store.KeyConf{MaxInFlight: 1}})
	home := f.homeIs("b", "t") // as a key
	for i := range 20 {
		id := fmt.Sprint("id", i)
		if r := f.push("t", id, 0, withKey(home)); r.Job.Shard != "b" || r.Job.Key != home {
			t.Fatalf("pushed %+v", r.Job)
		}
		if j := f.get("t", id); j.Shard != "b" || j.Key != home {
			t.Fatalf("it is %+v", j)
		}
		for _, key := range []string{home, "", "other"} {
			if r := f.push("t", id, 0, withKey(key)); !r.Duplicate || r.Job.Shard != "b" {
				t.Fatalf("pushed again with the key %q: %+v", key, r)
			}
		}
	}
	if _, err := f.q.Change(f.ctx, "t", "id7", store.Change{Delay: new(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if err := f.q.Delete(f.ctx, "t", "id8", nil); err != nil {
		t.Fatal(err)
	}
	f.stats("t", 1, 18, 0, 0)
	moved := f.push("t", "id9", 0, withKey(f.homeIs("a", "t")), func(p *store.Push) { p.OnDuplicate = store.Replace })
	if moved.Err != nil || !moved.Duplicate {
		t.Errorf("replaced in another shard: %+v", moved)
	}
	f.stats("t", 1, 18, 0, 0)
	if n := f.q.Shards.All()[0].Redis().HLen(f.ctx, store.Prefix(0)+"j:t").Val(); n != 1 {
		t.Errorf("shard a has %d jobs", n)
	}
}
