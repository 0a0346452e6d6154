package pull_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// names returns n names that begin with a prefix.
func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i)
	}
	return list
}

// TestTopicsThatNobodyWaitsForLeaveRedis, although each worker names others: Redis would grow with every poll.
func TestTopicsThatNobodyWaitsForLeaveRedis(t *testing.T) {
	f := newFixture(t, "stays")
	c := f.redis.Client()
	stays := f.worker(t.Context(), request(time.Hour, "stays"))
	for i := range 5 {
		all := names(fmt.Sprint("t", i, "x"), 400)
		ctx, cancel := context.WithCancel(t.Context())
		worker := f.worker(ctx, request(time.Hour, all...))
		wait.For(t, "the worker's topics are awaited", func() bool {
			return c.ZScore(t.Context(), "wk:{0}:awaited", all[399]).Err() == nil
		})
		cancel()
		<-worker
	}
	f.told("stays", 1)
	wait.For(t, "only one topic is awaited", func() bool { return f.redis.Do("ZCARD", "wk:{0}:awaited") == int64(1) })
	processes, _ := f.redis.Do("SMEMBERS", "wk:{0}:ww").([]any)
	if len(processes) != 1 || f.redis.Do("HLEN", fmt.Sprint("wk:{0}:ww:", processes[0])) != int64(1) {
		t.Errorf("processes %v have more than one topic", processes)
	}
	f.push("stays", "a", 0)
	if got := <-stays; len(got.jobs) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestAWorkerOfAnotherProcessStillGetsJobs after the last one of a process has left.
func TestAWorkerOfAnotherProcessStillGetsJobs(t *testing.T) {
	f := newFixture(t, "t")
	other := &fixture{T: t, hub: pull.New(pull.Options{Queue: f.q}), q: f.q, redis: f.redis}
	f.run(other.hub.Run)
	ctx, cancel := context.WithCancel(t.Context())
	leaves, stays := f.worker(ctx, request(time.Hour, "t")), other.worker(t.Context(), request(wait.Limit, "t"))
	f.told("t", 2)
	cancel()
	<-leaves
	f.told("t", 1)
	f.push("t", "a", 0)
	if got := <-stays; len(got.jobs) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestTopicsThatWorkersWaitForAreLimited for each token, namespace and protocol; a topic that several wait for counts
// once, and one that nobody waits for any more counts until Redis has forgotten it.
func TestTopicsThatWorkersWaitForAreLimited(t *testing.T) {
	t.Parallel()
	ns := registry.NewTopic("ns.*")
	snapshot := &registry.Snapshot{Topics: registry.NewTopics(&ns)}
	synctest.Test(t, func(t *testing.T) {
		q := queue.Open(store.Options{}) // without shards workers only wait
		defer func() { _ = q.Close() }()
		h := pull.New(pull.Options{
			Queue: q, Topics: func() *registry.Snapshot { return snapshot },
			Limits: pull.Limits{Token: 5, Namespace: 8, Gateway: 12},
		})
		enter := func(via, token string, topics ...string) (leave func(), err error) {
			return h.EnterVia(store.Via(t.Context(), via), pull.Request{
				Token: token, TakeRequest: store.TakeRequest{Topics: topics, Max: 1},
			})
		}
		allowed := func(via, token string, topics ...string) (leave func()) {
			t.Helper()
			leave, err := enter(via, token, topics...)
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		refused := func(key, via, token string, topics ...string) {
			t.Helper()
			_, err := enter(via, token, topics...)
			if limit, ok := errors.AsType[*pull.LimitError](err); !ok || limit.Key != key {
				t.Fatalf("%v; want the limit of %s", err, key)
			}
		}
		leave := allowed("x", "a", names("t", 5)...)
		allowed("x", "a", names("t", 5)...)()
		refused("pull.topics_per_token", "x", "a", "more")
		allowed("y", "a", "more") // another protocol's token
		allowed("x", "b", names("ns.t", 5)...)
		refused("pull.topics_per_namespace", "y", "c", names("ns.u", 4)...)
		allowed("x", "c", "t1", "t2", "more", "and more")
		refused("pull.topics_per_gateway", "x", "", "another")
		allowed("y", "", names("ns.u", 3)...)
		refused("pull.topics_per_namespace", "y", "", "ns.x")
		leave()
		refused("pull.topics_per_token", "x", "a", "more")
		for range 3 {
			time.Sleep(2 * time.Second)
			allowed("z", "", "any")()
		}
		allowed("x", "a", "more")
	})
}
