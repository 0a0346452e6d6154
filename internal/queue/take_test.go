package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// pullTopics makes the named topics pull topics.
func (f *fixture) pullTopics(names ...string) {
	f.Helper()
	var list []TopicConf
	for _, name := range names {
		list = append(list, TopicConf{Name: name, TTR: time.Hour, MaxAttempts: 3, Pull: true})
	}
	f.setTopics(list...)
}

func (f *fixture) setTopics(list ...TopicConf) {
	f.Helper()
	if err := f.q.SetTopics(f.ctx, slices.Values(list)); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) take(n int, topics ...string) []Leased {
	f.Helper()
	return f.takeAs(TakeRequest{Topics: topics, Max: n})
}

func (f *fixture) takeAs(r TakeRequest) []Leased {
	f.Helper()
	jobs, err := f.q.Take(f.ctx, r)
	if err != nil {
		f.Fatal(err)
	}
	return jobs
}

func (f *fixture) end(e Ending) Ended {
	f.Helper()
	return f.q.End(f.ctx, []Ending{e})[0]
}

func (f *fixture) ended(e Ending) Ended {
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
	totals, err := f.q.Totals(f.ctx, topics)
	if err != nil {
		f.Fatal(err)
	}
	for _, topic := range topics {
		balances(f, topic, totals[topic])
	}
}

func idsOf(jobs []Leased) (ids []string) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func TestAWorkerTakesAndAcks(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0, func(p *Push) { p.Headers, p.ContentType = map[string]string{"X": "1"}, "text/plain" })
	f.push("t", "long", 0, func(p *Push) { p.Body = make([]byte, 2*longBody) })
	if ls := f.reserve(10); len(ls) != 0 {
		t.Fatalf("a dispatcher reserved %d jobs of a pull topic", len(ls))
	}
	jobs := f.take(10, "t")
	if !slices.Equal(idsOf(jobs), []string{"a", "long"}) || string(jobs[0].Body) != `{"id":"a"}` ||
		jobs[0].Attempt != 1 ||
		jobs[0].Headers["X"] != "1" || jobs[0].ContentType != "text/plain" || len(jobs[1].Body) != 2*longBody ||
		time.Until(jobs[0].LeaseUntil) < 50*time.Minute {
		t.Fatalf("took %+v", jobs)
	}
	f.stats("t", 0, 0, 2, 0)
	if again := f.take(10, "t"); len(again) != 0 {
		t.Fatalf("took %v twice", idsOf(again))
	}
	if ref, err := LeaseOf(jobs[0].Lease); err != nil || ref != (Ref{"t", "a"}) {
		t.Fatalf("lease of %v, %v", ref, err)
	}
	for _, j := range jobs {
		if d := f.ended(Ending{Lease: j.Lease}); d.State != "" || d.Attempt != 1 || d.Revision == 0 ||
			d.StartedAt.IsZero() {
			t.Fatalf("ack: %+v", d)
		}
		if d := f.end(Ending{Lease: j.Lease}); !errors.Is(d.Err, ErrLease) {
			t.Fatalf("second ack: %v", d.Err)
		}
	}
	f.gone("t", "a")
	f.balancedTopics("t")
	f.clean()
}

// TestALeaseThatACallNamesTwiceEndsOnce: two workers may end the same lease, and their requests can share a call.
func TestALeaseThatACallNamesTwiceEndsOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	all := []Verb{Ack, GiveBack, Untake, Fail, BuryLeased}
	for _, first := range all {
		for _, second := range append(all, ExtendLeased) {
			id := fmt.Sprint(first, "-", second)
			f.push("t", id, 0)
			lease := f.take(1, "t")[0].Lease
			done := f.q.End(f.ctx, []Ending{{Lease: lease, Verb: first}, {Lease: lease, Verb: second}})
			if done[0].Err != nil || !errors.Is(done[1].Err, ErrLease) || done[1].Revision != 0 {
				t.Errorf("%s: %+v", id, done)
			}
			if first != Ack {
				f.ended(Ending{Ref: Ref{"t", id}, In: []State{done[0].State}, Verb: Ack})
			}
			f.gone("t", id)
		}
	}
	f.balancedTopics("t")
	f.clean()
}

