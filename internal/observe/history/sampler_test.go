package history

import (
	"slices"
	"testing"
	"time"
)

func wantTail(t *testing.T, p Points, name string, want ...float64) {
	t.Helper()
	if got := tail(p, name, len(want)); !slices.Equal(got, want) {
		t.Errorf("%s of %s over %s ends with %v, want %v", name, p.Series, p.Span, got, want)
	}
}

func TestRatesOfAllTopics(t *testing.T) {
	b := newBench(t)
	b.source.topics["a"] = Reading{Totals: Totals{Pushed: 1_000_000}} // before the sampler began
	b.rounds(6, nil)
	b.rounds(3, func() { b.source.change("a", push(100)) })
	b.rounds(3, func() { b.source.change("b", push(50)) })
	p := b.series(AllTopics, "15m")
	wantTail(t, p, "pushed", -1, 0, 0, 0, 0, 0, 10, 10, 10, 5, 5, 5)
	wantTail(t, p, "delayed", 100, 200, 300, 350, 400, 450)
	if p.Sums["pushed"] != 450 {
		t.Errorf("the span's sum is %d, want 450", p.Sums["pushed"])
	}
	if len(p.Times) != 90 || p.Times[89] != b.now.Unix() {
		t.Errorf("%d instants that end at %d, want 90 that end at %d", len(p.Times), p.Times[89], b.now.Unix())
	}
}

func TestRollUpLosesNothing(t *testing.T) {
	b := newBench(t)
	b.source.change("a", push(0))
	b.rounds(1, nil)
	b.rounds(2*360, func() { b.source.change("a", push(7)) })
	for span, want := range map[string]int64{"3h": 5 * 7, "24h": 5 * 7, "7d": 5 * 7} {
		// The first slot has no earlier value to compare with, so the sum lacks at most that slot's pushes.
		if got := b.series("a", span).Sums["pushed"]; got > 720*7 || got < 720*7-360*7-want {
			t.Errorf("over %s %d were pushed, want about %d", span, got, 720*7)
		}
	}
	wantTail(t, b.series("a", "3h"), "pushed", 0.7, 0.7, 0.7)
	wantTail(t, b.series("a", "24h"), "pushed", 0.7, 0.7, 0.7)
}

func TestIdleTopicIsStoredOnlyWhenSomethingHappens(t *testing.T) {
	b := newBench(t)
	b.source.topics["idle"] = Reading{Totals: Totals{Pushed: 5, Delivered: 5}}
	b.rounds(60, nil)
	if n := len(b.store.samples[[2]string{"idle", "1m"}]); n != 0 {
		t.Errorf("%d samples of an idle topic", n)
	}
	b.rounds(1, func() { b.source.change("idle", push(60)) })
	b.rounds(17, nil)
	p := b.series("idle", "15m")
	wantTail(t, p, "pushed", 0, 1, 0, 0)
	if p.Sums["pushed"] != 60 {
		t.Errorf("the sum is %d, want 60", p.Sums["pushed"])
	}
	wantTail(t, p, "delayed", 0, 60, 60, 60)
}

func TestLatenessIsReadOnlyWhenSomethingHappened(t *testing.T) {
	b := newBench(t)
	b.source.late = Lateness{Count: 3}
	b.rounds(6, nil)
	b.source.lates = 0
	b.rounds(18, nil)
	if n := b.source.lates; n > 3 { // the coarser tiers still include the first round
		t.Errorf("lateness was read %d times in three idle minutes", n)
	}
	b.source.lates = 0
	b.rounds(1, func() { b.source.change("a", push(1)) })
	if b.source.lates == 0 {
		t.Error("lateness was not read after an event")
	}
}

func TestCountsOfIdleTopicsAreStoredAgain(t *testing.T) {
	b := newBench(t)
	b.source.topics["waiting"] = Reading{Totals: Totals{Pushed: 9}, Living: Living{Delayed: 9}}
	b.rounds(6*70, nil)
	wantTail(t, b.series("waiting", "15m"), "delayed", 9, 9, 9)
	if n := len(b.store.samples[[2]string{"waiting", "1m"}]); n > 3 {
		t.Errorf("%d samples in 70 idle minutes, want one or two", n)
	}
}

