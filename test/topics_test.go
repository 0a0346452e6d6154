package test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// TestTopics: states and limits of topics, and their independence.
func TestTopics(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	t.Run("paused takes pushes and calls nobody", i.pausedAndResumed)
	t.Run("offline refuses pushes", i.offline)
	t.Run("max_in_flight holds over all dispatchers", i.maxInFlight)
	t.Run("rate_limit holds over all dispatchers", i.rateLimit)
	t.Run("hanging topic delays no other", i.slowNeighbour)
	t.Run("dead endpoint keeps its jobs' attempts", i.breaker)
	t.Run("put, get, delete", i.putGetDelete)
}

func (i *installation) pausedAndResumed(t *testing.T) {
	topic := i.topic(t, nil, M{"state": "paused"})
	for n := range 10 {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": n})
	}
	i.passes(t)
	if calls := i.endpoint.Calls(topic); len(calls) > 0 {
		t.Fatalf("%d calls for a paused topic", len(calls))
	}
	i.put(t, topic, nil, M{"state": "active"})
	i.endpoint.WaitCalls(t, topic, 10)
	i.put(t, topic, nil, M{"state": "paused"})
	// every process follows the registry within a second
	i.MustPush(t, topic, M{"id": "after", "body": 1, "delay": "1500ms"})
	harness.Eventually(t, soon, "the job to be ready", func() error {
		return harness.Equal("ready", i.MustStats(t, topic).Ready, 1)
	})
	i.passes(t)
	if calls := i.endpoint.CallsOf(topic, "after"); len(calls) > 0 {
		t.Errorf("called at %s after the topic was paused", calls[0].At)
	}
}

func (i *installation) offline(t *testing.T) {
	topic := i.topic(t, nil, nil)
	i.MustPush(t, topic, M{"id": "before", "body": 1, "delay": "1h"})
	i.put(t, topic, nil, M{"state": "offline"})
	i.MustDo(t, http.StatusConflict, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"body": 1})
	i.MustGet(t, topic, "before")
}

func (i *installation) maxInFlight(t *testing.T) {
	gate := harness.NewGate()
	topic := i.topic(t, gate.Hold, M{"max_in_flight": 3, "ttr": "30s"})
	for n := range 20 {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": n})
	}
	harness.Eventually(t, soon, "three calls in flight", func() error {
		return harness.Equal("calls", len(i.endpoint.Calls(topic)), 3)
	})
	i.passes(t)
	harness.Stays(t, 300*time.Millisecond, "max_in_flight 3", func() error {
		return harness.Equal("calls", len(i.endpoint.Calls(topic)), 3)
	})
	gate.Open()
	i.endpoint.WaitCalls(t, topic, 20)
}

func (i *installation) rateLimit(t *testing.T) {
	const limit, jobs = 10, 30
	topic := i.topic(t, nil, M{"rate_limit": limit})
	for n := range jobs {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": n})
	}
	calls := i.endpoint.WaitCalls(t, topic, jobs)
	took := calls[jobs-1].At.Sub(calls[0].At)
	// A full bucket allows one second's calls at once.
	if least := time.Second * (jobs - limit - 1) / limit; took < least {
		t.Errorf("%d calls within %s at %d a second, want at least %s", jobs, took, limit, least)
	}
	if took > jobs/limit*time.Second+busy {
		t.Errorf("%d calls took %s at %d a second", jobs, took, limit)
	}
}

func (i *installation) slowNeighbour(t *testing.T) {
	slow := i.topic(t, harness.Hang(), M{"ttr": "60s"})
	for n := range 600 { // more than all dispatchers have places
		i.MustPush(t, slow, M{"id": fmt.Sprint(n), "body": n})
	}
	i.endpoint.WaitCalls(t, slow, 1)
	quick := slow + ".quick"
	i.put(t, quick, nil, nil)
	for n := range 20 {
		i.MustPush(t, quick, M{"id": fmt.Sprint(n), "body": n})
	}
	for _, c := range i.endpoint.WaitCalls(t, quick, 20) {
		if late := c.At.Sub(c.DueAt); late > busy {
			t.Errorf("%s of the quick topic was %s late", c.ID, late)
		}
	}
	i.MustDo(t, http.StatusNoContent, http.MethodDelete, "/v1/topics/"+slow+"?drop=true", nil)
}

