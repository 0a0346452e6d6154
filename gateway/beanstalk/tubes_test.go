package beanstalk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
)

// topicList is a queue that knows which topics have jobs.
type topicList struct {
	Queue
	topics []string
	err    error
	asked  int
	during func() // called while they are listed
}

func (q *topicList) Members(context.Context, string) ([]string, error) {
	q.asked++
	if q.during != nil {
		q.during()
	}
	return q.topics, q.err
}

// newClockedTubes creates tubes with a clock that the test sets.
func newClockedTubes() (t *tubes, now *time.Time) {
	clock := time.Unix(1000, 0)
	t = newTubes()
	t.now = func() time.Time { return clock }
	return t, &clock
}

func TestTopicsNameTheirTubes(t *testing.T) {
	t.Parallel()
	for _, tube := range []string{"default", "A-z0+/;.$_()", strings.Repeat("x", maxName)} {
		if name, ok := tubeOf(topicOf(tube)); name != tube || !ok {
			t.Errorf("%s belongs to %s, %t", topicOf(tube), name, ok)
		}
	}
	for _, foreign := range []string{"beanstalk.t.0000000005", "beanstalk", "orders"} {
		if name, ok := tubeOf(foreign); ok {
			t.Errorf("%s belongs to the tube %s", foreign, name)
		}
	}
}

// TestAPlanLeavesPausedTubesOut, and has the time when the next one resumes.
func TestAPlanLeavesPausedTubesOut(t *testing.T) {
	t.Parallel()
	tubes, now := newClockedTubes()
	for _, tube := range []string{"a", "b", "c", "unwatched"} {
		tubes.put(tube)
	}
	want := func(p plan, resumes time.Duration, topics ...string) {
		t.Helper()
		if fmt.Sprint(p.topics) != fmt.Sprint(topics) {
			t.Errorf("the plan is %v, want %v", p.topics, topics)
		}
		if at := now.Add(resumes); resumes > 0 && !p.resumes.Equal(at) || resumes == 0 && !p.resumes.IsZero() {
			t.Errorf("a tube resumes at %s, want in %s", p.resumes, resumes)
		}
	}
	watched := []string{"a", "b", "c", "none"}
	want(tubes.plan(watched), 0, topicOf("a"), topicOf("b"), topicOf("c"), topicOf("none"))
	tubes.pauseTube("a", 60*time.Second)
	tubes.pauseTube("c", 20*time.Second)
	want(tubes.plan(watched), 20*time.Second, topicOf("b"), topicOf("none"))
	*now = now.Add(20 * time.Second)
	want(tubes.plan(watched), 40*time.Second, topicOf("b"), topicOf("c"), topicOf("none"))
	tubes.pauseTube("a", 0)
	want(tubes.plan([]string{"a"}), 0, topicOf("a"))
	if tubes.pauseTube("none", time.Second) {
		t.Error("an unknown tube was paused")
	}
}

// TestWaitingReservesRecomputeTheirPlan when it may have changed, and only then.
func TestWaitingReservesRecomputeTheirPlan(t *testing.T) {
	t.Parallel()
	tubes, _ := newClockedTubes()
	q := &topicList{topics: []string{topicOf("a"), topicOf("b")}}
	for _, step := range []struct {
		name    string
		do      func()
		changes bool
	}{
		{"a job", func() { tubes.put("a") }, false},
		{"a pause", func() { tubes.pauseTube("a", time.Second) }, true},
		{"the end of it", func() { tubes.pauseTube("a", 0) }, true},
		{"another host's first job", func() { _ = tubes.refresh(t.Context(), q) }, false},
		{"a tube that is used", func() { tubes.edit("c", func(t *tube) { t.using++ }) }, false},
	} {
		before := tubes.plan(nil).changed
		step.do()
		if changed := before.Err() != nil; changed != step.changes {
			t.Errorf("%s: woken: %t", step.name, changed)
		}
	}
}

// TestTubesEndWithTheirLastJob, unless a client uses or watches them. Jobs that are stored while they are listed keep
// theirs.
func TestTubesEndWithTheirLastJob(t *testing.T) {
	t.Parallel()
	tubes, now := newClockedTubes()
	tubes.put("gone")
	tubes.put("used")
	tubes.put("a")
	tubes.edit("used", func(t *tube) { t.using++ })
	*now = now.Add(time.Second)
	q := &topicList{topics: []string{topicOf("a"), topicOf("found"), "beanstalk.no.tube"}}
	q.during = func() {
		*now = now.Add(time.Second)
		tubes.put("new")
	}
	if err := tubes.refresh(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tubes.names()); got != "[default used a new found]" {
		t.Errorf("the tubes are %s", got)
	}
	tubes.edit("used", func(t *tube) { t.using-- })
	if got := fmt.Sprint(tubes.names()); got != "[default a new found]" {
		t.Errorf("then the tubes are %s", got)
	}
}

// TestTubesAreListedOnceASecond at most by reserves; if that fails, the last list stays.
func TestTubesAreListedOnceASecond(t *testing.T) {
	t.Parallel()
	tubes, now := newClockedTubes()
	q := &topicList{topics: []string{topicOf("a")}}
	for range 3 {
		if err := tubes.recent(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if q.asked != 1 {
		t.Errorf("they were listed %d times at once", q.asked)
	}
	*now = now.Add(refreshEvery + time.Millisecond)
	q.err = errors.New("no shard answers")
	if err := tubes.recent(t.Context(), q); !errors.Is(err, q.err) || q.asked != 2 {
		t.Errorf("after a second: listed %d times, %v", q.asked, err)
	}
	if got := fmt.Sprint(tubes.names()); got != "[default a]" {
		t.Errorf("then the tubes are %s", got)
	}
}

func TestATallyCountsTheHistory(t *testing.T) {
	t.Parallel()
	job := &store.Job{
		State: store.Running, Attempts: 4, History: []store.Attempt{
			*gateway.Delayed(releasedError, 0), {Error: buriedError}, {Error: "lease expired"},
			*gateway.Delayed(releasedError, time.Hour),
		},
	}
	if c := tallyOf(job); c != (tally{reserves: 5, timeouts: 1, releases: 2, buries: 1}) {
		t.Errorf("%+v", c)
	}
}

// sharedSetting is oneSetting for several hosts at once.
type sharedSetting struct {
	mu sync.Mutex
	oneSetting
}

func (s *sharedSetting) EditSetting(ctx context.Context, a, n string, value any, edit func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.oneSetting.EditSetting(ctx, a, n, value, edit)
}

// TestNoIDIsGivenTwice, whichever host assigns it.
func TestNoIDIsGivenTwice(t *testing.T) {
	t.Parallel()
	r := &sharedSetting{}
	hosts := []*ids{{registry: r}, {registry: r}}
	const takers, each = 4, block/2 + 10 // each host uses up its first block
	given := make([][]uint64, 2*takers)
	var taking sync.WaitGroup
	for i := range given {
		taking.Go(func() {
			for range each {
				id, err := hosts[i%2].take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				given[i] = append(given[i], id)
			}
		})
	}
	taking.Wait()
	seen := map[uint64]bool{}
	for _, list := range given {
		for i, id := range list {
			if seen[id] || id == 0 || i > 0 && id < list[i-1] {
				t.Fatalf("id %d was assigned twice, or after a larger one", id)
			}
			seen[id] = true
		}
	}
}
