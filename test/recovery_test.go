package test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// TestLostWritesAreRecovered: Redis is back without its last seconds of writes. Jobs that were pushed then exist again,
// changes hold, deleted jobs are not called, delivered ones are not called again.
func TestLostWritesAreRecovered(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	push := func(id, delay string) { ledger.MustPush(t, i.API, topic, id, M{"delay": delay, "body": M{"of": id}}) }
	for n := range 20 {
		push(fmt.Sprintf("before-%d", n), "1h")
	}
	push("deleted", "15s")
	pushed := time.Now()
	push("delivered", "2s")
	push("changed", "1h")
	waitKept(t, r)
	forget := r.Remember()

	if answer := ledger.Delete(ctx, i.API, topic, "deleted"); answer.Status != http.StatusNoContent {
		t.Fatalf("delete: %s", answer)
	}
	for n := range 20 {
		push(fmt.Sprintf("after-%d", n), "1h")
	}
	i.MustDo(t, http.StatusOK, http.MethodPatch, harness.JobPath(topic, "changed"), M{"delay": "2h", "body": "new"})
	changed := i.MustGet(t, topic, "changed")
	i.endpoint.WaitCalls(t, topic, 1)
	i.waitGone(t, topic, "delivered")

	forget()
	r.Restart()
	for n := range 20 {
		i.waitState(t, topic, fmt.Sprintf("before-%d", n), "delayed")
		i.waitState(t, topic, fmt.Sprintf("after-%d", n), "delayed")
	}
	i.waitGone(t, topic, "deleted")
	harness.Eventually(t, soon, "the change to be recovered", func() error {
		got := i.MustGet(t, topic, "changed")
		return harness.Equal("due and body", fmt.Sprint(got.DueAt, string(got.Body)),
			fmt.Sprint(changed.DueAt, string(changed.Body)))
	})
	push("later", max(0, time.Until(pushed.Add(16*time.Second))).String()) // when the deleted job would have been due
	harness.Eventually(t, soon, "callbacks to continue", func() error {
		return harness.Equal("called", len(i.endpoint.CallsOf(topic, "later")) > 0, true)
	})
	if n := len(i.endpoint.CallsOf(topic, "deleted")); n != 0 {
		t.Errorf("the deleted job was called %d times", n)
	}
	if n := len(i.endpoint.CallsOf(topic, "delivered")); n != 1 {
		t.Errorf("the delivered job was called %d times", n)
	}
	findings := ""
	harness.Eventually(t, soon, "the finding", func() error {
		_, findings = i.Run("ps")
		if !strings.Contains(findings, "pushed again: 20, ") {
			return fmt.Errorf("`wakecall ps` prints %s", findings)
		}
		return nil
	})
}

// waitKept waits until Redis has the journal's current end, so that little is left to compare.
func waitKept(t *testing.T, r *harness.Redis) {
	t.Helper()
	noted := func() string { return fmt.Sprint(r.Do("HVALS", "wk:{0}:hosts")) }
	before := noted()
	harness.Eventually(t, soon, "the journal's end to be stored", func() error {
		return harness.Equal("stored again", noted() != before, true)
	})
}

// TestAShardThatLostEverythingLosesNoJob, because every answer was in the journal on disk before it was sent.
func TestAShardThatLostEverythingLosesNoJob(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t, harness.RedisOptions{})
	opts := onRedis(r)
	opts.Env["WAKECALL_JOURNAL_SYNC"] = "always"
	i := start(t, opts)
	topic := i.topic(t, nil, M{"retry": []string{"100ms"}, "ttr": "5s"})
	ledger := harness.NewLedger()
	load := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic, Rate: 100, Pushers: 8, Fields: M{"delay": "2s"}})
	ledger.WaitAcknowledged(t, 300)
	r.Lose()
	r.Restart()
	ledger.WaitAcknowledged(t, 400)
	load.Stop()
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

// TestRecoverByHand: `wakecall recover` does what its dry run announced.
func TestRecoverByHand(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	topic := i.topic(t, nil, nil)
	for n := range 5 {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": n, "delay": "1h"})
	}
	i.MustPutTopic(t, "byhand.*", M{"delivery": "pull"})
	i.MustPush(t, "byhand.member", M{"id": "5", "body": 5, "delay": "1h"})
	waitKept(t, r)
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	r.Do("FLUSHALL")
	code, out := i.Run("recover", "--dry-run")
	if code != 0 || !strings.Contains(out, "missing") || !strings.Contains(out, "6") {
		t.Errorf("dry run: %d: %s", code, out)
	}
	if n := r.Do("EXISTS", "wk:{0}:topics"); n != int64(0) {
		t.Error("the dry run stored jobs")
	}
	if code, out = i.Run("recover", "--since", "1h"); code != 0 || !strings.Contains(out, "pushed again") {
		t.Errorf("recover: %d: %s", code, out)
	}
	if code, out = i.Run("recover", "-o", "json"); code != 0 || !strings.Contains(out, `"there": 6`) {
		t.Errorf("a second time: %d: %s", code, out)
	}
	if code, out = i.Run("recover", "--journal", "/nowhere"); code != 1 || !strings.Contains(out, "/nowhere") {
		t.Errorf("no journal: %d: %s", code, out)
	}
}

