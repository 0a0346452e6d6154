package recurring

import (
	"context"
	"errors"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Registry is the part of the registry that has the definitions.
type Registry interface {
	Snapshot() *registry.Snapshot
	ChangeSchedule(
		ctx context.Context, actor, action, name string, edit registry.ScheduleEdit, place registry.PlaceSchedule,
	) (*registry.Schedule, error)
}

// Schedules reads and changes schedules. Its methods may be called from any goroutine.
type Schedules struct {
	queue    *queue.Queue
	registry Registry
}

// New returns the schedules of a registry, whose occurrences are in the shards of a queue.
func New(q *queue.Queue, r Registry) *Schedules { return &Schedules{queue: q, registry: r} }

// View is what is told about a schedule.
type View struct {
	*registry.Schedule
	Next   []time.Time   // the next occurrences, five at most; none while it is paused without an end
	Cursor *store.Cursor // nil: its shard does not answer, see Err
	Err    error
}

// Get returns a schedule. Errors: registry.ErrNoSchedule.
func (s *Schedules) Get(ctx context.Context, name string) (*View, error) { return nil, errors.ErrUnsupported }

// List returns schedules of topics that match the patterns, by name, from the first one after a name on; topic "" means
// all topics. after of the next page is "" at the end.
func (s *Schedules) List(
	ctx context.Context, patterns []string, topic, after string, limit int,
) (list []View, next string, err error) {
	return nil, "", errors.ErrUnsupported
}

// Put stores a new or changed schedule. may is asked with the stored definition (nil: there is none); its error ends
// the change. An unchanged schedule changes nothing. Errors: *registry.FieldError, registry.ErrUnavailable,
// *store.UnavailableError (nothing was changed, unless its outcome is unknown), and those of may.
func (s *Schedules) Put(
	ctx context.Context, actor string, def registry.Schedule, may func(was *registry.Schedule) error,
) (stored *registry.Schedule, created bool, err error) {
	return nil, false, errors.ErrUnsupported
}

// Delete deletes a schedule; its jobs stay. Errors as of Put, and registry.ErrNoSchedule.
func (s *Schedules) Delete(ctx context.Context, actor, name string) error { return errors.ErrUnsupported }

// Pause pauses a schedule, until a time or (zero) until it is resumed.
func (s *Schedules) Pause(ctx context.Context, actor, name string, until time.Time) (*registry.Schedule, error) {
	return nil, errors.ErrUnsupported
}

// Resume ends a pause. Occurrences that came meanwhile are left out, or with catchUp follow the schedule's missed.
func (s *Schedules) Resume(ctx context.Context, actor, name string, catchUp bool) (*registry.Schedule, error) {
	return nil, errors.ErrUnsupported
}

// Run pushes a job of the schedule now. It is no occurrence: its id has the time of the call.
func (s *Schedules) Run(ctx context.Context, name string) (*store.Job, error) { return nil, errors.ErrUnsupported }

// Backfill is a request to push the occurrences of a period again, or for the first time.
type Backfill struct {
	From, To time.Time        // occurrences in [From, To)
	Overlap  registry.Overlap // "": allow
	DryRun   bool
}

// MaxBackfill is how many occurrences a backfill may have.
const MaxBackfill = 1000

// Backfilled says what a backfill did, or in a dry run would do.
type Backfilled struct {
	Occurrences []time.Time // of the period
	Pushed      int
	There       int // jobs that exist already
	LeftOut     int // because of the overlap
}

// Backfill pushes the occurrences of a period. Errors: *registry.FieldError, registry.ErrNoSchedule.
func (s *Schedules) Backfill(ctx context.Context, name string, b Backfill) (*Backfilled, error) {
	return nil, errors.ErrUnsupported
}
