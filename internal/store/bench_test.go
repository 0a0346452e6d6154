package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// The benchmarks report Redis's own µs per job beside Go's, because all processes share Redis.

func benchQueue(b *testing.B) (*queue.Queue, *store.Shard) {
	url, _ := startRedis(b)
	q := queue.Open(store.Options{})
	b.Cleanup(func() { _ = q.Close() })
	if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		b.Fatal(err)
	}
	return q, q.Shards.All()[0]
}

func redisMicros(b *testing.B, s *store.Shard) float64 {
	m := store.ParseInfo(s.Redis().Info(context.Background(), "cpu").Val())
	var user, sys float64
	_, _ = fmt.Sscan(m["used_cpu_user_main_thread"], &user)
	_, _ = fmt.Sscan(m["used_cpu_sys_main_thread"], &sys)
	return (user + sys) * 1e6
}

func measured(b *testing.B, s *store.Shard, jobs int, run func()) {
	before := redisMicros(b, s)
	b.ResetTimer()
	run()
	b.StopTimer()
	b.ReportMetric((redisMicros(b, s)-before)/float64(jobs), "redis-µs/job")
	b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
}

// overAnHour spreads jobs over the second hour from now.
func overAnHour(i int) time.Duration { return time.Hour + time.Duration(i*7919%3600)*time.Second }

func pushes(from, n int, delay func(i int) time.Duration) []store.Push {
	body := []byte(`"` + strings.Repeat("x", 62) + `"`)
	list := make([]store.Push, n)
	for i := range list {
		list[i] = store.Push{Topic: "shop.order.close", ID: fmt.Sprintf("order-%018d", from+i), Body: body,
			Delay: delay(from + i)}
	}
	return list
}

