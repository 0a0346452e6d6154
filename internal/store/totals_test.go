package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// balances checks the ledger: every accepted job has ended or exists.
func balances(t interface {
	Helper()
	Errorf(string, ...any)
}, topic string, x observe.TopicTotals) {
	t.Helper()
	living := x.Delayed + x.Ready + x.Running + x.Stats.Dead
	ended := x.Total.Delivered + x.Total.Deleted + x.Total.Dropped + x.Total.Replaced
	if x.Total.Pushed != ended+living {
		t.Errorf("%s: %d were pushed, %d ended and %d exist: %+v", topic, x.Total.Pushed, ended, living, x.Total)
	}
}

func (f *fixture) totals(topic string) observe.TopicTotals {
	f.Helper()
	all, err := f.figures().Totals(f.ctx, []string{topic})
	if err != nil {
		f.Fatal(err)
	}
	balances(f, topic, all[topic])
	return all[topic]
}

func TestTotalsCountWhatHappened(t *testing.T) {
	f := newFixture(t)
	for i := range 8 {
		f.push("t", fmt.Sprint(i), 0)
	}
	f.push("t", "later", time.Hour)
	f.push("t", "later", 2*time.Hour, func(p *store.Push) { p.OnDuplicate = store.Replace })
	f.push("t", "later", 3*time.Hour) // kept: nothing changes
	jobs := f.reserve(8)
	f.settle(store.Done, nil, jobs[0], jobs[1])
	f.settle(store.Retry, func(s *store.End) { s.Delay, s.Attempt = time.Hour, &store.Attempt{} }, jobs[2])
	f.settle(store.Snooze, func(s *store.End) { s.Delay, s.Attempt = time.Hour, &store.Attempt{} }, jobs[3])
	f.settle(store.Bury, func(s *store.End) { s.Attempt = &store.Attempt{} }, jobs[4], jobs[5])
	f.settle(store.Expire, nil, jobs[6])
	if err := f.q.Delete(f.ctx, "t", "later", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: "t", IDs: []string{jobs[4].ID}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "t", IDs: []string{jobs[5].ID}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.q.RunNow(f.ctx, "t", jobs[6].ID, nil); err != nil {
		t.Fatal(err)
	}
	got := f.totals("t")
	want := observe.Totals{
		Pushed: 10, Delivered: 2, Failed: 3, Retried: 1, Snoozed: 1, Deleted: 1, Died: 3, Expired: 1, Redriven: 2,
		Dropped: 1, Replaced: 1,
	}
	if got.Total != want || got.Today != want || len(got.Days) != 0 {
		t.Errorf("totals are\n%+v, today\n%+v, want\n%+v; earlier days %v", got.Total, got.Today, want, got.Days)
	}
	if active, err := f.figures().Active(f.ctx, time.Now().Add(-time.Minute)); err != nil || len(active) != 1 ||
		active[0] != "t" {
		t.Errorf("active are %v, %v", active, err)
	}
	if active, err := f.figures().Active(f.ctx, time.Now().Add(time.Minute)); err != nil || len(active) > 1 {
		t.Errorf("active in future are %v, %v", active, err)
	}
}

// TestADayEnds: the totals of the days add up, also after days without events.
func TestADayEnds(t *testing.T) {
	f := newFixture(t)
	today := time.Now().UTC()
	rewind := func(days int) {
		t.Helper()
		at := float64(today.AddDate(0, 0, -days).UnixMilli())
		key, now := store.Prefix(0)+"t:t", today.Unix()/86400
		before := f.s.Redis().HGet(f.ctx, key, fmt.Sprint("day:", now)).Val()
		if err := errors.Join(
			f.s.Redis().HSet(f.ctx, key, fmt.Sprint("day:", now-int64(days)), before).Err(),
			f.s.Redis().HDel(f.ctx, key, fmt.Sprint("day:", now)).Err(),
			f.s.Redis().ZAdd(f.ctx, store.Prefix(0)+"act", redis.Z{Score: at, Member: "t"}).Err(),
		); err != nil {
			t.Fatal(err)
		}
	}
	f.push("t", "1", time.Hour)
	f.push("t", "2", time.Hour)
	rewind(3) // they were pushed three days ago
	if got := f.totals("t"); got.Today.Pushed != 0 || got.Days[today.AddDate(0, 0, -3).Format("20060102")].Pushed != 2 {
		t.Errorf("before the first event of today: today %+v, days %+v", got.Today, got.Days)
	}
	f.push("t", "3", time.Hour)
	got := f.totals("t")
	if got.Total.Pushed != 3 || got.Today.Pushed != 1 ||
		got.Days[today.AddDate(0, 0, -3).Format("20060102")].Pushed != 2 || len(got.Days) != 1 {
		t.Errorf("total %d, today %d, days %+v", got.Total.Pushed, got.Today.Pushed, got.Days)
	}
	rewind(100)
	f.push("t", "4", time.Hour)
	rewind(50)
	f.push("t", "5", time.Hour)
	if got := f.totals("t"); len(got.Days) > 3 || got.Total.Pushed != 5 {
		t.Errorf("after many days without events %+v, days %+v", got.Total, got.Days)
	}
}

func TestAnIdIsFoundInManyTopics(t *testing.T) {
	f := newFixture(t)
	refs := func(id string) (list []store.Ref) {
		for i := range 1200 {
			list = append(list, store.Ref{Topic: fmt.Sprint("topic", i), ID: id})
		}
		return list
	}
	f.push("topic7", "order-42", time.Hour)
	f.push("topic1100", "order-42", 0)
	f.push("topic8", "order-43", 0)
	find := func(id string) map[string]store.State {
		jobs, err := f.q.Find(f.ctx, refs(id))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]store.State{}
		for _, j := range jobs {
			if j != nil {
				found[j.Topic] = j.State
			}
		}
		return found
	}
	if got := find("order-42"); !maps.Equal(got, map[string]store.State{"topic7": store.Delayed, "topic1100": store.Ready}) {
		t.Errorf("found %v", got)
	}
	if got := find("nobody"); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}

