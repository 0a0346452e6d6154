package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/wakecall/wakecall/internal/message"
)

// Kinds of tasks. A task on the jobs of one topic has the kind KindJobs(action).
const (
	KindRedrive    = "redrive"
	KindDeleteDead = "delete_dead"
	kindJobs       = "jobs_"
)

// KindJobs returns the kind of a task that performs an action on jobs of a topic.
func KindJobs(do string) string { return kindJobs + do }

// The states of a task. A stopped one ended itself because too many jobs failed, or because it could not include all.
const (
	Queued    = "queued"
	Running   = "running"
	Done      = "done"
	Failed    = "failed"
	Stopped   = "stopped"
	Cancelled = "cancelled"
)

// Storage stores tasks; a Store is one. UpdateTask does not change CancelRequested.
type Storage interface {
	CreateTask(ctx context.Context, t Record) (uint64, error)
	UpdateTask(ctx context.Context, t Record) error
	GetTask(ctx context.Context, id uint64) (*Record, error)
	ListTasks(ctx context.Context, limit int) ([]Record, error) // the newest first
	CancelTask(ctx context.Context, actor string, id uint64) error
}

// Task is work on many jobs that continues when its page is closed.
type Task struct {
	Record
	About Params
}

func newTask(t Record) Task {
	task := Task{Record: t}
	_ = json.Unmarshal(t.Params, &task.About) // of another version: the fields that fit are shown
	task.About.complete(t.Kind)
	return task
}

// Open reports whether the task has not ended.
func (t *Task) Open() bool { return t.State == Queued || t.State == Running }

// silence is how long an open task may have no update before its process is presumed to have stopped.
const silence = time.Minute

// Silent reports whether the task's process seems to have stopped.
func (t *Task) Silent() bool { return t.Open() && time.Since(t.UpdatedAt) > silence }

// Share returns the percentage that is done.
func (t *Task) Share() int {
	if t.Total <= 0 {
		return 0
	}
	return int(min(100, t.Done*100/t.Total))
}

// Why returns why the task ended early; nil if its Error is plain text.
func (t *Task) Why() *message.Message {
	var m message.Message
	if json.Unmarshal([]byte(t.Error), &m) != nil || m.Code == "" {
		return nil
	}
	return &m
}

// storedError returns the form in which a task stores an error: a message as JSON, any other error as its text.
func storedError(err error) string {
	var m message.Message
	if !errors.As(err, &m) {
		return err.Error()
	}
	b, err := json.Marshal(m)
	if err != nil {
		return m.Error()
	}
	return string(b)
}

// stoppedError ends a task that must not go on.
type stoppedError struct{ reason error }

func (e *stoppedError) Error() string { return e.reason.Error() }
func (e *stoppedError) Unwrap() error { return e.reason }

func stop(code string, args ...any) error { return &stoppedError{message.New(code, args...)} }
