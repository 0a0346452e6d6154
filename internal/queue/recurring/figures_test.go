package recurring_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

// manySchedules are as many as an installation should be able to have.
const manySchedules = 10_000

// many is an installation with many schedules, of which each has its first occurrence at the same second.
type many struct {
	*testing.B
	queue    *queue.Queue
	registry *registry.Registry
}

func newMany(b *testing.B, first time.Time) *many {
	b.Helper()
	m := &many{B: b, queue: queue.Open(store.Options{Timeout: wait.Limit})}
	b.Cleanup(func() { _ = m.queue.Close() })
	url := redistest.Start(b, redistest.Options{Quick: true}).URL()
	if err := m.queue.Shards.Set([]store.ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		b.Fatal(err)
	}
	wait.For(b, "the shard is adopted", func() bool {
		return queuetest.Adopt(b.Context(), m.queue.Shards.All()[0]) == nil
	})
	dsn := "sqlite:" + filepath.Join(b.TempDir(), "registry.db")
	m.registry = m.open(dsn)
	if err := m.registry.PutShard(b.Context(), "me", registry.Shard{Name: "a", URL: url, State: "active"}); err != nil {
		b.Fatal(err)
	}
	topic := registry.NewTopic("reports")
	topic.Delivery = registry.DeliveryPull
	if _, err := m.registry.PutTopic(b.Context(), "me", topic); err != nil {
		b.Fatal(err)
	}
	s := everySecond("s0")
	s.Every, s.StartAt = registry.Duration(time.Hour), first
	may := func(*registry.Schedule) error { return nil }
	stored, _, err := recurring.New(m.queue, m.registry).Put(b.Context(), "me", s, may)
	if err != nil {
		b.Fatal(err)
	}
	m.copySchedule(dsn, stored)
	return m
}

func (m *many) open(dsn string) *registry.Registry {
	m.Helper()
	r, err := registry.Open(registry.Options{
		DSN: dsn, Migrate: registry.MigrateOlder, SecretKey: []byte(strings.Repeat("k", 32)),
	})
	if err != nil {
		m.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	m.Cleanup(func() { cancel(); wg.Wait(); _ = r.Close() })
	return r
}

// copySchedule stores copies of a schedule, and opens the registry again.
func (m *many) copySchedule(dsn string, s *registry.Schedule) {
	m.Helper()
	err := dbtest.Run(dbtest.Open(m, dsn), fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
		INSERT INTO schedules (name, topic, spec, created_at, updated_at)
		SELECT 's'||i, topic, replace(spec, '"s0"', '"s'||i||'"'), created_at, updated_at FROM n, schedules
		WHERE name = 's0'`, manySchedules-1))
	if err != nil {
		m.Fatal(err)
	}
	bucket := m.queue.Shards.All()[0].BucketOf(s.Topic)
	for i := range manySchedules {
		c := store.CursorChange{Name: fmt.Sprint("s", i), Topic: s.Topic, Revision: s.Revision}
		if err := m.queue.SetCursor(m.Context(), bucket, c); err != nil {
			m.Fatal(err)
		}
	}
	began := time.Now()
	m.registry = m.open(dsn)
	wait.For(m, "the schedules are read", func() bool { return m.registry.Snapshot().Schedules.Len() == manySchedules })
	m.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-opening")
}

func (m *many) run(n int) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		r := recurring.NewRunner(recurring.Options{Queue: m.queue, Registry: m.registry,
			Accepting: func() error { return nil }, Logger: slog.New(slog.DiscardHandler)})
		wg.Go(func() { r.Run(ctx) })
	}
	m.Cleanup(func() { cancel(); wg.Wait() })
}

// BenchmarkDueAtOnce: many schedules are due at the same second, with one timer process and with three. All should be
// pushed within two seconds.
func BenchmarkDueAtOnce(b *testing.B) {
	for _, runners := range []int{1, 3} {
		b.Run(fmt.Sprint(runners, " runners"), func(b *testing.B) {
			first := time.Now().Add(20 * time.Second).Truncate(time.Second)
			m := newMany(b, first)
			m.run(runners)
			if time.Now().After(first) {
				b.Skip("the machine is too busy")
			}
			time.Sleep(time.Until(first))
			shard := m.queue.Shards.All()[0]
			wait.For(b, "all are pushed", func() bool {
				n, err := shard.Redis().HLen(b.Context(), shard.Buckets()[0].Key("j:reports")).Result()
				return err == nil && n == manySchedules
			})
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(time.Since(first).Milliseconds()), "ms-pushed")
		})
	}
}

// BenchmarkManySchedulesWait: many schedules are due in an hour. A timer process should need at most 1 % of a core.
func BenchmarkManySchedulesWait(b *testing.B) {
	m := newMany(b, time.Now().Add(time.Hour).Truncate(time.Second))
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const during = 20 * time.Second
	time.Sleep(2 * time.Second)
	before := cpu()
	time.Sleep(during)
	without := cpu() - before
	m.run(1)
	time.Sleep(5 * time.Second) // the cursors are read
	before = cpu()
	time.Sleep(during)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*without.Seconds()/during.Seconds(), "%-of-a-core-without")
	b.ReportMetric(100*(cpu()-before).Seconds()/during.Seconds(), "%-of-a-core")
}