func TestTheForecastCountsWhatIsStored(t *testing.T) {
	f := newFixture(t)
	for _, delay := range []time.Duration{30 * time.Second, 90 * time.Second, 10*time.Minute + time.Second,
		3 * time.Hour, 30 * time.Hour} {
		for i := range 3 {
			f.push("t", fmt.Sprint(delay, i), delay)
		}
	}
	if err := f.q.Delete(f.ctx, "t", fmt.Sprint(3*time.Hour, 0), nil); err != nil {
		t.Fatal(err)
	}
	got, err := f.figures().Forecast(f.ctx, "t", observe.Day)
	if err != nil {
		t.Fatal(err)
	}
	hour, day := int64(0), int64(0)
	for _, n := range got.Minutes {
		hour += n
	}
	for _, n := range got.Hours {
		day += n
	}
	if hour != 9 || day != 11 || got.Minutes[0] != 3 || got.Minutes[9]+got.Minutes[10] != 3 ||
		got.Hours[2]+got.Hours[3] != 2 {
		t.Errorf("%d within the hour, %d within the day: %v %v", hour, day, got.Minutes, got.Hours)
	}
	if limits, err := f.figures().TopicLimits(f.ctx, []string{"t"}); err != nil || limits["t"].Window == 0 ||
		!limits["t"].BreakerOpen.IsZero() {
		t.Errorf("limits %+v, %v", limits, err)
	}
}

