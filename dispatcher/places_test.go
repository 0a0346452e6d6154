package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/race"
)

// rings is a shard whose jobs are only counted. It serves priorities by the pattern and their topics in turn, as the
// reserve script does. A call takes a millisecond.
type rings struct {
	*fake
	order [3][]string
	ready map[string]int
	pos   int
}

func newRings(jobs map[string]int) *rings {
	s := &rings{fake: newFake("rings"), ready: map[string]int{}}
	for topic, n := range jobs {
		if n > 0 {
			s.add(topic, n)
		}
	}
	return s
}

// priorityOf is the first letter of a topic's name.
func priorityOf(topic string) store.Priority {
	return map[byte]store.Priority{'h': store.High, 'n': store.Normal, 'l': store.Low}[topic[0]]
}

func (s *rings) add(topic string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready[topic] == 0 {
		p := priorityOf(topic)
		s.order[p] = append(s.order[p], topic)
	}
	s.ready[topic] += n
}

func (s *rings) Reserve(_ context.Context, r store.Reserve) (store.Reserved, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	got := store.Reserved{Now: time.Now()}
	more := map[string]int{}
	maps.Copy(more, r.Busy)
	for i := 0; len(got.Jobs) < r.Max && i < 3*len(r.Pattern)*r.Max; i++ {
		p := int(r.Pattern[s.pos%len(r.Pattern)] - '0')
		s.pos++
		for range len(s.order[p]) {
			topic := s.order[p][0]
			s.order[p] = s.order[p][1:]
			if _, ok := more[topic]; !ok {
				more[topic] = r.TopicMax
			}
			took := more[topic] > 0
			if took {
				more[topic]--
				s.ready[topic]--
				s.pushed++
				job := store.Job{Topic: topic, ID: strconv.Itoa(s.pushed), Priority: store.Priority(p),
					DueAt: time.Now(), LeaseUntil: time.Now().Add(r.LeaseCap + store.LeaseGrace)}
				job.Lease = &store.Lease{Ref: store.Ref{Topic: topic, ID: job.ID}, Attempt: 1}
				got.Jobs = append(got.Jobs, &job)
			}
			if s.ready[topic] > 0 {
				s.order[p] = append(s.order[p], topic)
			}
			if took {
				break
			}
		}
	}
	return got, nil
}

// NothingReady implements Shard.
func (s *rings) NothingReady(context.Context) (bool, error) { return false, nil }

// End implements Shard.
func (s *rings) End(_ context.Context, list []store.End) ([]store.Ended, error) {
	return answers(len(list), true), nil
}

// endpointsOf answer after a duration that depends on the topic, and record the calls.
type endpointsOf struct {
	latency func(topic string) time.Duration

	mu     sync.Mutex
	starts []started
	now    map[string]int // calls under way
	all    map[string]int // starts
}

type started struct {
	at    time.Time
	topic string
}

func (e *endpointsOf) Do(ctx context.Context, _ *callback.Endpoint, r *callback.Request) callback.Outcome {
	e.mu.Lock()
	e.starts = append(e.starts, started{time.Now(), r.Topic})
	e.now[r.Topic]++
	e.all[r.Topic]++
	e.mu.Unlock()
	defer func() { e.mu.Lock(); e.now[r.Topic]--; e.mu.Unlock() }()
	select {
	case <-time.After(e.latency(r.Topic)):
		return callback.Outcome{Class: callback.Success, Status: 200, Reason: "ok"}
	case <-ctx.Done():
		return callback.Outcome{Class: callback.Failure, Reason: "canceled"}
	}
}

// scene is dispatchers on shards in a bubble of fake time.
type scene struct {
	topics      map[string]int // with this many jobs in each shard
	latency     func(topic string) time.Duration
	places      int // of each dispatcher
	dispatchers int
	shards      int
	pattern     string
}

