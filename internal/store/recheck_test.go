package store_test

import (
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestAPushWithoutAnAnswerIsRecordedOnceTheShardAnswers: it has replaced an acknowledged job, and if Redis loses it, no
// journal has either.
func TestAPushWithoutAnAnswerIsRecordedOnceTheShardAnswers(t *testing.T) {
	var mu sync.Mutex
	recorded := map[string]store.Job{} // by body
	accepted := func(pushes []store.Push, results []store.Result) error {
		mu.Lock()
		defer mu.Unlock()
		for i, p := range pushes {
			if results[i].Err == nil {
				recorded[string(p.Body)] = results[i].Job
			}
		}
		return nil
	}
	f, lose := deafened(t, "never.answered", store.Options{Timeout: time.Second, Accepted: accepted})
	push := store.Push{Topic: "never.answered", ID: "a", Body: []byte(`1`), Delay: time.Hour}
	first := f.q.Push(f.ctx, push)
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	lose.Store(math.MaxInt32)
	push.Body, push.Delay, push.OnDuplicate = []byte(`2`), 2*time.Hour, store.Replace
	if r := f.q.Push(f.ctx, push); !store.IsUnanswered(r.Err) {
		t.Fatalf("%+v", r)
	}
	other := store.Push{Topic: "never.answered", ID: "a", Body: []byte(`3`), Delay: time.Hour, OnDuplicate: store.Refuse}
	if r := f.q.Push(f.ctx, other); r.Err == nil || errors.Is(r.Err, store.ErrDuplicate) {
		t.Fatalf("%+v", r)
	}
	lose.Store(0)
	eventually(t, "the push is recorded", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return recorded["2"].Revision > first.Job.Revision
	})
	mu.Lock()
	defer mu.Unlock()
	if _, stored := recorded["3"]; stored {
		t.Error("a push that was not stored is recorded")
	}
}
