package store_test

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

	"github.com/wakecall/wakecall/internal/store"
)

func (f *fixture) drain() int {
	f.Helper()
	n, err := f.q.Drain(f.ctx, f.s, "me")
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// TestADrainIsTakenBack: a shard that becomes active again during its drain keeps the remaining jobs.
func TestADrainIsTakenBack(t *testing.T) {
	var active func()
	f, states := twoShards(t, store.Options{Changed: func(kind store.ChangeKind, _ []store.Job) error {
		if kind == store.MovedIn {
			active()
		}
		return nil
	}})
	active = func() { states("active", "active") }
	const moveStep = 100 // of package queue
	const jobs = 3 * moveStep
	for n := range jobs {
		f.push("t", fmt.Sprint("job-", n), time.Hour)
	}
	states("draining", "active")
	if n := f.drain(); n == 0 || n > moveStep {
		t.Errorf("%d jobs were moved; want those of the current step", n)
	}
	f.stats("t", jobs, 0, 0, 0)
}

// TestADrainingShardGivesItsJobsAwayAsTheyAre: jobs in every state keep their attempts, due time and body, and the
// totals stay correct.
func TestADrainingShardGivesItsJobsAwayAsTheyAre(t *testing.T) {
	recorded := map[string]string{}
	f, states := twoShards(t, store.Options{Changed: func(kind store.ChangeKind, jobs []store.Job) error {
		for _, j := range jobs {
			if kind == store.MovedIn {
				recorded[j.ID] = j.Shard
			}
		}
		return nil
	}})
	long := func(p *store.Push) { p.Body = []byte(strings.Repeat("long ", store.LongBody)) }
	f.push("t", "hour", time.Hour)
	f.push("t", "long", 90*time.Minute, long, func(p *store.Push) {
		p.Priority, p.TTR, p.MaxAttempts, p.ContentType = store.High,
			time.Minute, 7, "text/plain"
		p.TTL, p.Headers, p.Retry = 3*time.Hour, map[string]string{"k": "v"}, []time.Duration{time.Second, time.Minute}
	})
	f.push("t", "minute", time.Minute)
	f.push("t", "soon", 3*time.Second)
	for _, id := range []string{"retry", "dead", "running"} {
		f.push("t", id, 0)
	}
	for _, l := range f.reserve(3) {
		switch l.ID {
		case "retry":
			f.settle(store.Retry, func(s *store.End) { s.Delay = time.Minute }, l)
		case "dead":
			f.settle(store.Bury, func(s *store.End) { s.Reason = "gone" }, l)
		}
	}
	if err := f.q.SetTopics(f.ctx, slices.Values([]store.TopicConf{{Name: "paused", TTR: time.Second, MaxAttempts: 3,
		Paused: true}})); err != nil {
		t.Fatal(err)
	}
	f.push("paused", "stuck", 0, func(p *store.Push) { p.DueAt = time.Now().Add(-time.Minute) })
	f.push("paused", "fresh", 0)
	before, ids := map[string]*store.Job{}, []string{"hour", "long", "minute", "retry", "dead"}
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
		want.Shard, want.ETag, want.Revision = "b", got.ETag, got.Revision
		if !reflect.DeepEqual(got, &want) || recorded[id] != "b" {
			t.Errorf("%s, recorded in %q, is\n%+v, want\n%+v", id, recorded[id], got, &want)
		}
	}
	if j := f.get("paused", "stuck"); j.Shard != "b" || j.State != store.Delayed || time.Until(j.NextAt) > 21*time.Second {
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
	pace := store.DefaultPace
	pace.Stuck, pace.PutOff = 0, time.Minute
	f, states := twoShards(t, store.Options{Pace: &pace})
	f.pullTopics("t")
	verbs := map[string]store.End{
		"acked":    {Verb: store.Done},
		"extended": {Verb: store.Extend, Delay: time.Hour},
		"released": {Verb: store.Release, Delay: time.Hour},
		"failed":   {Verb: store.Fail, Retry: []time.Duration{time.Hour}},
		"back":     {Verb: store.Release},
		"buried":   {Verb: store.Bury},
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
	for id, want := range map[string]store.Job{
		"extended": {Shard: "a", State: store.Running}, "back": {Shard: "b", State: store.Delayed},
		"released": {Shard: "b", State: store.Delayed}, "failed": {Shard: "b", State: store.Delayed, Attempts: 1},
		"buried": {Shard: "b", State: store.Dead, Attempts: 1},
	} {
		if j := f.get("t", id); j.Shard != want.Shard || j.State != want.State || j.Attempts != want.Attempts {
			t.Errorf("%s is %+v", id, j)
		}
	}
	for _, j := range jobs {
		e := store.End{Lease: j.Lease, Verb: store.Done}
		if d := f.end(e); (j.ID == "extended") != (d.Err == nil) {
			t.Errorf("the lease of %s: %v", j.ID, d.Err)
		}
	}
	if h := f.s.Health(f.ctx); h.Jobs != 0 {
		t.Errorf("%d jobs are left", h.Jobs)
	}
	f.balancedTopics("t")
}

// TestAJobThatADrainFindsIsRecorded: the answer to its push was lost, so it was pushed to another shard as well. That
// copy is removed with its journal line, and this job has no line. The drain moves it once it can no longer be removed
// as a copy.
func TestAJobThatADrainFindsIsRecorded(t *testing.T) {
	var recorded []store.Job
	f, states := twoShards(t, store.Options{Changed: func(kind store.ChangeKind, jobs []store.Job) error {
		if kind == store.MovedIn {
			recorded = append(recorded, jobs...)
		}
		return nil
	}})
	first, b := f.push("t", "1", time.Hour).Job, f.q.Shards.All()[1]
	eventually(t, "the next millisecond", func() bool {
		now, _, err := b.Ping(f.ctx)
		return err == nil && now.Truncate(time.Millisecond).After(first.CreatedAt)
	})
	push := []store.Push{{Topic: "t", ID: "1", Delay: time.Hour, Priority: store.Normal, Body: []byte(`"b"`)}}
	if r, _ := b.Buckets()[0].StoreAllForTest(store.Memory, push, time.Minute); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
	states("draining", "active")
	f.drain()
	j := f.get("t", "1")
	if j.Shard != "b" || len(recorded) != 1 || recorded[0].Shard != "b" || string(recorded[0].Body) != `"b"` ||
		!recorded[0].CreatedAt.Equal(j.CreatedAt) || recorded[0].Revision == 0 {
		t.Errorf("the job is %+v, recorded %+v", j, recorded)
	}
}

// TestNothingIsLostOrTwiceOrBackWhileShardsAreDrained: pushes, changes, deletions and calls continue while the shards
// are drained in turn.
func TestNothingIsLostOrTwiceOrBackWhileShardsAreDrained(t *testing.T) {
	f, states := twoShards(t, store.Options{Pace: &store.MovePace{
		Ahead: 8 * time.Second, Within: 4 * time.Second, PutOff: 9 * time.Second, Stuck: 100 * time.Millisecond,
	}}) // a busy machine has four seconds for a copy, and four for the remaining steps
	states("active", "active")
	var mu sync.Mutex
	calls, deleted, moved := map[string]int{}, map[string]time.Time{}, 0
	ctx, stop := context.WithTimeout(f.ctx, 6*time.Second)
	defer stop()
	working, rest := context.WithCancel(f.ctx)
	defer rest()
	var pushers, workers sync.WaitGroup
	for n, s := range f.q.Shards.All() {
		workers.Go(func() {
			for i := 0; working.Err() == nil; i++ {
				_, err := s.Buckets()[0].Advance(working)
				got, failed := s.Buckets()[0].Reserve(working, store.Reserve{Worker: fmt.Sprint(n), Token: fmt.Sprint(n, "-", i), Max: 20, Pattern: "0102010201"})
				if err != nil || failed != nil {
					if working.Err() == nil {
						t.Error(err, failed)
					}
					return
				}
				var done []store.End
				mu.Lock()
				for _, l := range got.Jobs {
					calls[l.ID]++
					if at, ok := deleted[l.ID]; ok && time.Since(at) > 0 {
						t.Errorf("%s was called after it was deleted", l.ID)
					}
					done = append(done, store.End{Lease: l.Lease, Verb: store.Done, Attempt: &store.Attempt{}, Endpoint: store.EndpointUp})
				}
				mu.Unlock()
				if _, err := s.Buckets()[0].End(working, done); err != nil && working.Err() == nil {
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
				r := f.q.Push(f.ctx, store.Push{Topic: "t", ID: id,
					Delay: time.Duration(rand.IntN(12_000)) * time.Millisecond, Priority: store.Priority(i % 3)})
				if r.Err != nil || r.Duplicate {
					t.Errorf("push %s: %+v", id, r)
				}
				pushed[n]++
				other := fmt.Sprint(n, "-", rand.IntN(i+1))
				switch rand.IntN(6) {
				case 0:
					delay := time.Duration(rand.IntN(12_000)) * time.Millisecond
					_, err := f.q.Change(f.ctx, "t", other, store.Change{Delay: &delay})
					if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrRunning) {
						t.Errorf("change %s: %v", other, err)
					}
				case 1:
					mu.Lock()
					called := calls[other]
					mu.Unlock()
					err := f.q.Delete(f.ctx, "t", other, nil)
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
		from := f.q.Shards.All()[round%2]
		if round%2 == 0 {
			states("draining", "active")
		} else {
			states("active", "draining")
		}
		for begun := time.Now(); time.Since(begun) < 700*time.Millisecond; {
			n, err := f.q.Drain(f.ctx, from, "me")
			if err != nil && !errors.Is(err, store.ErrTooLate) { // a busy machine
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
