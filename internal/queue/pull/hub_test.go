package pull_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/wait"
	"github.com/wakecall/wakecall/timer"
)

type fixture struct {
	*testing.T
	hub   *pull.Hub
	q     *queue.Queue
	redis *harness.Redis
}

// newFixture is a Hub on its own Redis, with a timer and pull topics.
func newFixture(t *testing.T, topics ...string) *fixture {
	t.Parallel()
	return newFixtureWithin(t, wait.Limit, topics...)
}

// newFixtureWithin is newFixture with a timeout of Redis commands.
func newFixtureWithin(t *testing.T, timeout time.Duration, topics ...string) *fixture {
	t.Helper()
	r := harness.StartRedis(t, harness.RedisOptions{})
	// Announced makes it set the limits of topics again after a server lost them.
	q := queue.Open(store.Options{Announced: func() {}, Timeout: timeout})
	t.Cleanup(func() { _ = q.Close() })
	if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: r.URL(), State: "active"}}); err != nil {
		t.Fatal(err)
	}
	if err := queuetest.Adopt(t.Context(), q.Shards.All()[0]); err != nil {
		t.Fatal(err)
	}
	var table []*registry.Topic
	var confs []store.TopicConf
	for _, name := range topics {
		topic := registry.NewTopic(name)
		topic.Delivery, topic.Retry = registry.DeliveryPull, []registry.Duration{registry.Duration(time.Hour)}
		table = append(table, &topic)
		confs = append(confs, store.TopicConf{Name: name, TTR: time.Minute, MaxAttempts: 3, Pull: true})
	}
	if err := q.SetTopics(t.Context(), slices.Values(confs)); err != nil {
		t.Fatal(err)
	}
	snapshot := &registry.Snapshot{Topics: registry.NewTopics(table...)}
	h := pull.New(pull.Options{Queue: q, Topics: func() *registry.Snapshot { return snapshot }})
	f := &fixture{T: t, hub: h, q: q, redis: r}
	f.run(h.Run)
	buckets := func() (list []timer.Bucket) {
		for _, b := range q.Shards.Buckets() {
			list = append(list, b)
		}
		return list
	}
	f.run(timer.New(timer.Options{Buckets: buckets, Exact: true}).Run)
	return f
}

// run runs a component until the test ends.
func (f *fixture) run(part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = part(ctx) })
	f.Cleanup(func() { cancel(); wg.Wait() })
}

// addShard adds a second shard to the fixture's.
func (f *fixture) addShard() *harness.Redis {
	f.Helper()
	b := harness.StartRedis(f, harness.RedisOptions{})
	shards := []store.ShardConfig{
		{Name: "a", URL: f.redis.URL(), State: "active"}, {Name: "b", URL: b.URL(), State: "active"},
	}
	if err := f.q.Shards.Set(shards); err != nil {
		f.Fatal(err)
	}
	return b
}

func (f *fixture) push(topic, id string, delay time.Duration) {
	f.Helper()
	if r := f.q.Push(f.Context(),
		store.Push{Topic: topic, ID: id, Delay: delay, Priority: store.Normal}); r.Err != nil {
		f.Fatal(r.Err)
	}
}

func request(w time.Duration, topics ...string) pull.Request {
	return pull.Request{TakeRequest: store.TakeRequest{Topics: topics, Max: 1}, Wait: w}
}

// taken is a worker's result.
type taken struct {
	jobs []store.Job
	err  error
	at   time.Time
}

// worker takes jobs in the background.
func (f *fixture) worker(ctx context.Context, r pull.Request) <-chan taken {
	got := make(chan taken, 1)
	go func() {
		jobs, err := f.hub.Take(ctx, r)
		got <- taken{jobs, err, time.Now()}
	}()
	return got
}

func (f *fixture) waiting(topic string, n int) {
	f.Helper()
	wait.For(f, fmt.Sprintf("%d workers are waiting for %s", n, topic),
		func() bool { return f.hub.Waiting()[topic] == n })
}

// told waits until every process can read that n workers are waiting for a topic.
func (f *fixture) told(topic string, n int) {
	f.Helper()
	wait.For(f, fmt.Sprintf("%d workers are announced for %s", n, topic), func() bool {
		w, err := queue.WorkersOf(f.Context(), f.q.Shards, topic)
		return err == nil && w.Waiting == n
	})
}

func (f *fixture) ready(topic string) int64 {
	st, err := f.q.Stats(f.Context(), []string{topic})
	if err != nil {
		f.Fatal(err)
	}
	return st[topic].Ready
}

