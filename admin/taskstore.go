package admin

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"
)

// Task is bulk work that goes on when its page is closed.
type Task struct {
	ID                  uint64
	Kind                string          // redrive, delete_dead, …: what the runner knows
	Params              json.RawMessage // of the kind, what it reports included
	State               TaskState
	Done, Total, Errors int64
	Error               string // why it ended before its time
	Actor, Host         string
	CreatedAt           time.Time
	UpdatedAt           time.Time
	CancelRequested     bool
}

// TaskState is where a task is in its life.
type TaskState string

// The states of a task. Stopped is one that ended itself with care, because too much failed.
const (
	TaskQueued    TaskState = "queued"
	TaskRunning   TaskState = "running"
	TaskDone      TaskState = "done"
	TaskFailed    TaskState = "failed"
	TaskStopped   TaskState = "stopped"
	TaskCancelled TaskState = "cancelled"
)

// Open says whether the task still has something to do.
func (t *Task) Open() bool { return t.State == TaskQueued || t.State == TaskRunning }

// taskSilence is how long an open task may say nothing before its process seems to be gone.
const taskSilence = time.Minute

// Silent says whether nobody seems to work on the task.
func (t *Task) Silent() bool { return t.Open() && time.Since(t.UpdatedAt) > taskSilence }

// Share is the percentage that is done.
func (t *Task) Share() int {
	if t.Total <= 0 {
		return 0
	}
	return int(min(100, t.Done*100/t.Total))
}

// ErrNoTask is for a task that does not exist.
var ErrNoTask = errors.New("there is no such task")

// TaskStore keeps tasks. UpdateTask leaves CancelRequested as it is.
type TaskStore interface {
	CreateTask(ctx context.Context, t Task) (uint64, error)
	UpdateTask(ctx context.Context, t Task) error
	GetTask(ctx context.Context, id uint64) (*Task, error)
	ListTasks(ctx context.Context, limit int) ([]Task, error) // the newest first
	CancelTask(ctx context.Context, actor string, id uint64) error
}

// memoryTasks keeps tasks as long as the process lives, where no store is given.
type memoryTasks struct {
	mu    sync.Mutex
	tasks []Task
	last  uint64
}

const memoryTasksKept = 200

func (m *memoryTasks) CreateTask(_ context.Context, t Task) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	t.ID = m.last
	m.tasks = append(m.tasks, t)
	if len(m.tasks) > memoryTasksKept {
		m.tasks = slices.Delete(m.tasks, 0, 1)
	}
	return t.ID, nil
}

// find is called with the lock held.
func (m *memoryTasks) find(id uint64) (*Task, error) {
	for i := range m.tasks {
		if m.tasks[i].ID == id {
			return &m.tasks[i], nil
		}
	}
	return nil, ErrNoTask
}

func (m *memoryTasks) UpdateTask(_ context.Context, t Task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	is, err := m.find(t.ID)
	if err != nil {
		return err
	}
	t.CancelRequested = is.CancelRequested
	*is = t
	return nil
}

func (m *memoryTasks) GetTask(_ context.Context, id uint64) (*Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is, err := m.find(id)
	if err != nil {
		return nil, err
	}
	t := *is
	return &t, nil
}

func (m *memoryTasks) ListTasks(_ context.Context, limit int) ([]Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Clone(m.tasks)
	slices.Reverse(list)
	return list[:min(limit, len(list))], nil
}

func (m *memoryTasks) CancelTask(_ context.Context, _ string, id uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	is, err := m.find(id)
	if err != nil {
		return err
	}
	is.CancelRequested = true
	return nil
}