func TestALeaseThatIsForgedEndsNothing(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t", "u")
	f.push("t", "a", 0)
	f.push("t", "b", 0)
	f.push("u", "a", 0)
	good, err := parseTicket(f.take(1, "t")[0].Lease)
	if err != nil {
		t.Fatal(err)
	}
	f.take(2, "t", "u")
	for name, forge := range map[string]func(*ticket){
		"topic": func(x *ticket) { x.topic = "u" }, "id": func(x *ticket) { x.id = "b" },
		"token": func(x *ticket) { x.token = "12345678" }, "reference": func(x *ticket) { x.ref += 4 },
		"shard": func(x *ticket) { x.shard = "other" },
	} {
		bad := good
		forge(&bad)
		if d := f.end(Ending{Lease: bad.String()}); !errors.Is(d.Err, ErrLease) {
			t.Errorf("forged %s: %+v", name, d)
		}
	}
	for _, text := range []string{"", "x", "****", strings.Repeat("A", 9000), "AQ", "AQFh"} {
		if d := f.end(Ending{Lease: text}); text != "" && !errors.Is(d.Err, ErrLease) {
			t.Errorf("lease %.20q: %+v", text, d)
		}
	}
	f.ended(Ending{Lease: good.String()})
}

func TestWhatBecomesOfALease(t *testing.T) {
	f := newFixture(t)
	f.setTopics(TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 2, Pull: true})
	f.push("t", "a", 0)
	one := func() Leased {
		t.Helper()
		jobs := f.take(1, "t")
		if len(jobs) != 1 {
			t.Fatalf("took %d jobs", len(jobs))
		}
		return jobs[0]
	}
	d := f.ended(Ending{Lease: one().Lease, Verb: GiveBack, Delay: time.Hour})
	if j := f.get("t", "a"); d.State != Delayed || j.State != Delayed || j.Attempts != 0 || !j.NextAt.Equal(d.At) {
		t.Fatalf("released for an hour: %+v, %+v", d, j)
	}
	if _, err := f.q.RunNow(f.ctx, "t", "a"); err != nil {
		t.Fatal(err)
	}
	f.ended(Ending{Lease: one().Lease, Verb: GiveBack})
	j := one()
	if d := f.ended(Ending{Lease: j.Lease, Verb: ExtendLeased, TTR: time.Hour}); time.Until(d.At) < 50*time.Minute {
		t.Fatalf("extended until %v", d.At)
	}
	d = f.ended(Ending{Lease: j.Lease, Verb: Fail, Error: "no stock", Retry: []time.Duration{time.Minute, time.Hour}})
	got := f.get("t", "a")
	if d.State != Delayed || d.Attempt != 1 || got.Attempts != 1 || len(got.History) != 1 ||
		got.History[0].Error != "no stock" || got.History[0].N != 1 || time.Until(got.NextAt) > time.Minute {
		t.Fatalf("failed: %+v, %+v", d, got)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a")
	if d := f.ended(Ending{Lease: one().Lease, Verb: Fail}); d.State != Dead || d.Attempt != 2 {
		t.Fatalf("failed for the last time: %+v", d)
	}
	if got := f.get("t", "a"); got.DeadReason != "attempts" || len(got.History) != 2 {
		t.Fatalf("dead: %+v", got)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a")
	f.ended(Ending{Lease: one().Lease, Verb: BuryLeased, Error: "bad"})
	if got := f.get("t", "a"); got.State != Dead || got.DeadReason != "buried" || got.History[2].Error != "bad" {
		t.Fatalf("buried: %+v", got)
	}
	f.balancedTopics("t")
}

func TestAnExpiredLeaseOfAWorkerCounts(t *testing.T) {
	f := newFixture(t)
	f.setTopics(TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 2, Pull: true},
		TopicConf{Name: "ever", TTR: time.Millisecond, Pull: true})
	f.push("t", "a", 0)
	expire := func() {
		if jobs := f.takeAs(TakeRequest{Topics: []string{"t"}, Max: 1, TTR: time.Millisecond}); len(jobs) != 1 {
			t.Fatalf("took %d jobs", len(jobs))
		}
		eventually(t, "the lease expires", func() bool { return f.advance().Expired == 1 })
	}
	expire()
	if j := f.get("t", "a"); j.State != Ready || j.Attempts != 1 {
		t.Fatalf("after one lease: %+v", j)
	}
	expire()
	if j := f.get("t", "a"); j.State != Dead || j.DeadReason != "lease" {
		t.Fatalf("after two: %+v", j)
	}
	f.push("ever", "a", 0)
	for n := range 5 {
		if jobs := f.take(1, "ever"); len(jobs) != 1 || jobs[0].Attempt != n+1 {
			t.Fatalf("attempt %d: %+v", n+1, jobs)
		}
		eventually(t, "the lease expires", func() bool { return f.advance().Expired == 1 })
	}
	jobs := f.takeAs(TakeRequest{Topics: []string{"ever"}, Max: 1, TTR: time.Minute})
	f.ended(Ending{Lease: jobs[0].Lease, Verb: Fail, Retry: []time.Duration{time.Hour}})
	if j := f.get("ever", "a"); j.State != Delayed || j.Attempts != 6 || len(j.History) != 6 || j.History[4].N != 5 {
		t.Fatalf("failed: %+v", j)
	}
	f.balancedTopics("t", "ever")
}

