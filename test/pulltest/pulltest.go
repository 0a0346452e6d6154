// Package pulltest starts a queue with namespaces of pull topics on a Redis of its own, and all services for workers.
package pulltest

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/timer"
)

// Queue is a queue with its workers and its registry.
type Queue struct {
	*queue.Queue
	Hub      *pull.Hub
	Registry *registry.Registry
	Redis    *harness.Redis // its first shard

	dsn    string
	shards []store.ShardConfig
}

// OpenRegistry opens the registry as another process does.
func (q *Queue) OpenRegistry(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := registry.Open(registry.Options{DSN: q.dsn, Migrate: registry.MigrateOlder, SecretKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// Start starts a queue that ends with the test. The jobs of a namespace have no limit of attempts.
func Start(t *testing.T, namespaces ...string) *Queue {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	q := &Queue{Queue: queue.Open(store.Options{}), dsn: "sqlite:" + filepath.Join(t.TempDir(), "r.db")}
	q.Registry = q.OpenRegistry(t)
	t.Cleanup(func() { _ = q.Close() })
	q.Redis = q.AddShard(t)
	var confs []store.TopicConf
	for _, name := range namespaces {
		topic := registry.NewTopic(name)
		topic.Delivery, topic.MaxAttempts = registry.DeliveryPull, 0
		q.put(t, topic)
		confs = append(confs, store.TopicConf{Name: name, TTR: topic.TTR.Std(), Pull: true})
	}
	must(q.SetTopics(t.Context(), slices.Values(confs)))
	q.Hub = pull.New(pull.Options{Queue: q.Queue, Topics: q.Registry.Snapshot, Limits: pull.Limits{
		Token: MaxTopics, Namespace: 2 * MaxTopics, Gateway: 3 * MaxTopics,
	}})
	background(t, q.Hub.Run)
	buckets := func() (list []timer.Bucket) {
		for _, b := range q.Shards.Buckets() {
			list = append(list, b)
		}
		return list
	}
	background(t, timer.New(timer.Options{Buckets: buckets, Exact: true}).Run)
	return q
}

// TakeOffline takes a namespace, or one topic, offline.
func (q *Queue) TakeOffline(t *testing.T, name string) {
	t.Helper()
	topic := registry.NewTopic(name)
	topic.Delivery, topic.State = registry.DeliveryPull, registry.TopicOffline
	q.put(t, topic)
}

func (q *Queue) put(t *testing.T, topic registry.Topic) {
	t.Helper()
	if _, err := q.Registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
}

// AddShard adds a shard, and returns its Redis.
func (q *Queue) AddShard(t *testing.T) *harness.Redis {
	t.Helper()
	r := harness.StartRedis(t, harness.RedisOptions{})
	name := string(rune('a' + len(q.shards)))
	q.shards = append(q.shards, store.ShardConfig{Name: name, URL: r.URL(), State: "active"})
	err := q.Shards.Set(q.shards)
	for _, s := range q.Shards.All() {
		err = errors.Join(err, queuetest.Adopt(t.Context(), s))
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// background runs a component until the test ends.
func background(t *testing.T, part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = part(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// MaxTopics is the limit of topics in a request to an Endpoint, and of those that workers with one token wait for; those
// of a namespace may wait for twice as many.
const MaxTopics = 20

// Endpoint is a gateway's.
func Endpoint(t *testing.T, name string) *gateway.Endpoint {
	t.Helper()
	metrics, err := gateway.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return &gateway.Endpoint{Name: name, Log: slog.New(slog.DiscardHandler), Metrics: metrics, MaxTopics: MaxTopics}
}

// NeedsAccounts checks that a protocol's server refuses to start when the file of its accounts, which the key accounts
// names, does not exist: otherwise nobody would be served.
func NeedsAccounts(t *testing.T, p gateway.Protocol, server, accounts string) {
	t.Helper()
	q := Start(t)
	all := p.Servers(Endpoint(t, p.Name), &gateway.Process{
		Queue: q.Queue, Workers: q.Hub, Registry: q.Registry, Setting: func(string) string { return "/none" },
	})
	if _, err := all[server](t.Context()); err == nil || !strings.Contains(err.Error(), accounts) {
		t.Error(err)
	}
	if err := p.Check(func(string) string { return "/none" }); err == nil || !strings.Contains(err.Error(), accounts) {
		t.Errorf("checked: %v", err)
	}
}