func TestOnlyActiveTopicsAreRead(t *testing.T) {
	b := newBench(t)
	b.source.topics["a"], b.source.topics["b"] = Reading{}, Reading{}
	b.rounds(1, nil)
	b.rounds(2, func() { b.source.change("a", func(r *Reading) { r.Pushed++; r.Delivered++ }) })
	want := [][]string{{"a", "b"}, {"a"}, {"a"}}
	if !slices.EqualFunc(b.source.asked, want, slices.Equal) {
		t.Errorf("topics were read as %v, want %v", b.source.asked, want)
	}
}

func TestTopicsThatTakeLongToReadAreReadLessOften(t *testing.T) {
	b := newBench(t)
	b.source.topics["a"] = Reading{}
	b.rounds(1, nil)
	b.source.reading = func() { b.now = b.now.Add(3 * time.Second) }
	b.rounds(12, func() {
		b.source.change("a", push(10))
		b.now = b.now.Truncate(Round)
	})
	if n := len(b.source.asked); n != 7 {
		t.Errorf("a topic that takes three seconds to read was read %d times in two minutes, want 7", n)
	}
	if at, r := b.lastRead, b.topics.topics["a"].now; r.Pushed == 0 || at.Before(b.now.Add(-2*Round)) {
		t.Errorf("read at %s, at %s it is: %+v", at, b.now, r)
	}
}

func TestShardDownHidesNothingAndInventsNothing(t *testing.T) {
	b := newBench(t)
	b.source.change("a", push(1000))
	b.rounds(2, nil)
	whole := b.source.topics["a"]
	b.source.missing = []string{"s2"} // and its half of the numbers is missing
	b.source.change("a", func(r *Reading) { r.Pushed -= 500; r.Delayed -= 500 })
	b.rounds(1, nil)
	b.rounds(2, func() { b.source.change("a", push(10)) })
	wantTail(t, b.series(AllTopics, "15m"), "pushed", 0, 1, 1)
	b.source.missing = nil
	whole.Pushed += 20
	b.source.topics["a"] = whole
	b.rounds(1, func() { b.source.active["a"] = true })
	wantTail(t, b.series(AllTopics, "15m"), "pushed", 1, 1, 0)
}

func TestSamplerBeginsWhileAShardIsDown(t *testing.T) {
	b := newBench(t)
	b.source.change("a", push(1000))
	b.rounds(3, nil)
	whole := b.source.topics["a"]
	b.source.missing = []string{"s2"}
	b.source.topics["a"] = Reading{Totals: Totals{Pushed: 400}, Living: Living{Delayed: 400}}
	b.restart("one")
	b.rounds(2, nil)
	b.source.missing = nil
	b.source.topics["a"] = whole
	b.rounds(3, func() { b.source.active["a"] = true })
	wantTail(t, b.series(AllTopics, "15m"), "pushed", 0, 0, 0)
}

func TestDroppedTopicMakesNoSpike(t *testing.T) {
	b := newBench(t)
	b.source.topics["a"] = Reading{Totals: Totals{Pushed: 100, Delivered: 100}}
	b.rounds(2, nil)
	b.source.change("a", func(r *Reading) { *r = Reading{Totals: Totals{Pushed: 3}, Living: Living{Delayed: 3}} })
	b.rounds(1, nil)
	delete(b.source.topics, "a")
	b.rounds(61, nil)
	p := b.series(AllTopics, "15m")
	if p.Sums["pushed"] != 3 {
		t.Errorf("the sum is %d, want the 3 of the new topic", p.Sums["pushed"])
	}
	wantTail(t, p, "delayed", 0)
}

func TestSamplesOfARegistryOutageAreStoredLater(t *testing.T) {
	b := newBench(t)
	b.source.change("a", push(1))
	b.rounds(2, nil)
	b.store.away = true
	b.rounds(5, func() { b.source.change("a", push(10)) })
	b.store.away = false
	b.rounds(1, nil)
	wantTail(t, b.series(AllTopics, "15m"), "pushed", -1, 0, 1, 1, 1, 1, 1, 0)
}