func TestTheOrderOfTopics(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("a", "b", "c")
	for i := range 30 {
		for _, topic := range []string{"a", "b", "c"} {
			f.push(topic, fmt.Sprint(i), 0)
		}
	}
	count := map[string]int{}
	for range 15 {
		jobs := f.take(1, "a", "b", "c")
		count[jobs[0].Topic]++
	}
	if count["a"] != 5 || count["b"] != 5 || count["c"] != 5 {
		t.Errorf("in turn: %v", count)
	}
	if got := f.takeAs(TakeRequest{Topics: []string{"c", "a"}, Order: Listed, Max: 27}); len(got) != 27 ||
		got[24].Topic != "c" || got[25].Topic != "a" || got[0].ID != "5" {
		t.Errorf("listed: %v", idsOf(got))
	}
	for i := range 100 {
		for p := High; p <= Low; p++ {
			f.push("b", fmt.Sprint(p, i), 0, func(x *Push) { x.Priority = p })
		}
	}
	f.take(25, "b") // the rest of the previous take, or more
	by := map[Priority]int{}
	for range 100 {
		by[f.take(1, "b")[0].Priority]++
	}
	if by[High] != 50 || by[Normal] != 30 || by[Low] != 20 {
		t.Errorf("priorities: %v", by)
	}
}

func TestLimitsHoldForWorkers(t *testing.T) {
	f := newFixture(t)
	conf := TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 3, Pull: true, MaxInFlight: 2}
	f.setTopics(conf)
	for i := range 10 {
		f.push("t", fmt.Sprint(i), 0)
	}
	jobs := f.take(5, "t")
	if len(jobs) != 2 || len(f.take(5, "t")) != 0 {
		t.Fatalf("took %d; want 2, and then none", len(jobs))
	}
	f.ended(Ending{Lease: jobs[0].Lease})
	if n := len(f.take(5, "t")); n != 1 {
		t.Fatalf("took %d after an ack; want 1", n)
	}
	conf.MaxInFlight, conf.RateLimit = 0, 1
	f.setTopics(conf)
	if n := len(f.take(5, "t")); n != 1 {
		t.Fatalf("took %d at one a second", n)
	}
	conf.RateLimit, conf.Paused = 0, true
	f.setTopics(conf)
	if n := len(f.take(5, "t")); n != 0 {
		t.Fatalf("took %d of a paused topic", n)
	}
	conf.Paused = false
	f.setTopics(conf)
	if n := len(f.take(5, "t")); n != 5 {
		t.Fatalf("took %d when it was resumed", n)
	}
}