// TestArrivalsAreThoseThatGoOn: a batch that was pushed at once does not.
func TestArrivalsAreThoseThatGoOn(t *testing.T) {
	f := newFixture(t)
	var pushes []store.Push
	for i := range 100 {
		pushes = append(pushes, store.Push{Topic: "even", ID: fmt.Sprint(i), Delay: time.Duration(i) * 20 * time.Millisecond},
			store.Push{Topic: "once", ID: fmt.Sprint(i)})
	}
	for _, r := range f.q.PushBatch(f.ctx, pushes) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for topic, want := range map[string][2]float64{"even": {25, 55}, "once": {0, 1}} {
		var got observe.Forecast
		eventually(t, "all jobs are due", func() bool {
			var err error
			got, err = f.figures().Forecast(f.ctx, topic, observe.Day)
			return err == nil && got.Ready == 100
		})
		if got.OldestReady <= 0 || got.Arrivals < want[0] || got.Arrivals > want[1] {
			t.Errorf("%s: the oldest waits for %s, %v arrive a second", topic, got.OldestReady, got.Arrivals)
		}
	}
}

// TestArrivalsEnd within 20 seconds after the last job, however long they went on before.
func TestArrivalsEnd(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		topic     string
		ended     time.Duration // ago
		low, high float64
	}{{"ended", 25 * time.Second, 0, 0}, {"on", 0, 1.4, 1.8}} {
		for i := range 100 { // over a minute
			id, due := fmt.Sprint(i), time.Now().Add(-c.ended-time.Minute+time.Duration(i)*600*time.Millisecond)
			f.push(c.topic, id, 0)
			f.s.Redis().ZAddXX(f.ctx, store.Prefix(0)+"w:normal:"+c.topic, redis.Z{Score: float64(due.UnixMicro()), Member: id})
		}
		jobs := store.Prefix(0) + "j:" + c.topic
		oldest := f.s.Redis().HGet(f.ctx, jobs, "0").Val()
		pushed := strings.Fields(oldest)[3]
		earlier := fmt.Sprint(time.Now().Add(-c.ended - time.Minute).UnixMilli())
		f.s.Redis().HSet(f.ctx, jobs, "0", strings.ReplaceAll(oldest, pushed, earlier))
		got, err := f.figures().Forecast(f.ctx, c.topic, observe.Day)
		if err != nil || got.OldestReady < time.Minute || got.Arrivals < c.low || got.Arrivals > c.high {
			t.Errorf("%s: %v arrive a second, %v", c.topic, got.Arrivals, err)
		}
	}
}

// TestAShardThatIsDownLeavesTheOthersNumbers: the other shards' numbers are returned, marked as incomplete.
func TestAShardThatIsDownLeavesTheOthersNumbers(t *testing.T) {
	urlA, server := startRedis(t)
	urlB, _ := startRedis(t)
	q := open(store.Options{})
	defer func() { _ = q.Close() }()
	if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: urlA, State: "active"}, {Name: "b", URL: urlB, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	on := map[string]int64{}
	for i := range 100 {
		r := q.Push(t.Context(), store.Push{Topic: "t", ID: fmt.Sprint(i), Delay: time.Hour})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		on[r.Job.Shard]++
	}
	server.Kill9()
	stats, err := q.Stats(t.Context(), []string{"t"})
	if !queue.IsPartial(err) || stats["t"].Delayed != on["b"] {
		t.Errorf("stats %+v, %v; b has %d", stats["t"], err, on["b"])
	}
	totals, err := observe.Figures{Queue: q}.Totals(t.Context(), []string{"t"})
	if !queue.IsPartial(err) || totals["t"].Total.Pushed != on["b"] {
		t.Errorf("totals %+v, %v", totals["t"], err)
	}
}