func (i *installation) breaker(t *testing.T) {
	const jobs = 100
	topic := topicName(t)
	dead := harness.StartEndpoint(t)
	i.MustPutTopic(t, topic, M{"callback_url": dead.URL("/"), "retry": []string{"100ms"}, "max_attempts": 1000})
	dead.Stop()
	for n := range jobs {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": n})
	}
	i.passes(t)
	attempts := func() (sum int) {
		for _, state := range []string{"delayed", "ready", "running", "dead"} {
			for _, j := range i.MustList(t, topic, state) {
				sum += j.Attempts
			}
		}
		return sum
	}
	// Without a breaker, a hundred jobs with attempts every 100ms make 1,000 attempts a second.
	harness.Stays(t, 2*time.Second, "attempts at a dead endpoint", func() error {
		if n := attempts(); n > 3*jobs {
			return fmt.Errorf("%d of %d jobs", n, jobs)
		}
		return nil
	})
	dead.Start()
	harness.Eventually(t, soon, "all jobs to be called when the endpoint is back", func() error {
		ids := map[string]bool{}
		for _, c := range dead.Calls(topic) {
			ids[c.ID] = true
		}
		return harness.Equal("jobs called", len(ids), jobs)
	})
}

func (i *installation) putGetDelete(t *testing.T) {
	topic := i.topic(t, nil, nil)
	var got M
	if err := i.MustDo(t, http.StatusOK, http.MethodGet, "/v1/topics/"+topic, nil).JSON(&got); err != nil {
		t.Fatal(err)
	}
	defaults := M{
		"method": "POST", "content_type": "json", "ttr": "10s", "priority": "normal", "max_attempts": 10.0,
		"max_in_flight": 0.0, "rate_limit": 0.0, "state": "active", "retry_if": "", "delay": "0s",
	}
	for field, want := range defaults {
		if got[field] != want {
			t.Errorf("default of %s is %v, want %v", field, got[field], want)
		}
	}
	wrong := M{"colour": "red", "method": "BREW", "ttr": "soon", "priority": "urgent", "callback_url": "ftp://x/",
		"state": "asleep"}
	for field, value := range wrong {
		answer := i.Do(ctx, http.MethodPut, "/v1/topics/"+topic+".new", M{"callback_url": "http://x/", field: value})
		var p harness.Problem
		if err := answer.JSON(&p); err != nil || (answer.Status != 400 && answer.Status != 422) || p.Field != field {
			t.Errorf("%s: %v is answered %s, want a problem with the field", field, value, answer)
		}
	}
	i.MustDo(t, http.StatusNoContent, http.MethodDelete, "/v1/topics/"+topic, nil)
	i.MustDo(t, http.StatusNotFound, http.MethodGet, "/v1/topics/"+topic, nil)
	i.MustDo(t, http.StatusNotFound, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"body": 1})
	i.MustDo(t, http.StatusNotFound, http.MethodDelete, "/v1/topics/"+topic, nil)
}

// TestPrioritiesAreServed5To3To2: of every ten jobs reserved while all three have work.
func TestPrioritiesAreServed5To3To2(t *testing.T) {
	t.Parallel()
	// One call at a time, so that the order of the calls is that of the reservations.
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_DISPATCHERS": "1",
		"WAKECALL_DISPATCHER_CONCURRENCY": "1"}})
	topic := i.topic(t, nil, M{"state": "paused"})
	for _, priority := range []string{"low", "normal", "high"} {
		for n := range 40 {
			i.MustPush(t, topic, M{"id": fmt.Sprint(priority, n), "body": n, "priority": priority})
		}
	}
	i.put(t, topic, nil, nil)
	calls := i.endpoint.WaitCalls(t, topic, 120)
	for ten := range 8 { // by then, the high ones are used up
		count := map[string]int{}
		for _, c := range calls[10*ten : 10*ten+10] {
			count[c.Header.Get("Wakecall-Priority")]++
		}
		if count["high"] != 5 || count["normal"] != 3 || count["low"] != 2 {
			t.Errorf("calls %d to %d: %v, want 5 high, 3 normal, 2 low", 10*ten+1, 10*ten+10, count)
		}
	}
}
