package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// taskKind carries out tasks of a kind. It may be called again for a task that was under way when a process ended.
type taskKind func(ctx context.Context, run *taskRun) error

// taskRunner carries out the tasks of this host, a few at a time.
type taskRunner struct {
	store TaskStore
	host  string
	log   *slog.Logger
	now   func() time.Time
	kinds map[string]taskKind
	nudge chan struct{}
	each  time.Duration                       // between looks into the store
	lead  func(context.Context) (bool, error) // of several processes of a host one works; nil: there is one only

	mu      sync.Mutex
	running map[uint64]bool
}

const (
	tasksAtOnce = 4
	taskLease   = 6 * time.Second // that a process of the host has the tasks for itself, from each look
	taskLook    = 2 * time.Second // for new tasks
	taskSave    = time.Second     // between savings of progress, and between looks whether to cancel
)

func newTaskRunner(store TaskStore, host string, log *slog.Logger, now func() time.Time) *taskRunner {
	if store == nil {
		store = &memoryTasks{}
	}
	return &taskRunner{
		store: store, host: host, log: log, now: now, kinds: map[string]taskKind{}, nudge: make(chan struct{}, 1), each: taskLook,
		running: map[uint64]bool{},
	}
}

// start leaves a task for the runner.
func (r *taskRunner) start(ctx context.Context, actor, kind string, params any) (uint64, error) {
	if r.kinds[kind] == nil {
		return 0, fmt.Errorf("start a task: there is no kind %q", kind)
	}
	b, err := json.Marshal(params)
	if err != nil {
		return 0, fmt.Errorf("start a task of the kind %s: %w", kind, err)
	}
	now := r.now().UTC()
	id, err := r.store.CreateTask(ctx, Task{
		Kind: kind, Params: b, State: TaskQueued, Actor: actor, Host: r.host, CreatedAt: now, UpdatedAt: now,
	})
	if err != nil {
		return 0, fmt.Errorf("start a task of the kind %s: %w", kind, err)
	}
	select {
	case r.nudge <- struct{}{}:
	default:
	}
	return id, nil
}

// run works until ctx is done. What is under way then goes on when the next process starts.
func (r *taskRunner) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		next := time.After(r.each) // from before a look that takes long: the lease must not lapse
		for _, task := range r.waiting(ctx) {
			wg.Go(func() { r.carryOut(ctx, task) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		case <-r.nudge:
		}
	}
}

// waiting takes tasks of this host that nobody carries out. The lease is asked for only when there is work: it is a write.
func (r *taskRunner) waiting(ctx context.Context) []Task {
	list := r.open(ctx)
	if len(list) > 0 && r.lead != nil {
		if leads, err := r.lead(ctx); err != nil || !leads {
			return nil
		}
		list = r.open(ctx) // another process may have ended some before it gave up the lease
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var take []Task
	for i := len(list) - 1; i >= 0; i-- { // the oldest first
		t := list[i]
		if r.running[t.ID] || len(r.running) >= tasksAtOnce {
			continue
		}
		r.running[t.ID] = true
		take = append(take, t)
	}
	return take
}

// open are the tasks of this host that have not ended, the newest first.
func (r *taskRunner) open(ctx context.Context) []Task {
	list, err := r.store.ListTasks(ctx, memoryTasksKept)
	if err != nil {
		r.log.Debug("tasks cannot be listed", "error", err)
		return nil
	}
	return slices.DeleteFunc(list, func(t Task) bool { return t.Host != r.host || !t.Open() || r.kinds[t.Kind] == nil })
}

var (
	errTaskCancelled = errors.New("cancelled")
	errTaskEnded     = errors.New("the task ended")
)

// stoppedError ends a task with care.
type stoppedError struct{ sayable }

func (r *taskRunner) carryOut(ctx context.Context, t Task) {
	defer func() {
		r.mu.Lock()
		delete(r.running, t.ID)
		r.mu.Unlock()
	}()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(errTaskEnded)
	run := &taskRun{Task: t, runner: r}
	run.State = TaskRunning
	run.save(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(inner, run, cancel) })
	err := r.kinds[t.Kind](inner, run)
	if cause := context.Cause(inner); err != nil && cause != nil {
		err = cause
	}
	cancel(errTaskEnded)
	watch.Wait()
	if err != nil && ctx.Err() != nil {
		return // this process ends, not the task
	}
	run.end(err)
}

// watch saves the progress and looks for a request to cancel.
func (r *taskRunner) watch(ctx context.Context, run *taskRun, cancel context.CancelCauseFunc) {
	t := time.NewTicker(min(taskSave, r.each))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		run.save(ctx)
		is, err := r.store.GetTask(ctx, run.ID)
		if err == nil && is.CancelRequested {
			cancel(errTaskCancelled)
			return
		}
	}
}

// taskRun is a task being carried out.
type taskRun struct {
	runner *taskRunner
	mu     sync.Mutex
	Task   // under mu, but for what does not change
}

// progress adds to what is done. Savings follow by themselves.
func (t *taskRun) progress(done, errors int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Done += done
	t.Errors += errors
}

// total says how much there is to do.
func (t *taskRun) total(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Total = n
}

// report keeps the parameters with what they report.
func (t *taskRun) report(params any) {
	b, err := json.Marshal(params)
	if err != nil {
		return // they were read from JSON
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Params = b
}

func (t *taskRun) save(ctx context.Context) {
	t.mu.Lock()
	t.UpdatedAt = t.runner.now().UTC()
	now := t.Task
	t.mu.Unlock()
	if err := t.runner.store.UpdateTask(ctx, now); err != nil && ctx.Err() == nil {
		t.runner.log.Warn("the progress of a task cannot be kept", "task", t.ID, "error", err)
	}
}

const taskEndLimit = 10 * time.Second

func (t *taskRun) end(err error) {
	var stopped *stoppedError
	t.mu.Lock()
	switch {
	case err == nil:
		t.State = TaskDone
	case errors.Is(err, errTaskCancelled):
		t.State = TaskCancelled
	case errors.As(err, &stopped):
		t.State, t.Error = TaskStopped, stopped.stored()
	default:
		t.State, t.Error = TaskFailed, storedError(err)
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), taskEndLimit)
	defer cancel()
	t.save(ctx)
}

// pause waits, or tells why not to go on.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