// TestDeadJobsAreKnownByShard: how many died in each shard, and which died last in any, also while one is down.
func TestDeadJobsAreKnownByShard(t *testing.T) {
	urlA, server := startRedis(t)
	urlB, _ := startRedis(t)
	q := open(store.Options{})
	t.Cleanup(func() { _ = q.Close() })
	shards := []store.ShardConfig{{Name: "a", URL: urlA, State: "active"}, {Name: "b", URL: urlB, State: "active"}}
	if err := q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	f, died := &fixture{T: t, ctx: t.Context(), q: q}, map[string]int64{}
	var last []string
	for i := range 20 {
		r := f.push("t", fmt.Sprint(i), 0)
		f.b = q.Shards.Named(r.Job.Shard).Buckets()[0]
		f.settle(store.Bury, func(s *store.End) { s.Attempt.Error = "no " + s.Lease.ID }, f.reserve(1)...)
		died[r.Job.Shard]++
		if last = append(last, fmt.Sprint(i)); i == 9 {
			last = nil
		}
	}
	slices.Sort(last)
	check := func(partial bool, want []string) {
		t.Helper()
		totals, err := f.figures().Totals(t.Context(), []string{"t"})
		if queue.IsPartial(err) != partial || !maps.Equal(totals["t"].Died, died) {
			t.Errorf("died %v, %v; want %v", totals["t"].Died, err, died)
		}
		jobs, err := f.q.LastDead(t.Context(), "t", 10)
		var ids []string
		for _, j := range jobs {
			if ids = append(ids, j.ID); j.History[0].Error != "no "+j.ID {
				t.Errorf("a dead job is %+v", j)
			}
		}
		newestFirst := slices.IsSortedFunc(jobs, func(a, b store.Job) int { return b.DeadAt.Compare(a.DeadAt) })
		slices.Sort(ids) // those of two shards may have died in the same millisecond
		if queue.IsPartial(err) != partial || !newestFirst || want != nil && !slices.Equal(ids, want) {
			t.Errorf("the last are %v, %v; want %v", ids, err, want)
		}
	}
	check(false, last)
	server.Kill9()
	delete(died, "a")
	check(true, nil)
}

// TestCountsAreThoseOfTheTopicsThatHaveJobs, however many topics had jobs earlier.
func TestCountsAreThoseOfTheTopicsThatHaveJobs(t *testing.T) {
	f := newFixture(t)
	const many = 2500
	pushes := make([]store.Push, many)
	for i := range pushes {
		pushes[i] = store.Push{Topic: fmt.Sprint("t", i), ID: "1", Body: []byte("1"), Delay: time.Hour}
	}
	for _, r := range f.q.PushBatch(f.ctx, pushes) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	f.push("t1", "now", 0)
	if err := f.q.Delete(f.ctx, "t7", "1", nil); err != nil {
		t.Fatal(err)
	}
	got, err := f.figures().Counts(f.ctx)
	t1 := got["t1"]
	t1.OldestReady = 0
	if err != nil || len(got) != many-1 || got["t0"] != (store.Stats{Delayed: 1}) ||
		t1 != (store.Stats{Delayed: 1, Ready: 1}) {
		t.Errorf("%d topics, %v: t0 %+v, t1 %+v, t7 %+v", len(got), err, got["t0"], got["t1"], got["t7"])
	}
}

// All active topics are listed, whether events happened to them at the same time or one after the other.
func TestActiveListsManyTopics(t *testing.T) {
	f := newFixture(t)
	const topics = 2500 // more than two calls list
	for name, group := range map[string]int{"at the same time": topics, "one after the other": 1, "in groups": 700} {
		f.s.Redis().Del(f.ctx, store.Prefix(0)+"act")
		now, all := time.Now().UnixMilli(), make([]redis.Z, topics)
		for i := range all {
			all[i] = redis.Z{Score: float64(now + int64(i/group)), Member: fmt.Sprint("t", i)}
		}
		if err := f.s.Redis().ZAdd(f.ctx, store.Prefix(0)+"act", all...).Err(); err != nil {
			t.Fatal(err)
		}
		if list, err := f.figures().Active(f.ctx, time.Now().Add(-time.Minute)); err != nil || len(list) != topics {
			t.Errorf("%s: %d topics, want %d, %v", name, len(list), topics, err)
		}
	}
}
