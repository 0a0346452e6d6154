package queue

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fromTheFuture turns a job's record into one of a format that this version does not know: nothing after the id can be
// decoded.
func (f *fixture) fromTheFuture(id string) (back func()) {
	f.Helper()
	key, index, rec := f.recordOf(id)
	future := rec[:12] + string(rune(rec[12]|3<<5)) + rec[13:14+len(id)] + "\xffwhat this version cannot read\x00"
	if rec[12]|3<<5 >= 0x80 {
		f.Fatal("the flags would need more than one byte")
	}
	f.s.client.LSet(f.ctx, key, index, future)
	return func() {
		_, _, now := f.recordOf(id)
		if now[12:] != future[12:] {
			f.Errorf("the record of %s was changed from %q to %q", id, future, now)
		}
		f.s.client.LSet(f.ctx, key, index, now[:12]+rec[12:])
	}
}

// recordOf returns the key and index of a job's record.
func (f *fixture) recordOf(id string) (key string, index int64, rec string) {
	f.Helper()
	for _, key := range f.s.client.Keys(f.ctx, prefix(0)+"p:*").Val() {
		for i, rec := range f.s.client.LRange(f.ctx, key, 0, -1).Val() {
			if i > 0 && len(rec) >= 14+len(id) && int(rec[13]) == len(id) && rec[14:14+len(id)] == id {
				return key, int64(i), rec
			}
		}
	}
	f.Fatalf("%s has no record", id)
	return "", 0, ""
}

// newer pushes jobs in every state, half of them in a newer format, and returns a function that restores their format.
func newer(t *testing.T) (f *fixture, ids []string, back map[string]func()) {
	f = newFixture(t)
	f.halfSplit(f.s)
	back = map[string]func(){}
	add := func(state string, delay time.Duration, more func(*Push), then func()) {
		for _, id := range []string{state + "-old", state + "-new"} {
			f.push("t", id, delay, func(p *Push) {
				p.MaxAttempts = 3
				if more != nil {
					more(p)
				}
			})
			if then != nil {
				then()
			}
		}
		id := state + "-new"
		ids = append(ids, id)
		back[id] = f.fromTheFuture(id)
	}
	failed := func(s *Settlement) { s.Delay = time.Hour }
	add("retrying", 0, nil, func() { f.settle(Retry, failed, f.reserve(1)...) })
	add("dead", 0, nil, func() { f.settle(Bury, failed, f.reserve(1)...) })
	add("running", 0, nil, func() { f.reserve(1, func(r *Reserve) { r.LeaseCap = time.Millisecond }) })
	add("ready", 0, nil, nil)
	add("near", 20*time.Millisecond, nil, nil)
	add("far", 2*time.Hour, func(p *Push) { p.Body = []byte(strings.Repeat("x", 2*longBody)) }, nil)
	return f, ids, back
}

func TestAJobOfANewerFormatIsRefusedByName(t *testing.T) {
	f, ids, _ := newer(t)
	body := []byte("new")
	refused := func(what, id string, err error) {
		t.Helper()
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "t/"+id) {
			t.Errorf("%s of %s: %v", what, id, err)
		}
	}
	for _, id := range ids {
		_, err := f.q.Get(f.ctx, "t", id)
		refused("get", id, err)
		_, err = f.q.Change(f.ctx, "t", id, Change{Body: &body})
		refused("change", id, err)
		_, err = f.q.RunNow(f.ctx, "t", id)
		refused("run", id, err)
		r := f.q.Push(f.ctx, Push{Topic: "t", ID: id, Body: body})
		if r.Err != nil || !r.Duplicate || r.Job.ID != id || !r.Job.Newer {
			t.Errorf("push of %s again: %+v", id, r)
		}
	}
	found, err := f.q.Lookup(f.ctx, []Ref{{"t", ids[0]}, {"t", "far-old"}}, "")
	if err != nil || found[0] == nil || !found[0].Newer || found[1] == nil || found[1].Newer {
		t.Errorf("lookup: %+v, %v", found, err)
	}
}

