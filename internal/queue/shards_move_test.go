package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

// twoShards has jobs in a, and a second shard b.
func twoShards(t *testing.T, o Options) (f *fixture, states func(a, b string)) {
	urlA, _ := startRedis(t)
	urlB, _ := startRedis(t)
	q := open(o)
	t.Cleanup(func() { _ = q.Close() })
	f = &fixture{T: t, ctx: t.Context(), q: q}
	states = func(a, b string) {
		t.Helper()
		if err := q.SetShards(t.Context(),
			[]ShardConfig{{Name: "a", URL: urlA, State: a}, {Name: "b", URL: urlB, State: b}}); err != nil {
			t.Fatal(err)
		}
	}
	states("active", "offline")
	f.s = q.Shards()[0]
	states("active", "draining")
	f.halfSplit(q.Shards()[1])
	return f, states
}

func (f *fixture) drain() int {
	f.Helper()
	n, err := f.q.Drain(f.ctx, f.s, "me")
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// TestADrainIsTakenBack: a shard that becomes active again during its drain keeps the remaining jobs, and no job is
// moved to its own shard, which would remove it.
func TestADrainIsTakenBack(t *testing.T) {
	var active func()
	f, states := twoShards(t, Options{Changed: func(kind ChangeKind, _ []Job) error {
		if kind == MovedIn {
			active()
		}
		return nil
	}})
	active = func() { states("active", "active") }
	const jobs = 3 * moveStep
	for n := range jobs {
		f.push("t", fmt.Sprint("job-", n), time.Hour)
	}
	states("draining", "active")
	if n := f.drain(); n == 0 || n > moveStep {
		t.Errorf("%d jobs were moved; want those of the current step", n)
	}
	f.stats("t", jobs, 0, 0, 0)
	m := &mover{queue: f.q, from: f.s, holder: "me"}
	listed := []Job{{ID: "job-0"}, {ID: fmt.Sprint("job-", jobs/2)}, {ID: fmt.Sprint("job-", jobs-1)}}
	if err := m.some(f.ctx, time.Now(), "t", listed); err != nil { // it became active a moment later
		t.Error(err)
	}
	f.stats("t", jobs, 0, 0, 0)
}

// TestADrainingShardGivesItsJobsAwayAsTheyAre: jobs in every state keep their attempts, due time and body, and the
// totals stay correct.
func TestADrainingShardGivesItsJobsAwayAsTheyAre(t *testing.T) {
	recorded := map[string]string{}
	f, states := twoShards(t, Options{Changed: func(kind ChangeKind, jobs []Job) error {
		for _, j := range jobs {
			if kind == MovedIn {
				recorded[j.ID] = j.Shard
			}
		}
		return nil
	}})
	long := func(p *Push) { p.Body = []byte(strings.Repeat("long ", longBody)) }
	f.push("t", "hour", time.Hour)
	f.push("t", "long", 90*time.Minute, long, func(p *Push) {
		p.Priority, p.TTR, p.MaxAttempts, p.ContentType = High,
			time.Minute, 7, "text/plain"
		p.TTL, p.Headers, p.Retry = 3*time.Hour, map[string]string{"k": "v"}, []time.Duration{time.Second, time.Minute}
	})
	f.push("t", "minute", time.Minute)
	f.push("t", "soon", 3*time.Second)
	for _, id := range []string{"retry", "dead", "running"} {
		f.push("t", id, 0)
	}
	for _, l := range f.reserve(3) {
		switch l.Job.ID {
		case "retry":
			f.settle(Retry, func(s *Settlement) { s.Delay = time.Minute }, l)
		case "dead":
			f.settle(Bury, func(s *Settlement) { s.Reason = "gone" }, l)
		}
	}
	if err := f.q.SetTopics(f.ctx, slices.Values([]TopicConf{{Name: "paused", TTR: time.Second, MaxAttempts: 3,
		Paused: true}})); err != nil {
		t.Fatal(err)
	}
	f.push("paused", "stuck", 0, func(p *Push) { p.DueAt = time.Now().Add(-time.Minute) })
	f.push("paused", "fresh", 0)
	before, ids := map[string]*Job{}, []string{"hour", "long", "minute", "retry", "dead"}
	for _, id := range ids {
		before[id] = f.get("t", id)
	}
	was := f.totals("t").Total
	states("draining", "active")

	if n := f.drain(); n != len(ids)+1 {
		t.Errorf("%d jobs were moved; want %d", n, len(ids)+1)
	}
	for _, id := range ids {
		got, want := f.get("t", id), *before[id]
		want.Shard, want.ETag = "b", got.ETag // the record has another place
		if !reflect.DeepEqual(got, &want) || recorded[id] != "b" {
			t.Errorf("%s, recorded in %q, is\n%+v, want\n%+v", id, recorded[id], got, &want)
		}
	}
	if j := f.get("paused", "stuck"); j.Shard != "b" || j.State != Delayed || time.Until(j.NextAt) > 21*time.Second {
		t.Errorf("the stuck jobs are %+v", j)
	}
	for topic, id := range map[string]string{"t": "soon", "paused": "fresh"} {
		if j := f.get(topic, id); j.Shard != "a" || len(recorded) != len(ids)+1 {
			t.Errorf("%s has no time of its move: %+v; recorded %v", id, j, recorded)
		}
	}
	if got := f.totals("t").Total; got != was {
		t.Errorf("the totals are\n%+v, were\n%+v", got, was)
	}
	h := f.s.Health(f.ctx)
	if h.Jobs != 3 || h.Moved != int64(len(ids)+1) {
		t.Errorf("a has %d jobs left and moved %d", h.Jobs, h.Moved)
	}
	if n := f.drain(); n != 0 {
		t.Errorf("%d more were moved", n)
	}
}

// TestADrainingShardKeepsWhatWorkersHave until the leases end; then the waiting jobs are moved unchanged.
func TestADrainingShardKeepsWhatWorkersHave(t *testing.T) {
	f, states := twoShards(t, Options{})
	f.pullTopics("t")
	f.q.pace.stuck, f.q.pace.putOff = 0, time.Minute
	verbs := map[string]Ending{
		"acked":    {Verb: Ack},
		"extended": {Verb: ExtendLeased, TTR: time.Hour},
		"released": {Verb: GiveBack, Delay: time.Hour},
		"failed":   {Verb: Fail, Retry: []time.Duration{time.Hour}},
		"back":     {Verb: GiveBack},
		"buried":   {Verb: BuryLeased},
	}
	for id := range verbs {
		f.push("t", id, 0)
	}
	jobs := f.take(len(verbs), "t")
	states("draining", "active")
	if n := f.drain(); n != 0 || len(jobs) != len(verbs) {
		t.Fatalf("%d of %d jobs were moved while workers held them", n, len(jobs))
	}
	for _, j := range jobs {
		e := verbs[j.ID]
		e.Lease = j.Lease
		f.ended(e)
	}
	if n := f.drain(); n != 4 {
		t.Errorf("%d jobs were moved; want 4", n)
	}
	for id, want := range map[string]Job{
		"extended": {Shard: "a", State: Running}, "back": {Shard: "b", State: Delayed},
		"released": {Shard: "b", State: Delayed}, "failed": {Shard: "b", State: Delayed, Attempts: 1},
		"buried": {Shard: "b", State: Dead, Attempts: 1},
	} {
		if j := f.get("t", id); j.Shard != want.Shard || j.State != want.State || j.Attempts != want.Attempts {
			t.Errorf("%s is %+v", id, j)
		}
	}
	for _, j := range jobs {
		e := Ending{Lease: j.Lease, Verb: Ack}
		if d := f.end(e); (j.ID == "extended") != (d.Err == nil) {
			t.Errorf("the lease of %s: %v", j.ID, d.Err)
		}
	}
	if h := f.s.Health(f.ctx); h.Jobs != 0 {
		t.Errorf("%d jobs are left", h.Jobs)
	}
	f.balancedTopics("t")
}

// TestAChangeIsOneOfEveryCopy: a push whose answer was lost may have left a copy in a second shard.
func TestAChangeIsOneOfEveryCopy(t *testing.T) {
	f, states := twoShards(t, Options{})
	states("active", "active")
	for _, s := range f.q.Shards() {
		if r, _ := s.storeAll(0, Memory, []Push{{Topic: "t", ID: "1", Delay: time.Hour, Body: []byte(`"old"`)}},
			wait.Limit); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
		for stored := time.Now().UnixMilli(); time.Now().UnixMilli() == stored; { // the next one is created later
		}
	}
	body, delay := []byte(`"new"`), 2*time.Hour
	j, err := f.q.Change(f.ctx, "t", "1", Change{Body: &body, Delay: &delay})
	if err != nil || string(j.Body) != `"new"` {
		t.Fatalf("%+v, %v", j, err)
	}
	for _, s := range f.q.Shards() {
		if j, err := s.get(f.ctx, "t", "1"); err != nil || string(j.Body) != `"new"` ||
			time.Until(j.DueAt) < 110*time.Minute {
			t.Errorf("in shard %s it is %+v, %v", s.name, j, err)
		}
	}
}

// TestAChangeOfAJobOnTheMoveLeavesOne: the job is in both shards during its move, and becomes due in one of them.
func TestAChangeOfAJobOnTheMoveLeavesOne(t *testing.T) {
	f, states := twoShards(t, Options{})
	f.push("t", "1", time.Hour)
	states("draining", "active")
	list, err := f.s.cases(f.ctx, "t", []Job{{ID: "1"}}, 0)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	b := f.q.activeFor("t", "1")[0]
	if err := b.copyOf(f.ctx, time.Now().Add(time.Minute), list); err != nil {
		t.Fatal(err)
	}
	soon := time.Duration(0)
	if _, err := f.q.Change(f.ctx, "t", "1", Change{Delay: &soon}); err != nil {
		t.Fatal(err)
	}
	left, err := f.s.leave(f.ctx, list, func(c *moving) int64 { return c.ref })
	if err != nil || len(left) != 1 {
		t.Fatalf("the unchanged copy stays: %v, %v", left, err)
	}
	if j, x := f.get("t", "1"), f.totals("t"); j.Shard != "b" || x.Ready != 1 || x.Delayed != 0 {
		t.Errorf("%+v\n%+v", j, x)
	}
}

// TestACopyThatIsRemovedAgainIsRecorded: its job was changed after it had been read, so the job stays where it is.
// Without a journal line, the copy would return when its shard loses data.
func TestACopyThatIsRemovedAgainIsRecorded(t *testing.T) {
	var recorded []string
	last := int64(0)
	f, states := twoShards(t, Options{Changed: func(kind ChangeKind, jobs []Job) error {
		for _, j := range jobs {
			if kind != MovedIn && kind != MovedOut {
				continue
			}
			recorded = append(recorded, fmt.Sprint(kind, " ", j.Shard))
			if j.Revision <= last {
				t.Errorf("%s at revision %d, after %d", kind, j.Revision, last)
			}
			last = j.Revision
		}
		return nil
	}})
	f.push("t", "1", time.Hour)
	states("draining", "active")
	list, err := f.s.cases(f.ctx, "t", []Job{{ID: "1"}}, 0)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	later := 2 * time.Hour
	if _, err := f.q.Change(f.ctx, "t", "1", Change{Delay: &later}); err != nil {
		t.Fatal(err)
	}
	m := &mover{queue: f.q, from: f.s, holder: "me"}
	if err := m.move(f.ctx, time.Now(), f.q.Shards()[1], list); err != nil {
		t.Fatal(err)
	}
	if j := f.get("t", "1"); j.Shard != "a" || !slices.Equal(recorded, []string{"move b", "leave b"}) {
		t.Errorf("the job is in %s, recorded %q", j.Shard, recorded)
	}
}

// TestAJobThatADrainFindsIsRecorded: the answer to its push was lost, so it was pushed to another shard as well. That
// copy is removed with its journal line, and this job has no line. The drain moves it once it can no longer be removed
// as a copy.
func TestAJobThatADrainFindsIsRecorded(t *testing.T) {
	var recorded []Job
	f, states := twoShards(t, Options{Changed: func(kind ChangeKind, jobs []Job) error {
		if kind == MovedIn {
			recorded = append(recorded, jobs...)
		}
		return nil
	}})
	first, b := f.push("t", "1", time.Hour).Job, f.q.Shards()[1]
	eventually(t, "the next millisecond", func() bool {
		now, _, err := b.Ping(f.ctx)
		return err == nil && now.After(first.CreatedAt)
	})
	push := []Push{{Topic: "t", ID: "1", Delay: time.Hour, Priority: Normal, Body: []byte(`"b"`)}}
	if r, _ := b.storeAll(0, Memory, push, time.Minute); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
	states("draining", "active")
	if n := f.drain(); n != 0 {
		t.Fatalf("%d jobs left for a copy that may be removed", n)
	}
	b.nodes[0].clock.Load().server += 2 * doubtFor.Milliseconds()
	f.drain()
	j := f.get("t", "1")
	if j.Shard != "b" || len(recorded) != 1 || recorded[0].Shard != "b" || string(recorded[0].Body) != `"b"` ||
		!recorded[0].CreatedAt.Equal(j.CreatedAt) || recorded[0].Revision == 0 {
		t.Errorf("the job is %+v, recorded %+v", j, recorded)
	}
}

// TestOneProcessMovesJobs, and another one continues where it stopped.
func TestOneProcessMovesJobs(t *testing.T) {
	f, states := twoShards(t, Options{})
	f.push("t", "1", time.Hour)
	states("draining", "active")
	if err := f.s.client.Set(f.ctx, prefix(0)+"mover", "another", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if n := f.drain(); n != 0 || f.get("t", "1").Shard != "a" {
		t.Fatalf("two processes move jobs: %d", n)
	}
	f.s.client.PExpire(f.ctx, prefix(0)+"mover", time.Millisecond) // the other process is dead
	eventually(t, "the job is moved", func() bool { return f.drain() == 1 })
}

// TestACopyThatComesLateIsRefused: another process may have moved the job meanwhile, and it may have been delivered.
func TestACopyThatComesLateIsRefused(t *testing.T) {
	f, states := twoShards(t, Options{})
	f.push("t", "1", time.Hour)
	states("draining", "active")
	f.q.pace.within = -time.Millisecond
	n, err := f.q.Drain(f.ctx, f.s, "me")
	if !errors.Is(err, errTooLate) || n != 0 {
		t.Fatalf("drain = %d, %v", n, err)
	}
	if j := f.get("t", "1"); j.Shard != "a" {
		t.Fatalf("the job is in %s", j.Shard)
	}
}

// TestAMoveThatWasCutOffIsFinished: whichever step was the last, the next run leaves the job in one shard.
func TestAMoveThatWasCutOffIsFinished(t *testing.T) {
	f, states := twoShards(t, Options{})
	f.thinUpTo(0)
	f.push("t", "copied", time.Hour)
	f.push("t", "changed", time.Hour)
	f.push("t", "removed", time.Hour)
	states("draining", "active")
	jobs, _, err := f.s.listStep(f.ctx, "t", Delayed, "f:-inf:0:0", 10) // the unopened pages
	if err != nil {
		t.Fatal(err)
	}
	list, err := f.s.cases(f.ctx, "t", jobs, 0)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	b := f.q.activeFor("t", "copied")[0]
	if err := b.copyOf(f.ctx, time.Now().Add(time.Minute), list); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(2 * time.Hour)
	if _, err := f.q.Change(f.ctx, "t", "changed", Change{DueAt: &later}); err != nil { // in b, which is tried first
		t.Fatal(err)
	}
	gone := func() []*moving {
		gone, err := f.s.leave(f.ctx, list[2:], func(c *moving) int64 { return c.ref })
		if err != nil {
			t.Fatal(err)
		}
		return gone
	}
	if first, again := gone(), gone(); len(first) != 1 || len(again) != 1 {
		t.Fatalf("removed %v, and when the answer was lost, %v", first, again)
	}
	f.drain()
	if n, err := f.s.jobs(f.ctx); n != 0 || err != nil {
		t.Errorf("%d jobs are left, %v", n, err)
	}
	if j := f.get("t", "changed"); j.Shard != "b" || j.DueAt.Before(later) {
		t.Errorf("the change is lost: %+v", j)
	}
	for _, id := range []string{"copied", "removed"} {
		if j := f.get("t", id); j.Shard != "b" {
			t.Errorf("%s is in %s", id, j.Shard)
		}
	}
	if x := f.totals("t"); x.Delayed != 3 {
		t.Errorf("%d live", x.Delayed)
	}
}

// TestNothingIsLostOrTwiceOrBackWhileShardsAreDrained: pushes, changes, deletions and calls continue while the shards
// are drained in turn.
func TestNothingIsLostOrTwiceOrBackWhileShardsAreDrained(t *testing.T) {
	f, states := twoShards(t, Options{})
	f.q.pace = movePace{ahead: 8 * time.Second, within: 4 * time.Second, putOff: 9 * time.Second,
		stuck: 100 * time.Millisecond} // a busy machine has four seconds for a copy, and four for the remaining steps
	states("active", "active")
	var mu sync.Mutex
	calls, deleted, moved := map[string]int{}, map[string]time.Time{}, 0
	ctx, stop := context.WithTimeout(f.ctx, 6*time.Second)
	defer stop()
	working, rest := context.WithCancel(f.ctx)
	defer rest()
	var pushers, workers sync.WaitGroup
	for n, s := range f.q.Shards() {
		workers.Go(func() {
			for i := 0; working.Err() == nil; i++ {
				_, err := s.Advance(working, 0)
				got, failed := s.Reserve(working, 0,
					Reserve{Worker: fmt.Sprint(n), Token: fmt.Sprint(n, i), Max: 20, Pattern: "0102010201"})
				if err != nil || failed != nil {
					if working.Err() == nil {
						t.Error(err, failed)
					}
					return
				}
				var done []Settlement
				mu.Lock()
				for _, l := range got.Jobs {
					calls[l.Job.ID]++
					if at, ok := deleted[l.Job.ID]; ok && time.Since(at) > 0 {
						t.Errorf("%s was called after it was deleted", l.Job.ID)
					}
					done = append(done, Settlement{Lease: l, Verdict: Done, Attempt: &Attempt{}, Endpoint: EndpointUp})
				}
				mu.Unlock()
				if _, err := s.Settle(working, 0, done); err != nil && working.Err() == nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	pushed := make([]int, 4)
	for n := range pushed {
		pushers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprint(n, "-", i)
				r := f.q.Push(f.ctx, Push{Topic: "t", ID: id,
					Delay: time.Duration(rand.IntN(12_000)) * time.Millisecond, Priority: Priority(i % 3)})
				if r.Err != nil || r.Duplicate {
					t.Errorf("push %s: %+v", id, r)
				}
				pushed[n]++
				other := fmt.Sprint(n, "-", rand.IntN(i+1))
				switch rand.IntN(6) {
				case 0:
					delay := time.Duration(rand.IntN(12_000)) * time.Millisecond
					_, err := f.q.Change(f.ctx, "t", other, Change{Delay: &delay})
					if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrRunning) {
						t.Errorf("change %s: %v", other, err)
					}
				case 1:
					mu.Lock()
					called := calls[other]
					mu.Unlock()
					err := f.q.Delete(f.ctx, "t", other)
					mu.Lock()
					switch {
					case err == nil:
						deleted[other] = time.Now()
					case calls[other] == 0 && called == 0 && deleted[other].IsZero():
						t.Errorf("delete %s, which was not called: %v", other, err)
					}
					mu.Unlock()
				}
			}
		})
	}
	for round := 0; ctx.Err() == nil; round++ {
		from := f.q.Shards()[round%2]
		if round%2 == 0 {
			states("draining", "active")
		} else {
			states("active", "draining")
		}
		for begun := time.Now(); time.Since(begun) < 700*time.Millisecond; {
			n, err := f.q.Drain(f.ctx, from, "me")
			if err != nil && !errors.Is(err, errTooLate) { // a busy machine
				t.Error(err)
			}
			moved += n
		}
	}
	pushers.Wait()
	eventually(t, "all are called", func() bool {
		m, err := f.q.Stats(f.ctx, []string{"t"})
		return err == nil && m["t"].Delayed+m["t"].Ready+m["t"].Running == 0
	})
	rest()
	workers.Wait()
	twice := 0
	for n, count := range pushed {
		for i := range count {
			id := fmt.Sprint(n, "-", i)
			if calls[id] == 0 && deleted[id].IsZero() {
				t.Errorf("%s is lost", id)
			}
			if calls[id] > 1 {
				twice++
			}
		}
	}
	balances(t, "t", f.totals("t"))
	t.Logf("%d jobs, %d deleted, %d called, %d moved, %d twice", pushed, len(deleted),
		len(slices.Collect(maps.Keys(calls))), moved, twice)
	if twice > 0 || moved == 0 {
		t.Errorf("%d were called twice, %d moved", twice, moved)
	}
}

// TestAMoveWaitsForTheReplicaOfDurableTopics: a job leaves its shard only when it has the topic's durability in the
// next one.
func TestAMoveWaitsForTheReplicaOfDurableTopics(t *testing.T) {
	r := startReplicated(t, shortTimeout)
	url, _ := startRedis(t)
	states := func(a, b string) {
		t.Helper()
		if err := r.q.SetShards(t.Context(),
			[]ShardConfig{{Name: "a", URL: r.s.url, State: a}, {Name: "b", URL: url, State: b}}); err != nil {
			t.Fatal(err)
		}
	}
	states("offline", "active")
	from := r.q.Shards()[0]
	if res := r.q.Push(r.ctx, Push{Topic: "replica", ID: "x", Delay: time.Hour}); !Stored(res.Err) {
		t.Fatalf("push to a shard without a replica: %+v", res)
	}
	states("active", "draining")
	r.stopReplica()
	if n, err := r.q.Drain(r.ctx, from, "me"); n != 0 || err == nil ||
		!strings.Contains(err.Error(), "no replica has confirmed it") {
		t.Fatalf("moved %d jobs, %v", n, err)
	}
	if j := r.get("replica", "x"); j.Shard != "b" {
		t.Fatalf("the job is in shard %s", j.Shard)
	}
	r.contReplica()
	eventually(t, "the replica to confirm the copy", func() bool {
		n, err := r.q.Drain(r.ctx, from, "me")
		return n == 1 && err == nil
	})
	if j := r.get("replica", "x"); j.Shard != "a" {
		t.Fatalf("the job is in shard %s", j.Shard)
	}
}

// TestACountOfManyTopicsIsKept for a while, except for a shard that is drained, which may be removed once it is empty.
func TestACountOfManyTopicsIsKept(t *testing.T) {
	f, states := twoShards(t, Options{})
	f.push("t", "one", time.Hour)
	jobs := func(want int64) {
		t.Helper()
		if h := f.s.Health(f.ctx); h.Jobs != want {
			t.Errorf("the shard has %d jobs; want %d", h.Jobs, want)
		}
	}
	counted := func(ago, took time.Duration) { f.s.counted.Store(&jobCount{7, time.Now().Add(-ago), took}) }
	counted(0, time.Millisecond)
	jobs(1)
	counted(time.Second, time.Minute)
	jobs(7)
	counted(time.Hour, time.Minute)
	jobs(1)
	counted(time.Second, time.Minute)
	states("draining", "active")
	jobs(1)
}

// TestStuckJobsAreSoughtInSteps: the places of deleted jobs in a ready list may be millions.
func TestStuckJobsAreSoughtInSteps(t *testing.T) {
	f := newFixture(t)
	f.setTopics(TopicConf{Name: "t", Paused: true, TTR: time.Minute})
	const places, step = 10_000, 2000
	gone := make([]any, places)
	for i := range gone {
		gone[i] = 4096 * (i + 1000)
	}
	list := prefix(0) + "r:1:t"
	if err := f.s.client.RPush(f.ctx, list, gone...).Err(); err != nil {
		t.Fatal(err)
	}
	f.push("t", "a", 0)
	for left := int64(places + 1 - step); left > 0; left -= step {
		n, err := f.s.again(f.ctx, 0, "defer", "t", 10, 0, time.Minute.Milliseconds())
		if have := f.s.client.LLen(f.ctx, list).Val(); err != nil || n != int64(0) || have != left {
			t.Fatalf("postponed %v, %v; %d places are left, want %d", n, err, have, left)
		}
	}
	if n, err := f.s.again(f.ctx, 0, "defer", "t", 10, 0, time.Minute.Milliseconds()); err != nil || n != int64(1) {
		t.Fatalf("postponed %v, %v", n, err)
	}
	f.stats("t", 1, 0, 0, 0)
}
