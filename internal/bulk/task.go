package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
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

// Why returns the localized reason for the task's end; nil if its Error is plain text.
func (t *Task) Why() *LocalizedError {
	var e LocalizedError
	d := json.NewDecoder(strings.NewReader(t.Error))
	d.UseNumber() // otherwise 12 becomes 12.0, and 1234567 1.234567e+06
	if !strings.HasPrefix(t.Error, "{") || d.Decode(&e) != nil || e.Key == "" {
		return nil
	}
	return &e
}

// LocalizedError is an error that a page shows in its reader's language: the key of a text and its arguments.
type LocalizedError struct {
	Key  string `json:"say"`
	Args []any  `json:"args,omitempty"`
}

// Localized makes a LocalizedError.
func Localized(key string, args ...any) error { return &LocalizedError{key, args} }

// Error returns a text for logs, and for a version that does not know the key.
func (e *LocalizedError) Error() string {
	return strings.TrimSpace(e.Key + " " + strings.TrimSuffix(fmt.Sprintln(e.Args...), "\n"))
}

// storedError returns the form in which a task stores an error: the key and arguments of a LocalizedError, else its
// text.
func storedError(err error) string {
	var e *LocalizedError
	if !errors.As(err, &e) {
		return err.Error()
	}
	b, err := json.Marshal(e)
	if err != nil {
		return e.Error()
	}
	return string(b)
}

// stoppedError ends a task that must not go on.
type stoppedError struct{ reason error }

func (e *stoppedError) Error() string { return e.reason.Error() }
func (e *stoppedError) Unwrap() error { return e.reason }

func stop(key string, args ...any) error { return &stoppedError{Localized(key, args...)} }
