package dispatcher

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
)

// BenchmarkDispatch measures one dispatcher from reserve to settle, with Redis and the endpoint on the same machine.
func BenchmarkDispatch(b *testing.B) {
	r := redistest.Start(b, redistest.Options{Quick: true})
	q := queue.Open(store.Options{})
	defer func() { _ = q.Close() }()
	if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: r.URL(), State: "active"}}); err != nil {
		b.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); queuetest.Adopt(b.Context(), q.Shards.All()[0]) != nil &&
		time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	for deadline := time.Now().Add(10 * time.Second); q.Push(b.Context(),
		store.Push{Topic: "warm", ID: "up", Delay: time.Hour}).Err != nil; {
		if time.Now().After(deadline) {
			b.Fatal("Redis does not answer")
		}
		time.Sleep(10 * time.Millisecond)
	}
	body := []byte(`"` + strings.Repeat("x", 62) + `"`)
	for i := 0; i < b.N; i += 1000 {
		var batch []store.Push
		for k := i; k < min(i+1000, b.N); k++ {
			batch = append(batch, store.Push{Topic: "t", ID: fmt.Sprint(k), Body: body})
		}
		for _, r := range q.PushBatch(b.Context(), batch) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	var called atomic.Int64
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if called.Add(1) == int64(b.N) {
			close(done)
		}
	}))
	defer srv.Close()
	topic := registry.NewTopic("t")
	topic.CallbackURL = srv.URL
	snap := &registry.Snapshot{Topics: registry.NewTopics(&topic)}
	c, err := callback.New(callback.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	d := New(Options{
		Buckets: func() []Bucket { return []Bucket{observe.Bucket{Bucket: q.Shards.Buckets()[0]}} }, Topics: func() *registry.Snapshot { return snap },
		Caller: c, Pattern: "0120010210",
	})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	b.ResetTimer()
	go func() { ended <- d.Run(ctx) }()
	<-done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "callbacks/s")
	cancel()
	<-ended
}