func (c scene) play(t *testing.T, during func(e *endpointsOf, shards []*rings)) {
	t.Helper()
	if race.Enabled {
		t.Skip("the race detector's runtime fails a check of its own on so many goroutines: make unit runs it without")
	}
	synctest.Test(t, func(t *testing.T) {
		snap := &registry.Snapshot{}
		for name := range c.topics {
			x := registry.NewTopic(name)
			x.CallbackURL, x.TTR = "http://endpoint.test/", registry.Duration(time.Minute)
			snap.Topics = snap.Topics.With(name, &x)
		}
		var own []*rings
		var shards []Bucket
		for range max(1, c.shards) {
			s := newRings(c.topics)
			own, shards = append(own, s), append(shards, s)
		}
		e := &endpointsOf{latency: c.latency, now: map[string]int{}, all: map[string]int{}}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range max(1, c.dispatchers) {
			d := New(Options{
				Buckets: func() []Bucket { return shards }, Topics: func() *registry.Snapshot { return snap }, Caller: e,
				Concurrency: c.places, Pattern: c.pattern, ShutdownTimeout: time.Minute,
			})
			all.Go(func() { _ = d.Run(ctx) })
		}
		during(e, own)
		stop()
		all.Wait()
	})
}

func named(high, normal, low int) map[string]int {
	m := map[string]int{}
	for letter, n := range map[string]int{"h": high, "n": normal, "l": low} {
		for i := range n {
			m[fmt.Sprint(letter, i)] = 1_000_000
		}
	}
	return m
}

func constant(d time.Duration) func(string) time.Duration {
	return func(string) time.Duration { return d }
}

func exponential(mean time.Duration) func(string) time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	return func(string) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.ExpFloat64() * float64(mean))
	}
}

// unequal endpoints: those of high jobs are slow, those of low jobs fast.
func unequal(topic string) time.Duration {
	return [3]time.Duration{500 * time.Millisecond, 50 * time.Millisecond, 5 * time.Millisecond}[priorityOf(topic)]
}

// shares returns each priority's share of the starts, in percent.
func shares(starts []started) (s [3]float64) {
	for _, x := range starts {
		s[priorityOf(x.topic)] += 100 / float64(len(starts))
	}
	return s
}

func off(got, want [3]float64) (most float64) {
	for i := range got {
		most = max(most, math.Abs(got[i]-want[i]))
	}
	return most
}

const default532 = "0120010210"

var shares532 = [3]float64{50, 30, 20}

// TestPrioritiesAreKept whatever is scarce: the starts of every second, or every 500 starts, are 5:3:2 within 2 points,
// and within 1 on average. Every mix of topics is combined with every kind of endpoint, and each pair of the other
// values occurs.
func TestPrioritiesAreKept(t *testing.T) {
	mixes := [][3]int{{1, 1, 1}, {1, 1, 10}, {10, 1, 1}, {3, 1, 4}, {50, 50, 50}}
	endpoints := []struct {
		name    string
		latency func() func(string) time.Duration
	}{
		{"0 ms", func() func(string) time.Duration { return constant(0) }},
		{"20 ms", func() func(string) time.Duration { return constant(20 * time.Millisecond) }},
		{"200 ms", func() func(string) time.Duration { return constant(200 * time.Millisecond) }},
		{"exponential, 20 ms", func() func(string) time.Duration { return exponential(20 * time.Millisecond) }},
		{"exponential, 200 ms", func() func(string) time.Duration { return exponential(200 * time.Millisecond) }},
	}
	for i, mix := range mixes {
		for j, e := range endpoints {
			c := scene{
				topics: named(mix[0], mix[1], mix[2]), latency: e.latency(), pattern: default532,
				places: []int{10, 256, 512}[(i+j)%3], dispatchers: []int{1, 4}[(i+j)%2], shards: []int{1, 2}[(i/2+j)%2],
			}
			c.keeps(t, fmt.Sprint(mix, " topics, ", e.name), shares532)
		}
	}
}

