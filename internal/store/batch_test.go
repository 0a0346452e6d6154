package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// batchOf returns pushes of one bucket, every third of them without an id.
func batchOf(from, n int, delay time.Duration) []store.Push {
	list := make([]store.Push, n)
	for i := range list {
		k := from + i
		p := store.Push{Topic: "t", ID: fmt.Sprintf("own-%05d", k), Delay: delay, Priority: store.Priority(k % 3)}
		if k%3 == 0 {
			p.ID, p.Fresh = store.NewID(), true
		}
		p.Body = fmt.Appendf(nil, `{"n":%d}`, k)
		if k%100 == 7 {
			p.Body = fmt.Appendf(nil, `"%01500d"`, k) // has a key of its own
		}
		list[i] = p
	}
	return list
}

// pushed pushes and returns the ids in the order of the pushes.
func (f *fixture) pushed(list []store.Push) []string {
	f.Helper()
	ids := make([]string, len(list))
	for i, r := range f.q.PushBatch(f.ctx, list) {
		if r.Err != nil || r.Duplicate {
			f.Fatalf("push %d: %+v", i, r)
		}
		ids[i] = r.Job.ID
	}
	return ids
}

func TestLargeBatches(t *testing.T) {
	for _, delay := range []time.Duration{0, 30 * time.Second, time.Hour} {
		f := newFixture(t)
		bodies := map[string]string{}
		for from := 0; from < 3500; from += 700 {
			list := batchOf(from, 700, delay)
			for i, id := range f.pushed(list) {
				bodies[id] = string(list[i].Body)
			}
		}
		if len(bodies) != 3500 {
			t.Fatalf("%d ids for 3500 jobs due in %s", len(bodies), delay)
		}
		for id, body := range bodies {
			if j := f.get("t", id); string(j.Body) != body {
				t.Fatalf("the job %s due in %s has the body %.40s; want %.40s", id, delay, j.Body, body)
			}
		}
		for id := range bodies {
			if err := f.q.Delete(f.ctx, "t", id, nil); err != nil {
				t.Fatal(err)
			}
		}
		f.forgetAll()
		eventually(t, "nothing is ready", func() bool {
			f.reserve(100)
			nothing, err := f.b.NothingReady(f.ctx)
			return nothing && err == nil
		})
		f.clean()
	}
}

func (f *fixture) filed() (ids int64) {
	f.Helper()
	for _, key := range f.s.Redis().Keys(f.ctx, store.Prefix(0)+"f:*").Val() {
		ids += f.s.Redis().LLen(f.ctx, key).Val()
	}
	return ids
}

func TestABatchPushedAgainLeavesNothingBehind(t *testing.T) {
	for _, delay := range []time.Duration{time.Minute, time.Hour} {
		f := newFixture(t)
		var list []store.Push
		for _, p := range batchOf(0, 300, delay) {
			if !p.Fresh {
				list = append(list, p)
			}
		}
		f.pushed(list)
		before := f.filed()
		if delay == time.Hour && before == 0 {
			t.Fatal("no id is in the list of a minute")
		}
		for _, again := range []store.OnDuplicate{store.Keep, store.Refuse} {
			for i := range list {
				list[i].OnDuplicate = again
			}
			for i, r := range f.q.PushBatch(f.ctx, list) {
				if again == store.Keep && (r.Err != nil || !r.Duplicate) || again == store.Refuse &&
					!errors.Is(r.Err, store.ErrDuplicate) {
					t.Fatalf("push %d again: %+v", i, r)
				}
			}
		}
		if after := f.filed(); after != before {
			t.Errorf("the lists of minutes have %d ids, and %d after the same pushes again", before, after)
		}
		f.stats("t", int64(len(list)), 0, 0, 0)
	}
}

func TestDuplicatesAmongNewJobsOfOneBatch(t *testing.T) {
	f := newFixture(t)
	first := batchOf(0, 30, time.Hour)
	ids := f.pushed(first)
	second := batchOf(30, 30, time.Hour)
	for i := 0; i < len(second); i += 2 { // every other push has an earlier id
		second[i] = store.Push{Topic: "t", ID: ids[i], Delay: 2 * time.Hour, Body: []byte(`"again"`),
			OnDuplicate: store.OnDuplicate(i / 2 % 3)}
	}
	var replaced, stored int64
	for i, r := range f.q.PushBatch(f.ctx, second) {
		if i%2 == 1 {
			if r.Err != nil || r.Duplicate {
				t.Fatalf("new %d: %+v", i, r)
			}
			stored++
			if got := f.get("t", r.Job.ID); string(got.Body) != string(second[i].Body) {
				t.Errorf("new %d has the body %s", i, got.Body)
			}
			continue
		}
		want := string(first[i].Body)
		switch second[i].OnDuplicate {
		case store.Keep:
			if r.Err != nil || !r.Duplicate {
				t.Errorf("kept %d: %+v", i, r)
			}
		case store.Refuse:
			if !errors.Is(r.Err, store.ErrDuplicate) {
				t.Errorf("refused %d: %+v", i, r)
			}
		case store.Replace:
			want = `"again"`
			replaced++
			if r.Err != nil || !r.Duplicate {
				t.Errorf("replaced %d: %+v", i, r)
			}
		}
		if got := f.get("t", ids[i]); string(got.Body) != want {
			t.Errorf("%s has the body %s; want %s", ids[i], got.Body, want)
		}
	}
	f.stats("t", 30+stored, 0, 0, 0)
	if got := f.totals("t").Total; got.Pushed != 30+stored+replaced || got.Replaced != replaced {
		t.Errorf("totals %+v; want %d pushed, %d replaced", got, 30+stored+replaced, replaced)
	}
	if n, err := f.q.DropTopic(f.ctx, "t"); err != nil || int64(n) != 30+stored {
		t.Errorf("%d dropped, %v", n, err)
	}
	f.advance()
	f.clean()
}

func TestTheSameIDTwiceInOneBatch(t *testing.T) {
	f := newFixture(t)
	for _, delay := range []time.Duration{0, time.Minute, time.Hour} {
		for again, want := range map[store.OnDuplicate]string{store.Keep: `1`, store.Refuse: `1`, store.Replace: `2`} {
			id := fmt.Sprintf("%s-%d", delay, again)
			r := f.q.PushBatch(f.ctx, []store.Push{
				{Topic: "t", ID: id, Delay: delay + 5*time.Minute, Body: []byte(`1`)},
				// on a page that is written earlier or later in the call
				{Topic: "t", ID: id, Delay: delay, Body: []byte(`2`), OnDuplicate: again},
			})
			if r[0].Err != nil || r[0].Duplicate || (r[1].Err != nil) != (again == store.Refuse) ||
				r[1].Duplicate != (again != store.Refuse) {
				t.Errorf("%s: %+v", id, r)
			}
			if got := f.get("t", id); string(got.Body) != want {
				t.Errorf("%s has the body %s; want %s", id, got.Body, want)
			}
			if err := f.q.Delete(f.ctx, "t", id, nil); err != nil {
				t.Error(err)
			}
		}
	}
	f.advance()
	f.reserve(1)
	f.clean()
}