// TestPushesAreSpooledWhileNoShardIsUp: with the spool on, a push is refused only if it depends on an older job. When
// Redis is back, all jobs arrive in order, even if every process was killed meanwhile.
func TestPushesAreSpooledWhileNoShardIsUp(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t, harness.RedisOptions{})
	opts := onRedis(r)
	opts.Env["WAKECALL_SPOOL"] = "on"
	i := start(t, opts)
	topic := i.topic(t, nil, nil)
	lost := topic + ".lost"
	i.put(t, lost, nil, nil)
	i.MustPutTopic(t, "spool.*", M{"delivery": "pull"})
	i.MustPush(t, topic, M{"id": "kept", "body": "first", "delay": "1h"})
	r.Kill9()
	push := func(id, delay string) harness.Answer {
		return i.Push(ctx, topic, M{"id": id, "body": "of " + id, "delay": delay})
	}
	harness.Eventually(t, soon, "pushes to be spooled", func() error {
		answer := push("kept", "1h")
		if answer.Status != http.StatusAccepted || !strings.Contains(answer.String(), `"state":"spooled"`) {
			return fmt.Errorf("the answer is %s", answer)
		}
		return nil
	})
	for n := range 50 {
		if answer := push(fmt.Sprintf("spooled-%02d", n), "100ms"); answer.Status != http.StatusAccepted {
			t.Fatalf("push %d: %s", n, answer)
		}
	}
	for _, name := range []string{"spool.member", lost} {
		if answer := i.Push(ctx, name, M{"id": "one", "body": 1}); answer.Status != http.StatusAccepted {
			t.Fatalf("a push to %s: %s", name, answer)
		}
	}
	for _, how := range []string{"error", "replace"} {
		answer := i.Push(ctx, topic, M{"id": "kept", "body": 1, "on_duplicate": how})
		if answer.Status != http.StatusServiceUnavailable {
			t.Errorf("on_duplicate %s: %s", how, answer)
		}
	}
	if err := i.Readyz(); err != nil {
		t.Errorf("/readyz: %v", err)
	}
	i.shows(t, "wakecall_spool_pending", 1)
	i.Kill9()
	r.Restart()
	i.loseTopic(t, lost)
	i.Up()
	i.WaitReady()
	calls := i.endpoint.WaitCalls(t, topic, 50)
	i.put(t, lost, nil, nil)
	i.MustGet(t, lost, "one")
	seen := map[string]int{}
	for _, c := range calls {
		seen[c.ID]++
	}
	if len(seen) != 50 || len(calls) != 50 {
		t.Errorf("%d calls of %d jobs, want one each of 50", len(calls), len(seen))
	}
	i.MustGet(t, "spool.member", "one")
	if got := i.MustGet(t, topic, "kept"); string(got.Body) != `"first"` {
		t.Errorf("the existing job has the body %s", got.Body)
	}
	i.shows(t, "wakecall_spool_pending", 0)
}

// TestAPushWhoseAnswerWasLostIsInTwoShards: its shard has stored it but cannot answer, and the push goes to the next
// shard. So the job is called at most twice, and a deletion reaches both copies.
func TestAPushWhoseAnswerWasLostIsInTwoShards(t *testing.T) {
	t.Parallel()
	a, b := harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})
	p := harness.StartProxy(t, a.Addr())
	nodes := "redis://" + p.Addr() + "/0," + b.URL()
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_REDIS_NODES": nodes}})
	topic := i.topic(t, nil, nil)
	const jobs = 20
	batch := []M{}
	for n := range 2 * jobs { // without ids, so that no shard is searched for them first
		batch = append(batch, M{"topic": topic, "body": n, "delay": []string{"4s", "1h"}[n%2]})
	}
	n := 0
	harness.Eventually(t, soon, "both shards to have the script", func() error {
		for range 10 {
			n++
			i.MustPush(t, topic, M{"id": fmt.Sprint("warm-", n), "body": 1, "delay": "1h"})
		}
		return errors.Join(harness.Equal("jobs in a", fmt.Sprint(a.Do("EXISTS", "wk:{0}:j:"+topic)), "1"),
			harness.Equal("jobs in b", fmt.Sprint(b.Do("EXISTS", "wk:{0}:j:"+topic)), "1"))
	})
	before := a.Do("HLEN", "wk:{0}:j:"+topic)
	p.Set(harness.Trouble{Lose: 1})
	answer := i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": batch})
	if n := a.Do("HLEN", "wk:{0}:j:"+topic); n == before {
		t.Fatalf("the first shard still has %v jobs: no job is in both shards", n)
	}
	if strings.Contains(answer.String(), `"error"`) {
		t.Fatalf("not all were accepted: %s", answer)
	}
	var pushed struct{ Results []struct{ ID string } }
	if err := answer.JSON(&pushed); err != nil || len(pushed.Results) != 2*jobs {
		t.Fatalf("answered %s", answer)
	}
	p.Heal()
	path := "/v1/topics/" + topic + "/jobs/"
	harness.Eventually(t, soon, "both shards to answer", func() error {
		return harness.Equal("status", i.Do(ctx, http.MethodGet, path+"nobody", nil).Status, http.StatusNotFound)
	})
	for n, r := range pushed.Results {
		if n%2 == 1 {
			i.MustDo(t, http.StatusNoContent, http.MethodDelete, path+r.ID, nil)
			i.MustDo(t, http.StatusNotFound, http.MethodGet, path+r.ID, nil)
		}
	}
	i.endpoint.WaitCalls(t, topic, jobs)
	i.passes(t)
	seen := map[string]int{}
	for _, c := range i.endpoint.Calls(topic) {
		if seen[c.ID]++; seen[c.ID] > 2 {
			t.Errorf("%s was called %d times", c.ID, seen[c.ID])
		}
	}
	if len(seen) != jobs {
		t.Errorf("%d jobs were called, want %d", len(seen), jobs)
	}
}