func BenchmarkPushSingle64(b *testing.B) {
	q, s := benchQueue(b)
	ps := pushes(0, b.N, overAnHour)
	measured(b, s, b.N, func() {
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				for i := w; i < len(ps); i += 64 {
					if r := q.Push(b.Context(), ps[i]); r.Err != nil {
						panic(r.Err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func pushAll(b *testing.B, q *queue.Queue, n int, delay func(i int) time.Duration) {
	for i := 0; i < n; i += 1000 {
		for _, r := range q.PushBatch(b.Context(), pushes(i, min(1000, n-i), delay)) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}

func BenchmarkPushBatch1000(b *testing.B) {
	q, s := benchQueue(b)
	measured(b, s, b.N, func() {
		pushAll(b, q, b.N, overAnHour)
	})
}

// BenchmarkPushBatchMade1000 is the same for jobs without ids.
func BenchmarkPushBatchMade1000(b *testing.B) {
	q, s := benchQueue(b)
	measured(b, s, b.N, func() {
		for i := 0; i < b.N; i += 1000 {
			list := pushes(i, min(1000, b.N-i), overAnHour)
			for k := range list {
				list[k].ID, list[k].Fresh = store.NewID(), true
			}
			for _, r := range q.PushBatch(b.Context(), list) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
	})
}

// BenchmarkReserveSettle runs while two dispatchers' worth of other jobs are leased.
func BenchmarkReserveSettle(b *testing.B) {
	b.Run("forgotten", func(b *testing.B) { benchReserveSettle(b, 0) })
	b.Run("remembered", func(b *testing.B) { benchReserveSettle(b, store.RememberLast) })
}

func benchReserveSettle(b *testing.B, remember time.Duration) {
	q, s := benchQueue(b)
	topic := store.TopicConf{Name: "shop.order.close", TTR: time.Minute, MaxAttempts: 10, Remember: remember}
	if err := q.SetTopics(b.Context(), slices.Values([]store.TopicConf{topic})); err != nil {
		b.Fatal(err)
	}
	attempt := store.Attempt{StartedAt: time.Now().UnixMilli(), TookMS: 1.5, Status: 200, Answer: "ok"}
	reserve := func(n int) store.Reserved {
		got, err := s.Buckets()[0].Reserve(b.Context(), store.Reserve{Worker: "w", Token: fmt.Sprint(n), Max: store.ReserveLimit,
			Pattern: "0102010201"})
		if err != nil || len(got.Jobs) == 0 {
			b.Fatal(err, n)
		}
		return got
	}
	for n := range 2 * store.ReserveLimit {
		if r := q.Push(b.Context(), store.Push{Topic: fmt.Sprintf("other.%d", n%16), ID: fmt.Sprint(n)}); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	reserve(-1)
	reserve(-2)
	pushAll(b, q, b.N, func(int) time.Duration { return 0 })
	measured(b, s, b.N, func() {
		for done := 0; done < b.N; {
			got := reserve(done)
			st := make([]store.End, len(got.Jobs))
			for i, l := range got.Jobs {
				st[i] = store.End{Lease: l.Lease, Verb: store.Done, Endpoint: store.EndpointUp, Attempt: &attempt}
			}
			if _, err := s.Buckets()[0].End(b.Context(), st); err != nil {
				b.Fatal(err)
			}
			done += len(got.Jobs)
		}
	})
}

// BenchmarkTakeEnd takes and acks jobs of a pull topic: 64 workers with one job a call, and 16 workers with 100.
func BenchmarkTakeEnd(b *testing.B) {
	for _, load := range []struct{ workers, size int }{{64, 1}, {16, 100}} {
		b.Run(fmt.Sprint(load.size), func(b *testing.B) {
			q, s := benchQueue(b)
			topic := store.TopicConf{
				Name: "shop.order.close", TTR: time.Minute, MaxAttempts: 10, Pull: true, Remember: store.RememberLast,
			}
			if err := q.SetTopics(b.Context(), slices.Values([]store.TopicConf{topic})); err != nil {
				b.Fatal(err)
			}
			pushAll(b, q, b.N, func(int) time.Duration { return 0 })
			measured(b, s, b.N, func() {
				var wg sync.WaitGroup
				for range load.workers {
					wg.Go(func() { takeAll(b, q, topic.Name, load.size) })
				}
				wg.Wait()
			})
		})
	}
}

func takeAll(b *testing.B, q *queue.Queue, topic string, size int) {
	for {
		jobs, err := q.Take(b.Context(), store.TakeRequest{Topics: []string{topic}, Max: size})
		if err != nil {
			panic(err)
		}
		if len(jobs) == 0 {
			return
		}
		list := make([]store.End, len(jobs))
		for i := range jobs {
			list[i] = store.End{Lease: jobs[i].Lease, Verb: store.Done}
		}
		for _, e := range q.End(b.Context(), list) {
			if e.Err != nil {
				panic(e.Err)
			}
		}
	}
}

// BenchmarkMemory reports the bytes of Redis per delayed job, with a body of 64 bytes and an id of 24, over an hour.
func BenchmarkMemory(b *testing.B) {
	q, s := benchQueue(b)
	used := func() float64 {
		var n float64
		_, _ = fmt.Sscan(store.ParseInfo(s.Redis().Info(b.Context(), "memory").Val())["used_memory"], &n)
		return n
	}
	before := used()
	pushAll(b, q, b.N, func(i int) time.Duration { return time.Duration(i%3600) * time.Second })
	b.ReportMetric((used()-before)/float64(b.N), "bytes/job")
}

func BenchmarkDrain(b *testing.B) {
	urlA, _ := startRedis(b)
	urlB, _ := startRedis(b)
	q := queue.Open(store.Options{})
	defer func() { _ = q.Close() }()
	states := func(x, y string) {
		if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: urlA, State: x}, {Name: "b", URL: urlB, State: y}}); err != nil {
			b.Fatal(err)
		}
	}
	states("active", "draining")
	pushAll(b, q, b.N, func(i int) time.Duration { return time.Hour + time.Duration(i)*time.Millisecond })
	states("draining", "active")
	b.ResetTimer()
	if n, err := q.Drain(b.Context(), q.Shards.All()[0], "me"); n != b.N || err != nil {
		b.Fatal(n, err)
	}
}

// benchTopics is the number of topics to which BenchmarkPushOverTopics pushes in turn.
const benchTopics = 100_000

func overTopics(from, n int, within time.Duration) []store.Push {
	delay := func(i int) time.Duration { return time.Hour + time.Duration(i)*7919*time.Millisecond%within }
	list := pushes(from, n, delay)
	for i := range list {
		list[i].Topic = fmt.Sprintf("bench.many.%06d", (from+i)%benchTopics)
	}
	return list
}

// BenchmarkPushOverTopics pushes jobs to many topics in turn, and reports the bytes of Redis per job.
func BenchmarkPushOverTopics(b *testing.B) {
	for _, within := range []time.Duration{time.Minute, time.Hour} {
		b.Run(within.String(), func(b *testing.B) { benchOverTopics(b, within) })
	}
}

// BenchmarkDeliverOverTopics reserves and settles jobs of many topics that became due, ten per topic.
func BenchmarkDeliverOverTopics(b *testing.B) {
	q, s := benchQueue(b)
	setManyTopics(b, q)
	for i := 0; i < b.N; i += 1000 {
		list := overTopics(i, min(1000, b.N-i), time.Second)
		for k := range list {
			list[k].Delay -= time.Hour - time.Second
		}
		for _, r := range q.PushBatch(b.Context(), list) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	s.Redis().Do(b.Context(), "DEBUG", "SLEEP", "2.1")
	var advance, reserve, settle float64
	spent := func(on *float64, run func()) {
		before := redisMicros(b, s)
		run()
		*on += (redisMicros(b, s) - before) / float64(b.N)
	}
	b.ResetTimer()
	for done := 0; done < b.N; {
		moved := 0
		spent(&advance, func() {
			for moved < 50 && done+moved < b.N {
				a, err := s.Buckets()[0].Advance(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				moved += a.Woken
			}
		})
		for left := moved; left > 0; {
			var got store.Reserved
			spent(&reserve, func() {
				var err error
				got, err = s.Buckets()[0].Reserve(b.Context(), store.Reserve{
					Worker: "w", Token: fmt.Sprint(done), Max: 128, Pattern: "0102010201", TopicMax: 128,
					LeaseCap: 15 * time.Second,
				})
				if err != nil {
					b.Fatal(err)
				}
			})
			st := make([]store.End, len(got.Jobs))
			for i, l := range got.Jobs {
				st[i] = store.End{Lease: l.Lease, Verb: store.Done, Endpoint: store.EndpointUp,
					Attempt: &store.Attempt{Status: 200}}
			}
			if len(st) == 0 {
				break
			}
			spent(&settle, func() {
				if _, err := s.Buckets()[0].End(b.Context(), st); err != nil {
					b.Fatal(err)
				}
			})
			left, done = left-len(st), done+len(st)
		}
	}
	b.ReportMetric(advance, "advance-µs/job")
	b.ReportMetric(reserve, "reserve-µs/job")
	b.ReportMetric(settle, "settle-µs/job")
}

func setManyTopics(b *testing.B, q *queue.Queue) {
	confs := make([]store.TopicConf, benchTopics)
	for i := range confs {
		confs[i] = store.TopicConf{Name: fmt.Sprintf("bench.many.%06d", i), TTR: 10 * time.Second, MaxAttempts: 10,
			Remember: store.RememberLast}
	}
	if err := q.SetTopics(b.Context(), slices.Values(confs)); err != nil {
		b.Fatal(err)
	}
}

func benchOverTopics(b *testing.B, within time.Duration) {
	q, s := benchQueue(b)
	setManyTopics(b, q)
	used := func() float64 {
		var n float64
		_, _ = fmt.Sscan(store.ParseInfo(s.Redis().Info(b.Context(), "memory").Val())["used_memory"], &n)
		return n
	}
	before := used()
	measured(b, s, b.N, func() {
		for i := 0; i < b.N; i += 1000 {
			for _, r := range q.PushBatch(b.Context(), overTopics(i, min(1000, b.N-i), within)) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
	})
	b.ReportMetric((used()-before)/float64(b.N), "bytes/job")
}