func TestAWorkerWaitsForAJob(t *testing.T) {
	f := newFixture(t, "t", "u")
	if got := <-f.worker(t.Context(), request(time.Millisecond, "t")); len(got.jobs) != 0 || got.err != nil {
		t.Fatalf("of an empty topic: %+v", got)
	}
	first := f.worker(t.Context(), request(wait.Limit, "t"))
	f.waiting("t", 1)
	second := f.worker(t.Context(), request(wait.Limit, "u", "t"))
	f.waiting("t", 2)
	if n := f.hub.Workers(); n != 2 {
		t.Errorf("%d workers are waiting", n)
	}
	f.told("t", 2)
	f.push("t", "a", 50*time.Millisecond)
	if got := <-first; len(got.jobs) != 1 || got.jobs[0].ID != "a" {
		t.Fatalf("the first waiting worker got %+v", got)
	}
	f.push("u", "b", 0)
	if got := <-second; len(got.jobs) != 1 || got.jobs[0].ID != "b" {
		t.Fatalf("the second got %+v", got)
	}
	f.told("t", 0)
	if w, err := queue.WorkersOf(t.Context(), f.q.Shards, "t"); err != nil || time.Since(w.Oldest) > time.Minute {
		t.Errorf("the oldest lease: %+v, %v", w, err)
	}
}

// ahead is the time until the jobs of pushAhead become ready.
const ahead = 20 * time.Millisecond

// pushAhead pushes jobs of topic t that all become ready at once.
func (f *fixture) pushAhead(n int) {
	var pushes []store.Push
	for i := range n {
		pushes = append(pushes, store.Push{Topic: "t", ID: fmt.Sprint(i), Delay: ahead, Priority: store.Normal})
	}
	f.q.PushBatch(f.Context(), pushes)
}

// TestEveryWaitingWorkerGetsAJob when many become ready at once, while other workers leave.
func TestEveryWaitingWorkerGetsAJob(t *testing.T) {
	f := newFixture(t, "t")
	const workers, leavers = 300, 100
	ctx, cancel := context.WithCancel(t.Context())
	var gone, stay []<-chan taken
	for i := range workers {
		if i%3 == 0 {
			gone = append(gone, f.worker(ctx, request(time.Hour, "t")))
		} else {
			stay = append(stay, f.worker(t.Context(), request(wait.Limit, "t")))
		}
	}
	f.waiting("t", workers)
	f.pushAhead(workers)
	time.AfterFunc(ahead, cancel) // concurrently: some leave while a job is on its way to them
	seen := map[string]bool{}
	take := func(got taken) {
		for _, j := range got.jobs {
			if seen[j.ID] {
				t.Errorf("%s was taken twice", j.ID)
			}
			seen[j.ID] = true
		}
	}
	for _, w := range stay {
		got := <-w
		if len(got.jobs) != 1 || got.err != nil {
			t.Errorf("a worker got %d jobs, %v", len(got.jobs), got.err)
		}
		take(got)
	}
	for _, w := range gone {
		got := <-w
		if len(got.jobs) == 0 && !errors.Is(got.err, context.Canceled) {
			t.Errorf("a worker that left: %v", got.err)
		}
		take(got)
	}
	wait.For(t, "the job on its way is ready again", func() bool { return f.ready("t") == int64(workers-len(seen)) })
	jobs, _, err := f.q.List(t.Context(), "t", store.Ready, "", 1000)
	for _, j := range jobs {
		if j.Attempts != 0 || seen[j.ID] || err != nil {
			t.Errorf("remaining: %+v, %v", j, err)
		}
	}
}

// TestAStopEndsWaits of workers, while jobs become ready: workers without a job are told so, and no job stays leased
// without a worker.
func TestAStopEndsWaits(t *testing.T) {
	f := newFixture(t, "t")
	const workers = 100
	stop := make(chan struct{})
	r := request(time.Hour, "t")
	r.Stopping = stop
	var all []<-chan taken
	for range workers {
		all = append(all, f.worker(t.Context(), r))
	}
	f.waiting("t", workers)
	f.pushAhead(workers)
	time.AfterFunc(ahead, func() { close(stop) }) // concurrently: some jobs are on their way
	got := 0
	for _, w := range all {
		g := <-w
		if g.err != nil {
			t.Errorf("a worker at a stop: %v", g.err)
		}
		got += len(g.jobs)
	}
	wait.For(t, "the other jobs are ready", func() bool { return f.ready("t") == int64(workers-got) })
	st, err := f.q.Stats(t.Context(), []string{"t"})
	if err != nil || st["t"].Running != int64(got) {
		t.Errorf("%d jobs are leased, workers have %d: %v", st["t"].Running, got, err)
	}
	late, err := f.hub.Take(t.Context(), r)
	if err != nil || len(late) != min(1, workers-got) {
		t.Errorf("a worker that asks after the stop got %d jobs, %v", len(late), err)
	}
}

// TestJobsComeThroughALostConnection: wake-ups are lost with it, and the set of awaited topics with the data.
func TestJobsComeThroughALostConnection(t *testing.T) {
	f := newFixture(t, "t")
	var asked atomic.Int32
	r := request(wait.Limit, "t")
	r.Alive = func() bool { asked.Add(1); return true }
	worker := f.worker(t.Context(), r)
	c := f.redis.Client()
	wait.For(t, "the worker is waiting after its first take", func() bool {
		return c.Publish(t.Context(), "wk:{0}:pull", "t").Err() == nil && asked.Load() > 1
	})
	f.redis.Kill9()
	f.redis.Restart()
	wait.For(t, "the server is adopted", func() bool { return queuetest.Adopt(t.Context(), f.q.Shards.All()[0]) == nil })
	wait.For(t, "a push is accepted", func() bool {
		return f.q.Push(t.Context(), store.Push{Topic: "t", ID: "a", Priority: store.Normal}).Err == nil
	})
	if got := <-worker; len(got.jobs) != 1 || got.err != nil {
		t.Fatalf("got %+v", got)
	}
}

