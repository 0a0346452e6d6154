package checker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// fake is a shard whose answers are set by a test.
type fake struct {
	mu     sync.Mutex
	err    error
	took   time.Duration
	off    time.Duration
	health store.ShardHealth
	part   string // errors by part
	pings  int
	infos  int
}

func (f *fake) Name() string { return "a" }

func (f *fake) Ping(context.Context) (time.Time, time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pings++
	return time.Now().Add(f.off), f.took, f.err
}

func (f *fake) Health(context.Context) store.ShardHealth {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.infos++
	f.health.Up, f.health.Err = f.part == "", f.part
	return f.health
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// watching runs a checker in a bubble of fake time.
func watching(t *testing.T, test func(t *testing.T, c *Checker, f *fake, told *[]Finding)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: time.Millisecond, health: store.ShardHealth{RunID: "1"}}
		told := &[]Finding{}
		c := New(Options{
			Shards: func() []Shard { return []Shard{f} }, Notify: func(x Finding) { *told = append(*told, x) },
			Registerer: prometheus.NewRegistry(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		test(t, c, f, told)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func pass(d time.Duration) {
	time.Sleep(d) // of the bubble: waiting takes no real time
	synctest.Wait()
}

func TestThreeFailuresInARowAreDownAndOneAnswerEndsIt(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, told *[]Finding) {
		f.set(func() { f.err = errors.New("no answer") })
		pass(1900 * time.Millisecond)
		if len(c.Findings()) != 0 {
			t.Fatalf("after two failures: %+v", c.Findings())
		}
		pass(1100 * time.Millisecond)
		if got := c.Findings(); len(got) != 1 || got[0].Kind != health.Down || got[0].Detail.Error() != "no answer" {
			t.Fatalf("after three failures: %+v", got)
		}
		pass(time.Minute)
		f.set(func() { f.err = nil })
		pass(time.Second)
		if len(c.Findings()) != 0 || len(*told) != 2 || (*told)[1].Ended.IsZero() {
			t.Fatalf("after it answered: %+v, reported %+v", c.Findings(), *told)
		}
	})
}

func TestASlowMinuteIsFound(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, _ *[]Finding) {
		f.set(func() { f.took = 150 * time.Millisecond })
		pass(time.Minute)
		if got := c.Findings(); len(got) != 1 || got[0].Kind != health.Slow {
			t.Fatalf("findings = %+v", got)
		}
	})
}

func TestClocksAndMemoryAndRestartsAreJudged(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, _ *[]Finding) {
		f.set(func() { f.off = 5 * time.Second })
		pass(time.Second)
		kinds := map[health.Kind]bool{}
		for _, x := range c.Findings() {
			kinds[x.Kind] = true
		}
		if !kinds[health.Clock] || !kinds[health.Stepped] {
			t.Fatalf("a clock that jumped by 5 s: %v", kinds)
		}
		f.set(func() {
			f.off = 0
			f.health = store.ShardHealth{
				RunID: "1", ReplOffset: -1, Memory: 90, MaxMemory: 100, Policy: "allkeys-lru", WriteError: "disk full",
				LinkDown: true, Differ: "one has 8:1:1", LargestJobs: health.LargeTopic + 1,
			}
		})
		pass(11 * time.Second)
		kinds = map[health.Kind]bool{}
		for _, x := range c.Findings() {
			kinds[x.Kind] = true
		}
		for _, k := range append(health.Watched(), health.Restarted) {
			if !kinds[k] && k != health.Forbidden { // which prevents other findings, see TestAUserWithoutRightsIsFound
				t.Errorf("%s was not found: %v", k, kinds)
			}
		}
		if kinds[health.Clock] {
			t.Errorf("the clock's finding did not end: %v", kinds)
		}
	})
}

