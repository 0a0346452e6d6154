package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

func TestAJobIsCalledWhenDueAndThenGone(t *testing.T) {
	i := start(t)
	jobs := 0
	eventually(t, "a call on time", func() bool { // a busy machine delays some; without wake-ups all are late
		jobs++
		return i.lateness(fmt.Sprint(jobs)) < 300*time.Millisecond
	})
	if len(i.lines) != jobs || i.lines[0].Outcome != journal.Done || i.lines[0].Status != 200 {
		t.Fatalf("journal of %d jobs = %+v", jobs, i.lines)
	}
}

// A job that is pushed with a due time long past counts as late from its push.
func TestAJobIsNotLateBeforeItsPush(t *testing.T) {
	reg := prometheus.NewRegistry()
	i := start(t, func(o *Options) { o.Registerer = reg })
	past := store.Push{Topic: "t", ID: "past", Body: []byte(`{}`), DueAt: time.UnixMilli(1)}
	if r := i.q.Push(t.Context(), past); r.Err != nil {
		t.Fatal(r.Err)
	}
	eventually(t, "the job is delivered", func() bool { return i.gone("t", "past") })
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if h := f.GetMetric()[0].GetHistogram(); f.GetName() == "wakecall_callback_lateness_seconds" &&
			(h.GetSampleCount() != 1 || h.GetSampleSum() > time.Hour.Seconds()) {
			t.Errorf("its lateness is %g s", h.GetSampleSum())
		}
	}
}

// blind is a shard whose polls find no jobs, so that only wake-ups help.
type blind struct {
	observe.Bucket
	looks atomic.Int32
}

func (b *blind) NothingReady(ctx context.Context) (bool, error) {
	if _, err := b.Bucket.NothingReady(ctx); err != nil {
		return false, err
	}
	b.looks.Add(1)
	return true, nil
}

func TestAPushWakesADispatcherThatOnlyPolled(t *testing.T) {
	var b *blind
	i := start(t, func(o *Options) {
		b = &blind{Bucket: o.Buckets()[0].(observe.Bucket)}
		o.Buckets = func() []Bucket { return []Bucket{b} }
		o.Poll = 5 * time.Millisecond
	})
	prompt, jobs := 0, 0
	eventually(t, "five prompt calls", func() bool { // a busy machine delays some calls
		jobs++
		before := b.looks.Load()
		eventually(t, "it polls", func() bool { return b.looks.Load() > before+5 })
		id, pushed := fmt.Sprint(jobs), time.Now()
		i.push("t", id, 0)
		eventually(t, "it is called", func() bool { return i.called(id) == 1 })
		if time.Since(pushed) < 2*time.Second {
			prompt++
		}
		eventually(t, "it is gone", func() bool { return i.gone("t", id) })
		return prompt == 5
	})
}

// deaf is a shard whose wake-ups are lost.
type deaf struct{ observe.Bucket }

func (deaf) Wakeups(context.Context) <-chan store.Wakeup { return nil }

func TestAJobIsCalledWithinASecondOfRedisThoughNoWakeUpArrives(t *testing.T) {
	i := start(t, func(o *Options) {
		s := deaf{o.Buckets()[0].(observe.Bucket)}
		o.Buckets = func() []Bucket { return []Bucket{s} }
	})
	for n := range 3 {
		id, pushed := fmt.Sprint(n), time.Now()
		i.push("t", id, 0)
		eventually(t, "it is called", func() bool { return i.called(id) == 1 })
		if took := time.Since(pushed); took > 20*time.Second { // a second, plus the delay of a busy machine
			t.Errorf("job %d was called after %s", n, took)
		}
	}
}

func TestAFailureIsRetriedUntilDeliveredOrDead(t *testing.T) {
	i := start(t)
	i.hook("a", func(w http.ResponseWriter, _ *http.Request) {
		if i.called("a") < 3 {
			http.Error(w, "not yet", http.StatusNotFound)
		}
	})
	i.hook("b", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "never", http.StatusNotFound) })
	i.hook("c", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	for _, id := range []string{"a", "b", "c"} {
		i.push("t", id, 0)
	}
	eventually(t, "a is delivered", func() bool { return i.gone("t", "a") })
	for id, want := range map[string]struct {
		reason string
		calls  int
	}{"b": {"attempts", 10}, "c": {"gone", 1}} {
		eventually(t, id+" is dead", func() bool {
			j, err := i.q.Get(t.Context(), "t", id)
			return err == nil && j.State == store.Dead && j.DeadReason == want.reason && j.Attempts == want.calls &&
				i.called(id) == want.calls &&
				j.History[0].Status >= 404
		})
	}
	if n := i.called("a"); n != 3 {
		t.Fatalf("a was called %d times", n)
	}
}

