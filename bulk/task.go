package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kinds of tasks. A task on the jobs of one topic has the kind Jobs(action).
const (
	KindRedrive    = "redrive"
	KindDeleteDead = "delete_dead"
	kindJobs       = "jobs_"
)

// KindJobs is the kind of a task that does an action with jobs of a topic.
func KindJobs(do string) string { return kindJobs + do }

// The states of a task. A stopped one ended itself because too much failed, or because it could not do all.
const (
	Queued    = "queued"
	Running   = "running"
	Done      = "done"
	Failed    = "failed"
	Stopped   = "stopped"
	Cancelled = "cancelled"
)

// Storage keeps tasks; a Store is one. UpdateTask leaves CancelRequested as it is.
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
	_ = json.Unmarshal(t.Params, &task.About) // of another version: what fits is shown
	task.About.complete(t.Kind)
	return task
}

// Open reports whether the task has not ended.
func (t *Task) Open() bool { return t.State == Queued || t.State == Running }

// silence is how long an open task may go without an update before its process seems to be gone.
const silence = time.Minute

// Silent reports whether nobody seems to work on the task.
func (t *Task) Silent() bool { return t.Open() && time.Since(t.UpdatedAt) > silence }

// Share is the percentage that is done.
func (t *Task) Share() int {
	if t.Total <= 0 {
		return 0
	}
	return int(min(100, t.Done*100/t.Total))
}

// Why is the localized reason for the task's end; nil when its Error is plain text.
func (t *Task) Why() *LocalizedError {
	var e LocalizedError
	d := json.NewDecoder(strings.NewReader(t.Error))
	d.UseNumber() // or 12 becomes 12.0, and 1234567 1.234567e+06
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

// Error is for logs, and for a version that does not know the text.
func (e *LocalizedError) Error() string {
	return strings.TrimSpace(e.Key + " " + strings.TrimSuffix(fmt.Sprintln(e.Args...), "\n"))
}

// storedError is what a task keeps of an error: localized if it is, else its text.
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

// stoppedError ends a task that should not go on.
type stoppedError struct{ reason error }

func (e *stoppedError) Error() string { return e.reason.Error() }
func (e *stoppedError) Unwrap() error { return e.reason }

func stop(key string, args ...any) error { return &stoppedError{Localized(key, args...)} }
