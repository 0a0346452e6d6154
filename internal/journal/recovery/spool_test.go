package recovery

import (
	"context"
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
)

// wantJob fails unless a job of topic t is in a state.
func wantJob(t *testing.T, q *queue.Queue, id string, state queue.State, same func(*queue.Job) bool) {
	t.Helper()
	j, err := q.Get(t.Context(), "t", id)
	if err != nil || j.State != state || same != nil && !same(j) {
		t.Errorf("%s: %+v, %v; want it %s", id, j, err, state)
	}
}

// TestSpooledPushesOfOneIDAreAsIfPushedInTheirOrder: the first one stays unless a later one replaces it, even within a
// millisecond.
func TestSpooledPushesOfOneIDAreAsIfPushedInTheirOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		replace []bool
		apart   time.Duration
		want    string
	}{
		"kept at once":           {[]bool{false, false}, 0, "0"},
		"kept later":             {[]bool{false, false}, 2 * time.Millisecond, "0"},
		"replaced at once":       {[]bool{false, true}, 0, "1"},
		"replaced later":         {[]bool{false, true, false}, 2 * time.Millisecond, "1"},
		"replaced twice at once": {[]bool{true, false, true}, 0, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := startRedis(t)
			h := newHost(t, url)
			h.adopt(t)
			spool := NewSpool(h.dir, h.journal)
			var pushes []queue.Push
			for i, replace := range tt.replace {
				p := queue.Push{Topic: "t", ID: "one", Body: []byte{byte('0' + i)}, Priority: queue.Normal}
				if replace {
					p.OnDuplicate = queue.Replace
				}
				pushes = append(pushes, p)
			}
			keep := func(some []queue.Push) {
				if _, err := spool.Keep(some); err != nil {
					t.Fatal(err)
				}
			}
			if tt.apart == 0 {
				keep(pushes)
			}
			for i := range pushes {
				if tt.apart > 0 {
					began := time.Now()
					keep(pushes[i : i+1])
					eventually(t, "another millisecond", func() bool { return time.Since(began) > tt.apart })
				}
			}
			kept := time.Now()
			eventually(t, "the jobs are due", func() bool { return time.Since(kept) > time.Millisecond })
			if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir); err != nil {
				t.Fatal(err)
			}
			wantJob(t, h.queue, "one", queue.Ready, func(j *queue.Job) bool { return string(j.Body) == tt.want })
		})
	}
}

// interrupted is a queue that accepts some calls and then none.
type interrupted struct {
	Pusher
	calls int
}

func (q *interrupted) PushBatch(ctx context.Context, pushes []queue.Push) []queue.Result {
	if q.calls--; q.calls < 0 {
		results := make([]queue.Result, len(pushes))
		for i := range results {
			results[i].Err = &queue.UnavailableError{Reason: "down", Err: errors.New("interrupted")}
		}
		return results
	}
	return q.Pusher.PushBatch(ctx, pushes)
}

// TestAnInterruptedDrainLosesNoReplacement of a push that it stored before.
func TestAnInterruptedDrainLosesNoReplacement(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	spool := NewSpool(h.dir, h.journal)
	first := queue.Push{Topic: "t", ID: "one", Body: []byte("old"), Priority: queue.Normal}
	second := first
	second.Body, second.OnDuplicate = []byte("new"), queue.Replace
	if _, err := spool.Keep([]queue.Push{first, second}); err != nil {
		t.Fatal(err)
	}
	if _, err := Drain(t.Context(), &interrupted{h.queue, 1}, slog.New(slog.DiscardHandler), h.dir); err == nil {
		t.Fatal("the drain was not interrupted")
	}
	if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir); err != nil {
		t.Fatal(err)
	}
	wantJob(t, h.queue, "one", queue.Ready, func(j *queue.Job) bool { return string(j.Body) == "new" })
}

// TestASpooledJobKeepsWhatItHasOfItsOwn: its expiry, counted from when it was accepted, its headers and its retry
// waits.
func TestASpooledJobKeepsWhatItHasOfItsOwn(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	headers, retry := map[string]string{"k": "v"}, []time.Duration{time.Second, time.Minute}
	push := func(id string) queue.Push {
		return queue.Push{Topic: "t", ID: id, Delay: time.Minute, Headers: headers, Retry: retry}
	}
	instant, ttl, over := push("instant"), push("ttl"), push("over")
	instant.ExpiresAt, ttl.TTL, over.TTL, over.Delay = at, time.Hour, time.Nanosecond, 0
	jobs, err := NewSpool(h.dir, h.journal).Keep([]queue.Push{instant, ttl, over})
	if err != nil || !jobs[0].ExpiresAt.Equal(at) || jobs[1].ExpiresAt.Sub(jobs[1].CreatedAt) != time.Hour {
		t.Fatalf("%+v, %v", jobs, err)
	}
	if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir); err != nil {
		t.Fatal(err)
	}
	own := func(expires func(time.Time) bool) func(*queue.Job) bool {
		return func(j *queue.Job) bool {
			return maps.Equal(j.Headers, headers) && slices.Equal(j.Retry, retry) && expires(j.ExpiresAt)
		}
	}
	wantJob(t, h.queue, "instant", queue.Delayed, own(at.Equal))
	wantJob(t, h.queue, "ttl", queue.Delayed, own(func(e time.Time) bool {
		return !e.IsZero() && !e.After(jobs[1].ExpiresAt.Add(20*time.Second))
	}))
	wantJob(t, h.queue, "over", queue.Ready, own(func(e time.Time) bool { return !e.IsZero() && e.Before(at) }))
}

// TestASpooledPushKeepsItsProtocol in the journal, and an interrupted drain still recognizes its own pushes.
func TestASpooledPushKeepsItsProtocol(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	q := NewSpooledQueue(h.queue, NewSpool(h.dir, h.journal), func() error { return nil })
	push := queue.Push{Topic: "t", ID: "one", Body: []byte("1")}
	if r := q.Push(queue.Via(t.Context(), "lmstfy"), push); r.Err != nil || r.Job.State != queue.Spooled {
		t.Fatalf("%+v", r)
	}
	var un *queue.UnavailableError
	push.OnDuplicate = queue.Replace
	if r := q.Push(t.Context(), push); !errors.As(r.Err, &un) { // otherwise the old body might be called after the answer
		t.Errorf("a replacement was answered %+v", r)
	}
	h.adopt(t)
	for range 2 {
		if err := os.WriteFile(filepath.Join(h.dir, drainingName), []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir); err != nil {
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
		p := queue.Push{Topic: "t", ID: id, Body: []byte("1"), Priority: queue.Normal}
		if _, err := spool.Keep([]queue.Push{p}); err != nil {
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
	if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"first", "set back", "pushed again"} {
		if _, err := h.queue.Get(t.Context(), "t", id); err != nil {
			t.Errorf("the job %q: %v", id, err)
		}
	}
	if j, err := h.queue.Get(t.Context(), "t", "deleted"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a job that was deleted since is %+v, %v", j, err)
	}
}
