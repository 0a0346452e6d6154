package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// outcomes is a queue with configured results for each job, which records its calls.
type outcomes struct {
	Queue
	jobs map[string]*store.Job
	errs map[string]error // results by id; those for dead jobs are under ""
	dead int              // how many of the dead jobs exist

	mu    sync.Mutex
	asked []string
}

func (q *outcomes) note(what, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = append(q.asked, what+" "+id)
	return q.errs[id]
}

func (q *outcomes) Find(_ context.Context, refs []store.Ref) (list []*store.Job, err error) {
	for _, ref := range refs {
		list = append(list, q.jobs[ref.ID])
	}
	return list, q.errs["Find"]
}

func (q *outcomes) RunNow(_ context.Context, _, id string, _ store.Match) (*store.Job, error) {
	return nil, q.note("run", id)
}

func (q *outcomes) Delete(_ context.Context, _, id string, _ store.Match) error {
	return q.note("delete", id)
}

func (q *outcomes) Change(_ context.Context, _, id string, c store.Change) (*store.Job, error) {
	return nil, q.note("due in "+time.Until(*c.DueAt).Round(time.Minute).String()+",", id)
}

func (q *outcomes) EndDead(_ context.Context, c store.DeadCall) (int, error) {
	return q.dead, errors.Join(q.note(string(c.Kind), strings.Join(c.IDs, "+")), q.errs[""])
}

// newOutcomes has jobs that are named after their states.
func newOutcomes() *outcomes {
	q := &outcomes{jobs: map[string]*store.Job{}, errs: map[string]error{}, dead: 2}
	for id, state := range map[string]store.State{
		"delayed": store.Delayed, "ready": store.Ready, "running": store.Running, "dead1": store.Dead,
		"dead2": store.Dead,
	} {
		q.jobs[id] = &store.Job{Topic: "shop", ID: id, State: state, DueAt: time.Now().Add(time.Hour)}
	}
	q.jobs["delayed"].NextAt = time.Now().Add(3 * time.Hour) // for its retry
	return q
}

var everyState = []string{"delayed", "ready", "running", "dead1", "dead2", "gone"}

// TestAnActionIsForTheStatesInWhichJobsWereShown: it skips running jobs, and those whose state has changed.
func TestAnActionIsForTheStatesInWhichJobsWereShown(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		do    Action
		shown store.State
		want  Result
		asked string
	}{
		"run": {Action{Do: Run}, "", Result{Done: 4, Running: 1, Gone: 1}, "redrive dead1+dead2|run delayed|run ready"},
		"run what was delayed": {
			Action{Do: Run}, store.Delayed, Result{Done: 2, Running: 1, Gone: 1, Moved: 2}, "run delayed|run ready",
		},
		"delete": {
			Action{Do: Delete}, "", Result{Done: 4, Running: 1, Gone: 1},
			"delete delayed|delete ready|drop dead1+dead2",
		},
		"delete what was dead": {
			Action{Do: Delete}, store.Dead, Result{Done: 2, Running: 1, Gone: 1, Moved: 2}, "drop dead1+dead2",
		},
		"retry": {Action{Do: Retry}, "", Result{Done: 2, Running: 1, Gone: 1, Moved: 2}, "redrive dead1+dead2"},
		"later": {
			Action{Do: Due, Shift: time.Hour}, "", Result{Done: 2, Running: 1, Gone: 1, Moved: 2},
			"due in 2h0m0s, ready|due in 4h0m0s, delayed",
		},
		"at a time": {
			Action{Do: Due, At: time.Now().Add(time.Minute), Shift: time.Hour}, "",
			Result{Done: 2, Running: 1, Gone: 1, Moved: 2},
			"due in 1m0s, delayed|due in 1m0s, ready",
		},
	} {
		q := newOutcomes()
		got, err := Apply(t.Context(), q, "shop", everyState, x.do, x.shown)
		slices.Sort(q.asked)
		if asked := strings.Join(q.asked, "|"); err != nil || got != x.want || asked != x.asked {
			t.Errorf("%s: %+v, %v, calls %s", name, got, err, asked)
		}
	}
}

