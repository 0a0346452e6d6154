package reconcile

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// wantJob fails unless a job of topic t is in a state.
func wantJob(t *testing.T, q *queue.Queue, id string, state store.State, same func(*store.Job) bool) {
	t.Helper()
	j, err := q.Get(t.Context(), "t", id)
	if err != nil || j.State != state || same != nil && !same(j) {
		t.Errorf("%s: %+v, %v; want it %s", id, j, err, state)
	}
}

// TestTheFirstSpooledPushOfAnIDStays, whether they were spooled in one call or one after the other.
func TestTheFirstSpooledPushOfAnIDStays(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	spool := NewSpool(h.dir, h.journal)
	keep := func(id string, bodies ...string) {
		t.Helper()
		var pushes []store.Push
		for _, body := range bodies {
			pushes = append(pushes, store.Push{Topic: "t", ID: id, Body: []byte(body), Priority: store.Normal})
		}
		if _, err := spool.Keep(pushes); err != nil {
			t.Fatal(err)
		}
	}
	keep("at once", "first", "second")
	keep("apart", "first")
	keep("apart", "second")
	if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir, false); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"at once", "apart"} {
		if j, err := h.queue.Get(t.Context(), "t", id); err != nil || string(j.Body) != "first" {
			t.Errorf("%s: %+v, %v", id, j, err)
		}
	}
}

// TestASpooledPushIntoAGroupThatWasClosed is dropped: the group was cancelled after the push was accepted.
func TestASpooledPushIntoAGroupThatWasClosed(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	if _, err := NewSpool(h.dir, h.journal).Keep([]store.Push{{Topic: "t", ID: "1", Group: "g"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.queue.CancelGroup(t.Context(), "g", []string{"*"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	r, err := Drain(t.Context(), h.queue, slog.New(slog.NewTextHandler(&log, nil)), h.dir, false)
	if err != nil || r.Jobs != 1 || r.Refused != 1 || r.Failed != 0 || log.Len() > 0 {
		t.Errorf("%+v, %v, log %q", r, err, log.String())
	}
}

// TestASpooledJobKeepsWhatItHasOfItsOwn: its expiry, counted from when it was accepted, its headers, its retry waits
// and its trace context.
func TestASpooledJobKeepsWhatItHasOfItsOwn(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	headers, retry := map[string]string{"k": "v"}, []time.Duration{time.Second, time.Minute}
	push := func(id string) store.Push {
		return store.Push{Topic: "t", ID: id, Delay: time.Minute, Headers: headers, Retry: retry,
			Traceparent: traceparent}
	}
	instant, ttl, over := push("instant"), push("ttl"), push("over")
	instant.ExpiresAt, ttl.TTL, over.TTL, over.Delay = at, time.Hour, time.Nanosecond, 0
	jobs, err := NewSpool(h.dir, h.journal).Keep([]store.Push{instant, ttl, over})
	if err != nil || !jobs[0].ExpiresAt.Equal(at) || jobs[1].ExpiresAt.Sub(jobs[1].CreatedAt) != time.Hour {
		t.Fatalf("%+v, %v", jobs, err)
	}
	if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir, false); err != nil {
		t.Fatal(err)
	}
	own := func(expires func(time.Time) bool) func(*store.Job) bool {
		return func(j *store.Job) bool {
			return maps.Equal(j.Headers, headers) && slices.Equal(j.Retry, retry) && expires(j.ExpiresAt) &&
				j.Traceparent == traceparent
		}
	}
	wantJob(t, h.queue, "instant", store.Delayed, own(at.Equal))
	wantJob(t, h.queue, "ttl", store.Delayed, own(func(e time.Time) bool {
		return !e.IsZero() && !e.After(jobs[1].ExpiresAt.Add(20*time.Second))
	}))
	wantJob(t, h.queue, "over", store.Ready, own(func(e time.Time) bool { return !e.IsZero() && e.Before(at) }))
}

// TestASpooledPushKeepsItsProtocol in the journal, and an interrupted drain still recognizes its own pushes.
func TestASpooledPushKeepsItsProtocol(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	q := NewSpooledQueue(h.queue, NewSpool(h.dir, h.journal), func() error { return nil })
	push := store.Push{Topic: "t", ID: "one", Body: []byte("1")}
	if r := q.Push(store.Via(t.Context(), "lmstfy"), push); r.Err != nil || r.Job.State != store.Spooled {
		t.Fatalf("%+v", r)
	}
	var un *store.UnavailableError
	push.OnDuplicate = store.Replace
	// otherwise the old body might be called after the answer
	if r := q.Push(t.Context(), push); !errors.As(r.Err, &un) {
		t.Errorf("a replacement was answered %+v", r)
	}
	h.adopt(t)
	for range 2 {
		if err := os.WriteFile(filepath.Join(h.dir, drainingName), []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir, false); err != nil {
			t.Fatal(err)
		}
	}
	var via []string
	for l, err := range journal.ReadRequests(h.dir, journal.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		via = append(via, string(l.Op)+" "+l.Via)
	}
	if len(via) != 2 || via[0] != "spool lmstfy" || !strings.HasPrefix(via[1], "push spool ") ||
		!strings.HasSuffix(via[1], " via lmstfy") {
		t.Errorf("the journal has %q", via)
	}
}

// TestASpoolHasTheOrderOfItsLines, whatever the host's clock was: it was set back while no shard was up, so earlier
// lines have later times.
func TestASpoolHasTheOrderOfItsLines(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	spool := NewSpool(h.dir, h.journal)
	keep := func(id string) {
		p := store.Push{Topic: "t", ID: id, Body: []byte("1"), Priority: store.Normal}
		if _, err := spool.Keep([]store.Push{p}); err != nil {
			t.Fatal(err)
		}
	}
	write := func(op journal.Op, id string, at time.Time) {
		line := journal.RequestLine{TS: at, Op: op, Topic: "t", ID: id, Body: []byte("1"), Priority: "normal"}
		if err := h.journal.Durably([]journal.RequestLine{line}); err != nil {
			t.Fatal(err)
		}
	}
	before, later := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	keep("first")
	write(journal.OpSpool, "set back", before)
	write(journal.OpPush, "pushed again", later)
	keep("pushed again")
	keep("deleted")
	write(journal.OpDelete, "deleted", before)
	if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir, false); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"first", "set back", "pushed again"} {
		if _, err := h.queue.Get(t.Context(), "t", id); err != nil {
			t.Errorf("the job %q: %v", id, err)
		}
	}
	if j, err := h.queue.Get(t.Context(), "t", "deleted"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a job that was deleted since is %+v, %v", j, err)
	}
}