func TestNextLeaderGoesOn(t *testing.T) {
	b := newBench(t)
	b.source.change("a", push(1))
	b.rounds(2, nil)
	b.restart("two")
	b.rounds(2, func() { b.source.change("a", push(10)) })
	if n := len(b.store.samples[[2]string{AllTopics, "10s"}]); n != 2 { // the begin and the end of its slot
		t.Errorf("%d samples; the second host must not sample while the first leads", n)
	}
	b.store.leader = ""
	b.rounds(3, func() { b.source.change("a", push(10)) })
	p := b.series(AllTopics, "15m")
	wantTail(t, p, "pushed", -1, -1, 1) // nothing was measured between the leaders
	if p.Sums["pushed"] != 50 {
		t.Errorf("the sum is %d, want the 50 that both have seen", p.Sums["pushed"])
	}
}

// TestTheFirstJobsAfterAStartAreCounted although they were pushed before the first reading.
func TestTheFirstJobsAfterAStartAreCounted(t *testing.T) {
	b := newBench(t)
	b.source.topics["a"] = Reading{Totals: Totals{Pushed: 1003, Delivered: 1003}}
	b.source.today = map[string]Totals{"a": {Pushed: 3, Delivered: 3}}
	b.rounds(12, nil)
	for _, series := range []string{AllTopics, "a"} {
		if p := b.series(series, "15m"); p.Sums["delivered"] != 3 {
			t.Errorf("after the first start, the sum of %s is %d, want 3", series, p.Sums["delivered"])
		}
	}
	b.now = b.now.Add(50 * time.Minute)
	b.restart("one")
	b.source.change("a", push(4))
	b.rounds(2, nil)
	if p := b.series(AllTopics, "15m"); p.Sums["pushed"] != 4 {
		t.Errorf("after another start, the sum is %d, want 4", p.Sums["pushed"])
	}
}

// TestUnknownNumbersAreAGap: while no shard is up, neither zeros nor the last numbers are stored.
func TestUnknownNumbersAreAGap(t *testing.T) {
	b := newBench(t)
	b.shards = []ShardReading{{Name: "s1", Up: true}, {Name: "s2"}}
	b.rounds(4, func() { b.source.change("a", push(10)) })
	b.shards[0].Up = false
	b.source.missing, b.source.topics = []string{"s1", "s2"}, map[string]Reading{"a": {}}
	b.rounds(70, nil)
	p := b.series(AllTopics, "15m")
	wantTail(t, p, "pushed", -1, -1, -1)
	wantTail(t, p, "delayed", -1, -1, -1)
}

// TestAnOutageIsAGap, also when jobs are called again after it: their rate is not drawn through it, but they are counted.
// A read that waited for Redis delays no later one.
func TestAnOutageIsAGap(t *testing.T) {
	b := newBench(t)
	b.shards = []ShardReading{{Name: "s1", Up: true}}
	b.rounds(4, func() { b.source.change("a", push(10)) })
	before := b.series(AllTopics, "15m").Sums["pushed"]
	b.source.missing, b.source.reading = []string{"s1"}, func() { b.now = b.now.Add(9 * time.Second) }
	b.rounds(1, func() { b.source.change("a", push(0)) })
	b.now, b.source.reading, b.shards[0].Up = b.now.Truncate(Round), nil, false
	b.rounds(2, nil)
	b.shards[0].Up, b.source.missing = true, nil
	b.rounds(3, func() { b.source.change("a", push(10)) })
	p := b.series(AllTopics, "15m")
	wantTail(t, p, "pushed", -1, -1, -1, 1, 1)
	if n := p.Sums["pushed"] - before; n != 30 {
		t.Errorf("%d are counted after the outage, want 30", n)
	}
}

func TestShardSeries(t *testing.T) {
	b := newBench(t)
	b.shards = []ShardReading{{Name: "s1", Up: true, P50: time.Millisecond, P99: 5 * time.Millisecond, Memory: 100}}
	b.rounds(6, nil)
	b.shards[0].Up = false
	b.rounds(6, nil)
	p := b.series(ShardSeries("s1"), "15m")
	wantTail(t, p, "up", 1, 1, 0, 0, 0, 0, 0, 0)
	wantTail(t, p, "ping_p99", 5, 5, -1, -1, -1, -1, -1, -1)
	wantTail(t, b.series(ShardSeries("s1"), "3h"), "up", -1, 1, 0)
}

