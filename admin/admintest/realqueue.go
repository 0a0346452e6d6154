package admintest

import (
	"testing"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

// RealQueue is a queue on a private redis-server.
func RealQueue(t *testing.T) *queue.Queue {
	t.Helper()
	r := redistest.Start(t, redistest.Options{Quick: true})
	q := queue.Open(store.Options{Timeout: wait.Limit})
	t.Cleanup(func() { _ = q.Close() })
	if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: r.URL(), State: "active"}}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "redis-server to answer", func() bool {
		return queuetest.Adopt(t.Context(), q.Shards.All()[0]) == nil &&
			q.Push(t.Context(), store.Push{Topic: "probe", ID: "p"}).Err == nil
	})
	_, _ = q.DropTopic(t.Context(), "probe")
	return q
}
