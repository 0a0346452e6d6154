package test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
)

// TestEndpointsThatMisbehave: each call is a failed attempt with a reason and ends in time, and the retry succeeds.
func TestEndpointsThatMisbehave(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	t.Run("hangs", i.endpointHangs)
	t.Run("drips", i.endpointDrips)
	t.Run("resets", func(t *testing.T) { i.endpointFails(t, harness.Reset()) })
	t.Run("answers garbage", func(t *testing.T) { i.endpointFails(t, harness.Garbage()) })
	t.Run("hangs up in the middle", func(t *testing.T) { i.endpointFails(t, harness.HalfAnswer()) })
	t.Run("redirects", func(t *testing.T) { i.endpointFails(t, harness.Redirect("http://169.254.169.254/")) })
	t.Run("answers 1 GB", i.endpointFloods)
	t.Run("refuses connections", i.endpointRefuses)
}

// badThenGood pushes n jobs whose first calls meet the behaviour, and checks the results.
func (i *installation) badThenGood(t *testing.T, bad harness.Behaviour, n int, ttr string) (topic string) {
	t.Helper()
	topic = i.topic(t, harness.FirstCalls(1, bad, harness.Status(200)),
		M{"ttr": ttr, "retry": []string{"100ms"}, "max_attempts": 20})
	ledger := harness.NewLedger()
	for k := range n {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(k), nil)
	}
	harness.Eventually(t, soon, "every job to be called twice", func() error {
		for k := range n {
			if calls := len(i.endpoint.CallsOf(topic, fmt.Sprint(k))); calls < 2 {
				return fmt.Errorf("%d was called %d times", k, calls)
			}
		}
		return nil
	})
	ledger.Verdict(t, i.API, i.endpoint, 0)
	return topic
}

func (i *installation) endpointFails(t *testing.T, bad harness.Behaviour) {
	topic := i.badThenGood(t, bad, 10, "5s") + ".once"
	i.put(t, topic, bad, M{"max_attempts": 1})
	i.MustPush(t, topic, M{"id": "reason", "body": 1})
	j := i.waitState(t, topic, "reason", "dead")
	if h := j.History; len(h) != 1 || h[0].Error == "" {
		t.Errorf("history is %+v, want an error with the reason", h)
	}
}

// endsByTTR checks that a call that would last forever is ended by the TTR of a second.
func (i *installation) endsByTTR(t *testing.T, bad harness.Behaviour) {
	t.Helper()
	topic := topicName(t) + ".once"
	i.put(t, topic, bad, M{"ttr": "1s", "max_attempts": 1})
	i.MustPush(t, topic, M{"id": "reason", "body": 1})
	j := i.waitState(t, topic, "reason", "dead")
	// the limit of a busy machine is below the default TTR of 10s
	if h := j.History; len(h) != 1 || h[0].Error == "" || h[0].TookMS < 950 || h[0].TookMS > 8000 {
		t.Errorf("history is %+v, want a timeout after the TTR of 1s", h)
	}
}

func (i *installation) endpointHangs(t *testing.T) {
	i.badThenGood(t, harness.Hang(), 20, "1s")
	i.endsByTTR(t, harness.Hang())
}

func (i *installation) endpointDrips(t *testing.T) {
	i.badThenGood(t, harness.Drip(), 20, "1s")
	i.endsByTTR(t, harness.Drip())
}

func (i *installation) endpointFloods(t *testing.T) {
	const size = 1 << 30
	var taken atomic.Int64
	flood := harness.Huge(size, func(n int64) { taken.Add(n) })
	topic := i.topic(t, flood, nil)
	before := i.memory(t, "dispatcher")
	ledger := harness.NewLedger()
	for n := range 20 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), nil)
	}
	i.endpoint.WaitCalls(t, topic, 20)
	i.endpoint.Set("/"+topic, nil)
	ledger.Verdict(t, i.API, i.endpoint, 0)
	if n := taken.Load(); n > 20*(8<<20) { // the size of the sockets' buffers
		t.Errorf("%d MB of the answers were read", n>>20)
	}
	if after := i.memory(t, "dispatcher"); after > before+200<<20 { // of all dispatchers, and the race detector
		t.Errorf("the dispatchers grew from %d to %d MB", before>>20, after>>20)
	}
}

var residentSet = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// memory returns the resident memory of the processes of a role.
func (i *installation) memory(t *testing.T, role string) (sum int64) {
	t.Helper()
	for _, pid := range i.Role(role) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		kb, err := strconv.ParseInt(residentSet.FindStringSubmatch(string(status))[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += kb << 10
	}
	return sum
}

func (i *installation) endpointRefuses(t *testing.T) {
	other := harness.StartEndpoint(t)
	topic := topicName(t)
	i.MustPutTopic(t, topic, M{"callback_url": other.URL("/"), "retry": []string{"200ms"}, "max_attempts": 100})
	other.Stop()
	ledger := harness.NewLedger()
	for n := range 10 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), nil)
	}
	harness.Eventually(t, soon, "an attempt to have an error", func() error {
		for _, state := range []string{"delayed", "ready", "running"} {
			for _, j := range i.MustList(t, topic, state) {
				answer := i.Do(ctx, http.MethodGet, harness.JobPath(topic, j.ID), nil)
				if err := answer.JSON(&j); err == nil && len(j.History) > 0 && j.History[0].Error != "" {
					return nil
				}
			}
		}
		return fmt.Errorf("no history has an error")
	})
	other.Start()
	ledger.Verdict(t, i.API, other, 0)
}