func TestATopicChangesItsDelivery(t *testing.T) {
	f := newFixture(t)
	f.push("t", "a", 0)
	f.push("t", "b", 0)
	f.pullTopics("t")
	if ls := f.reserve(10); len(ls) != 0 {
		t.Fatalf("a dispatcher reserved %d", len(ls))
	}
	jobs := f.take(1, "t")
	if len(jobs) != 1 {
		t.Fatal("a worker took nothing")
	}
	f.setTopics(TopicConf{Name: "t", TTR: time.Minute, MaxAttempts: 3})
	if got := f.take(10, "t"); len(got) != 0 {
		t.Fatalf("a worker took %v of a push topic", idsOf(got))
	}
	f.ended(Ending{Lease: jobs[0].Lease, Verb: GiveBack})
	if ls := f.reserve(10); len(ls) != 2 {
		t.Fatalf("a dispatcher reserved %d; want 2", len(ls))
	}
}

// TestWorkersMayAwaitThousandsOfTopics: the topics of many workers share one call.
func TestWorkersMayAwaitThousandsOfTopics(t *testing.T) {
	f := newFixture(t)
	names := make([]string, 9000)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	if _, err := f.s.Take(f.ctx, 0, nil, names); err != nil {
		t.Error(err)
	}
	if n := f.s.client.ZCard(f.ctx, prefix(0)+"awaited").Val(); n != 9000 {
		t.Errorf("%d topics are awaited", n)
	}
}

// TestATakeOfManyTopicsIsManyCalls: a single call for all of them would block the shard.
func TestATakeOfManyTopicsIsManyCalls(t *testing.T) {
	f := newFixture(t)
	names := make([]string, 9000)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	last := names[len(names)-1]
	f.pullTopics(last)
	f.push(last, "a", 0)
	var asked []string
	for _, at := range f.q.Spots(names, Listed) {
		if asked = append(asked, at.Topics...); len(at.Topics) > 500 {
			t.Errorf("one call has %d topics", len(at.Topics))
		}
	}
	if !slices.Equal(asked, names) {
		t.Errorf("the calls have %d topics, want %d in their order", len(asked), len(names))
	}
	jobs, err := f.q.Take(f.ctx, TakeRequest{Topics: names, Max: 1, Order: Listed})
	if err != nil || len(jobs) != 1 || jobs[0].Topic != last {
		t.Errorf("took %+v, %v", jobs, err)
	}
}

// TestNotingManyTopicsIsOneRound: hubs register all awaited topics again and again, so the cost must not grow with
// their number. The answer has the topics with ready jobs.
func TestNotingManyTopicsIsOneRound(t *testing.T) {
	f := newFixture(t)
	names := make([]string, 400)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	f.pullTopics(names...)
	f.push("t7", "a", 0)
	cost := func(some []string) (calls int64) {
		before := f.calls()
		taken, err := f.s.Take(f.ctx, 0, nil, some)
		if err != nil || !slices.Equal(taken.More, []string{"t7"}) {
			t.Fatalf("more of %v, %v", taken.More, err)
		}
		return f.calls() - before
	}
	cost(names) // loads the script
	if few, many := cost(names[:10]), cost(names); many > few {
		t.Errorf("%d commands for 10 topics, %d for 400", few, many)
	}
}

// calls returns the number of commands that Redis has processed, including those in scripts.
func (f *fixture) calls() (n int64) {
	text := f.s.client.Info(f.ctx, "stats").Val()
	_, text, _ = strings.Cut(text, "total_commands_processed:")
	if _, err := fmt.Sscan(text, &n); err != nil {
		f.Fatal(err)
	}
	return n
}

