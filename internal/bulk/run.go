package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// run is a task that is being carried out.
type run struct {
	runner *Runner
	mu     sync.Mutex
	Record
}

// progress adds to the progress, which is stored within a second.
func (t *run) progress(done, errors int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Done += done
	t.Errors += errors
}

// total sets the number of jobs to do.
func (t *run) total(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Total = n
}

// report updates the parameters, which contain the result.
func (t *run) report(params any) {
	b, err := json.Marshal(params)
	if err != nil {
		return // they were read from JSON
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Params = b
}

// save stores the task's present state, and reports whether it succeeded: a deleted task need not be stored.
func (t *run) save(ctx context.Context) (done bool) {
	t.mu.Lock()
	t.UpdatedAt = t.runner.Now().UTC()
	now := t.Record
	t.mu.Unlock()
	err := t.runner.Store.UpdateTask(ctx, now)
	if err != nil && ctx.Err() == nil {
		t.runner.Log.Warn("store the progress of a task", "task", t.ID, "error", err)
	}
	return err == nil || errors.Is(err, ErrNoTask)
}

const endLimit = 10 * time.Second

// end stores how the task ended, and repeats that while the store is unavailable and this process runs. It reports
// whether it succeeded: if not, the next process resumes the task.
func (t *run) end(ctx context.Context, err error) (stored bool) {
	var stopped *stoppedError
	t.mu.Lock()
	switch {
	case err == nil:
		t.State = Done
	case errors.Is(err, errCancelled):
		t.State = Cancelled
	case errors.As(err, &stopped):
		t.State, t.Error = Stopped, storedError(err)
	default:
		t.State, t.Error = Failed, storedError(err)
	}
	t.mu.Unlock()
	for {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		stored = t.save(limited)
		cancel()
		if stored {
			return true
		}
		if pause(ctx, t.runner.wait) != nil {
			return false
		}
	}
}

// pause waits for d, or returns the reason why the context ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
