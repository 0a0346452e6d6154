package forecast

import (
	"context"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
)

// waiting returns a situation with jobs that are due, the oldest for some time.
func waiting(jobs int64, oldest time.Duration, changes ...func(*Situation)) *Situation {
	s := &Situation{State: registry.TopicActive, Capacity: Capacity{Share: 1, Deliveries: -1}}
	s.Due.Ready, s.Due.OldestReady = jobs, oldest
	for _, change := range changes {
		change(s)
	}
	s.Capacity.Decide()
	return s
}

func limit(rate float64) func(*Situation) {
	return func(s *Situation) { s.Capacity.Limit = rate }
}

// delivering sets what was delivered while jobs waited for the whole of the last minute.
func delivering(rate float64) func(*Situation) {
	return func(s *Situation) { s.Capacity.Deliveries = rate }
}

func arriving(rate float64) func(*Situation) { return func(s *Situation) { s.Due.Arrivals = rate } }

func due(each int64, minutes int) func(*Situation) {
	return func(s *Situation) {
		for i := range minutes {
			s.Due.Minutes[i] = each
			s.Due.Hours[i/60] += each
		}
	}
}

// TestAForecastFollowsFromDeliveriesAndArrivals, or says why it is unknown.
func TestAForecastFollowsFromDeliveriesAndArrivals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   *Situation
		want string
	}{
		"nothing waits":                    {waiting(0, 0), "no backlog"},
		"a busy topic":                     {waiting(40, time.Second), "no backlog"},
		"a limit":                          {waiting(1200, time.Minute, limit(5)), "cleared in 4m to 4m30s"},
		"less than a minute":               {waiting(100, 11*time.Second, limit(5)), "cleared in 20s to 23s"},
		"a limit that is not reached":      {waiting(1200, 3*time.Minute, limit(5), delivering(2)), "cleared in 10m to 12m"},
		"a limit that was lowered":         {waiting(1200, 3*time.Minute, limit(5), delivering(50)), "cleared in 4m to 4m30s"},
		"deliveries without a limit":       {waiting(6000, 3*time.Minute, delivering(10)), "cleared in 10m to 12m"},
		"a flood that grows":               {waiting(9000, 3*time.Minute, delivering(5), arriving(50)), "never cleared like this: grows by 45 jobs/s"},
		"a flood that falls":               {waiting(9000, 3*time.Minute, delivering(50), arriving(20)), "cleared in 5m to 6m"},
		"a flood that ended":               {waiting(9000, 3*time.Minute, limit(5), arriving(0)), "cleared in 30m to 34m"},
		"a flood with a short delay":       {waiting(300, time.Minute, limit(15), arriving(20), due(600, 1)), "never cleared like this: grows by 5.0 jobs/s"},
		"jobs stored for a minute or more": {waiting(300, time.Minute, limit(5), arriving(20), due(1200, 2)), "unknown when cleared: it depends on whether jobs keep arriving like this"},
		"retries beside what arrives":      {waiting(300, time.Minute, limit(5), arriving(3), due(240, 30)), "unknown when cleared: it depends on whether jobs keep arriving like this"},
		"a backlog of scheduled jobs only": {waiting(300, time.Minute, limit(5), due(240, 30)), "cleared in 5m to 10m"},
		"a hint is no forecast": {waiting(0, 0, due(100, 60), func(s *Situation) { s.Capacity.Measured = 0.1 }),
			"no backlog"},
		"more than a day": {waiting(600_000, time.Hour, delivering(5)),
			"not cleared within a day"},
		"paused": {waiting(1000, time.Minute, limit(5), func(s *Situation) {
			s.State, s.PausedBy = registry.TopicPaused, "ann"
		}), "unknown when cleared: paused by ann"},
		"paused, by whom is unknown": {waiting(1000, time.Minute, func(s *Situation) { s.State = registry.TopicPaused }),
			"unknown when cleared: the topic is paused"},
		"paused before its jobs are due": {waiting(0, 0, due(5, 1), func(s *Situation) { s.State = registry.TopicPaused }),
			"unknown when cleared: the topic is paused"},
		"offline": {waiting(1000, time.Minute, func(s *Situation) { s.State = registry.TopicOffline }),
			"unknown when cleared: the topic is offline"},
		"an open breaker": {waiting(1000, time.Minute, delivering(0.5), func(s *Situation) {
			s.Breaker, s.Probe = true, 42*time.Second
		}), "unknown when cleared: the circuit breaker is open, next probe in 42s"},
		"an open breaker that probes": {waiting(1000, time.Minute, func(s *Situation) { s.Breaker = true }),
			"unknown when cleared: the circuit breaker is open"},
		"no worker": {waiting(1000, time.Minute, limit(5), func(s *Situation) { s.Alone = true }),
			"unknown when cleared: no worker is connected"},
		"failed calls are no deliveries": {waiting(1000, 3*time.Minute, limit(100), delivering(0)),
			"unknown when cleared: no deliveries yet"},
		"nothing but failed calls so far": {waiting(1000, 20*time.Second, limit(100), func(s *Situation) { s.Capacity.Share = 0 }),
			"unknown when cleared: no deliveries yet"},
		"half of the calls fail": {waiting(1200, 20*time.Second, limit(10), func(s *Situation) { s.Capacity.Share = 0.5 }),
			"cleared in 4m to 4m30s"},
		"a nearly unused installation": {waiting(50, 20*time.Second, func(*Situation) {}),
			"unknown when cleared: too little time behind at the same pace to measure"},
		"a shard is down": {waiting(10, time.Minute, limit(5), func(s *Situation) { s.Away = true }),
			"unknown when cleared: a shard does not answer"},
	} {
		if got := Of(c.of).Say(english.T, printable.ShortDuration); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

var english, _ = message.Catalogue("en")

func TestWhatCannotBeCalledIsCarriedOver(t *testing.T) {
	t.Parallel()
	var f observe.Forecast
	f.Minutes[2], f.Minutes[3] = 1200, 600 // 5 a second are 300 calls a minute
	f.Hours[0] = 1800
	p := Predict(&f, 0, 5, 0)
	if p.Late != 4*time.Minute || p.At != 4*time.Minute || p.Over != 8*time.Minute || p.Least() != 4 ||
		p.Minutes() != 6 {
		t.Errorf("the prediction is %+v", p)
	}
	if p := Predict(&f, 0, 100, 0); p.Late != 0 {
		t.Errorf("jobs that can be called in time are %s late", p.Late)
	}
	if p := Predict(&observe.Forecast{}, 1200, 5, 0); p.Late != 4*time.Minute || p.At != 0 || p.Over != 4*time.Minute {
		t.Errorf("overdue jobs: %+v", p)
	}
	f = observe.Forecast{}
	f.Hours[5] = 36_000 // twice the calls of an hour
	if p := Predict(&f, 0, 5, 0); p.Late != time.Hour || p.At != 6*time.Hour || p.Over != 7*time.Hour {
		t.Errorf("later in the day: %+v", p)
	}
	if p := Predict(&f, 1, 0, 0); p.Late != 0 {
		t.Error("a lateness is predicted with an unknown capacity")
	}
}

// TestWhatHasWaitedIsAsLateAsItHasWaited: few jobs may wait for long, behind a limit that was lower before.
func TestWhatHasWaitedIsAsLateAsItHasWaited(t *testing.T) {
	t.Parallel()
	for waited, want := range map[time.Duration]time.Duration{3 * time.Minute: 3 * time.Minute, time.Second: time.Minute} {
		a := Of(waiting(300, waited, limit(5)))
		if a.Late != want || a.Worst < want {
			t.Errorf("after %s: %s to %s late, want %s", waited, a.Late, a.Worst, want)
		}
	}
}

// TestCapacityIsTheLowerLimit. A measured rate counts only if jobs waited all the time.
func TestCapacityIsTheLowerLimit(t *testing.T) {
	t.Parallel()
	c := Capacity{Limit: 10, Flight: 4, Measured: 2, Share: 1, Deliveries: -1}
	if c.Decide(); c.Rate != 4 || c.From != "flight" || c.rate() != 4 {
		t.Errorf("the forecast is %+v", c)
	}
	c = Capacity{Deliveries: -1}
	c.learn(pastRates(8, time.Minute))
	if c.Decide(); c.Rate != 8 || c.From != "measured" || c.rate() != 0 || c.Over != time.Minute || c.At.Unix() != 1060 {
		t.Errorf("the forecast is %+v", c)
	}
	probes := pastRates(8, time.Minute)
	probes.Values["delivered"], probes.Values["failed"] = nil, probes.Values["delivered"]
	c = Capacity{Deliveries: -1}
	if c.learn(probes); c.Measured != 0 {
		t.Errorf("failed probes are measured as %v a second", c.Measured)
	}
	c.learn(pastRates(0.001, time.Second))
	if c.Decide(); c.Rate != 0 {
		t.Errorf("the forecast of an unused installation is %+v", c)
	}
}

// TestALimitIsTheTruth, however slowly the topic was called so far: 2,500 jobs due within two minutes, at 5 a second,
// take 500 s; the last are six to nine minutes late.
func TestALimitIsTheTruth(t *testing.T) {
	t.Parallel()
	var f observe.Forecast
	f.Minutes[0], f.Minutes[1], f.Hours[0] = 1250, 1250, 2500
	c := Capacity{Limit: 5, Share: 1, Deliveries: -1}
	c.learn(pastRates(1.7, time.Minute))
	c.Decide()
	p := Predict(&f, 0, c.Rate, 0)
	if c.Rate != 5 || c.From != "limit" || p.Least() != 6 || p.Minutes() != 9 || p.At != 2*time.Minute {
		t.Errorf("at %v a second, the forecast is %+v", c.Rate, p)
	}
}

// TestOnlyRecentCallsTellWhatSucceeds: those before the endpoint was repaired do not count.
func TestOnlyRecentCallsTellWhatSucceeds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(ago time.Duration, outcome string) activity.Attempt {
		return activity.Attempt{StartedAt: now.Add(-ago).UnixMilli(), Outcome: outcome, TookMS: 500}
	}
	for want, list := range map[float64][]activity.Attempt{
		1:    {at(time.Hour, "retry")},
		0.75: {at(time.Second, "done"), at(time.Second, "done"), at(20*time.Second, "done"), at(20*time.Second, "retry")},
		0:    {at(time.Second, "retry"), at(time.Second, "expired"), at(time.Hour, "done")},
	} {
		s := &Situation{Due: observe.Forecast{Now: now}, Capacity: Capacity{MaxInFlight: 10}}
		if s.learn(list); s.Capacity.Share != want || s.Capacity.Flight != 20 {
			t.Errorf("of %+v: capacity %+v", list, s.Capacity)
		}
	}
}

