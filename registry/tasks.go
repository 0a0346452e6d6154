package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/database"
)

// Task is bulk work that a process does for somebody.
type Task struct {
	ID              uint64
	Kind            string
	Params          json.RawMessage
	State           string
	Done            int64
	Total           int64
	Errors          int64
	Error           string
	Actor           string
	Host            string
	CancelRequested bool
	CreatedAt       time.Time
	UpdatedAt       time.Time
}

// ErrNoTask is for a task that does not exist.
var ErrNoTask = database.NewRefusal("no such task")

type taskRow struct {
	ID              uint64 `gorm:"primaryKey"`
	Kind            string
	Params          string
	State           string
	Done            int64
	Total           int64
	Failed          int64
	Error           string
	Actor           string
	Host            string
	CancelRequested bool
	CreatedAt       time.Time
	UpdatedAt       time.Time
}

func (taskRow) TableName() string { return "tasks" }

func (t *taskRow) task() Task {
	return Task{
		t.ID, t.Kind, json.RawMessage(t.Params), t.State, t.Done, t.Total, t.Failed, t.Error, t.Actor, t.Host, t.CancelRequested,
		t.CreatedAt.UTC(), t.UpdatedAt.UTC(),
	}
}

// tasksKept is how many tasks the registry remembers.
const tasksKept = 1000

// CreateTask stores a task and returns its number. It stands in the audit trail.
func (r *Registry) CreateTask(ctx context.Context, t Task) (id uint64, err error) {
	at := database.Now()
	row := taskRow{
		Kind: t.Kind, Params: string(t.Params), State: t.State, Done: t.Done, Total: t.Total, Failed: t.Errors, Error: t.Error,
		Actor: database.Clip(t.Actor, maxActor), Host: database.Clip(t.Host, maxActor), CreatedAt: at, UpdatedAt: at,
	}
	err = r.Change(ctx, t.Actor, "start", "task/"+t.Kind, func(tx *gorm.DB, c *Changed) error {
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		c.Object, c.After = fmt.Sprint("task/", row.ID), struct {
			Kind   string          `json:"kind"`
			Params json.RawMessage `json:"params"`
		}{t.Kind, t.Params}
		if row.ID > tasksKept {
			return tx.Where("id <= ?", row.ID-tasksKept).Delete(&taskRow{}).Error
		}
		return nil
	})
	return row.ID, err
}

// UpdateTask stores how far a task is; whether its end is wanted stays as it is. Errors: ErrNoTask, ErrUnavailable.
func (r *Registry) UpdateTask(ctx context.Context, t Task) error {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	res := r.db.Gorm(ctx).Model(&taskRow{}).Where("id = ?", t.ID).Updates(map[string]any{
		"params": string(t.Params), "state": t.State, "done": t.Done, "total": t.Total, "failed": t.Errors,
		"error": database.Clip(t.Error, 4000), "host": database.Clip(t.Host, maxActor), "updated_at": database.Now(),
	})
	if res.Error == nil && res.RowsAffected == 0 {
		return fmt.Errorf("%d: %w", t.ID, ErrNoTask)
	}
	return r.db.Classify(res.Error)
}

// GetTask reads a task. Errors: ErrNoTask, ErrUnavailable.
func (r *Registry) GetTask(ctx context.Context, id uint64) (*Task, error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	var row taskRow
	found, err := database.Find(r.db.Gorm(ctx), &row, "id", id)
	if err := r.db.Classify(err); err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%d: %w", id, ErrNoTask)
	}
	t := row.task()
	return &t, nil
}

// ListTasks lists tasks, the newest first.
func (r *Registry) ListTasks(ctx context.Context, limit int) ([]Task, error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	var rows []taskRow
	if err := r.db.Classify(r.db.Gorm(ctx).Order("id DESC").Limit(min(max(limit, 1), maxAuditLimit)).Find(&rows).Error); err != nil {
		return nil, err
	}
	list := make([]Task, len(rows))
	for i := range rows {
		list[i] = rows[i].task()
	}
	return list, nil
}

// CancelTask asks whoever works on a task to end it. Errors: ErrNoTask, ErrUnavailable.
func (r *Registry) CancelTask(ctx context.Context, actor string, id uint64) error {
	return r.Change(ctx, actor, "cancel", fmt.Sprint("task/", id), func(tx *gorm.DB, _ *Changed) error {
		var row taskRow
		if found, err := database.Find(tx, &row, "id", id); err != nil {
			return err
		} else if !found {
			return fmt.Errorf("%d: %w", id, ErrNoTask)
		}
		return tx.Model(&row).UpdateColumn("cancel_requested", true).Error
	})
}