// TestAJobWhoseGroupIsCancelledWhileItRuns is deleted when it fails, whatever that would mean otherwise, and no journal
// says that it died.
func TestAJobWhoseGroupIsCancelledWhileItRuns(t *testing.T) {
	i := start(t)
	for id, status := range map[string]int{"retried": http.StatusNotFound, "dies": http.StatusGone} {
		i.hook(id, func(w http.ResponseWriter, _ *http.Request) {
			if c, err := i.q.CancelGroup(t.Context(), id, []string{"*"}, 0); err != nil || c.Running != 1 {
				t.Errorf("%+v, %v", c, err)
			}
			http.Error(w, "too late", status)
		})
		if r := i.q.Push(t.Context(), store.Push{Topic: "t", ID: id, Group: id}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	eventually(t, "both are deleted, and recorded", func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return len(i.asked) == 2
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range i.lines {
		if l.Outcome != journal.Retry {
			t.Errorf("%s is recorded as %s", l.ID, l.Outcome)
		}
	}
	for _, l := range i.asked {
		if l.Op != journal.OpDelete || l.Revision == 0 {
			t.Errorf("recorded %+v", l)
		}
		if j, err := i.q.Get(t.Context(), "t", l.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%+v, %v", j, err)
		}
	}
	if len(i.lines) != 2 {
		t.Errorf("%d attempts are recorded", len(i.lines))
	}
}

// TestAJobsOwnHeadersAndRetryWaitsAreUsed, not those of its topic, whose next attempt would be a minute later.
func TestAJobsOwnHeadersAndRetryWaitsAreUsed(t *testing.T) {
	i := start(t)
	i.topic("t", func(x *registry.Topic) {
		x.Retry = []registry.Duration{registry.Duration(time.Hour)}
		x.Headers = map[string]string{"X-A": "topic"}
	})
	var mu sync.Mutex
	var headers []string
	i.hook("a", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		headers = append(headers, r.Header.Get("X-A"))
		mu.Unlock()
		if i.called("a") < 4 {
			http.Error(w, "not yet", http.StatusNotFound)
		}
	})
	r := i.q.Push(t.Context(), store.Push{
		Topic: "t", ID: "a", Priority: store.Normal, Headers: map[string]string{"X-A": "job"},
		Retry: []time.Duration{time.Millisecond, 50 * time.Millisecond},
	})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	eventually(t, "a is delivered", func() bool { return i.gone("t", "a") })
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(headers, []string{"job", "job", "job", "job"}) {
		t.Errorf("X-A of the calls: %q", headers)
	}
}

// TestEveryCallOfAnOccurrenceSaysForWhenItWasScheduled: the first and the retries, and no call of another job.
func TestEveryCallOfAnOccurrenceSaysForWhenItWasScheduled(t *testing.T) {
	i := start(t)
	nominal := time.Date(2026, 11, 23, 8, 0, 0, 0, time.FixedZone("", 8*3600))
	pushes := []store.Push{
		{Topic: "t", ID: "hourly@2026-11-23T00:00:00Z", Schedule: "hourly", For: nominal}, {Topic: "t", ID: "other"},
	}
	var mu sync.Mutex
	headers := map[string][]string{}
	for k := range pushes {
		p := &pushes[k]
		i.hook(p.ID, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			headers[p.ID] = append(headers[p.ID],
				r.Header.Get("Wakecall-Schedule")+" "+r.Header.Get("Wakecall-Scheduled-For"))
			mu.Unlock()
			if i.called(p.ID) == 1 {
				http.Error(w, "not yet", http.StatusNotFound)
			}
		})
		p.Priority, p.Retry = store.Normal, []time.Duration{time.Millisecond}
		if r := i.q.Push(t.Context(), *p); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	eventually(t, "both are delivered", func() bool { return i.gone("t", pushes[0].ID) && i.gone("t", "other") })
	mu.Lock()
	defer mu.Unlock()
	told := "hourly 2026-11-23T00:00:00.000Z"
	if !slices.Equal(headers[pushes[0].ID], []string{told, told}) || !slices.Equal(headers["other"], []string{" ", " "}) {
		t.Errorf("headers of the calls: %q", headers)
	}
}

func TestASlowTopicLeavesPlacesForOthers(t *testing.T) {
	i := start(t)
	release := make(chan struct{})
	for k := range 100 {
		id := fmt.Sprint("s", k)
		i.hook(id, func(http.ResponseWriter, *http.Request) { <-release })
		i.push("slow", id, 0)
	}
	eventually(t, "the slow topic holds all places", func() bool { return i.d.places.available() == 0 })
	for k := range 20 {
		id := fmt.Sprint("q", k)
		i.push("t", id, 0)
		eventually(t, "a quick job is called meanwhile", func() bool { return i.called(id) == 1 })
	}
	close(release)
	eventually(t, "all slow jobs are delivered", func() bool { return i.gone("slow", "s99") && i.gone("slow", "s0") })
}

func TestOutcomesAreSettledAfterRedisIsBack(t *testing.T) {
	i := startWith(t, 500*time.Millisecond)
	answer := make(chan struct{})
	i.hook("a", func(http.ResponseWriter, *http.Request) { <-answer })
	i.push("t", "a", 0)
	eventually(t, "the call is under way", func() bool { return i.called("a") == 1 })
	i.redis.Pause()
	close(answer)
	eventually(t, "the journal has the outcome",
		func() bool { i.mu.Lock(); defer i.mu.Unlock(); return len(i.lines) == 1 })
	i.redis.Resume()
	eventually(t, "the outcome is settled", func() bool { return i.gone("t", "a") })
	if n := i.called("a"); n != 1 {
		t.Fatalf("called %d times", n)
	}
}

type panicking struct{ Caller }

func (p panicking) Do(ctx context.Context, e *callback.Endpoint, r *callback.Request) callback.Outcome {
	if r.ID == "poison" {
		panic("poison")
	}
	return p.Caller.Do(ctx, e, r)
}

func TestAJobThatPanicsDiesAlone(t *testing.T) {
	i := start(t, func(o *Options) { o.Caller = panicking{o.Caller} })
	i.push("t", "poison", 0)
	i.push("t", "good", 0)
	eventually(t, "the other job is delivered", func() bool { return i.gone("t", "good") })
	eventually(t, "the poison is dead", func() bool {
		j, err := i.q.Get(t.Context(), "t", "poison")
		return err == nil && j.State == store.Dead && j.Attempts == 10
	})
}

func TestAShutdownLetsCallsFinish(t *testing.T) {
	i := start(t)
	answer := make(chan struct{})
	i.hook("a", func(http.ResponseWriter, *http.Request) { <-answer })
	c, err := callback.New(callback.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = i
	ctx, cancel := context.WithCancel(t.Context())
	d := New(Options{
		Buckets: func() []Bucket { return []Bucket{observe.Bucket{Bucket: i.q.Shards.Buckets()[0]}} }, Topics: i.d.opts.Topics, Caller: c, Pattern: "012",
		Concurrency:     4,
		ShutdownTimeout: wait.Limit,
	})
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	i.push("t", "a", 0)
	eventually(t, "the call is under way", func() bool { return i.called("a") == 1 })
	cancel()
	close(answer)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job is delivered", func() bool { return i.gone("t", "a") })
	if n := i.called("a"); n != 1 {
		t.Fatalf("called %d times", n)
	}
}

// reserves is a shard that counts the reserved jobs of each priority until there are enough.
type reserves struct {
	Bucket
	enough int
	mu     sync.Mutex
	count  [3]int
	sum    int
}

func (s *reserves) Reserve(ctx context.Context, r store.Reserve) (store.Reserved, error) {
	got, err := s.Bucket.Reserve(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range got.Jobs {
		if s.sum < s.enough {
			s.count[l.Priority]++
			s.sum++
		}
	}
	return got, err
}

func (s *reserves) counted() (count [3]int, sum int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.sum
}

// TestPrioritiesAreKeptByRedis: one topic of each priority against ten low ones, with slow endpoints. It counts
// reserved jobs instead of calls, because a busy machine changes the order of calls.
func TestPrioritiesAreKeptByRedis(t *testing.T) {
	names := []string{"high", "normal"}
	for k := range 10 {
		names = append(names, fmt.Sprint("low", k))
	}
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		time.Sleep(time.Duration(20+rand.IntN(40)) * time.Millisecond)
	}))
	defer slow.Close()
	const jobs = 400
	begin, seen := make(chan struct{}), &reserves{enough: 3 * jobs / 2} // the high topic still has some then
	i := start(t, func(o *Options) {
		snap := *o.Topics()
		snap.Topics = registry.NewTopics()
		for _, name := range names {
			x := registry.NewTopic(name)
			x.CallbackURL = slow.URL
			snap.Topics = snap.Topics.With(name, &x)
		}
		seen.Bucket = o.Buckets()[0]
		o.Buckets = func() []Bucket { <-begin; return []Bucket{seen} }
		o.Topics = func() *registry.Snapshot { return &snap }
	})
	for k, name := range names {
		var batch []store.Push
		for n := range jobs {
			batch = append(batch, store.Push{
				Topic: name, ID: fmt.Sprint(n), Body: []byte(`{}`), Priority: store.Priority(min(k, 2)),
			})
		}
		for _, r := range i.q.PushBatch(t.Context(), batch) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	close(begin)
	var count [3]int
	sum := 0
	eventually(t, "enough calls", func() bool { count, sum = seen.counted(); return sum == seen.enough })
	for p, want := range []float64{50, 30, 20} {
		if got := 100 * float64(count[p]) / float64(sum); math.Abs(got-want) > 2 {
			t.Errorf("priority %d: %.1f percent of the starts, want %.0f", p, got, want)
		}
	}
}