// TestWhatCannotBeDoneIsCountedByItsReason, and the first error is reported.
func TestWhatCannotBeDoneIsCountedByItsReason(t *testing.T) {
	t.Parallel()
	q := newOutcomes()
	for id, err := range map[string]error{
		"gone": store.ErrNotFound, "taken": store.ErrRunning, "died": store.ErrDead, "broken": errors.New("no shard"),
	} {
		q.jobs[id] = &store.Job{Topic: "shop", ID: id, State: store.Ready}
		q.errs[id] = fmt.Errorf("delete shop/%s: %w", id, err)
	}
	got, err := Apply(t.Context(), q, "shop", []string{"gone", "taken", "died", "broken", "ready"}, Action{Do: Delete},
		"")
	want := Result{Done: 1, Running: 1, Gone: 1, Moved: 1, Failed: 1, Error: "delete shop/broken: no shard"}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	q.dead = 1
	if got, err := Apply(t.Context(), q, "shop", everyState[3:5], Action{Do: Retry}, ""); err != nil ||
		got != (Result{Done: 1, Gone: 1}) {
		t.Errorf("one of two dead jobs was re-driven: %+v, %v", got, err)
	}
	q.errs[""] = errors.New("no shard")
	if got, err := Apply(t.Context(), q, "shop", everyState[3:5], Action{Do: Retry}, ""); err != nil ||
		got != (Result{Done: 1, Failed: 1, Error: "no shard"}) {
		t.Errorf("a shard went down in between: %+v, %v", got, err)
	}
	q.errs["Find"] = errors.New("no shard")
	if got, err := Apply(t.Context(), q, "shop", everyState, Action{Do: Run}, ""); err == nil || got != (Result{}) {
		t.Errorf("jobs that cannot be found: %+v, %v", got, err)
	}
	asked := len(q.asked)
	for _, do := range []string{"", "drop", strings.Repeat("x", 1000)} {
		if _, err := Apply(t.Context(), q, "shop", everyState, Action{Do: do}, ""); err == nil ||
			len(err.Error()) > 200 {
			t.Errorf("the action %.10q: %v", do, err)
		}
	}
	if len(q.asked) != asked {
		t.Errorf("unknown actions did %v", q.asked[asked:])
	}
}

func TestNothingIsDoneForABrowserThatHasLeft(t *testing.T) {
	t.Parallel()
	q := newOutcomes()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if got, err := Apply(ctx, q, "shop", everyState, Action{Do: Run}, ""); err != nil || got.Done != 0 ||
		len(q.asked) != 0 {
		t.Errorf("%+v, %v, calls %v", got, err, q.asked)
	}
}

func TestResultsAddUp(t *testing.T) {
	t.Parallel()
	sum := Result{Done: 1, Running: 2, Gone: 3, Moved: 4, Failed: 5}
	sum.Add(Result{Done: 10, Running: 20, Gone: 30, Moved: 40, Failed: 50, Error: "first"})
	sum.Add(Result{Error: "second"})
	if want := (Result{11, 22, 33, 44, 55, "first"}); sum != want || sum.Skipped() != 99 {
		t.Errorf("%+v, %d skipped", sum, sum.Skipped())
	}
}

func TestATaskNeedsAnActionOfItsState(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		state store.State
		do    string
		ok    bool
	}{
		{store.Delayed, Run, true}, {store.Delayed, Retry, false}, {store.Ready, Run, false}, {store.Ready, Delete,
			true},
		{store.Dead, Retry, true}, {store.Dead, Due, false}, {store.Running, Delete, false}, {"", Delete, false},
	} {
		p := Params{Filter: Filter{State: x.state}, Action: Action{Do: x.do}}
		if err := p.validate(); (err == nil) != x.ok {
			t.Errorf("%s of %s jobs: %v", x.do, x.state, err)
		}
	}
	for shift, ok := range map[time.Duration]bool{0: false, -time.Hour: true} {
		p := Params{Filter: Filter{State: store.Delayed}, Action: Action{Do: Due, Shift: shift}}
		if err := p.validate(); (err == nil) != ok {
			t.Errorf("another due time, moved by %s: %v", shift, err)
		}
	}
}
