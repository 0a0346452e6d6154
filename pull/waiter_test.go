package pull_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wakecall/wakecall/pull"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/wait"
)

// TestASignalThatIsNotUsedGoesToTheNextWorker: two shards have signaled one worker, which takes a job from the first.
func TestASignalThatIsNotUsedGoesToTheNextWorker(t *testing.T) {
	t.Parallel()
	q := queue.Open(queue.Options{Timeout: wait.Limit})
	t.Cleanup(func() { _ = q.Close() })
	var configs []queue.ShardConfig
	for _, name := range []string{"a", "b"} {
		url := harness.StartRedis(t, harness.RedisOptions{}).URL()
		configs = append(configs, queue.ShardConfig{Name: name, URL: url, State: "active"})
	}
	if err := q.SetShards(t.Context(), configs); err != nil {
		t.Fatal(err)
	}
	for _, s := range q.Shards() {
		if err := s.Adopt(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.SetTopics(t.Context(), slices.Values([]queue.TopicConf{{Name: "t", Pull: true}})); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for i := 0; len(have) < len(configs); i++ {
		r := q.Push(t.Context(), queue.Push{Topic: "t", ID: fmt.Sprint(i)})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		have[r.Job.Shard] = true
	}
	h := pull.New(pull.Options{Queue: q})
	ask := queue.TakeRequest{Topics: []string{"t"}, Max: 1}
	waiters := []pull.Waiter{h.Enter(ask), h.Enter(ask)}
	for _, s := range q.Shards() {
		h.Signal(s, "t") // both times the worker that has waited longest
	}
	for i, w := range waiters {
		if jobs, err := w.Take(t.Context()); len(jobs) != 1 || err != nil {
			t.Errorf("worker %d took %d jobs, %v", i, len(jobs), err)
		}
	}
}
