package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// TestRecoveryOfAResult: the result of a job that somebody waited for comes back from the line of its end, whatever the
// server lost, and for no longer than it is kept.
func TestRecoveryOfAResult(t *testing.T) {
	const want = `{"result":{"status":200,"content_type":"text/plain","body":"paid"}}`
	answer := store.EndpointAnswer(200, "text/plain", []byte("paid"), false)
	deliver := func(t *testing.T, h *host, ended time.Time) {
		l, err := h.reserve(t.Context(), "1")
		if err != nil || l == nil || !l.Awaited {
			t.Fatal(l, err)
		}
		line := journal.AttemptLine{Topic: l.Topic, ID: l.ID, CreatedAt: l.CreatedAt, N: 1, StartedAt: ended,
			Shard: l.Shard, Revision: l.Revision, Outcome: journal.Done, Answer: answer.Encode()}
		if err := h.journal.Attempts([]journal.AttemptLine{line}); err != nil {
			t.Fatal(err)
		}
		attempt := &store.Attempt{StartedAt: time.Now().UnixMilli()}
		ends := []store.End{{Lease: l.Lease, Verb: store.Done, Attempt: attempt, Answer: answer}}
		if d, err := h.bucket().End(t.Context(), ends); err != nil || d[0].Err != nil {
			t.Fatal(d, err)
		}
	}
	pull := func(t *testing.T, h *host, _ time.Time) {
		topics := []store.TopicConf{{Name: "t", TTR: time.Minute, MaxAttempts: 10, Pull: true}}
		if err := h.queue.SetTopics(t.Context(), slices.Values(topics)); err != nil {
			t.Fatal(err)
		}
		jobs, err := h.queue.Take(t.Context(), store.TakeRequest{Topics: []string{"t"}, Max: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		ends := []store.End{{Lease: jobs[0].Lease, Verb: store.Done, Attempt: &store.Attempt{Answer: "x"},
			Answer: answer}}
		if d := h.queue.End(t.Context(), ends); d[0].Err != nil || d[0].Answer.Encode() != want {
			t.Fatalf("%+v", d)
		}
	}
	for _, c := range []struct {
		name string
		lost int
		end  func(*testing.T, *host, time.Time)
		ago  time.Duration
	}{
		{"all", 0, deliver, 0}, {"the end", 1, deliver, 0}, {"nothing", 2, deliver, 0},
		{"all of a worker", 0, pull, 0}, {"the end by a worker", 1, pull, 0},
		{"all long ago", 0, deliver, 3 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, in, client := oneHost(t)
			saved := []memory{remember(t, client)}
			p := store.Push{Topic: "t", ID: "a", Body: []byte(`1`), Awaited: true}
			if r := h.queue.Push(t.Context(), p); r.Err != nil {
				t.Fatal(r.Err)
			}
			saved = append(saved, remember(t, client))
			c.end(t, h, time.Now().Add(-c.ago))
			saved = append(saved, remember(t, client))
			saved[c.lost].forget(t, client)
			client.HDel(t.Context(), "wk:{0}:cmp", "run") // another server
			attendAll(t, in)
			ready(t, h)
			j, err := h.queue.Get(t.Context(), "t", "a", store.Finished)
			if c.ago > 0 {
				if !errors.Is(err, store.ErrNotFound) {
					t.Fatal(j, err)
				}
				return
			}
			if err != nil || j.State != store.Finished || j.Answer.Encode() != want || len(j.History) != 1 {
				t.Fatalf("%+v, %v", j, err)
			}
			if r := h.queue.Push(t.Context(), p); !r.Duplicate || r.Job.Answer == nil {
				t.Errorf("pushed again: %+v", r)
			}
		})
	}
}

// TestRecoveryOfAnAwaitedJob: it is awaited afterwards, also if only a duplicate waited.
func TestRecoveryOfAnAwaitedJob(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint("first ", first), func(t *testing.T) {
			t.Parallel()
			h, in, client := oneHost(t)
			empty := remember(t, client)
			for _, awaited := range []bool{first, true} {
				p := store.Push{Topic: "t", ID: "a", Body: []byte(`1`), Delay: time.Hour, Awaited: awaited}
				if r := h.queue.Push(t.Context(), p); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			empty.forget(t, client)
			client.HDel(t.Context(), "wk:{0}:cmp", "run")
			attendAll(t, in)
			ready(t, h)
			if j, err := h.queue.Get(t.Context(), "t", "a"); err != nil || !j.Awaited {
				t.Fatalf("%+v, %v", j, err)
			}
		})
	}
}
