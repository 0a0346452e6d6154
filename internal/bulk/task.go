package bulk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/wakecall/wakecall/internal/message"
)

// States of a task. A task is stopped if it ended early because too many jobs failed, or because its list could not
// hold all matching jobs.
const (
	Queued    = "queued"
	Running   = "running"
	Done      = "done"
	Failed    = "failed"
	Stopped   = "stopped"
	Cancelled = "cancelled"
)

// Task is one action on all jobs that match a filter, and its progress.
type Task struct {
	ID              uint64
	Kind            string // Params.Do
	Params          Params `gorm:"serializer:json"`
	State           string
	Done            int64 // jobs that were acted on or skipped
	Total           int64
	Errors          int64  `gorm:"column:failed"` // re-driven jobs that failed again
	Error           string // why the task failed or stopped: text, or a message as JSON
	Actor           string
	Host            string // whose process runs it
	CancelRequested bool
	CreatedAt       time.Time
	UpdatedAt       time.Time
}

// Params say what a task does, and how far it has come.
type Params struct {
	Filter Filter `json:"filter"`
	Action

	Rate      float64 `json:"rate,omitempty"` // jobs per second; 0: no limit
	Staged    bool    `json:"staged,omitempty"`
	StopAbove float64 `json:"stop_above,omitempty"` // share of failures above which a staged task ends
	DryRun    bool    `json:"dry_run,omitempty"`    // count the matching jobs, and act on none
	Key       string  `json:"key,omitempty"`        // there is one task of an actor with this key

	Listed bool    `json:"listed,omitempty"`
	Full   bool    `json:"full,omitempty"`   // the list could not hold all matching jobs
	Offset int64   `json:"offset,omitempty"` // position in the list; the jobs before it are done
	Result Result  `json:"result"`
	Stages []Stage `json:"stages,omitempty"`
}

// Result counts the outcomes of the jobs that matched at the start.
type Result struct {
	Done    int64  `json:"done"`
	Running int64  `json:"running"` // not acted on
	Gone    int64  `json:"gone"`    // delivered or deleted meanwhile
	Moved   int64  `json:"moved"`   // no longer matching
	Failed  int64  `json:"failed"`
	Error   string `json:"error,omitempty"` // the first one
}

// Skipped returns the number of jobs that were skipped.
func (r Result) Skipped() int64 { return r.Running + r.Gone + r.Moved }

// Add adds the outcomes of other jobs.
func (r *Result) Add(o Result) {
	r.Done, r.Running, r.Gone = r.Done+o.Done, r.Running+o.Running, r.Gone+o.Gone
	r.Moved, r.Failed, r.Error = r.Moved+o.Moved, r.Failed+o.Failed, cmp.Or(r.Error, o.Error)
}

// asked returns what was asked for, without the progress.
func (p Params) asked() Params {
	p.Listed, p.Full, p.Offset, p.Result, p.Stages = false, false, 0, Result{}, nil
	return p
}

// asksFor reports whether the task was started with these params.
func (t *Task) asksFor(p Params) bool {
	was, err := json.Marshal(t.Params.asked())
	now, err2 := json.Marshal(p)
	return errors.Join(err, err2) == nil && string(was) == string(now)
}

// Storage stores tasks; Store implements it. UpdateTask does not change CancelRequested.
type Storage interface {
	// CreateTask stores a task and returns its id, or that of the actor's task with the same key. It stores none if
	// admit, which gets the open tasks, returns an error. No other task is created meanwhile.
	CreateTask(ctx context.Context, t Task, admit func(open []Task) error) (uint64, error)
	UpdateTask(ctx context.Context, t Task) error
	GetTask(ctx context.Context, id uint64) (*Task, error)
	ListTasks(ctx context.Context, limit int) ([]Task, error) // newest first
	OpenTasks(ctx context.Context) ([]Task, error)            // newest first
	CancelTask(ctx context.Context, actor string, id uint64) error
}

// Open reports whether the task has not ended.
func (t *Task) Open() bool { return t.State == Queued || t.State == Running }

// Stuck reports whether the task is a re-drive that ended before it had re-driven all its jobs.
func (t *Task) Stuck() bool {
	return t.Kind == Retry && !t.Open() && t.State != Done && t.Done < t.Total
}

// Rest returns what a re-drive that ended early has left: the jobs that were dead before it, without those that failed
// again.
func (t *Task) Rest() Params {
	p := t.Params.asked()
	p.Key = ""
	if p.Filter.Until.IsZero() || p.Filter.Until.After(t.CreatedAt) {
		p.Filter.Until = t.CreatedAt
	}
	return p
}

// silence is how long an open task may go without an update before its process is presumed to have stopped.
const silence = time.Minute

// Silent reports whether the task's process seems to have stopped.
func (t *Task) Silent() bool { return t.Open() && time.Since(t.UpdatedAt) > silence }

// Share returns the percentage done.
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

// stoppedError ends a task that must not continue.
type stoppedError struct{ reason error }

func (e *stoppedError) Error() string { return e.reason.Error() }
func (e *stoppedError) Unwrap() error { return e.reason }

func stop(code string, args ...any) error { return &stoppedError{message.New(code, args...)} }
