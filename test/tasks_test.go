package test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// task is what the API tells about a task.
type task struct {
	ID, State, Error string
	Matched, Done    int
	Skipped          struct{ Running, Gone, Changed int }
	Failed           int
	CancelRequested  bool `json:"cancel_requested"`
}

// startTask starts a task with a key; "" for none.
func startTask(t *testing.T, api *harness.API, key string, ask M, status int) (started task) {
	t.Helper()
	header := http.Header{}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	answer := api.DoHeader(ctx, http.MethodPost, "/v1/tasks", ask, header)
	if answer.Err != nil || answer.Status != status {
		t.Fatalf("%v: %s, want %d", ask, answer, status)
	}
	must(t, answer.JSON(&started))
	return started
}

func (i *installation) task(id string) (found task, err error) {
	answer := i.Do(ctx, http.MethodGet, "/v1/tasks/"+id, nil)
	return found, errors.Join(answer.Err, answer.JSON(&found))
}

// waitTask waits until a task has ended.
func (i *installation) waitTask(t *testing.T, id, state string) (ended task) {
	t.Helper()
	harness.Eventually(t, time.Minute, "task "+id+" to be "+state, func() (err error) {
		if ended, err = i.task(id); err != nil {
			return err
		}
		if ended.State != state {
			return fmt.Errorf("it is %+v", ended)
		}
		return nil
	})
	return ended
}

// pushNumbered pushes n jobs in batches.
func (i *installation) pushNumbered(t *testing.T, topic string, n int, delay string) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		var batch []M
		for k := from; k < min(n, from+1000); k++ {
			batch = append(batch, M{"topic": topic, "id": fmt.Sprintf("job-%04d", k), "body": k, "delay": delay})
		}
		i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": batch})
	}
}

// killTaskRoles kills the processes that run tasks.
func (i *installation) killTaskRoles() {
	i.KillRole("server")
	i.KillRole("admin")
}

// TestATaskThroughKills: 5,000 dead jobs are re-driven at a rate, and the processes that do it are killed twice. Each
// job is called once more. Then all are shifted, once.
func TestATaskThroughKills(t *testing.T) {
	t.Parallel()
	const n = 5000
	i := start(t, harness.Options{})
	topic := i.topic(t, harness.FirstCalls(1, harness.Status(http.StatusGone), harness.Status(http.StatusOK)),
		M{"remember": "0"})
	i.pushNumbered(t, topic, n, "0s")
	harness.Eventually(t, time.Minute, "the jobs to be dead", func() error {
		s, err := i.Stats(ctx, topic)
		return errors.Join(err, harness.Equal("dead", s.Dead, n))
	})
	ask := M{"action": "retry", "filter": M{"topic": topic, "error": "410"}, "rate": 1000}
	began := time.Now()
	id := startTask(t, i.API, "again", ask, http.StatusCreated).ID
	for _, at := range []int{800, 2500} {
		harness.Eventually(t, soon, "a part to be done", func() error {
			now, err := i.task(id)
			if err == nil && now.Done < at {
				err = fmt.Errorf("it is %+v", now)
			}
			return err
		})
		i.killTaskRoles()
		i.WaitReady()
	}
	if again := startTask(t, i.API, "again", ask, http.StatusCreated); again.ID != id {
		t.Errorf("the repeated request started task %s", again.ID)
	}
	ended := i.waitTask(t, id, "done")
	if took := time.Since(began); took < n/1000*time.Second {
		t.Errorf("%d jobs took %s at 1,000 a second", n, took)
	}
	if ended.Matched != n || ended.Done+ended.Skipped.Gone != n || ended.Skipped.Gone > 400 || ended.Failed > 0 {
		t.Errorf("the task is %+v", ended)
	}
	harness.Eventually(t, soon, "the topic to be empty", func() error { return i.Drained(ctx, topic) })
	calls := map[string]int{}
	for _, c := range i.endpoint.Calls(topic) {
		calls[c.ID]++
	}
	for id, made := range calls {
		if made != 2 {
			t.Errorf("%s was called %d times", id, made)
		}
	}
	if len(calls) != n {
		t.Errorf("%d jobs were called", len(calls))
	}

	i.pushNumbered(t, topic, 2000, "1h")
	due := map[string]time.Time{}
	list := func(do func(harness.Job)) {
		for _, job := range i.MustList(t, topic, "delayed") {
			do(job)
		}
	}
	list(func(j harness.Job) { due[j.ID] = j.DueAt })
	shift := M{"action": "shift", "by": "90m", "filter": M{"topic": topic, "state": "delayed"}, "rate": 1000}
	id = startTask(t, i.API, "later", shift, http.StatusCreated).ID
	harness.Eventually(t, soon, "a part to be done", func() error {
		now, err := i.task(id)
		if err == nil && now.Done == 0 {
			err = fmt.Errorf("it is %+v", now)
		}
		return err
	})
	i.killTaskRoles()
	i.WaitReady()
	if ended := i.waitTask(t, id, "done"); ended.Done != 2000 {
		t.Errorf("the shift is %+v", ended)
	}
	list(func(j harness.Job) {
		if want := due[j.ID].Add(90 * time.Minute); !j.DueAt.Equal(want) {
			t.Errorf("%s is due at %s, want %s", j.ID, j.DueAt, want)
		}
	})
	if len(due) < 1000 {
		t.Errorf("%d jobs were listed", len(due))
	}
}

