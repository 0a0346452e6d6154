package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/store"
)

// pullTopics makes the named topics pull topics.
func (f *fixture) pullTopics(names ...string) {
	f.Helper()
	var list []store.TopicConf
	for _, name := range names {
		list = append(list, store.TopicConf{Name: name, TTR: time.Hour, MaxAttempts: 3, Pull: true})
	}
	f.setTopics(list...)
}

func (f *fixture) setTopics(list ...store.TopicConf) {
	f.Helper()
	if err := f.q.SetTopics(f.ctx, slices.Values(list)); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) take(n int, topics ...string) []store.Job {
	f.Helper()
	return f.takeAs(store.TakeRequest{Topics: topics, Max: n})
}

func (f *fixture) takeAs(r store.TakeRequest) []store.Job {
	f.Helper()
	jobs, err := f.q.Take(f.ctx, r)
	if err != nil {
		f.Fatal(err)
	}
	return jobs
}

func (f *fixture) end(e store.End) store.Ended {
	f.Helper()
	return f.q.End(f.ctx, []store.End{e})[0]
}

func (f *fixture) ended(e store.End) store.Ended {
	f.Helper()
	d := f.end(e)
	if d.Err != nil {
		f.Fatal(d.Err)
	}
	return d
}

// balanced fails if the totals of a topic do not add up.
func (f *fixture) balancedTopics(topics ...string) {
	f.Helper()
	totals, err := f.figures().Totals(f.ctx, topics)
	if err != nil {
		f.Fatal(err)
	}
	for _, topic := range topics {
		balances(f, topic, totals[topic])
	}
}

func idsOf(jobs []store.Job) (ids []string) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func TestAWorkerTakesAndAcks(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0, func(p *store.Push) { p.Headers, p.ContentType = map[string]string{"X": "1"}, "text/plain" })
	f.push("t", "long", 0, func(p *store.Push) { p.Body = make([]byte, 2*store.LongBody) })
	if ls := f.reserve(10); len(ls) != 0 {
		t.Fatalf("a dispatcher reserved %d jobs of a pull topic", len(ls))
	}
	jobs := f.take(10, "t")
	if !slices.Equal(idsOf(jobs), []string{"a", "long"}) || string(jobs[0].Body) != `{"id":"a"}` ||
		jobs[0].Lease.Attempt != 1 ||
		jobs[0].Headers["X"] != "1" || jobs[0].ContentType != "text/plain" || len(jobs[1].Body) != 2*store.LongBody ||
		time.Until(jobs[0].LeaseUntil) < 50*time.Minute {
		t.Fatalf("took %+v", jobs)
	}
	f.stats("t", 0, 0, 2, 0)
	if again := f.take(10, "t"); len(again) != 0 {
		t.Fatalf("took %v twice", idsOf(again))
	}
	if l := jobs[0].Lease; l.Ref != (store.Ref{"t", "a"}) {
		t.Fatalf("lease of %v", l.Ref)
	}
	for _, j := range jobs {
		if d := f.ended(store.End{Lease: j.Lease, Verb: store.Done}); d.State != "" || d.Attempt != 1 || d.Revision == 0 ||
			d.StartedAt.IsZero() {
			t.Fatalf("ack: %+v", d)
		}
		if d := f.end(store.End{Lease: j.Lease, Verb: store.Done}); !errors.Is(d.Err, store.ErrLease) {
			t.Fatalf("second ack: %v", d.Err)
		}
	}
	f.gone("t", "a")
	f.balancedTopics("t")
	f.clean()
}

func TestExtrasSurviveAChange(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", time.Hour, func(p *store.Push) {
		p.Retry, p.Headers = []time.Duration{time.Second, time.Minute}, map[string]string{"k": "v"}
		p.TTR, p.MaxAttempts, p.ContentType, p.TTL = time.Second, 9, "text/x", 2*time.Hour
	})
	body := []byte("changed")
	now := time.Duration(0)
	if _, err := f.q.Change(f.ctx, "t", "a", store.Change{Body: &body, Delay: &now}); err != nil {
		t.Fatal(err)
	}
	j := f.take(1, "t")[0]
	if string(j.Body) != "changed" || j.Headers["k"] != "v" || len(j.Retry) != 2 || j.ContentType != "text/x" ||
		j.ExpiresAt.IsZero() || j.MaxAttempts != 9 {
		t.Fatalf("changed: %+v", j)
	}
	if d := f.ended(store.End{Lease: j.Lease, Verb: store.Fail,
		Retry: []time.Duration{time.Hour}}); time.Until(d.At) > 2*time.Second {
		t.Fatalf("its own retry wait is ignored: due again at %v", d.At)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a", nil)
	f.ended(store.End{Lease: f.take(1, "t")[0].Lease, Verb: store.Bury})
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "t", As: &store.Renewal{MaxAttempts: 1, TTL: time.Minute}, Limit: 1}); n != 1 || err != nil {
		t.Fatalf("re-drove %d, %v", n, err)
	}
	j = f.take(1, "t")[0]
	if j.MaxAttempts != 1 || time.Until(j.ExpiresAt) > time.Minute || j.ExpiresAt.IsZero() ||
		j.ContentType != "text/x" ||
		j.Headers["k"] != "v" || string(j.Body) != "changed" || j.TTR != time.Second || j.Lease.Attempt != 1 {
		t.Fatalf("redriven: %+v", j)
	}
}