func TestExtrasSurviveAChange(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", time.Hour, func(p *Push) {
		p.Retry, p.Headers = []time.Duration{time.Second, time.Minute}, map[string]string{"k": "v"}
		p.TTR, p.MaxAttempts, p.ContentType, p.TTL = time.Second, 9, "text/x", 2*time.Hour
	})
	body := []byte("changed")
	now := time.Duration(0)
	if _, err := f.q.Change(f.ctx, "t", "a", Change{Body: &body, Delay: &now}); err != nil {
		t.Fatal(err)
	}
	j := f.take(1, "t")[0]
	if string(j.Body) != "changed" || j.Headers["k"] != "v" || len(j.Retry) != 2 || j.ContentType != "text/x" ||
		j.ExpiresAt.IsZero() || j.MaxAttempts != 9 {
		t.Fatalf("changed: %+v", j.Job)
	}
	if d := f.ended(Ending{Lease: j.Lease, Verb: Fail,
		Retry: []time.Duration{time.Hour}}); time.Until(d.At) > 2*time.Second {
		t.Fatalf("its own retry wait is ignored: due again at %v", d.At)
	}
	_, _ = f.q.RunNow(f.ctx, "t", "a")
	f.ended(Ending{Lease: f.take(1, "t")[0].Lease, Verb: BuryLeased})
	if n, err := f.q.RedriveAs(f.ctx, "t", 1, Renewal{MaxAttempts: 1, TTL: time.Minute}); n != 1 || err != nil {
		t.Fatalf("re-drove %d, %v", n, err)
	}
	j = f.take(1, "t")[0]
	if j.MaxAttempts != 1 || time.Until(j.ExpiresAt) > time.Minute || j.ExpiresAt.IsZero() ||
		j.ContentType != "text/x" ||
		j.Headers["k"] != "v" || string(j.Body) != "changed" || j.TTR != time.Second || j.Attempt != 1 {
		t.Fatalf("redriven: %+v", j)
	}
}

// TestJobsAreEndedByTheirIds, which older protocols need because they have no leases.
func TestJobsAreEndedByTheirIds(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	states := map[string]State{"delayed": Delayed, "ready": Ready, "running": Running, "dead": Dead}
	f.push("t", "running", 0)
	f.take(1, "t")
	f.push("t", "dead", 0)
	f.ended(Ending{Lease: f.take(1, "t")[0].Lease, Verb: BuryLeased})
	f.push("t", "ready", 0)
	f.push("t", "delayed", time.Hour)
	for id, was := range states {
		if d := f.end(Ending{Ref: Ref{"t", id}, In: []State{Spooled}}); !errors.Is(d.Err, ErrState) || d.Was != was {
			t.Errorf("%s in no state: %+v", id, d)
		}
		if was != Running {
			if d := f.end(Ending{Ref: Ref{"t", id}}); !errors.Is(d.Err, ErrState) {
				t.Errorf("%s has no lease to end: %+v", id, d)
			}
		}
	}
	if d := f.end(Ending{Ref: Ref{"t", "none"}}); !errors.Is(d.Err, ErrNotFound) {
		t.Errorf("an unknown job: %+v", d)
	}
	if d := f.ended(Ending{Ref: Ref{"t", "dead"}, In: []State{Dead}, Verb: GiveBack,
		Delay: time.Hour}); d.State != Delayed {
		t.Errorf("kicked: %+v", d)
	}
	if d := f.ended(Ending{Ref: Ref{"t", "running"}, Verb: BuryLeased}); d.State != Dead || d.Attempt != 1 {
		t.Errorf("buried by its id: %+v", d)
	}
	for id := range states {
		d := f.ended(Ending{Ref: Ref{"t", id}, In: []State{Delayed, Ready, Running, Dead}})
		if d.State != "" {
			t.Errorf("%s: %+v", id, d)
		}
	}
	f.balancedTopics("t")
	f.clean()
}