// TestTasks: dry runs, cancellation, a share of failures, rights, and two tasks at once.
func TestTasks(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, harness.Status(http.StatusGone), nil)
	other := topic + ".other"
	i.put(t, other, nil, nil)
	i.pushNumbered(t, topic, 300, "0s")
	i.pushNumbered(t, other, 400, "1h")
	harness.Eventually(t, soon, "the jobs to be dead", func() error {
		s, err := i.Stats(ctx, topic)
		return errors.Join(err, harness.Equal("dead", s.Dead, 300))
	})
	retry := func(more M) M {
		ask := M{"action": "retry", "filter": M{"topic": topic}}
		maps.Copy(ask, more)
		return ask
	}
	dry := i.waitTask(t, startTask(t, i.API, "", retry(M{"dry_run": true}), http.StatusCreated).ID, "done")
	if dry.Matched != 300 || dry.Done != 0 || i.MustStats(t, topic).Dead != 300 {
		t.Errorf("the dry run is %+v", dry)
	}
	filtered := M{"action": "delete", "filter": M{
		"topic": other, "state": "delayed", "id_prefix": "job-00", "due_before": time.Now().Add(2 * time.Hour),
	}}
	slow := startTask(t, i.API, "", M{"action": "shift", "by": "1h", "rate": 1, "filter": M{
		"topic": topic + "*", "state": "delayed",
	}}, http.StatusBadRequest) // without a key
	if slow.ID != "" {
		t.Errorf("%+v", slow)
	}
	slow = startTask(t, i.API, "slow", M{"action": "shift", "by": "1h", "rate": 1, "filter": M{
		"topic": topic + "*", "state": "delayed",
	}}, http.StatusCreated)
	harness.Eventually(t, soon, "the slow task to work", func() error {
		now, err := i.task(slow.ID)
		if err == nil && now.Done == 0 {
			err = fmt.Errorf("it is %+v", now)
		}
		return err
	})
	if done := i.waitTask(t, startTask(t, i.API, "", filtered, http.StatusCreated).ID, "done"); done.Done != 100 {
		t.Errorf("another task beside it is %+v", done)
	}
	i.MustDo(t, http.StatusAccepted, http.MethodDelete, "/v1/tasks/"+slow.ID, nil)
	if ended := i.waitTask(t, slow.ID, "cancelled"); ended.Done == 0 || ended.Done > 300 {
		t.Errorf("the cancelled task is %+v", ended)
	}
	i.MustDo(t, http.StatusOK, http.MethodDelete, "/v1/tasks/"+slow.ID, nil)

	staged := startTask(t, i.API, "", retry(M{"stop_above": 0.5}), http.StatusCreated)
	i.MustDo(t, http.StatusConflict, http.MethodPost, "/v1/tasks", retry(nil))
	if ended := i.waitTask(t, staged.ID, "stopped"); ended.Done != 10 || ended.Error == "" {
		t.Errorf("the task of which all jobs fail is %+v", ended)
	}

	var own struct{ Token string }
	must(t, i.MustDo(t, http.StatusCreated, http.MethodPost, "/v1/tokens", M{
		"name": "team", "rights": []string{"manage", "read"}, "topics": []string{other},
	}).JSON(&own))
	team := harness.NewAPI(i.Base, own.Token)
	team.MustDo(t, http.StatusForbidden, http.MethodPost, "/v1/tasks", retry(nil))
	team.MustDo(t, http.StatusForbidden, http.MethodPost, "/v1/tasks",
		M{"action": "retry", "filter": M{"topic": topic + "*"}})
	team.MustDo(t, http.StatusNotFound, http.MethodDelete, "/v1/tasks/"+staged.ID, nil)
	mine := startTask(t, team, "slow", M{"action": "run", "filter": M{"topic": other}}, http.StatusCreated)
	var list struct{ Tasks []task }
	must(t, team.MustDo(t, http.StatusOK, http.MethodGet, "/v1/tasks", nil).JSON(&list))
	if len(list.Tasks) != 2 || list.Tasks[0].ID != mine.ID {
		t.Errorf("the team sees %+v", list.Tasks)
	}
	i.endpoint.WaitCalls(t, other, 300)
}