// TestAShardThatDoesNotAnswerIsAskedAgain while a worker is waiting, even if another shard answers: it has not stored
// the topics that the worker awaits.
func TestAShardThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	f := newFixture(t, "t")
	b := f.addShard()
	b.Kill9()
	var asked atomic.Int32
	r := request(wait.Limit, "t")
	r.Alive = func() bool { asked.Add(1); return true }
	ctx, cancel := context.WithCancel(t.Context())
	worker := f.worker(ctx, r)
	wait.For(t, "the shards are polled again and again", func() bool { return asked.Load() >= 6 })
	cancel()
	if got := <-worker; !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %+v", got)
	}
}

// TestAScriptThatFailsEndsATake, although another shard answers: to wait longer would not help.
func TestAScriptThatFailsEndsATake(t *testing.T) {
	f := newFixture(t, "t")
	b := f.addShard()
	if err := queuetest.Adopt(t.Context(), f.q.Shards.All()[1]); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the new shard knows the topic", func() bool { return b.Do("HEXISTS", "wk:{0}:c:t", "pull") == int64(1) })
	b.Do("SET", "wk:{0}:w:normal:t", "damaged")
	got := <-f.worker(t.Context(), request(time.Hour, "t"))
	if un, ok := errors.AsType[*store.UnavailableError](got.err); got.err == nil || ok {
		t.Errorf("took %d jobs, %v, %v", len(got.jobs), got.err, un)
	}
}

// TestAFailedJobComesAfterTheTopicsWait, both by a lease and by an id.
func TestAFailedJobComesAfterTheTopicsWait(t *testing.T) {
	f := newFixture(t, "t")
	for _, id := range []string{"a", "b"} {
		f.push("t", id, 0)
	}
	first, err := f.hub.Take(t.Context(), request(0, "t"))
	if err != nil || len(first) != 1 {
		t.Fatalf("took %+v, %v", first, err)
	}
	if _, err := f.hub.Take(t.Context(), request(0, "t")); err != nil {
		t.Fatal(err)
	}
	for _, d := range f.hub.End(t.Context(), []store.End{
		{Lease: first[0].Lease, Verb: store.Fail}, {Ref: store.Ref{Topic: "t", ID: "b"}, Verb: store.Fail},
	}) {
		if d.Err != nil || d.State != store.Delayed || time.Until(d.At) < 50*time.Minute {
			t.Errorf("%s: %+v", d.ID, d)
		}
	}
}

// TestWaitingCostsNothing: idle workers' load on Redis does not grow with their number.
func TestWaitingCostsNothing(t *testing.T) {
	topics := make([]string, 200)
	for i := range topics {
		topics[i] = fmt.Sprint("t", i)
	}
	f := newFixture(t, topics...)
	ctx, cancel := context.WithCancel(t.Context())
	var all []<-chan taken
	for i := range 1000 {
		all = append(all, f.worker(ctx, request(time.Hour, topics[i%200])))
	}
	wait.For(t, "all wait", func() bool { return f.hub.Waiting()["t199"] == 5 })
	calls := func() (n int64) {
		text, err := f.redis.Info("Stats", "total_commands_processed")
		if _, scanErr := fmt.Sscan(text, &n); err != nil || scanErr != nil {
			t.Fatal(text, err, scanErr)
		}
		return n
	}
	wait.For(t, "three seconds with at most 20 commands each", func() bool { // on a busy machine some still take
		before, began := calls(), time.Now()
		time.Sleep(3 * time.Second) // what is tested is that time has passed
		return float64(calls()-before) <= 20*time.Since(began).Seconds()
	})
	cancel()
	for _, w := range all {
		<-w
	}
}

// TestLateness logs how long after its due time a job reaches a waiting worker.
func TestLateness(t *testing.T) {
	f := newFixture(t, "t")
	var late []time.Duration
	for i := range 200 {
		worker := f.worker(t.Context(), request(wait.Limit, "t"))
		f.waiting("t", 1)
		f.push("t", fmt.Sprint(i), 10*time.Millisecond)
		got := <-worker
		if len(got.jobs) != 1 {
			t.Fatalf("got %+v", got)
		}
		d := got.at.Sub(got.jobs[0].DueAt)
		if d < 0 {
			t.Fatalf("%v early", -d)
		}
		late = append(late, d)
	}
	slices.Sort(late)
	t.Logf("p20 %v, p50 %v, p99 %v", late[40], late[100], late[198])
	if late[40] > 100*time.Millisecond { // on a busy machine many are later; without wake-ups, nine of ten were
		t.Errorf("four of five jobs are later than %v", late[40])
	}
}
