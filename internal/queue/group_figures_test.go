package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

// oneShard is a queue of one shard.
func oneShard(t testing.TB) *queue.Queue {
	t.Helper()
	q := queue.Open(store.Options{Timeout: wait.Limit})
	t.Cleanup(func() { _ = q.Close() })
	url := redistest.Start(t, redistest.Options{Quick: true}).URL()
	if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the shard is adopted", func() bool { return queuetest.Adopt(t.Context(), q.Shards.All()[0]) == nil })
	return q
}

var pushed atomic.Int64

// pushMembers pushes n delayed jobs into a group.
func pushMembers(t testing.TB, q *queue.Queue, group string, n int) {
	t.Helper()
	first := pushed.Add(int64(n)) - int64(n)
	list := make([]store.Push, n)
	for i := range list {
		list[i] = store.Push{Topic: "orders.close", ID: fmt.Sprintf("%012d", first+int64(i)), Group: group,
			Delay: time.Hour + time.Duration(i)*time.Second}
	}
	for some := range slices.Chunk(list, 1000) {
		for _, r := range q.PushBatch(t.Context(), some) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

// TestMemoryOfGroups: a member, whose topic and id have 25 bytes, costs at most 60 bytes in a group of 100, and 90 in one
// of 10,000, besides its job.
func TestMemoryOfGroups(t *testing.T) {
	t.Parallel()
	q := oneShard(t)
	for n, most := range map[int]float64{10: 60, 100: 60, 10_000: 90} {
		group := fmt.Sprint("order-", n)
		pushMembers(t, q, group, n)
		b := q.Shards.All()[0].Buckets()[0]
		bytes, err := q.Shards.All()[0].Redis().MemoryUsage(t.Context(), b.Key("g:"+group), 0).Result()
		each := float64(bytes) / float64(n)
		if t.Logf("%d members: %.1f bytes each", n, each); err != nil || each > most {
			t.Errorf("%d members: %.1f bytes each, more than %g; %v", n, each, most, err)
		}
	}
}

// BenchmarkCancelGroup cancels a group of 10,000 in one shard: at most 150 ms, while others wait for a few ms at most.
func BenchmarkCancelGroup(b *testing.B) {
	for name, patterns := range map[string][]string{
		"all topics": {"*"}, "200 patterns": strings.Fields(strings.Repeat("another.* ", 199) + "orders.*"),
	} {
		b.Run(name, func(b *testing.B) {
			q := oneShard(b)
			if r := q.Push(b.Context(), store.Push{Topic: "other", ID: "1", Delay: time.Hour}); r.Err != nil {
				b.Fatal(r.Err)
			}
			var took time.Duration
			var others []time.Duration
			for range b.N {
				pushMembers(b, q, "order", 10_000)
				done := make(chan struct{})
				go func() {
					defer close(done)
					began := time.Now()
					c, err := q.CancelGroup(b.Context(), "order", patterns, 0)
					if took += time.Since(began); err != nil || c.Deleted != 10_000 {
						b.Errorf("%+v, %v", c, err)
					}
				}()
				for waiting := true; waiting; {
					began := time.Now()
					_, err := q.Get(b.Context(), "other", "1")
					if others = append(others, time.Since(began)); err != nil {
						b.Error(err)
					}
					select {
					case <-done:
						waiting = false
					default:
					}
				}
			}
			slices.Sort(others)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "ms/cancel")
			b.ReportMetric(float64(others[len(others)*99/100].Microseconds())/1000, "ms-p99-others")
		})
	}
}
