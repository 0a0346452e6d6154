package test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// behindProxy configures an installation for a Redis behind a proxy.
func behindProxy(t *testing.T) (harness.Options, *harness.Proxy) {
	t.Helper()
	p := harness.StartProxy(t, harness.StartRedis(t, harness.RedisOptions{}).Addr())
	return harness.Options{Env: map[string]string{"WAKECALL_REDIS_NODES": "redis://" + p.Addr() + "/0"}}, p
}

// TestNoWakeUpArrives: a wake-up is a hint. Without any, every call starts within the second of the fallback poll.
func TestNoWakeUpArrives(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	opts, p := behindProxy(t)
	i := start(t, opts)
	topic := i.topic(t, nil, nil)
	lost := make(chan struct{}, 1000)
	p.Set(harness.Trouble{Withhold: func(answer []byte) bool {
		if !bytes.Contains(answer, []byte("message\r\n")) {
			return false
		}
		select {
		case lost <- struct{}{}:
		default:
		}
		return true
	}})
	ledger := harness.NewLedger()
	for n, delay := range []string{"0s", "300ms", "0s", "700ms", "0s", "1200ms"} {
		j := ledger.MustPush(t, i.API, topic, fmt.Sprint(n), M{"delay": delay})
		call := i.endpoint.WaitCalls(t, topic, n+1)[n]
		if late := call.At.Sub(j.DueAt); late > time.Second+busy {
			t.Errorf("job %d was called %s after its due time", n, late)
		}
	}
	if len(lost) == 0 {
		t.Error("no wake-up was sent, so this test proves nothing")
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// TestTheAnswerToADeleteOrAChangeGetsLost: "there is no such job" is the answer only for jobs that did not exist, and
// not for one that the request itself removed, or ran, before its answer was lost.
func TestTheAnswerToADeleteOrAChangeGetsLost(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	opts, p := behindProxy(t)
	i := start(t, opts)
	topic := i.topic(t, harness.Slow(200*time.Millisecond), nil)
	const jobs = 40
	for n := range 2 * jobs {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": 1, "delay": "1h"})
	}
	p.Set(harness.Trouble{Lose: 1.0 / 3})
	api, done := i.Quick(), 0
	for n := range jobs {
		answer := api.Do(ctx, http.MethodDelete, harness.JobPath(topic, fmt.Sprint(n)), nil)
		switch answer.Status {
		case http.StatusNoContent:
			done++
		case http.StatusServiceUnavailable:
		default:
			t.Errorf("the delete of an existing job was answered %s", answer)
		}
		answer = api.Do(ctx, http.MethodPost, harness.JobPath(topic, fmt.Sprint(jobs+n))+"/run", nil)
		if answer.Status != http.StatusAccepted && answer.Status != http.StatusServiceUnavailable {
			t.Errorf("the run of an existing job was answered %s", answer)
		}
	}
	p.Heal()
	if done == 0 {
		t.Error("no delete was answered 204")
	}
}