// TestOtherPrioritiesAreKept, and the share of an empty priority goes to the others by their weights.
func TestOtherPrioritiesAreKept(t *testing.T) {
	mean, third := 200*time.Millisecond, [3]float64{100. / 3, 100. / 3, 100. / 3}
	for name, c := range map[string]struct {
		scene
		want [3]float64
	}{
		"8:1:1":          {scene{named(1, 1, 10), exponential(mean), 256, 2, 1, "0001000200"}, [3]float64{80, 10, 10}},
		"8:1:1, 10":      {scene{named(3, 1, 4), constant(mean), 10, 1, 2, "0001000200"}, [3]float64{80, 10, 10}},
		"8:1:1, at once": {scene{named(10, 1, 1), constant(0), 256, 1, 1, "0001000200"}, [3]float64{80, 10, 10}},
		"1:1:1":          {scene{named(10, 1, 3), exponential(mean), 256, 2, 1, "012"}, third},
		"1:1:1, 512":     {scene{named(1, 1, 10), constant(mean), 512, 1, 2, "012"}, third},
		"nothing normal": {scene{named(1, 0, 10), exponential(mean), 256, 1, 1, default532},
			[3]float64{500. / 7, 0, 200. / 7}},
		"nothing high": {scene{named(0, 1, 1), constant(mean), 256, 1, 1, default532}, [3]float64{0, 60, 40}},
		"nothing low": {scene{named(3, 10, 0), exponential(mean), 512, 4, 2, default532},
			[3]float64{62.5, 37.5, 0}},
		"nothing but low": {scene{named(0, 0, 4), exponential(mean), 256, 2, 2, default532}, [3]float64{0, 0, 100}},
	} {
		c.keeps(t, name, c.want)
	}
}

func (c scene) keeps(t *testing.T, name string, want [3]float64) {
	name = fmt.Sprintf("%s, %d places of %d, shards %d", name, c.places, c.dispatchers, c.shards)
	t.Run(name, func(t *testing.T) {
		c.play(t, func(e *endpointsOf, _ []*rings) { e.judge(t, want) })
	})
}

// judgedAtOnce is how many starts are judged together even if they took less than a second.
const judgedAtOnce = 5000