// TestAFarJobStaysInItsPage: it would be in two places if it were retried, buried or released by its id.
func TestAFarJobStaysInItsPage(t *testing.T) {
	f := newFixture(t)
	f.thinUpTo(0)
	f.pullTopics("t")
	f.push("t", "a", time.Hour)
	for _, verb := range []Verb{GiveBack, Untake, Fail, BuryLeased, ExtendLeased} {
		d := f.end(Ending{Ref: Ref{"t", "a"}, In: []State{Delayed}, Verb: verb})
		if !errors.Is(d.Err, ErrState) || d.Was != Delayed {
			t.Errorf("%s: %+v", verb, d)
		}
		f.stats("t", 1, 0, 0, 0)
	}
	f.ended(Ending{Ref: Ref{"t", "a"}, In: []State{Delayed}})
	f.balancedTopics("t")
	f.clean()
}

// TestAReadyJobThatIsEndedByItsIDIsTakenOnce: released to the front, delayed or buried, it is in its list at most once.
func TestAReadyJobThatIsEndedByItsIDIsTakenOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	for _, id := range []string{"first", "second", "late", "dead"} {
		f.push("t", id, 0)
	}
	ready := []State{Ready}
	f.ended(Ending{Ref: Ref{"t", "second"}, In: ready, Verb: Untake})
	f.ended(Ending{Ref: Ref{"t", "late"}, In: ready, Verb: GiveBack, Delay: time.Hour})
	f.ended(Ending{Ref: Ref{"t", "dead"}, In: ready, Verb: BuryLeased})
	jobs := f.take(10, "t")
	if len(jobs) != 2 || jobs[0].ID != "second" || jobs[1].ID != "first" {
		t.Errorf("took %+v", jobs)
	}
	f.stats("t", 1, 0, 2, 1)
}

