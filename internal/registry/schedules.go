package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// scheduleRow has a schedule as JSON, so that a new field needs no migration.
type scheduleRow struct {
	Name      string `gorm:"primaryKey"`
	Topic     string
	Spec      string
	CreatedAt time.Time
	UpdatedAt time.Time `gorm:"autoUpdateTime:false"` // the spec has the same time
}

func (scheduleRow) TableName() string { return "schedules" }

// storedSchedule is a schedule whose body is stored as text, so that it stays as it is, byte for byte.
type storedSchedule struct {
	*Schedule
	Body string `json:"body"`
}

func (s *Schedule) spec() ([]byte, error) { return json.Marshal(storedSchedule{s, string(s.Body)}) }

// decodeSchedule is the inverse of spec.
func decodeSchedule(name string, spec []byte) (*Schedule, error) {
	s := NewSchedule("")
	stored := storedSchedule{Schedule: &s}
	err := json.Unmarshal(spec, &stored)
	if err == nil && s.Name != name {
		err = database.NewRefusal("the stored value is not a schedule")
	}
	if err != nil {
		return nil, fmt.Errorf("read schedule %s: %w", name, err)
	}
	s.Body = json.RawMessage(stored.Body)
	return &s, nil
}

func (r *scheduleRow) schedule() (*Schedule, error) {
	s, err := decodeSchedule(r.Name, []byte(r.Spec))
	if err == nil {
		s.Topic, s.CreatedAt, s.UpdatedAt = r.Topic, r.CreatedAt, r.UpdatedAt
	}
	return s, err
}

// ChangeSchedule stores what edit makes of a schedule, with the next revision. place is called last before the commit,
// if anything changes. It returns the stored schedule, nil after a deletion. Errors: those of edit and place as they
// are, ErrNoSchedule, ErrNoTopic if a schedule is new to a topic that does not exist, *FieldError, ErrUnavailable.
func (r *Registry) ChangeSchedule(
	ctx context.Context, actor, action, name string, edit ScheduleEdit, place PlaceSchedule,
) (*Schedule, error) {
	var stored *Schedule
	var refused error // by edit or place: the database is not to blame for it
	err := r.Change(ctx, actor, action, scheduleObject(name), func(tx *gorm.DB, c *Changed) error {
		was, damaged, err := r.storedSchedule(tx, name)
		if err != nil {
			return err
		}
		next, err := edit(was.clone())
		switch {
		case errors.Is(err, ErrUnchanged):
			stored = was
			return ErrUnchanged
		case err != nil:
			refused = err
			return ErrUnchanged
		case next == nil && was == nil:
			return fmt.Errorf("%.80q: %w", name, ErrNoSchedule)
		case next == nil:
			err = tx.Delete(&scheduleRow{Name: name}).Error
		default:
			next = next.following(was, name)
			if was != nil && next.same(was) && !damaged {
				stored = was
				return ErrUnchanged
			}
			stored, err = r.storeSchedule(tx, was, next)
		}
		if err != nil {
			return err
		}
		c.Before, c.After = was, stored
		c.last = func(ctx context.Context) error {
			if refused = place(ctx, was, stored); refused != nil {
				return ErrUnchanged
			}
			return nil
		}
		return nil
	})
	if err = cmp.Or(refused, err); err != nil {
		return nil, err
	}
	return stored, nil
}

func scheduleObject(name string) string { return "schedule/" + name }

// storedSchedule reads a schedule, nil if there is none. Of a damaged one it returns the last valid state.
func (r *Registry) storedSchedule(tx *gorm.DB, name string) (s *Schedule, damaged bool, err error) {
	var row scheduleRow
	found, err := database.Find(tx, &row, "name", name)
	if err != nil || !found {
		return nil, false, err
	}
	if s, err = row.schedule(); err != nil {
		return r.Snapshot().Schedules.Get(name), true, nil
	}
	return s, false, nil
}

// storeSchedule stores a valid schedule. It returns it as it will be read.
func (r *Registry) storeSchedule(tx *gorm.DB, was, next *Schedule) (*Schedule, error) {
	if err := next.Validate(); err != nil {
		return nil, err
	}
	if was == nil || was.Topic != next.Topic {
		s, _, err := r.read(tx, 1)
		if err != nil {
			return nil, err
		}
		if s.TopicOrNamespace(next.Topic) == nil {
			return nil, fmt.Errorf("%.80q: %w", next.Topic, ErrNoTopic)
		}
	}
	spec, err := next.spec()
	if err != nil {
		return nil, fmt.Errorf("store schedule %s: %w", next.Name, err)
	}
	row := scheduleRow{next.Name, next.Topic, string(spec), next.CreatedAt, next.UpdatedAt}
	if err := database.Upsert(tx).Create(&row).Error; err != nil {
		return nil, err
	}
	return row.schedule()
}

func (s *Schedule) clone() *Schedule {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}

// following returns a copy with what the registry sets: name, revision and times. was is what it replaces, or nil.
func (s *Schedule) following(was *Schedule, name string) *Schedule {
	next, now := *s, database.Now()
	next.Name, next.Revision, next.CreatedAt, next.UpdatedAt = name, now.UnixMilli(), now, now
	if was != nil {
		next.Revision, next.CreatedAt = max(was.Revision+1, next.Revision), was.CreatedAt
	}
	next.StartAt, next.EndAt, next.PausedUntil = s.StartAt.UTC(), s.EndAt.UTC(), s.PausedUntil.UTC()
	return &next
}

// same reports whether two schedules have the same stored form, apart from the revision and the time of the update.
func (s *Schedule) same(was *Schedule) bool {
	next := *s
	next.Revision, next.UpdatedAt = was.Revision, was.UpdatedAt
	return sameSpec(&next, was)
}

// masked returns the schedule with fingerprints instead of the values of credential headers.
func (s *Schedule) masked() *Schedule {
	c := *s
	c.Headers = maps.Clone(s.Headers)
	for name, value := range c.Headers {
		if isCredential(name) {
			c.Headers[name] = seal.Fingerprint(value)
		}
	}
	return &c
}

// readSchedules reads the schedules selected by the query into s. One that did not change keeps its pointer, so that
// what callers compiled for it remains valid. A damaged one keeps its last valid state.
func (r *Registry) readSchedules(query *gorm.DB, s *Snapshot) error {
	var rows []scheduleRow
	if err := query.Find(&rows).Error; err != nil {
		return err
	}
	for i := range rows {
		was := r.Snapshot().Schedules.Get(rows[i].Name)
		now, err := rows[i].schedule()
		if err != nil {
			now = was
			r.opts.Logger.Error("stored schedule is invalid; keeping its last valid state; save the schedule again",
				"schedule", rows[i].Name, "error", err)
		}
		if was != nil && reflect.DeepEqual(was, now) {
			now = was
		}
		if now != nil {
			s.Schedules.tree.Set(rows[i].Name, now)
		}
	}
	return nil
}