func TestLedger(t *testing.T) {
	r := Reading{
		Totals: Totals{Pushed: 10, Delivered: 4, Deleted: 2, Dropped: 1},
		Living: Living{Delayed: 1, Ready: 1, Dead: 1},
	}
	if n := r.Missing(); n != 0 {
		t.Errorf("%d jobs are missing in a ledger that adds up", n)
	}
	r.Ready = 0
	want := "10 pushed, but 4 delivered, 2 deleted, 1 dead ones deleted, 0 replaced and 2 still there make 9"
	if r.Missing() != 1 || r.Ledger().Error() != want {
		t.Errorf("%d jobs are missing: %s", r.Missing(), r.Ledger())
	}
	r.Delivered += 3
	if n := r.Missing(); n != -2 {
		t.Errorf("%d jobs are missing although there are two more than accepted", n)
	}
}

func TestLateness(t *testing.T) {
	b := newBench(t)
	b.source.late = Lateness{Count: 3, P50: 2 * time.Millisecond, P99: 40 * time.Millisecond}
	b.rounds(2, nil)
	b.source.late = Lateness{}
	b.rounds(1, nil)
	p := b.series(AllTopics, "15m")
	wantTail(t, p, "p99", -1, 40, -1)
	wantTail(t, p, "p50", -1, 2, -1)
}

func TestUnknownSpan(t *testing.T) {
	r := Reader{Store: newBench(t).store}
	if _, err := r.Series(t.Context(), AllTopics, "2d"); err == nil ||
		err.Error() != `span "2d" is not one of 15m, 3h, 24h, 7d` {
		t.Errorf("error %v", err)
	}
}

func TestUntilNext(t *testing.T) {
	if d := untilNext(begin.Add(3 * time.Second)); d != 7*time.Second {
		t.Errorf("%v to the next round, want 7s", d)
	}
}

// TestAClockThatWasSetBack: a host's clock may be ahead when it starts, until it is corrected.
func TestAClockThatWasSetBack(t *testing.T) {
	b := newBench(t)
	b.source.topics["waiting"] = Reading{Totals: Totals{Pushed: 9}, Living: Living{Delayed: 9}}
	b.rounds(12, nil)
	b.now = b.now.Add(-24 * time.Hour)
	b.rounds(12, func() { b.source.change("a", push(10)) })
	wantTail(t, b.series(AllTopics, "15m"), "pushed", 1, 1, 1)
	wantTail(t, b.series("waiting", "15m"), "delayed", 9)
	if b.pruned.After(b.now) {
		t.Errorf("samples were deleted as of %s, at %s", b.pruned, b.now)
	}
}

// TestARangeHasTheFinestSamplesLeft: an old quarter of an hour comes from the samples of minutes, one long ago from
// those of hours, and a range that is not over ends now.
func TestARangeHasTheFinestSamplesLeft(t *testing.T) {
	b := newBench(t)
	b.source.topics["a"] = Reading{}
	b.rounds(18, func() { b.source.change("a", push(10)) })
	r := Reader{Store: b.store, Now: func() time.Time { return b.now }}
	ask := func(series string, from, to time.Time, step time.Duration) Points {
		t.Helper()
		p, err := r.Range(t.Context(), series, from, to)
		if err != nil || p.Step != int64(step/time.Second) {
			t.Fatalf("the step of %s is %ds, want %s; %v", series, p.Step, step, err)
		}
		return p
	}
	p := ask(AllTopics, begin.Add(time.Minute), begin.Add(2*time.Minute), 10*time.Second)
	wantTail(t, p, "pushed", 1, 1, 1, 1, 1, 1)
	if len(p.Times) != 6 || p.Times[5] != begin.Add(2*time.Minute).Unix() {
		t.Errorf("the slots end at %d", p.Times)
	}
	wantTail(t, ask("a", begin.Add(time.Minute), begin.Add(2*time.Minute), time.Minute), "pushed", 1)
	if p := ask(AllTopics, begin.Add(2*time.Minute), begin.Add(time.Hour), 10*time.Second); len(p.Times) != 6 {
		t.Errorf("a range up to a later time has %d slots, want those until now", len(p.Times))
	}
	b.now = b.now.Add(5 * time.Hour)
	wantTail(t, ask(AllTopics, begin.Add(time.Minute), begin.Add(2*time.Minute), time.Minute), "pushed", 1)
	b.now = b.now.Add(5 * day)
	ask(AllTopics, begin, begin.Add(15*time.Minute), time.Hour)
}