func TestAJobOfANewerFormatIsListed(t *testing.T) {
	f, ids, _ := newer(t)
	var listed []string
	for _, state := range []State{Delayed, Ready, Running, Dead} {
		jobs, _, err := f.q.List(f.ctx, "t", state, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if j.Newer != slices.Contains(ids, j.ID) {
				t.Errorf("listed %+v", j)
			}
			if j.Newer {
				listed = append(listed, j.ID)
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(ids)
	if !slices.Equal(listed, ids) {
		t.Errorf("listed %v, want %v", listed, ids)
	}
}

// TestAJobOfANewerFormatWaitsForAVersionThatKnowsIt: it is not called, not lost, and blocks no other job; once its
// format is understood, it is delivered.
func TestAJobOfANewerFormatWaitsForAVersionThatKnowsIt(t *testing.T) {
	f, ids, back := newer(t)
	called := map[string]bool{}
	call := func() {
		for f.advance().More {
		}
		for _, l := range f.reserve(100) {
			called[l.ID] = true
			f.settle(Done, nil, l)
		}
	}
	eventually(t, "the other jobs are delivered", func() bool {
		call()
		return called["running-old"] && called["ready-old"] && called["near-old"]
	})
	if n, err := f.q.RedriveDead(f.ctx, "t", nil, 10); n != 2 || err != nil {
		t.Errorf("redrive = %d, %v", n, err)
	}
	for _, id := range []string{"retrying-old", "far-old"} {
		if _, err := f.q.RunNow(f.ctx, "t", id); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the other jobs are delivered", func() bool {
		call()
		return called["dead-old"] && called["retrying-old"] && called["far-old"]
	})
	for _, id := range ids {
		if called[id] {
			t.Errorf("%s was called", id)
		}
	}
	f.stats("t", 6, 0, 0, 0)

	for _, id := range ids {
		back[id]()
		if j := f.get("t", id); j.State != Delayed || string(j.Body) == "" || j.MaxAttempts != 3 {
			t.Errorf("%s is %+v", id, j)
		}
		if j := f.get("t", id); id != "far-new" && id != "retrying-new" &&
			j.NextAt.After(time.Now().Add(2*time.Minute)) {
			t.Errorf("%s waits until %s", id, j.NextAt)
		}
		if _, err := f.q.RunNow(f.ctx, "t", id); err != nil {
			t.Errorf("run %s: %v", id, err)
		}
	}
	eventually(t, "the jobs of the newer format are delivered", func() bool { call(); return len(called) == 12 })
	f.advance()
	f.clean()
}

func TestAJobOfANewerFormatIsDeleted(t *testing.T) {
	f, ids, _ := newer(t)
	for _, id := range ids {
		if err := f.q.Delete(f.ctx, "t", id); err != nil {
			t.Errorf("delete %s: %v", id, err)
		}
		f.gone("t", id)
	}
	if n, err := f.q.DropTopic(f.ctx, "t"); n != 6 || err != nil {
		t.Errorf("drop = %d, %v", n, err)
	}
	f.advance()
	f.clean()
}

func TestAJobOfANewerFormatDoesNotStopADrain(t *testing.T) {
	f, _, _ := newer(t)
	url, _ := startRedis(t)
	err := f.q.SetShards(f.ctx, []ShardConfig{{Name: "a", URL: f.s.url, State: "draining"},
		{Name: "b", URL: url, State: "active"}})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "b is up", func() bool { return f.q.Ready() == nil })
	if _, err := f.q.Drain(f.ctx, f.s, "me"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"far-old", "dead-old", "retrying-old"} {
		if j := f.get("t", id); j.Shard != "b" {
			t.Errorf("%s is in %s", id, j.Shard)
		}
	}
	if _, err := f.q.Get(f.ctx, "t", "far-new"); !errors.Is(err, ErrNewer) {
		t.Errorf("far-new: %v", err)
	}
}

// TestADamagedRecordIsNotTakenForANewerOne checks that its job dies instead of waiting for a newer version.
func TestADamagedRecordIsNotTakenForANewerOne(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"a", "b", "c"} {
		f.push("t", id, 0)
	}
	f.s.client.LSet(f.ctx, prefix(0)+"p:1", 2, strings.Repeat("\xfe", 12)+"\xfe\x01?and so on")
	if ls := f.reserve(10); len(ls) != 2 {
		t.Fatalf("reserved %d; want the two readable jobs", len(ls))
	}
	f.stats("t", 0, 0, 2, 1)
}

// TestAttemptsOfANewerFormatStopNobody: a lease ends as usual when its job's attempts cannot be read.
func TestAttemptsOfANewerFormatStopNobody(t *testing.T) {
	f, _, _ := newer(t)
	key, index, _ := f.recordOf("running-new")
	attempts := strings.Replace(key, ":p:", ":a:", 1)
	f.s.client.HSet(f.ctx, attempts, index, "\x01of another form")
	expired := 0
	eventually(t, "both leases end", func() bool { expired += f.advance().Expired; return expired == 2 })
	if got := f.s.client.HGet(f.ctx, attempts, strconv.FormatInt(index, 10)).Val(); got != "\x01of another form" {
		t.Errorf("the attempts are %q now", got)
	}
	if ls := f.reserve(100); len(ls) != 3 {
		t.Errorf("%d of the three readable jobs were reserved", len(ls))
	}
}
