package bulk

import (
	"cmp"
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// ErrNoTask is returned for a task that does not exist.
var ErrNoTask = database.NewRefusal("no such task")

// Store stores tasks in the registry's database.
type Store struct {
	registry *registry.Registry
	db       *database.DB
}

// NewStore returns the store in the database of a registry.
func NewStore(r *registry.Registry) *Store { return &Store{r, r.DB()} }

const (
	tasksKept = 1000
	maxActor  = 128
	maxError  = 4000
)

// CreateTask stores a task. It is audited. Errors: those of admit, ErrUnavailable; a message for another task with its
// key.
func (s *Store) CreateTask(ctx context.Context, t Task, admit func(open []Task) error) (id uint64, err error) {
	row, at := t, database.Now()
	row.ID, row.CreatedAt, row.UpdatedAt = 0, at, at
	row.Actor, row.Host = database.Clip(t.Actor, maxActor), database.Clip(t.Host, maxActor)
	err = s.registry.Change(ctx, t.Actor, "start", "task/"+t.Kind, func(tx *gorm.DB, c *registry.Changed) error {
		if row.ID, err = sameTask(tx, &row); row.ID > 0 || err != nil {
			return cmp.Or(err, registry.ErrUnchanged)
		}
		var list []Task
		if err := open(tx).Find(&list).Error; err != nil {
			return err
		}
		if err := admit(list); err != nil {
			return err
		}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		c.Object, c.After = fmt.Sprint("task/", row.ID), t.Params
		if row.ID <= tasksKept {
			return nil
		}
		return tx.Where("id <= ? AND state NOT IN ?", row.ID-tasksKept, openStates).Delete(&Task{}).Error
	})
	return row.ID, err
}

// sameTask returns the id of the actor's task with the same key; 0: there is none.
func sameTask(tx *gorm.DB, t *Task) (uint64, error) {
	if t.Params.Key == "" {
		return 0, nil
	}
	var list []Task
	if err := tx.Where("actor = ?", t.Actor).Find(&list).Error; err != nil {
		return 0, err
	}
	for _, was := range list {
		if was.Params.Key != t.Params.Key {
			continue
		}
		if !was.asksFor(t.Params) {
			return 0, message.New("task.key_used", was.ID)
		}
		return was.ID, nil
	}
	return 0, nil
}

var openStates = []string{Queued, Running}

func open(tx *gorm.DB) *gorm.DB { return tx.Where("state IN ?", openStates).Order("id DESC") }

// OpenTasks lists the tasks that have not ended, newest first.
func (s *Store) OpenTasks(ctx context.Context) ([]Task, error) {
	return database.List[Task](ctx, s.db, open)
}

// UpdateTask stores a task's progress, but not CancelRequested. Errors: ErrNoTask, ErrUnavailable.
func (s *Store) UpdateTask(ctx context.Context, t Task) error {
	return s.db.Do(ctx, func(tx *gorm.DB) error {
		t.Error, t.Host, t.UpdatedAt = database.Clip(t.Error, maxError), database.Clip(t.Host, maxActor), database.Now()
		res := tx.Model(&Task{}).Where("id = ?", t.ID).
			Select("params", "state", "done", "total", "failed", "error", "host", "updated_at").Updates(&t)
		if res.Error == nil && res.RowsAffected == 0 {
			return fmt.Errorf("%d: %w", t.ID, ErrNoTask)
		}
		return res.Error
	})
}

// GetTask reads a task. Errors: ErrNoTask, ErrUnavailable.
func (s *Store) GetTask(ctx context.Context, id uint64) (*Task, error) {
	var t Task
	if err := s.db.Do(ctx, func(tx *gorm.DB) error { return findTask(tx, &t, id) }); err != nil {
		return nil, err
	}
	return &t, nil
}

func findTask(tx *gorm.DB, t *Task, id uint64) error {
	return database.MustFind(tx, t, "id", id, fmt.Errorf("%d: %w", id, ErrNoTask))
}

// ListTasks lists tasks, newest first.
func (s *Store) ListTasks(ctx context.Context, limit int) ([]Task, error) {
	return database.List[Task](ctx, s.db, func(tx *gorm.DB) *gorm.DB {
		return tx.Order("id DESC").Limit(database.Limit(limit))
	})
}

// CancelTask asks the host that runs a task to end it. It is audited. Errors: ErrNoTask, ErrUnavailable.
func (s *Store) CancelTask(ctx context.Context, actor string, id uint64) error {
	cancel := func(tx *gorm.DB, _ *registry.Changed) error {
		var t Task
		if err := findTask(tx, &t, id); err != nil {
			return err
		}
		return tx.Model(&t).UpdateColumn("cancel_requested", true).Error
	}
	return s.registry.Change(ctx, actor, "cancel", fmt.Sprint("task/", id), cancel)
}
