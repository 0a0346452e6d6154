package reconcile

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// fails makes failed attempts of a new job, which end as verbs say.
func (h *host) fails(t *testing.T, id string, verbs ...store.Verb) *store.Job {
	t.Helper()
	h.push(t, id, "1", 0)
	for i, v := range verbs {
		if i > 0 {
			if _, err := h.queue.RunNow(t.Context(), "t", id, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, got, err := h.work(t.Context(), fmt.Sprint(id, i), v); got != id || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	j, err := h.queue.Get(t.Context(), "t", id)
	if err != nil || j.Attempts != len(verbs) || len(j.History) != len(verbs) {
		t.Fatalf("%+v, %v; want %d attempts", j, err, len(verbs))
	}
	return j
}

// TestASnapshotKeepsAttempts of a job that is retried, and of one that is dead.
func TestASnapshotKeepsAttempts(t *testing.T) {
	from, _, _ := oneHost(t)
	tried, dead := from.fails(t, "tried", store.Retry, store.Retry), from.fails(t, "dead", store.Retry, store.Bury)
	url, _ := startRedis(t)
	to := newHost(t, url)
	if _, err := Snapshot(t.Context(), from.bucket(), to.journal.Requests); err != nil {
		t.Fatal(err)
	}
	attendAll(t, to.heartbeatOf(t))
	ready(t, to)
	for _, want := range []*store.Job{tried, dead} {
		wantJob(t, to.queue, want.ID, want.State, func(j *store.Job) bool {
			return j.Attempts == want.Attempts && reflect.DeepEqual(j.History, want.History) &&
				j.DeadReason == want.DeadReason && j.DeadAt.Equal(want.DeadAt)
		})
	}
}

// TestASnapshotWithUnreadableAttempts, such as those of another version, keeps the job and their number.
func TestASnapshotWithUnreadableAttempts(t *testing.T) {
	line, ok := lineOfRequest(&journal.RequestLine{
		Op: journal.OpSnapshot, Topic: "t", ID: "1", Revision: 7, Attempts: 2, DeadAt: time.UnixMilli(1767323045678),
		History: []byte(`[{"n":1,"error":"refused"},{"n":"two"}]`),
	})
	if j := entryOf(&line).Job; !ok || j.State != store.Dead || j.Attempts != 2 || len(j.History) != 0 {
		t.Errorf("%+v", j)
	}
}
