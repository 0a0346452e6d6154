package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/store"
)

func (f *fixture) standing(topic, id string) (observe.Standing, bool) {
	f.Helper()
	s, ok, err := f.figures().Standing(f.ctx, &store.Job{Topic: topic, ID: id, Shard: "a"})
	if err != nil {
		f.Fatal(err)
	}
	return s, ok
}

// TestStandingOfAWaitingJob: its place among the due jobs of its priority, and what the limits of its topic allow.
func TestStandingOfAWaitingJob(t *testing.T) {
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx, slices.Values([]store.TopicConf{
		{Name: "t", TTR: time.Hour, MaxAttempts: 3, MaxInFlight: 2, RateLimit: 0.01},
		{Name: "free", TTR: time.Hour, MaxAttempts: 3},
	})); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		f.push("t", fmt.Sprint(i), 0)
		f.push("free", fmt.Sprint(i), 0)
	}
	f.push("t", "urgent", 0, func(p *store.Push) { p.Priority = store.High })
	f.push("t", "later", time.Hour)
	if s, ok := f.standing("t", "3"); !ok || s.Before != 3 || s.Running != 0 || s.MaxInFlight != 2 || !s.Paced.IsZero() ||
		s.Window != 32 || !s.BreakerOpen.IsZero() {
		t.Errorf("the fourth job: %+v, %t", s, ok)
	}
	if s, ok := f.standing("t", "urgent"); !ok || s.Before != 0 {
		t.Errorf("the only one of its priority: %+v, %t", s, ok)
	}
	if jobs := f.reserve(3); len(jobs) == 0 {
		t.Fatal("nothing was reserved")
	}
	if s, ok := f.standing("t", "3"); !ok || s.Running != 1 || s.Paced.Before(time.Now().Add(time.Minute)) {
		t.Errorf("after a call under the rate: %+v, %t", s, ok)
	}
	if s, ok := f.standing("free", "3"); !ok || s.MaxInFlight != 0 || !s.Paced.IsZero() {
		t.Errorf("without limits: %+v, %t", s, ok)
	}
	if _, ok := f.standing("t", "none"); ok {
		t.Error("a job that does not exist waits")
	}
	if _, ok := f.standing("t", "urgent"); ok {
		t.Error("a running job waits")
	}
}

// TestProbeNowMakesTheBreakerSendItsProbe, which it would otherwise send later; one at a time, as always.
func TestProbeNowMakesTheBreakerSendItsProbe(t *testing.T) {
	f := newFixture(t)
	for i := range 12 {
		f.push("t", fmt.Sprint(i), 0)
	}
	down := func(s *store.End) { s.Endpoint = store.EndpointDown }
	f.settle(store.Retry, down, f.reserve(10)...)
	c := store.Prefix(0) + "c:t"
	f.s.Redis().HSet(f.ctx, c, "open", time.Now().Add(time.Hour).UnixMilli()) // as after many probes
	if jobs := f.reserve(5); len(jobs) != 0 {
		t.Fatalf("%d jobs are called while the breaker is open", len(jobs))
	}
	if s, ok := f.standing("t", "11"); !ok || s.BreakerOpen.Before(time.Now()) || s.Failures < 10 {
		t.Errorf("while the breaker is open: %+v, %t", s, ok)
	}
	if open, err := f.q.ProbeNow(f.ctx, "t"); !open || err != nil {
		t.Fatal(open, err)
	}
	f.advance()
	if jobs := f.reserve(5); len(jobs) != 1 {
		t.Errorf("%d probes are sent", len(jobs))
	}
	if open, err := f.q.ProbeNow(f.ctx, "closed"); open || err != nil {
		t.Errorf("a closed breaker: %v", err)
	}
}
