package store_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestADamagedRecordMakesItsJobDead, so that somebody sees it, and stops no other job.
func TestADamagedRecordMakesItsJobDead(t *testing.T) {
	f := newFixture(t)
	damages := []string{
		"", "\xfe\x01?and so on", "waiting normal 1 1 0 1", "waitong normal 1 1 0 1\n", "waiting nornal 1 1 0 1\n",
	}
	for n, record := range damages {
		f.push("t", fmt.Sprint(n), 0)
		f.push("t", fmt.Sprint("whole", n), 0)
		f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", n, record)
	}
	n := len(damages)
	if ls := f.reserve(20); len(ls) != n {
		t.Fatalf("reserved %d; want the %d readable jobs", len(ls), n)
	}
	f.stats("t", 0, 0, int64(n), int64(n))
}

// TestAJobWithADamagedRecordKeepsALongBody, and leaves nothing once it is deleted.
func TestAJobWithADamagedRecordKeepsALongBody(t *testing.T) {
	f := newFixture(t)
	body := bytes.Repeat([]byte("x"), 2*store.LongBody)
	f.push("t", "a", 0, func(p *store.Push) { p.Body = body })
	f.settle(store.Retry, nil, f.reserve(1)...)
	f.advanceUntilReady("t")
	f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", "a", "\xfe\x01?and so on")
	f.reserve(1)
	if j := f.get("t", "a"); j.State != store.Dead || !bytes.Equal(j.Body, body) || len(j.History) != 1 {
		t.Errorf("it is %s, with %d bytes and %d attempts", j.State, len(j.Body), len(j.History))
	}
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: "t", Limit: 1}); n != 1 || err != nil {
		t.Fatalf("%d were deleted, %v", n, err)
	}
	f.clean()
}

// TestDamagedAttemptsStopNobody: a lease ends as usual when its job's attempts cannot be read.
func TestDamagedAttemptsStopNobody(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"damaged", "whole"} {
		f.push("t", id, 0)
	}
	f.reserve(2, func(r *store.Reserve) { r.LeaseCap = time.Millisecond })
	key := store.Prefix(0) + "a:t/damaged"
	f.s.Redis().RPush(f.ctx, key, "\x01damaged")
	expired := 0
	eventually(t, "both leases end", func() bool { expired += f.advance().Expired; return expired == 2 })
	if got := f.s.Redis().LIndex(f.ctx, key, 0).Val(); got != "\x01damaged" {
		t.Errorf("the attempts are %q now", got)
	}
	if ls := f.reserve(100); len(ls) != 1 || ls[0].ID != "whole" {
		t.Errorf("reserved %+v; want the readable job", ls)
	}
}

// TestADamagedJobStaysInADrainingShard and holds up no other.
func TestADamagedJobStaysInADrainingShard(t *testing.T) {
	f := newFixture(t)
	f.push("t", "damaged", 0)
	f.push("t", "dead", 0)
	f.settle(store.Bury, nil, f.reserve(2)...)
	f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", "damaged", "\xfe\x01?and so on")
	url, _ := startRedis(t)
	err := f.q.Shards.Set([]store.ShardConfig{{Name: "a", URL: f.s.URLForTest(), State: "draining"},
		{Name: "b", URL: url, State: "active"}})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "b is up", func() bool { return f.q.Ready() == nil })
	if n, err := f.q.Drain(f.ctx, f.s, "me"); n != 1 || err != nil {
		t.Fatalf("%d jobs were moved: %v", n, err)
	}
	if j := f.get("t", "dead"); j.Shard != "b" {
		t.Errorf("the whole job is in %s", j.Shard)
	}
}

// TestADeadJobIsRecordedOnce even if the request has its id twice.
func TestADeadJobIsRecordedOnce(t *testing.T) {
	var recorded []string
	url, _ := startRedis(t)
	f := fixtureOn(t, url, store.Options{Changed: func(kind store.ChangeKind, jobs []store.Job) error {
		for _, j := range jobs {
			recorded = append(recorded, string(kind)+" "+j.ID)
		}
		return nil
	}})
	const id = "twice"
	f.push("t", id, time.Hour)
	if err := bringNear(f.ctx, f.s, "t"); err != nil {
		t.Fatal(err)
	}
	bury := func() { f.settle(store.Bury, func(s *store.End) { s.Reason = "attempts" }, f.reserve(1)...) }
	bury()
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "t", IDs: []string{id, id}}); n != 1 || err != nil {
		t.Fatalf("redrive: %d, %v", n, err)
	}
	f.stats("t", 0, 1, 0, 0)
	bury()
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: "t", IDs: []string{id, id}}); n != 1 || err != nil {
		t.Fatalf("delete: %d, %v", n, err)
	}
	f.stats("t", 0, 0, 0, 0)
	if want := []string{"redrive " + id, "drop " + id}; !slices.Equal(recorded, want) {
		t.Errorf("recorded %q, want %q", recorded, want)
	}
}

// TestDamagedFinishedJobsAreNotCounted once they are replaced or dropped: else fewer finished jobs would be remembered.
func TestDamagedFinishedJobsAreNotCounted(t *testing.T) {
	f := newFixture(t)
	f.lasting("t", store.RememberLast, time.Hour)
	for _, id := range []string{"pushed again", "dropped"} {
		f.push("t", id, 0)
	}
	f.deliver()
	for _, id := range []string{"pushed again", "dropped"} {
		f.s.Redis().HSet(f.ctx, store.Prefix(0)+"j:t", id, "\xfe\x01?and so on")
	}
	f.push("t", "pushed again", 0)
	if _, err := f.q.DropTopic(f.ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if n := f.s.Redis().Get(f.ctx, store.Prefix(0)+"fin").Val(); n != "0" {
		t.Errorf("%s finished jobs are counted", n)
	}
	f.clean()
}

// TestADamagedRunningJobHoldsUpNoOutcome of the others that are settled with it.
func TestADamagedRunningJobHoldsUpNoOutcome(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"damaged", "whole"} {
		f.push("t", id, 0, func(p *store.Push) { p.TTR = time.Minute })
	}
	leases := f.reserve(2)
	key := store.Prefix(0) + "j:t"
	record := f.s.Redis().HGet(f.ctx, key, "damaged").Val()
	word, rest, _ := strings.Cut(record, " ")
	_, rest, _ = strings.Cut(rest, " ")
	f.s.Redis().HSet(f.ctx, key, "damaged", word+" nornal "+rest)
	list := make([]store.End, len(leases))
	for i, l := range leases {
		list[i] = store.End{Lease: l.Lease, Verb: store.Done}
	}
	ended, err := f.b.End(f.ctx, list)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range leases {
		if err := ended[i].Err; (err == nil) != (l.ID == "whole") {
			t.Errorf("%s: %v", l.ID, err)
		}
	}
}
