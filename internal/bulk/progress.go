package bulk

import (
	"context"
	"errors"
	"time"

	"github.com/wakecall/wakecall/internal/pause"
)

const (
	checkInEvery = time.Second
	endLimit     = 10 * time.Second
)

var errCancelled = errors.New("cancelled")

// store stores the task's progress, and reports whether it succeeded. It also reports success for a deleted task.
func (w *work) store(ctx context.Context) (stored bool) {
	w.task.UpdatedAt = w.runner.Now().UTC()
	err := w.runner.UpdateTask(ctx, w.task)
	if err != nil && ctx.Err() == nil {
		w.runner.Log.Warn("store progress of task", "task", w.task.ID, "error", err)
	}
	return err == nil || errors.Is(err, ErrNoTask)
}

// checkIn stores the progress, and returns errCancelled if the task must end. It does so about once a second, however
// often it is called. While the store is unavailable, the work continues.
func (w *work) checkIn(ctx context.Context) error {
	if time.Since(w.checkedIn) < min(checkInEvery, w.runner.PollEvery) {
		return ctx.Err()
	}
	w.checkedIn = time.Now()
	w.store(ctx)
	t, err := w.runner.GetTask(ctx, w.task.ID)
	if err == nil && t.CancelRequested {
		return errCancelled
	}
	return ctx.Err()
}

// pause waits for d and calls checkIn meanwhile.
func (w *work) pause(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); ; {
		if err := w.checkIn(ctx); err != nil {
			return err
		}
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		if !pause.For(ctx, min(left, checkInEvery)) {
			return ctx.Err()
		}
	}
}

// end stores how the task ended. It retries while the store is unavailable, until this process stops, and reports
// whether it succeeded. If not, the next process resumes the task.
func (w *work) end(ctx context.Context, err error) (stored bool) {
	var stopped *stoppedError
	switch {
	case err == nil:
		w.task.State = Done
	case errors.Is(err, errCancelled):
		w.task.State = Cancelled
	case errors.As(err, &stopped):
		w.task.State, w.task.Error = Stopped, storedError(err)
	default:
		w.task.State, w.task.Error = Failed, storedError(err)
	}
	for {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		stored = w.store(limited)
		cancel()
		if stored {
			return true
		}
		if !pause.For(ctx, w.runner.wait) {
			return false
		}
	}
}
