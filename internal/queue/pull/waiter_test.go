package pull_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/wait"
)

// TestASignalThatIsNotUsedGoesToTheNextWorker: two shards have signaled one worker, which takes a job from the first.
func TestASignalThatIsNotUsedGoesToTheNextWorker(t *testing.T) {
	t.Parallel()
	_, _, waiters := signaledByTwo(t)
	for i, w := range waiters {
		if jobs, err := w.Take(t.Context()); len(jobs) != 1 || err != nil {
			t.Errorf("worker %d took %d jobs, %v", i, len(jobs), err)
		}
	}
}

// TestASignalOfAShardThatDoesNotAnswerGoesToTheNextWorker, which asks again, when the first has a job of another shard.
func TestASignalOfAShardThatDoesNotAnswerGoesToTheNextWorker(t *testing.T) {
	t.Parallel()
	q, shards, waiters := signaledByTwo(t)
	list := q.Shards.Divide([]string{"t"}, store.Fair)
	shards[list[1].Name()].Shutdown() // the next call asks it first
	if jobs, err := waiters[0].Take(t.Context()); len(jobs) != 1 || err != nil {
		t.Fatalf("the first worker took %d jobs, %v", len(jobs), err)
	}
	var un *store.UnavailableError
	if jobs, err := waiters[1].Take(t.Context()); !errors.As(err, &un) {
		t.Errorf("the second worker took %d jobs, %v, and did not ask", len(jobs), err)
	}
}

// TestASignalDoesNotPostponeAskingAShardAgain that did not answer: it has not stored that a worker waits.
func TestASignalDoesNotPostponeAskingAShardAgain(t *testing.T) {
	f := newFixture(t, "t")
	w := f.hub.Enter(request(0, "t").TakeRequest)
	f.hub.Signal(f.q.Shards.All()[0], "t")
	if again, err := w.AsksAgain(t.Context()); !again || err != nil {
		t.Errorf("asks again: %v, %v", again, err)
	}
}

// signaledByTwo returns a queue of two shards with jobs, which have both signaled the first of two waiting workers.
func signaledByTwo(t *testing.T) (*queue.Queue, map[string]*harness.Redis, []pull.Waiter) {
	t.Helper()
	shards := map[string]*harness.Redis{}
	q := queue.Open(store.Options{Timeout: wait.Limit})
	t.Cleanup(func() { _ = q.Close() })
	var configs []store.ShardConfig
	for _, name := range []string{"a", "b"} {
		r := harness.StartRedis(t, harness.RedisOptions{})
		shards[name] = r
		configs = append(configs, store.ShardConfig{Name: name, URL: r.URL(), State: "active"})
	}
	if err := q.Shards.Set(configs); err != nil {
		t.Fatal(err)
	}
	for _, s := range q.Shards.All() {
		if err := queuetest.Adopt(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.SetTopics(t.Context(), slices.Values([]store.TopicConf{{Name: "t", Pull: true}})); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for i := 0; len(have) < len(configs); i++ {
		r := q.Push(t.Context(), store.Push{Topic: "t", ID: fmt.Sprint(i)})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		have[r.Job.Shard] = true
	}
	h := pull.New(pull.Options{Queue: q})
	ask := store.TakeRequest{Topics: []string{"t"}, Max: 1}
	waiters := []pull.Waiter{h.Enter(ask), h.Enter(ask)}
	for _, s := range q.Shards.All() {
		h.Signal(s, "t") // both times the worker that has waited longest
	}
	return q, shards, waiters
}