// judge waits for enough starts and judges them.
func (e *endpointsOf) judge(t *testing.T, want [3]float64) {
	for enough := false; !enough; {
		time.Sleep(100 * time.Millisecond)
		e.mu.Lock()
		n := len(e.starts)
		enough = n >= 3*judgedAtOnce || n >= 1000 && e.starts[n-1].at.Sub(e.starts[0].at) >= 3*time.Second
		e.mu.Unlock()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	begin := 0
	first := e.starts[0].at
	for k := 1; k <= len(e.starts); k++ {
		second := k == len(e.starts) || e.starts[k].at.Sub(e.starts[begin].at) >= time.Second
		if k-begin < 500 || !second && k-begin < judgedAtOnce {
			continue
		}
		if d := off(shares(e.starts[begin:k]), want); d > 2 {
			t.Errorf("%d starts after %v: %.1f", k-begin, e.starts[begin].at.Sub(first), shares(e.starts[begin:k]))
		}
		begin = k
	}
	if d := off(shares(e.starts), want); d > 1 {
		t.Errorf("of all %d starts: %.1f", len(e.starts), shares(e.starts))
	}
}

// TestASlowPriorityIsServedAsOften: it holds more places. In the first seconds, while it fills them, spare places are
// used, so those seconds are not judged.
func TestASlowPriorityIsServedAsOften(t *testing.T) {
	for _, topics := range []map[string]int{named(1, 1, 1), named(10, 1, 10)} {
		scene{topics, unequal, 256, 1, 1, default532}.play(t, func(e *endpointsOf, _ []*rings) {
			time.Sleep(3 * time.Second)
			e.mu.Lock()
			e.starts = nil
			e.mu.Unlock()
			e.judge(t, shares532)
		})
	}
}

// TestPrioritiesAreKeptAmongCallsThatHang, approximately: what is scarce then is the number of places for hanging
// calls.
func TestPrioritiesAreKeptAmongCallsThatHang(t *testing.T) {
	for _, topics := range []map[string]int{named(1, 1, 1), named(1, 1, 10)} {
		scene{topics, exponential(3 * time.Second), 256, 1, 1, default532}.play(t, func(e *endpointsOf, _ []*rings) {
			time.Sleep(time.Minute)
			e.mu.Lock()
			defer e.mu.Unlock()
			if got := shares(e.starts); off(got, shares532) > 8 {
				t.Errorf("%d topics: %.1f", len(topics), got)
			}
		})
	}
}

// TestALoneTopicOrPriorityHasAllPlaces: one topic, or the topics of one priority, whether their calls hang or not.
// Where calls take 20 ms, a place that becomes free waits for a settle call and a reserve.
func TestALoneTopicOrPriorityHasAllPlaces(t *testing.T) {
	for _, topics := range []map[string]int{named(0, 0, 1), named(3, 0, 0), named(0, 7, 0), named(0, 0, 10)} {
		for _, latency := range []time.Duration{20 * time.Millisecond, 700 * time.Millisecond, 5 * time.Second} {
			scene{topics, constant(latency), 256, 1, 1, default532}.play(t, func(e *endpointsOf, _ []*rings) {
				sum, n := 0, 0
				time.Sleep(2*latency + latency/3)
				for range 100 {
					time.Sleep(37 * time.Millisecond)
					e.mu.Lock()
					for _, underWay := range e.now {
						sum += underWay
					}
					n++
					e.mu.Unlock()
				}
				least := 0.98
				if latency < 100*time.Millisecond {
					least = 0.9
				}
				if mean := float64(sum) / float64(n); mean < least*256 {
					t.Errorf("%d topics, calls of %v: %.1f places of 256", len(topics), latency, mean)
				}
			})
		}
	}
}

// TestTopicsOfAPriorityShareEqually, even if one has a thousand times the jobs of another.
func TestTopicsOfAPriorityShareEqually(t *testing.T) {
	topics := named(0, 0, 4)
	topics["l0"], topics["l1"] = 5_000_000, 5_000
	scene{topics, exponential(50 * time.Millisecond), 64, 1, 1, default532}.play(t, func(e *endpointsOf, _ []*rings) {
		time.Sleep(10 * time.Second)
		e.mu.Lock()
		defer e.mu.Unlock()
		count := map[string]int{}
		for _, s := range e.starts {
			count[s.topic]++
		}
		for topic, n := range count {
			if share := 4 * float64(n) / float64(len(e.starts)); share < 0.95 || share > 1.05 {
				t.Errorf("%s has %.2f of its share", topic, share)
			}
		}
	})
}

// TestTopicsThatHangDelayNobody: ten topics of each priority whose endpoints hang for 10 s, and one with 50 jobs a
// second.
func TestTopicsThatHangDelayNobody(t *testing.T) {
	for _, letter := range []string{"h", "n", "l"} {
		topics := map[string]int{"l-quick": 0, "h-quick": 0}
		for i := range 10 {
			topics[fmt.Sprint(letter, i)] = 500
		}
		latency := func(topic string) time.Duration {
			if len(topic) > 2 {
				return 5 * time.Millisecond
			}
			return 10 * time.Second
		}
		for _, places := range []int{64} {
			scene{topics, latency, places, 2, 1, default532}.play(t, func(e *endpointsOf, shards []*rings) {
				var late []time.Duration
				for k := range 600 {
					topic := []string{"l-quick", "h-quick"}[k%2]
					shards[0].add(topic, 1)
					due, before := time.Now(), e.count(topic)
					for range 2 { // both dispatchers wait for work
						select {
						case shards[0].wake <- store.Wakeup{Kind: store.WakeDispatcher}:
						case <-time.After(100 * time.Microsecond):
						}
					}
					for e.count(topic) == before && time.Since(due) < time.Second {
						time.Sleep(time.Millisecond / 2)
					}
					late = append(late, time.Since(due))
					time.Sleep(20*time.Millisecond - min(time.Since(due), 19*time.Millisecond))
				}
				bad, most := 0, time.Duration(0)
				for _, l := range late {
					most = max(most, l)
					if l > 20*time.Millisecond {
						bad++
					}
				}
				if bad > 6 || most > 100*time.Millisecond { // by the fake clock: a busy machine delays none
					t.Errorf("%s hangs, %d places: %d of 600 were later than 20 ms, one %v", letter, places, bad, most)
				}
			})
		}
	}
}

func (e *endpointsOf) count(topic string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all[topic]
}