// TestAJobThatTwoMakeReadyAtOnceIsTakenOnce: requests for one job can share a call of the script.
func TestAJobThatTwoMakeReadyAtOnceIsTakenOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0)
	f.ended(Ending{Lease: f.take(1, "t")[0].Lease, Verb: BuryLeased})
	ref, in := Ref{"t", "a"}, []State{Ready, Dead}
	for _, d := range f.s.end(f.ctx, 0, []Ending{
		{Ref: ref, In: in, Verb: GiveBack}, {Ref: ref, In: in, Verb: Untake}, {Ref: ref, In: in, Verb: GiveBack},
	}) {
		if d.Err != nil || d.Job == nil || d.Job.State != Ready {
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
	f.ended(Ending{Ref: Ref{"t", "a"}, In: []State{Delayed}, Verb: GiveBack})
	high := High
	if j, err := f.q.Change(f.ctx, "t", "a", Change{Priority: &high}); err != nil || j.State != Ready {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestALeaseOutlivesTheNameOfItsShard(t *testing.T) {
	url, _ := startRedis(t)
	f := fixtureOn(t, url, Options{})
	f.pullTopics("t")
	f.push("t", "a", 0)
	lease := f.take(1, "t")[0].Lease
	renamed := []ShardConfig{{Name: "b", URL: url, State: "active", Former: "first a"}}
	if err := f.q.SetShards(f.ctx, renamed); err != nil {
		t.Fatal(err)
	}
	f.ended(Ending{Lease: lease})
}

// TestAWorkerThatLeftTakesNothing: a worker that disconnects before the call, or before its answer, gets no job.
func TestAWorkerThatLeftTakesNothing(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0)
	gone := TakeRequest{Topics: []string{"t"}, Max: 1, Alive: func() bool { return false }}
	if jobs, err := f.q.Take(f.ctx, gone); len(jobs) != 0 {
		t.Fatalf("a disconnected worker took %v, %v", idsOf(jobs), err)
	}
	f.stats("t", 0, 1, 0, 0)
	ctx, cancel := context.WithCancel(f.ctx)
	leaves := TakeRequest{Topics: []string{"t"}, Max: 1, Alive: func() bool { cancel(); return true }}
	if jobs, err := f.q.Take(ctx, leaves); len(jobs) != 0 && err == nil {
		f.ended(Ending{Lease: jobs[0].Lease, Verb: Untake}) // the answer arrived first
	}
	eventually(t, "its job is ready again", func() bool {
		j := f.get("t", "a")
		return j.State == Ready && j.Attempts == 0
	})
}

// TestALostAnswerTakesNothing: the answer to a script call is lost, and the call is repeated.
func TestALostAnswerTakesNothing(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0)
	c := &takeCall{requests: []TakeRequest{{Topics: []string{"t"}, Max: 1}}, answered: newAnswered[Taken]()}
	fl := flight{s: f.s, name: "test/0", calls: []*takeCall{c}}
	fl.encode("token")
	if err := fl.call(); err != nil || len(fl.groups[0].jobs) != 1 {
		t.Fatalf("took %v, %v", fl.groups[0].jobs, err)
	}
	f.push("t", "b", 0)
	fl.recover()
	f.stats("t", 0, 2, 0, 0)
	if j := f.get("t", "a"); j.Attempts != 0 {
		t.Fatalf("it counts %d attempts", j.Attempts)
	}
	if got := f.take(2, "t"); !slices.Equal(idsOf(got), []string{"a", "b"}) {
		t.Fatalf("took %v", idsOf(got))
	}
}

// TestRequestsOfOneCallAreSharedOut: each gets at most as many jobs as it requested, with its own TTR, and none of
// those whose worker disconnected.
func TestRequestsOfOneCallAreSharedOut(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t", "u")
	for i := range 6 {
		f.push("t", fmt.Sprint(i), 0)
	}
	f.push("u", "other", 0)
	ask := func(topic string, most int, ttr time.Duration) TakeRequest {
		return TakeRequest{Topics: []string{topic}, Max: most, TTR: ttr}
	}
	left := ask("t", 9, 0)
	left.Alive = func() bool { return false }
	c := &takeCall{answered: newAnswered[Taken](), requests: []TakeRequest{
		ask("t", 2, 0), ask("t", 1, time.Hour), left, ask("u", 1, 0), ask("t", 9, 0), ask("t", 9, 0),
	}}
	fl := flight{s: f.s, name: "test/0", calls: []*takeCall{c}}
	fl.fly()
	taken, err := c.answered.await(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, jobs := range taken.Jobs {
		got = append(got, idsOf(jobs))
	}
	want := [][]string{{"0", "1"}, {"2"}, nil, {"other"}, {"3", "4", "5"}, nil}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("they got %q, not %q", got, want)
	}
	if long := taken.Jobs[1][0].For; long != time.Hour {
		t.Errorf("the lease of an hour lasts %s", long)
	}
	for _, e := range f.q.End(f.ctx, Untaken(slices.Concat(taken.Jobs...))) {
		if e.Err != nil {
			t.Error(e.Err)
		}
	}
}

// TestAReadyJobIsAnnouncedOnce: a wake-up names awaited topics only, and once.
func TestAReadyJobIsAnnouncedOnce(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t", "other", "x.*")
	wake := f.s.PullWakeups(f.ctx)
	if w := <-wake; w.Kind != WakeReconnect {
		t.Fatalf("first %+v", w)
	}
	ask := TakeRequest{Topics: []string{"t", "x.q"}, Max: 1}
	f.push("other", "a", 0)
	taken, err := f.s.Take(f.ctx, 0, []TakeRequest{ask}, ask.Topics)
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
	if taken, err = f.s.Take(f.ctx, 0, []TakeRequest{ask}, ask.Topics); err != nil ||
		!slices.Equal(taken.More, []string{"t"}) &&
			!slices.Equal(taken.More, []string{"t", "x.q"}) || len(taken.Jobs[0]) != 1 {
		t.Fatalf("then took %+v, %v", taken, err)
	}
}

func zeroScore(member string) redis.ZAddArgs {
	return redis.ZAddArgs{Members: []redis.Z{{Score: 0, Member: member}}}
}
