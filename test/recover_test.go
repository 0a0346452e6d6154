package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/test/harness"
)

// TestRecoverHasNoEffectOnAHealthyInstallation: while jobs are pushed, replaced, deleted, called and retried, `wakecall
// recover` finds nothing to do and changes nothing.
func TestRecoverHasNoEffectOnAHealthyInstallation(t *testing.T) {
	t.Parallel()
	i := start(t, onRedis(harness.StartRedis(t, harness.RedisOptions{})))
	behave := harness.FirstCalls(1, harness.Status(http.StatusConflict), harness.Status(http.StatusOK))
	topic := i.topic(t, behave, M{"retry": []string{"300ms"}, "ttr": "5s"})
	i.put(t, topic+".waiting", nil, nil)
	for n := range 150 { // so that reading the journal takes a while, in which jobs change
		i.pushMany(t, topic+".waiting", fmt.Sprint(n), "1h")
	}
	ledger := harness.NewLedger()
	load := i.pushReplaceDelete(t, ledger, topic)
	for _, args := range [][]string{nil, nil, nil, nil, nil, nil, {"--dry-run"}} {
		load.WaitRequests(t, 40)
		code, out := i.Run(append([]string{"recover", "--since", "10m", "-o", "json"}, args...)...)
		var report reconcile.Report
		if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
			t.Fatalf("recover %v exited with %d: %v: %s", args, code, err, out)
		}
		if report.Jobs == 0 || !report.Quiet() || report.Pushed+report.Unknown+report.Failed > 0 {
			t.Errorf("recover %v: %s", args, out)
		}
	}
	if failed := load.Stop().Failed; len(failed) > 0 {
		t.Error(failed)
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// pushReplaceDelete starts 100 requests a second. Of each two jobs of a client the first is deleted, when it may wait
// for its retry, and the second is replaced.
func (i *installation) pushReplaceDelete(t *testing.T, l *harness.Ledger, topic string) *harness.Load {
	api := i.Quick()
	return harness.StartClients(t, 8, 100, func(client int) harness.Client {
		n := -1
		return func(ctx context.Context) error {
			n++
			id := func(n int) string { return fmt.Sprintf("%d-%d", client, n) }
			var answer harness.Answer
			switch n % 4 {
			case 0:
				answer = l.Push(context.WithoutCancel(ctx), api, topic, id(n), M{"delay": "100ms"})
			case 1:
				answer = l.Push(context.WithoutCancel(ctx), api, topic, id(n), M{"delay": "1s"})
			case 2:
				answer = l.Push(context.WithoutCancel(ctx), api, topic, id(n-1),
					M{"delay": "500ms", "on_duplicate": "replace", "body": M{"new": n}})
			case 3:
				answer = l.Delete(context.WithoutCancel(ctx), api, topic, id(n-3))
			}
			if answer.Err != nil || answer.Status >= 300 && answer.Status != http.StatusNotFound {
				return fmt.Errorf("request %d: %s", n, answer)
			}
			return nil
		}
	})
}

// TestDroppedJobsStayDroppedAfterALoss: jobs of a topic that was dropped are not called after Redis has lost the drop, or
// everything. Jobs pushed to it after the drop are.
func TestDroppedJobsStayDroppedAfterALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *harness.Redis) func(){
		"everything": func(_ *testing.T, r *harness.Redis) func() { return r.Lose },
		"the drop": func(t *testing.T, r *harness.Redis) func() {
			waitKept(t, r)
			return r.Remember()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := harness.StartRedis(t, harness.RedisOptions{})
			i := start(t, onRedis(r))
			topic := i.topic(t, nil, M{"state": "paused"})
			for n := range 15 { // 1,200 ready jobs of one priority, and others that wait
				delay := []string{"0s", "0s", "0s", "0s", "3s"}[n%5]
				i.pushMany(t, topic, fmt.Sprintf("dropped-%d", n), delay)
			}
			forget := lose(t, r)
			i.MustDo(t, http.StatusNoContent, http.MethodDelete, "/v1/topics/"+topic+"?drop=true", nil)
			i.put(t, topic, nil, nil)
			i.pushMany(t, topic, "kept", "0s")
			i.pushMany(t, topic, "kept-later", "4s")
			forget()
			r.Restart()
			harness.Eventually(t, soon, "the jobs that were pushed after the drop to be called", func() error {
				called := map[string]bool{}
				for _, c := range i.endpoint.Calls(topic) {
					called[c.ID] = true
					if c.ID[0] == 'd' {
						t.Fatalf("%s was called, and had been dropped", c.ID)
					}
				}
				return harness.Equal("their number", len(called), 200)
			})
			harness.Eventually(t, soon, "no job to be left", func() error { return i.Drained(ctx, topic) })
		})
	}
}

// pushMany pushes a hundred jobs of a topic.
func (i *installation) pushMany(t *testing.T, topic, prefix, delay string) {
	t.Helper()
	var batch []M
	for n := range 100 {
		batch = append(batch, M{"topic": topic, "id": fmt.Sprintf("%s-%d", prefix, n), "body": n, "delay": delay})
	}
	i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": batch})
}