// pastRates is a history with callbacks at a constant rate, at the end of which the oldest job had waited for some time.
func pastRates(rate float64, waited time.Duration) history.Points {
	half, oldest := rate/2, float64(waited.Milliseconds())
	return history.Points{Step: 60, Times: []int64{1000, 1060}, Values: map[string][]*float64{
		"delivered": {&half, &rate}, "failed": {nil, nil}, "oldest": {&oldest, &oldest},
	}}
}

// TestAMinuteSaysWhatCanBeDone only if jobs waited and all shards answered for the whole of it, and nothing has changed.
func TestAMinuteSaysWhatCanBeDone(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000*60, 0)
	type minute struct{ delivered, failed float64 }
	for name, c := range map[string]struct {
		before, last minute
		share        float64
		gap          bool
		changed      time.Duration // how long ago the topic was changed
		want         float64
	}{
		"steady":                         {minute{5, 0}, minute{4, 0}, 1, false, time.Hour, 4},
		"half of the calls fail, as now": {minute{5, 5}, minute{5, 5}, 0.5, false, time.Hour, 5},
		"an outage of Redis":             {minute{5, 0}, minute{4, 0}, 1, true, time.Hour, -1},
		"an outage of the endpoint":      {minute{5, 0}, minute{2, 0.1}, 1, false, time.Hour, -1},
		"an endpoint that recovered":     {minute{0, 0.1}, minute{0, 0.1}, 1, false, time.Hour, -1},
		"an endpoint that fails now":     {minute{5, 0}, minute{5, 0}, 0, false, time.Hour, -1},
		"a limit that was changed":       {minute{5, 0}, minute{5, 0}, 1, false, 70 * time.Second, -1},
	} {
		waited := 600_000.0
		all := history.Points{Step: 10, Values: map[string][]*float64{}}
		for i := range int64(12) {
			all.Times = append(all.Times, now.Unix()-110+10*i)
			pushed := new(1.0)
			if c.gap && i == 8 {
				pushed = nil
			}
			all.Values["pushed"] = append(all.Values["pushed"], pushed)
		}
		of := history.Points{Step: 60, Times: []int64{now.Unix() - 60, now.Unix()}, Values: map[string][]*float64{
			"delivered": {&c.before.delivered, &c.last.delivered}, "failed": {&c.before.failed, &c.last.failed},
			"oldest": {&waited, &waited},
		}}
		r := &Reader{History: series{history.AllTopics: all, "t": of}}
		s := &Situation{Due: observe.Forecast{Now: now.Add(stored), OldestReady: time.Second}, Capacity: Capacity{Share: c.share}}
		topic := &registry.Topic{Name: "t", UpdatedAt: s.Due.Now.Add(-c.changed)}
		if got := r.deliveries(t.Context(), topic, s, 20); got != c.want {
			t.Errorf("%s: %v deliveries a second, want %v", name, got, c.want)
		}
	}
}

// series is a history.
type series map[string]history.Points

func (s series) Series(_ context.Context, name, _ string) (history.Points, error) {
	return s[name], nil
}
