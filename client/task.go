package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"time"
)

// TaskFilter selects the jobs of a task. Topic is required. Zero fields select any.
type TaskFilter struct {
	Topic     string     `json:"topic"`               // a name, or a pattern such as shop.*
	State     string     `json:"state,omitempty"`     // delayed, ready or dead; empty: what run or retry need
	IDPrefix  string     `json:"id_prefix,omitempty"` // the id begins with it
	Error     string     `json:"error,omitempty"`     // the last error contains it
	Status    int        `json:"status,omitempty"`    // of the last answer
	Reason    string     `json:"reason,omitempty"`    // why a job is dead
	DueAfter  *time.Time `json:"due_after,omitempty"` // of delayed and ready jobs
	DueBefore *time.Time `json:"due_before,omitempty"`
	Since     *time.Time `json:"since,omitempty"` // when a dead job died
	Until     *time.Time `json:"until,omitempty"`
}

// TaskChange is what the action change gives each job. One of the fields is required.
type TaskChange struct {
	DueAt    *time.Time `json:"due_at,omitempty"`
	Priority string     `json:"priority,omitempty"`
}

// TaskStart says what StartTask does. Action and Filter.Topic are required.
type TaskStart struct {
	Action    string      `json:"action"` // run, retry, delete, shift or change
	Filter    TaskFilter  `json:"filter"`
	By        Duration    `json:"by,omitzero"` // of shift; may be negative
	Change    *TaskChange `json:"change,omitempty"`
	Rate      float64     `json:"rate,omitempty"`       // jobs per second; 0: no limit
	StopAbove float64     `json:"stop_above,omitempty"` // of retry: share of failures above which it stops
	DryRun    bool        `json:"dry_run,omitempty"`    // only count the jobs
	Key       string      `json:"-"`                    // requests with the same key start one task; empty: a new one
}

// Task is one action on all jobs that match a filter, and its progress.
type Task struct {
	ID        string      `json:"id"`
	TaskStart             // without its key
	State     string      `json:"state"`   // queued, running, done, failed, stopped or cancelled
	Matched   int         `json:"matched"` // jobs that matched at the start
	Done      int         `json:"done"`    // jobs that were acted on
	Skipped   TaskSkipped `json:"skipped"`
	Failed    int         `json:"failed"`                 // jobs that could not be acted on
	Again     int         `json:"failed_again,omitempty"` // re-driven jobs that failed again, of a sample
	Error     string      `json:"error,omitempty"`
	StartedBy string      `json:"started_by"`
	CreatedAt time.Time   `json:"created_at"`
	UpdatedAt time.Time   `json:"updated_at"`

	CancelRequested bool `json:"cancel_requested,omitempty"`
}

// TaskSkipped counts the jobs that a task skipped, by the reason.
type TaskSkipped struct {
	Running int `json:"running"`
	Gone    int `json:"gone"`    // delivered or deleted meanwhile
	Changed int `json:"changed"` // since they were listed
}

// Open reports whether the task has not ended.
func (t *Task) Open() bool { return t.State == "queued" || t.State == "running" }

// StartTask starts a task, which goes on without the client. It acts on each job once, through restarts of the server.
// Errors: ErrConflict (CodeTaskOverlaps, CodeTaskLimit), ErrInvalid, ErrNotFound.
func (c *Client) StartTask(ctx context.Context, t TaskStart) (*Task, error) {
	body, err := encode(t)
	if err != nil {
		return nil, err
	}
	return get[Task](ctx, c, request{
		method: http.MethodPost, path: "/v1/tasks", body: body, repeatable: true, key: cmp.Or(t.Key, rand.Text()),
	})
}

// Task reads a task. ErrNotFound: it does not exist, or is of topics that the token may not manage and read.
func (c *Client) Task(ctx context.Context, id string) (*Task, error) {
	return get[Task](ctx, c, request{method: http.MethodGet, path: taskPath(id), repeatable: true})
}

// Tasks returns up to limit tasks, newest first; 0: the server's default. The server keeps the last 1,000.
func (c *Client) Tasks(ctx context.Context, limit int) ([]Task, error) {
	q := queryOf(map[string]string{"limit": unlessZero(limit)})
	list, err := get[struct {
		Tasks []Task `json:"tasks"`
	}](ctx, c, request{method: http.MethodGet, path: "/v1/tasks", query: q, repeatable: true})
	if err != nil {
		return nil, err
	}
	return list.Tasks, nil
}

// CancelTask asks a task to end; what it has done stays. It returns the task as it is.
func (c *Client) CancelTask(ctx context.Context, id string) (*Task, error) {
	return get[Task](ctx, c, request{method: http.MethodDelete, path: taskPath(id), repeatable: true})
}

func taskPath(id string) string { return "/v1/tasks/" + url.PathEscape(id) }