// TestAJobThatTwoMakeReadyAtOnceIsTakenOnce: requests for one job can share a call of the script.
func TestAJobThatTwoMakeReadyAtOnceIsTakenOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0)
	f.ended(store.End{Lease: f.take(1, "t")[0].Lease, Verb: store.Bury})
	ref, in := store.Ref{"t", "a"}, []store.State{store.Ready, store.Dead}
	for _, d := range f.b.EndTogether(f.ctx, []store.End{
		{Ref: ref, In: in, Verb: store.Release}, {Ref: ref, In: in, Verb: store.Release, AtHead: true},
		{Ref: ref, In: in, Verb: store.Release},
	}) {
		if d.Err != nil || d.Job == nil || d.Job.State != store.Ready {
			t.Fatalf("%+v", d)
		}
	}
	if jobs := f.take(5, "t"); len(jobs) != 1 {
		t.Errorf("took %v", idsOf(jobs))
	}
	f.stats("t", 0, 0, 1, 0)
}

// TestAJobIsReadyUntilItIsPutOff: a job that was made ready before its due time stays ready when it is changed.
func TestAJobIsReadyUntilItIsPutOff(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", time.Hour)
	f.ended(store.End{Ref: store.Ref{"t", "a"}, In: []store.State{store.Delayed}, Verb: store.Release})
	high := store.High
	if j, err := f.q.Change(f.ctx, "t", "a", store.Change{Priority: &high}); err != nil || j.State != store.Ready {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestAWorkerThatLeftTakesNothing: a worker that disconnects before the call, or before its answer, gets no job.
func TestAWorkerThatLeftTakesNothing(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0)
	gone := store.TakeRequest{Topics: []string{"t"}, Max: 1, Alive: func() bool { return false }}
	if jobs, err := f.q.Take(f.ctx, gone); len(jobs) != 0 {
		t.Fatalf("a disconnected worker took %v, %v", idsOf(jobs), err)
	}
	f.stats("t", 0, 1, 0, 0)
	ctx, cancel := context.WithCancel(f.ctx)
	leaves := store.TakeRequest{Topics: []string{"t"}, Max: 1, Alive: func() bool { cancel(); return true }}
	if jobs, err := f.q.Take(ctx, leaves); len(jobs) != 0 && err == nil {
		f.ended(store.End{Lease: jobs[0].Lease, Verb: store.Release, AtHead: true}) // the answer arrived first
	}
	eventually(t, "its job is ready again", func() bool {
		j := f.get("t", "a")
		return j.State == store.Ready && j.Attempts == 0
	})
}

func (f *fixture) takeOf(topic, token string) *store.TakeBatch {
	return store.TakeForTest(f.s, topic, token)
}

// TestALostAnswerTakesNothing: the answer to a script call is lost, and the call is repeated.
func TestALostAnswerTakesNothing(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0)
	take := f.takeOf("t", "token")
	if err := take.CallForTest(); err != nil || len(take.GroupsForTest()[0].JobsForTest()) != 1 {
		t.Fatalf("took %v, %v", take.GroupsForTest()[0].JobsForTest(), err)
	}
	f.push("t", "b", 0)
	take.RecoverForTest()
	f.stats("t", 0, 2, 0, 0)
	if j := f.get("t", "a"); j.Attempts != 0 {
		t.Fatalf("it counts %d attempts", j.Attempts)
	}
	if got := f.take(2, "t"); !slices.Equal(idsOf(got), []string{"a", "b"}) {
		t.Fatalf("took %v", idsOf(got))
	}
}

// TestAReadyJobIsAnnouncedOnce: a wake-up names awaited topics only, and once.
func TestAReadyJobIsAnnouncedOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t", "other", "x.*")
	wake := f.b.PullWakeups(f.ctx)
	if w := <-wake; w.Kind != store.WakeReconnect {
		t.Fatalf("first %+v", w)
	}
	ask := store.TakeRequest{Topics: []string{"t", "x.q"}, Max: 1}
	f.push("other", "a", 0)
	taken, err := f.b.Take(f.ctx, []store.TakeRequest{ask}, ask.Topics)
	if err != nil || len(taken.Jobs[0]) != 0 || len(taken.More) != 0 {
		t.Fatalf("took %+v, %v", taken, err)
	}
	for i := range 3 {
		f.push("t", fmt.Sprint(i), 0)
	}
	f.push("x.q", "a", 0)
	told := (<-wake).About + " " + (<-wake).About
	if told != "t x.q" {
		t.Errorf("told %q", told)
	}
	if taken, err = f.b.Take(f.ctx, []store.TakeRequest{ask}, ask.Topics); err != nil ||
		!slices.Equal(taken.More, []string{"t"}) &&
			!slices.Equal(taken.More, []string{"t", "x.q"}) || len(taken.Jobs[0]) != 1 {
		t.Fatalf("then took %+v, %v", taken, err)
	}
}

func zeroScore(member string) redis.ZAddArgs {
	return redis.ZAddArgs{Members: []redis.Z{{Score: 0, Member: member}}}
}
