package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// TestRecoveryOfMovedJobs: of two shards, the one that gave its jobs away returns to its earlier state, and the one
// that received them loses everything. Each job is in one of them, with its last change.
func TestRecoveryOfMovedJobs(t *testing.T) {
	urlA, a := startRedis(t)
	urlB, b := startRedis(t)
	h := newHost(t, urlA)
	h.adopt(t)
	for _, id := range []string{"1", "2", "deleted", "changed"} {
		h.push(t, id, `"old"`, time.Hour)
	}
	before := remember(t, a)
	if err := h.queue.Shards.Set([]store.ShardConfig{{Name: "a", URL: urlA, State: "draining"},
		{Name: "b", URL: urlB, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	h.adopt(t)
	if n, err := h.queue.Drain(t.Context(), h.queue.Shards.All()[0], "me"); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	body := []byte(`"new"`)
	if err := h.change(t.Context(), "t", "changed", store.Change{Body: &body}); err != nil {
		t.Fatal(err)
	}
	if err := h.queue.Delete(t.Context(), "t", "deleted", nil); err != nil {
		t.Fatal(err)
	}
	before.forget(t, a)
	a.HDel(t.Context(), "wk:{0}:cmp", "run")
	b.FlushAll(t.Context())
	h.keep(t, time.Second)
	for id, want := range map[string]string{"1": `"old"`, "2": `"old"`, "changed": `"new"`} {
		eventually(t, id+" to be there", func() bool {
			j, err := h.queue.Get(t.Context(), "t", id)
			return err == nil && j.Shard == "b" && string(j.Body) == want
		})
	}
	eventually(t, "both shards to answer", func() bool {
		st, err := h.queue.Stats(t.Context(), []string{"t"})
		return err == nil && st["t"].Delayed == 3
	})
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestRecoveryOfTraceContexts: whatever became of a job, it keeps that of its push, through a loss of all data, too,
// and in the shard to which it moves.
func TestRecoveryOfTraceContexts(t *testing.T) {
	urlA, a := startRedis(t)
	urlB, _ := startRedis(t)
	h := newHost(t, urlA)
	h.adopt(t)
	push := func(id, trace string, on store.OnDuplicate) {
		t.Helper()
		p := store.Push{Topic: "t", ID: id, Delay: time.Hour, Traceparent: trace, OnDuplicate: on}
		if r := h.queue.Push(t.Context(), p); r.Err != nil || r.Job.Traceparent == "" && trace != "" {
			t.Fatalf("%s: %+v", id, r)
		}
	}
	for _, id := range []string{"as pushed", "changed", "duplicate", "replaced"} {
		push(id, traceparent, store.Keep)
	}
	push("without", "", store.Keep)
	push("duplicate", "", store.Keep)
	push("replaced", "", store.Replace)
	body := []byte(`"new"`)
	if err := h.change(t.Context(), "t", "changed", store.Change{Body: &body}); err != nil {
		t.Fatal(err)
	}
	want := func(shard string) {
		t.Helper()
		for id, trace := range map[string]string{
			"as pushed": traceparent, "changed": traceparent, "duplicate": traceparent, "replaced": "", "without": "",
		} {
			eventually(t, id+" to be in "+shard, func() bool {
				j, err := h.queue.Get(t.Context(), "t", id)
				return err == nil && j.Shard == shard && j.Traceparent == trace
			})
		}
	}
	want("a")
	a.FlushAll(t.Context())
	h.keep(t, time.Second)
	want("a")
	if err := h.queue.Shards.Set([]store.ShardConfig{{Name: "a", URL: urlA, State: "draining"},
		{Name: "b", URL: urlB, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	h.adopt(t)
	if n, err := h.queue.Drain(t.Context(), h.queue.Shards.All()[0], "me"); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	want("b")
}

// TestRecoveryOfARedrivenJobThatDiedAgainHasNoExpiry, when both deaths and the re-drive are lost, and are in the
// journals of two hosts. A job that was re-driven by its id is not dead, although another host has its death.
func TestRecoveryOfARedrivenJobThatDiedAgainHasNoExpiry(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	push := store.Push{Topic: "t", ID: "again", TTL: time.Hour, Body: []byte("1")}
	if r := a.queue.Push(t.Context(), push); r.Err != nil {
		t.Fatal(r.Err)
	}
	work := func(h *host, token string) {
		t.Helper()
		if _, id, err := h.work(t.Context(), token, store.Bury); err != nil || id == "" {
			t.Fatalf("worked on %q, %v", id, err)
		}
	}
	work(a, "1")
	if n, err := b.queue.EndDead(t.Context(), store.DeadCall{Kind: store.Redriven, Topic: "t", IDs: []string{"again"}, Limit: 1}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	work(a, "2")
	a.push(t, "given back", "2", 0)
	work(a, "3")
	e := store.End{Ref: store.Ref{Topic: "t", ID: "given back"}, In: []store.State{store.Dead}, Verb: store.Release}
	if ended := b.queue.End(t.Context(), []store.End{e}); ended[0].Err != nil {
		t.Fatal(ended[0].Err)
	}
	client.FlushAll(t.Context())
	attendAll(t, inA, inB)
	ready(t, a, b)
	if j, err := a.queue.Get(t.Context(), "t", "again"); err != nil || j.State != store.Dead || !j.ExpiresAt.IsZero() {
		t.Errorf("%+v, %v", j, err)
	}
	if j, err := a.queue.Get(t.Context(), "t", "given back"); err != nil || j.State != store.Ready {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestRecoveryOfADeathThatComesBeforeTheLastChange: one host has the change, another the death that followed it, and
// its journal is replayed first.
func TestRecoveryOfADeathThatComesBeforeTheLastChange(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	a.push(t, "x", `"old"`, 0)
	before := remember(t, client)
	body := []byte(`"new"`)
	if err := a.change(t.Context(), "t", "x", store.Change{Body: &body}); err != nil {
		t.Fatal(err)
	}
	if _, id, err := b.work(t.Context(), "1", store.Bury); id != "x" || err != nil {
		t.Fatalf("buried %q, %v", id, err)
	}
	before.forget(t, client)
	client.HDel(t.Context(), "wk:{0}:cmp", "run") // another server
	second := make(chan error, 1)
	go func() { second <- inB.beat(t.Context()) }()
	eventually(t, "the death to be replayed", func() bool {
		return strings.HasPrefix(client.HGet(t.Context(), "wk:{0}:j:t", "x").Val(), "dead ")
	})
	attendAll(t, inA)
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	ready(t, a, b)
	if j, err := a.queue.Get(t.Context(), "t", "x"); err != nil || j.State != store.Dead || string(j.Body) != `"new"` {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestRecoveryOfAJobsOwnSettings: its expiry, headers and retry waits, whether they are in the line of its push or of
// a change.
func TestRecoveryOfAJobsOwnSettings(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.keep(t, time.Second)
	ready(t, h)
	own := store.Push{Topic: "t", Delay: time.Hour, TTL: 2 * time.Hour,
		Headers: map[string]string{"ts": "1", "Über": `"`},
		Retry:   []time.Duration{1500 * time.Millisecond, time.Minute}}
	instant := own
	own.ID, instant.ID, instant.TTL, instant.ExpiresAt = "pushed", "changed", 0, time.Now().Add(3*time.Hour)
	before := map[string]*store.Job{}
	for _, p := range []store.Push{own, instant} {
		if r := h.queue.Push(t.Context(), p); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	body := []byte("new")
	if err := h.change(t.Context(), "t", "changed", store.Change{Body: &body}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"pushed", "changed"} {
		j, err := h.queue.Get(t.Context(), "t", id)
		if err != nil || len(j.Headers) != 2 || len(j.Retry) != 2 || j.ExpiresAt.IsZero() {
			t.Fatal(j, err)
		}
		before[id] = j
	}
	if got := before["pushed"]; !got.ExpiresAt.Equal(got.CreatedAt.Add(2 * time.Hour)) {
		t.Fatalf("%+v", got)
	}
	client.FlushAll(t.Context())
	eventually(t, "the jobs to be back", func() bool {
		st, err := h.queue.Stats(t.Context(), []string{"t"})
		return err == nil && st["t"].Delayed == 2
	})
	for id, want := range before {
		got, err := h.queue.Get(t.Context(), "t", id)
		if err != nil {
			t.Fatal(err)
		}
		if want.ETag = got.ETag; !reflect.DeepEqual(got, want) { // the record has another place
			t.Errorf("%s is\n%+v, want\n%+v", id, got, want)
		}
	}
}

// TestRecoveryOfAPullTopicsJobs in any state. Leased jobs are ready again, and so are at once those that waited for
// their next attempt; the leases have ended.
func TestRecoveryOfAPullTopicsJobs(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.keep(t, time.Second)
	ready(t, h)
	topics := slices.Values([]store.TopicConf{{Name: "t", TTR: time.Minute, MaxAttempts: 10, Pull: true}})
	if err := h.queue.SetTopics(t.Context(), topics); err != nil {
		t.Fatal(err)
	}
	hour := time.Hour
	ends := []store.End{
		{Verb: store.Done}, {Verb: store.Bury, Attempt: &store.Attempt{Error: "why"}}, {Verb: store.Release, Delay: hour},
		// this job stays leased
		{Verb: store.Fail, Retry: []time.Duration{hour}}, {Verb: store.Extend, Delay: hour},
	}
	for i := range ends {
		h.push(t, fmt.Sprint(ends[i].Verb), `1`, 0)
		jobs, err := h.queue.Take(t.Context(), store.TakeRequest{Topics: []string{"t"}, Max: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		ends[i].Lease = jobs[0].Lease
	}
	for _, d := range h.queue.End(t.Context(), ends) {
		if d.Err != nil {
			t.Fatal(d.ID, d.Err)
		}
	}
	h.push(t, "ready", `1`, 0)
	h.push(t, "delayed", `1`, hour)
	client.FlushAll(t.Context())
	want := map[string]store.State{
		"release": store.Ready, "fail": store.Ready, "extend": store.Ready, "ready": store.Ready,
		"delayed": store.Delayed, "bury": store.Dead,
	}
	eventually(t, "the jobs to be back", func() bool {
		st, err := h.queue.Stats(t.Context(), []string{"t"})
		return err == nil && st["t"].Delayed+st["t"].Ready+st["t"].Dead == int64(len(want))
	})
	for id, state := range want {
		if j, err := h.queue.Get(t.Context(), "t", id); err != nil || j.State != state {
			t.Errorf("%s is %+v, %v; want %s", id, j, err, state)
		}
	}
	if j, err := h.queue.Get(t.Context(), "t", "bury"); err != nil || j.DeadReason != "buried" || len(j.History) != 1 ||
		j.History[0].Error != "why" {
		t.Errorf("the buried job is %+v, %v", j, err)
	}
	if _, err := h.queue.Get(t.Context(), "t", "done"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the acked job: %v", err)
	}
	for i := range ends {
		ends[i].Verb = store.Done
	}
	for _, d := range h.queue.End(t.Context(), ends) {
		if !errors.Is(d.Err, store.ErrLease) {
			t.Errorf("an ack by the old lease of %s: %v", d.ID, d.Err)
		}
	}
	if err := h.queue.SetTopics(t.Context(), topics); err != nil { // this queue is not told that they were lost
		t.Fatal(err)
	}
	jobs, err := h.queue.Take(t.Context(), store.TakeRequest{Topics: []string{"t"}, Max: 100})
	for _, j := range jobs {
		if want[j.ID] != store.Ready || j.Lease.Attempt != 1 {
			t.Errorf("took %+v", j)
		}
	}
	if err != nil || len(jobs) != 4 {
		t.Errorf("took %d jobs, %v", len(jobs), err)
	}
}

// TestRecoveryOfAPushRepeatedAfterAJournalError: the journal failed at first, so the job existed when it was
// pushed again.
func TestRecoveryOfAPushRepeatedAfterAJournalError(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	push := func() store.Result {
		return h.queue.Push(t.Context(), store.Push{Topic: "t", ID: "1", Body: []byte(`"body"`), Delay: time.Hour})
	}
	h.full.Store(true)
	if r := push(); r.Err == nil {
		t.Fatal("a push that the journal refused was accepted")
	}
	h.full.Store(false)
	first := push()
	if first.Err != nil || !first.Duplicate {
		t.Fatalf("%+v", first)
	}
	client.FlushAll(t.Context())
	h.adopt(t)
	if report, err := h.recover(t.Context(), false); err != nil || report.Pushed != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if j, err := h.queue.Get(t.Context(), "t", "1"); err != nil || string(j.Body) != `"body"` ||
		!j.DueAt.Equal(first.Job.DueAt) {
		t.Fatalf("%+v, %v", j, err)
	}
}

// TestRecoveryOfADeadJobsReason: the line of a callback has the reason of its failure, and that of a worker the reason
// of the job's death.
func TestRecoveryOfADeadJobsReason(t *testing.T) {
	for want, a := range map[string]journal.AttemptLine{
		"attempts": {Outcome: journal.Dead, Reason: "status", Status: 422, Error: "the endpoint answered 422"},
		"gone":     {Outcome: journal.Dead, Reason: "status", Status: 410, Error: "the endpoint answered 410"},
		"expired":  {Outcome: journal.Expired},
		"buried":   {Outcome: journal.Dead, Reason: "buried", Error: "a worker's"},
	} {
		a.CreatedAt, a.Revision = time.Now(), 7
		l, ok := lineOfAttempt(&a)
		if e := entryOf(&l); !ok || e.Job.DeadReason != want {
			t.Errorf("%+v is dead because of %q, want %q", a, e.Job.DeadReason, want)
		}
	}
}

// TestRecoveryKeepsTheLimitsOfTopics: a shard that lost everything, its limits too, does not give out all due jobs at
// once when it opens.
func TestRecoveryKeepsTheLimitsOfTopics(t *testing.T) {
	h, _, client := oneHost(t)
	one := slices.Values([]store.TopicConf{{Name: "t", TTR: time.Minute, MaxInFlight: 1}})
	for i := range 20 {
		h.push(t, fmt.Sprint(i), "1", 0)
	}
	client.FlushAll(t.Context())
	in := h.heartbeatOf(t)
	in.opts.Limit = func(ctx context.Context, b *store.Bucket) error {
		return h.queue.Shards.LimitBucket(ctx, b, one)
	}
	attendAll(t, in)
	ready(t, h)
	r := store.Reserve{Worker: "w", Token: "1", Max: 20, Pattern: "0102010201"}
	got, err := h.queue.Shards.All()[0].Buckets()[0].Reserve(t.Context(), r)
	if err != nil || len(got.Jobs) != 1 {
		t.Errorf("%d jobs at once, %v", len(got.Jobs), err)
	}
}

// TestRecoveryOfAnIDThatDiedAgain: the journal has the death of a job, but not its push, which was not answered. An
// earlier job of the same id, which was deleted, is neither stored again nor dead.
func TestRecoveryOfAnIDThatDiedAgain(t *testing.T) {
	for _, whole := range []bool{true, false} { // everything is lost, or all since the first job died
		h, in, client := oneHost(t)
		before := remember(t, client)
		dies := func(token string) {
			h.push(t, "1", `"`+token+`"`, 0)
			if _, id, err := h.work(t.Context(), token, store.Bury); id != "1" || err != nil {
				t.Fatalf("%q, %v", id, err)
			}
		}
		dies("first")
		if !whole {
			before = remember(t, client)
		}
		if n, err := h.queue.EndDead(t.Context(), store.DeadCall{Kind: store.DeadDeleted, Topic: "t", IDs: []string{"1"}, Limit: 1}); n != 1 || err != nil {
			t.Fatalf("%d deleted, %v", n, err)
		}
		h.mute.Store(true)
		dies("second")
		h.mute.Store(false)
		before.forget(t, client)
		client.HSet(t.Context(), "wk:{0}:cmp", "run", "another")
		client.HDel(t.Context(), "wk:{0}:cmp", "run")
		attendAll(t, in)
		ready(t, h)
		if j, err := h.queue.Get(t.Context(), "t", "1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("everything lost %v: %+v, %v", whole, j, err)
		}
	}
}