// TestAStepOfTheClockIsShownForAMinute: alerts read findings every few seconds, and the managed redis-server has this
// host's clock, so that only the step shows that its jobs became due too early.
func TestAStepOfTheClockIsShownForAMinute(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, _ *[]Finding) {
		pass(10 * time.Second)
		f.set(func() { f.off = 1500 * time.Millisecond })
		pass(eventFor - time.Second)
		if got := c.Findings(); len(got) != 1 || got[0].Kind != health.Stepped {
			t.Errorf("almost a minute after the step: %+v", got)
		}
		pass(3 * time.Second)
		if got := c.Findings(); len(got) != 0 {
			t.Errorf("after a minute: %+v", got)
		}
	})
}

func TestTheFindingsOfARemovedShardEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, changed := &fake{took: time.Millisecond}, make(chan struct{}, 1)
		shards := []Shard{f}
		c := New(Options{Shards: func() []Shard { return shards }, Changed: changed})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		c.Restarted("a", message.Plain("it lost everything"))
		shards = nil
		changed <- struct{}{}
		pass(time.Second)
		if got := c.Findings(); len(got) != 0 {
			t.Errorf("after the shard was removed: %+v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnHourOfWatchingIsCheap(t *testing.T) {
	watching(t, func(t *testing.T, _ *Checker, f *fake, _ *[]Finding) {
		pass(time.Hour)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.pings > 3640 || f.infos > 365 {
			t.Fatalf("%d pings and %d checks in an hour", f.pings, f.infos)
		}
	})
}

func TestAShardThatIsDownIsNotReportedAsSlow(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, _ *[]Finding) {
		f.set(func() { f.took, f.err = time.Second, errors.New("no answer") })
		pass(time.Minute)
		if got := c.Findings(); len(got) != 1 || got[0].Kind != health.Down {
			t.Fatalf("findings = %+v", got)
		}
	})
}

func TestAShardThatIsBackIsCheckedAtOnce(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, _ *[]Finding) {
		f.set(func() { f.err = errors.New("no answer") })
		pass(3100 * time.Millisecond)
		f.set(func() { f.err = nil; f.health.ReplOffset = -1 })
		pass(time.Second)
		if got := c.Findings(); len(got) != 1 || got[0].Kind != health.Restarted {
			t.Fatalf("a second after it came back with fewer writes: %+v", got)
		}
	})
}

func TestAPartThatDoesNotAnswerIsFound(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, _ *[]Finding) {
		f.set(func() { f.part = "info of shard a: dial tcp 10.0.0.3:7003: connection refused" })
		pass(21 * time.Second)
		if got := c.Findings(); len(got) != 1 || got[0].Kind != health.Partial {
			t.Fatalf("findings = %+v", got)
		}
		f.set(func() { f.part = "" })
		pass(11 * time.Second)
		if got := c.Findings(); len(got) != 0 {
			t.Fatalf("after it answered: %+v", got)
		}
	})
}

func TestAScrapeHasShardsAndJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: time.Millisecond, health: store.ShardHealth{
			RunID: "1", Memory: 30, MaxMemory: 100, Jobs: 7, Policy: "noeviction",
		}}
		shards := []Shard{f}
		changed, jobs := make(chan struct{}), &jobsOf{
			counts: map[string]store.Stats{"t": {Ready: 5}, "u": {Dead: 2}, "v": {Dead: 1, Delayed: 3},
				"gone": {Ready: 99}},
			active: []string{"called"},
		}
		var told []Finding
		leads := true
		r := prometheus.NewRegistry()
		c := New(Options{
			Shards: func() []Shard { return shards }, Changed: changed, Registerer: r,
			Host: "h1", Leads: func() bool { return leads },
			Jobs: jobs, Hosts: hosts, Known: func(topic string) bool { return topic != "gone" }, MetricTopics: 2,
			Schedules: func() map[string]int { return map[string]int{"active": 4, "paused": 0} },
			Forecast: func(_ context.Context, topic string) forecast.Answer {
				return forecast.Answer{Waiting: 5, Oldest: time.Minute, Clear: 4 * time.Minute}
			},
			Notify: func(x Finding) { told = append(told, x) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		pass(time.Minute)
		if jobs.counted != 0 {
			t.Errorf("jobs were counted %d times without a scrape", jobs.counted)
		}
		got := scrape(t, r)
		for name, want := range map[string]float64{
			"wakecall_redis_up h1 a": 1, "wakecall_redis_memory_bytes a": 30, "wakecall_redis_max_memory_bytes a": 100,
			"wakecall_redis_jobs a": 7, "wakecall_schedules active": 4,
			"wakecall_redis_ping_duration_seconds h1 a": 0.001, "wakecall_jobs ready t": 5,
			"wakecall_jobs delayed v": 3, "wakecall_jobs dead (other)": 2, "wakecall_oldest_ready_seconds t": 1,
			"wakecall_backlog_clear_seconds t": 240, "wakecall_absent_host gone b": 1,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s = %v (there: %v), want %v", name, v, ok, want)
			}
		}
		for name := range got {
			if strings.HasPrefix(name, "wakecall_jobs") && strings.ContainsAny(name[len(name)-1:], "ue") {
				t.Errorf("%s has a series of its own", name)
			}
		}
		leads = false
		if got := slices.Sorted(maps.Keys(scrape(t, r))); !slices.Equal(got,
			[]string{"wakecall_redis_ping_duration_seconds h1 a", "wakecall_redis_up h1 a"}) {
			t.Errorf("while another host leads, this one shows %q", got)
		}
		leads = true
		f.set(func() { f.err = errors.New("no answer") })
		pass(4 * time.Second)
		got = scrape(t, r)
		if up, shown := got["wakecall_redis_up h1 a"]; up != 0 || !shown || got["wakecall_shard_finding down h1 a"] != 1 {
			t.Errorf("a shard that is down: %v", got)
		}
		for _, name := range []string{"memory_bytes a", "max_memory_bytes a", "jobs a", "ping_seconds h1 a"} {
			if v, shown := got["wakecall_redis_"+name]; shown {
				t.Errorf("wakecall_redis_%s of a shard that is down is still %v", name, v)
			}
		}
		shards = nil
		changed <- struct{}{}
		synctest.Wait()
		if last := told[len(told)-1]; last.Kind != health.Down || last.Ended.IsZero() {
			t.Errorf("the finding of a removed shard lasts: %+v", last)
		}
		for name := range scrape(t, r) {
			if strings.HasSuffix(name, " a") {
				t.Errorf("%s has a series of a removed shard", name)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// scrape returns values by metric and label values, which are sorted by label name.
func scrape(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, x := range families {
		for _, m := range x.GetMetric() {
			name := x.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue()
		}
	}
	return got
}

// jobsOf counts jobs.
type jobsOf struct {
	counts  map[string]store.Stats
	active  []string
	counted int
}

func (j *jobsOf) Counts(context.Context) (map[string]store.Stats, error) {
	j.counted++
	return maps.Clone(j.counts), nil
}

func hosts(context.Context) ([]reconcile.Host, error) {
	return []reconcile.Host{{Name: "here"}, {Name: "gone", Absent: []string{"b"}}}, nil
}

func (j *jobsOf) Active(context.Context, time.Time) ([]string, error) { return j.active, nil }

func (j *jobsOf) Stats(_ context.Context, topics []string) (map[string]store.Stats, error) {
	all := map[string]store.Stats{}
	for _, topic := range topics {
		s := j.counts[topic]
		s.OldestReady = time.Second
		all[topic] = s
	}
	return all, nil
}

// TestTheDetailOfAFindingIsUpToDate while it lasts, without being reported again.
func TestTheDetailOfAFindingIsUpToDate(t *testing.T) {
	watching(t, func(t *testing.T, c *Checker, f *fake, told *[]Finding) {
		for _, memory := range []int64{90, 99} {
			f.set(func() {
				f.health = store.ShardHealth{RunID: "1", Memory: memory, MaxMemory: 100,
					Policy: "noeviction"}
			})
			pass(infoEvery * time.Second)
			got := c.Findings()
			if len(got) != 1 || !strings.HasPrefix(got[0].Detail.Error(), fmt.Sprint(memory)) || len(*told) != 1 {
				t.Fatalf("with %d of 100: %+v, reported %d times", memory, got, len(*told))
			}
		}
	})
}
