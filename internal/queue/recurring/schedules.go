package recurring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule"
	"github.com/wakecall/wakecall/internal/store"
)

// Registry is the part of the registry that has the definitions.
type Registry interface {
	Snapshot() *registry.Snapshot
	ChangeSchedule(
		ctx context.Context, actor, action, name string, edit registry.ScheduleEdit, place registry.PlaceSchedule,
	) (*registry.Schedule, error)
}

// Schedules reads and changes schedules. Its methods may be called from any goroutine. A change goes on when its
// caller's context ends, because the journal must record what Redis did.
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

// ToldNext is how many of the next occurrences a schedule lists.
const ToldNext = 5

// Get returns a schedule. Errors: registry.ErrNoSchedule.
func (s *Schedules) Get(ctx context.Context, name string) (*View, error) {
	def, err := s.definition(name)
	if err != nil {
		return nil, err
	}
	return &s.views(ctx, []*registry.Schedule{def})[0], nil
}

func (s *Schedules) definition(name string) (*registry.Schedule, error) {
	def := s.registry.Snapshot().Schedules.Get(name)
	if def == nil {
		return nil, fmt.Errorf("%.80q: %w", name, registry.ErrNoSchedule)
	}
	return def, nil
}

// List returns schedules that wanted selects, by name, at most limit, from the first one after a name on. next is the
// name after which the list goes on; "" at the end.
func (s *Schedules) List(
	ctx context.Context, wanted func(*registry.Schedule) bool, after string, limit int,
) (list []View, next string) {
	var defs []*registry.Schedule
	for name, def := range s.registry.Snapshot().Schedules.From(after) {
		if name == after || !wanted(def) {
			continue
		}
		if len(defs) == limit {
			next = defs[limit-1].Name
			break
		}
		defs = append(defs, def)
	}
	return s.views(ctx, defs), next
}

func (s *Schedules) views(ctx context.Context, defs []*registry.Schedule) []View {
	views := s.States(ctx, defs)
	for i, def := range defs {
		views[i].Next = Next(def, s.queue.Now(), ToldNext)
	}
	return views
}

// statesAtOnce is how many schedules one request reads.
const statesAtOnce = 500

// States returns what is told about schedules, without what is next. It reads many in one request to each bucket.
func (s *Schedules) States(ctx context.Context, defs []*registry.Schedule) []View {
	views, byBucket := make([]View, len(defs)), map[*store.Bucket][]int{}
	for i, def := range defs {
		views[i] = View{Schedule: def}
		b, err := s.bucketOf(def)
		if views[i].Err = err; err == nil {
			byBucket[b] = append(byBucket[b], i)
		}
	}
	for b, all := range byBucket {
		for which := range slices.Chunk(all, statesAtOnce) {
			names := make([]string, len(which))
			for k, i := range which {
				names[k] = defs[i].Name
			}
			cursors, err := b.Cursors(ctx, names)
			for k, i := range which {
				if views[i].Err = err; err == nil {
					views[i].Cursor = cursors[k]
				}
			}
		}
	}
	return views
}

// Next returns the next n occurrences of a schedule that will be pushed.
func Next(def *registry.Schedule, now time.Time, n int) (list []time.Time) {
	rule, err := def.Rule()
	if err != nil {
		return nil
	}
	if def.IsPaused(now) {
		if def.PausedUntil.IsZero() {
			return nil
		}
		now = def.PausedUntil.Add(-time.Millisecond)
	}
	for at, ok := rule.Next(now); ok && len(list) < n; at, ok = rule.Next(at) {
		list = append(list, at)
	}
	return list
}

func (s *Schedules) bucketOf(def *registry.Schedule) (*store.Bucket, error) {
	if b := bucketIn(s.queue, def); b != nil {
		return b, nil
	}
	return nil, &store.UnavailableError{
		Reason: "down", RetryAfter: time.Second, Err: fmt.Errorf("shard %s is not in use", def.Shard),
	}
}

// bucketIn returns the bucket that has a schedule; nil while its shard is not in use.
func bucketIn(q *queue.Queue, def *registry.Schedule) *store.Bucket {
	if shard := q.Shards.Named(def.Shard); shard != nil {
		return shard.BucketOf(def.Topic)
	}
	return nil
}

// Put stores a new or changed schedule. may is asked with the stored definition (nil: there is none); its error ends
// the change. An unchanged schedule changes nothing. Errors: *registry.FieldError, registry.ErrNoTopic,
// registry.ErrUnavailable, *store.UnavailableError (nothing was changed, unless its outcome is unknown), those of may.
func (s *Schedules) Put(
	ctx context.Context, actor string, def registry.Schedule, may func(was *registry.Schedule) error,
) (stored *registry.Schedule, created bool, err error) {
	edit := func(was *registry.Schedule) (*registry.Schedule, error) {
		if err := may(was); err != nil {
			return nil, err
		}
		next := def
		if next.State != registry.TopicPaused {
			next.PausedUntil = time.Time{}
		}
		if created = was == nil; was != nil {
			next.Shard, next.MadeBy = was.Shard, was.MadeBy
		}
		if was != nil && was.Topic == next.Topic {
			return &next, nil
		}
		home, err := s.queue.HomeOf(next.Topic, next.Name)
		if err != nil {
			return nil, err
		}
		next.Shard = home.Name()
		return &next, nil
	}
	stored, err = s.store(ctx, actor, "put", def.Name, edit, s.place(false))
	return stored, created, err
}

// Delete deletes a schedule; its jobs stay. Errors as of Put, and registry.ErrNoSchedule. The cursor is removed only
// after the commit: without that the schedule goes on where it was.
func (s *Schedules) Delete(ctx context.Context, actor, name string) error {
	edit := func(*registry.Schedule) (*registry.Schedule, error) { return nil, nil }
	var left *store.Bucket
	var revision int64
	place := func(ctx context.Context, was, _ *registry.Schedule) error {
		if left = bucketIn(s.queue, was); left == nil {
			return nil
		}
		revision = was.Revision + 1
		return s.queue.SetCursor(ctx, left, store.CursorChange{Name: name, Topic: was.Topic, Revision: revision})
	}
	if _, err := s.store(ctx, actor, "delete", name, edit, place); err != nil || left == nil {
		return err
	}
	// What stays there if this fails pushes nothing, and is replaced when a schedule of the name is made.
	_ = s.queue.SetCursor(context.WithoutCancel(ctx), left, store.CursorChange{Name: name, Was: &revision})
	return nil
}

// Pause pauses a schedule, until a time or (zero) until it is resumed.
func (s *Schedules) Pause(ctx context.Context, actor, name string, until time.Time) (*registry.Schedule, error) {
	return s.edit(ctx, actor, "pause", name, false, func(def *registry.Schedule) {
		def.State, def.PausedUntil = registry.TopicPaused, until.Truncate(time.Millisecond)
	})
}

// Resume ends a pause. Occurrences that came meanwhile are left out, or with catchUp follow the schedule's missed.
func (s *Schedules) Resume(ctx context.Context, actor, name string, catchUp bool) (*registry.Schedule, error) {
	return s.edit(ctx, actor, "resume", name, catchUp, func(def *registry.Schedule) {
		def.State, def.PausedUntil = registry.TopicActive, time.Time{}
	})
}

func (s *Schedules) edit(
	ctx context.Context, actor, action, name string, catchUp bool, change func(*registry.Schedule),
) (*registry.Schedule, error) {
	edit := func(was *registry.Schedule) (*registry.Schedule, error) {
		if was == nil {
			return nil, fmt.Errorf("%.80q: %w", name, registry.ErrNoSchedule)
		}
		next := *was
		change(&next)
		return &next, nil
	}
	return s.store(ctx, actor, action, name, edit, s.place(catchUp))
}

func (s *Schedules) store(
	ctx context.Context, actor, action, name string, edit registry.ScheduleEdit, place registry.PlaceSchedule,
) (*registry.Schedule, error) {
	return s.registry.ChangeSchedule(context.WithoutCancel(ctx), actor, action, name, edit, place)
}

// ErrTopicOffline is the error of a push by hand to a topic that is offline.
var ErrTopicOffline = errors.New("the topic is offline and accepts no pushes")

// Run pushes a job of the schedule now. It is no occurrence: its id has the time of the call. Errors:
// registry.ErrNoSchedule, registry.ErrNoTopic, ErrTopicOffline, *store.UnavailableError.
func (s *Schedules) Run(ctx context.Context, name string) (*store.Job, error) {
	m, err := s.byHand(ctx, name)
	if err != nil {
		return nil, err
	}
	now := m.now.Truncate(time.Millisecond)
	d, err := m.push(ctx, registry.OverlapAllow, []store.Push{jobOf(m.def, m.topic, manualID(name, now), now, now)})
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	return &d.Results[0].Job, d.Results[0].Err
}

// manual is a push by hand.
type manual struct {
	*Schedules
	def    *registry.Schedule
	policy *schedule.Policy
	topic  *registry.Topic
	bucket *store.Bucket
	now    time.Time
}

func (s *Schedules) byHand(ctx context.Context, name string) (*manual, error) {
	def, err := s.definition(name)
	if err != nil {
		return nil, err
	}
	m := &manual{Schedules: s, def: def, topic: s.registry.Snapshot().Topic(def.Topic)}
	switch {
	case m.topic == nil:
		return nil, fmt.Errorf("%.80q: %w", def.Topic, registry.ErrNoTopic)
	case m.topic.State == registry.TopicOffline:
		return nil, fmt.Errorf("topic %s: %w", def.Topic, ErrTopicOffline)
	}
	if m.policy, err = def.Policy(); err != nil {
		return nil, err
	}
	if m.bucket, err = s.bucketOf(def); err != nil {
		return nil, err
	}
	clock, err := m.bucket.Clock(ctx)
	m.now = clock.Now.UTC()
	return m, err
}

// push pushes jobs beside the cursor.
func (m *manual) push(ctx context.Context, overlap registry.Overlap, jobs []store.Push) (*store.Fired, error) {
	snapshot := m.registry.Snapshot()
	jobs = counted(snapshot, m.def.MadeBy, jobs)
	spend(ctx, m.queue, snapshot, m.def.MadeBy, len(jobs))
	f := store.Fire{
		Name: m.def.Name, Topic: m.def.Topic, Revision: m.def.Revision, Overlap: string(overlap), Jobs: jobs,
	}
	fired, _, err := m.queue.Fire(context.WithoutCancel(ctx), m.bucket, []store.Fire{f})
	if err != nil {
		return nil, err
	}
	if d := &fired[0]; d.What == store.FiredJobs || d.What == store.FiredSkipped {
		return d, nil
	}
	return nil, m.bucket.Unavailable("down", store.ErrDefinition) // the change reaches this process within a second
}

// Backfill is a request to push the occurrences of a period again, or for the first time.
type Backfill struct {
	From, To time.Time        // occurrences in [From, To)
	Overlap  registry.Overlap // "": allow
	DryRun   bool
}

// MaxBackfill is how many occurrences a backfill may have.
const MaxBackfill = 1000

// Backfilled says what a backfill did, or in a dry run would do. Its JSON form is that of the API.
type Backfilled struct {
	Occurrences []time.Time `json:"occurrences"` // of the period
	Pushed      int         `json:"pushed"`
	There       int         `json:"existing"` // jobs that exist already
	LeftOut     int         `json:"left_out"` // because of the overlap
}

// Backfill pushes the occurrences of a period. Errors: *registry.FieldError, and as of Run. After an
// *store.UnavailableError some may have been pushed; a repetition finds their jobs while these exist.
func (s *Schedules) Backfill(ctx context.Context, name string, b Backfill) (*Backfilled, error) {
	m, err := s.byHand(ctx, name)
	if err != nil {
		return nil, err
	}
	overlap := b.Overlap
	if overlap == "" {
		overlap = registry.OverlapAllow
	}
	if err := m.check(&b, overlap); err != nil {
		return nil, err
	}
	until := b.To.Add(-time.Nanosecond)
	if until.After(m.now) { // what has not come will be pushed when it comes
		until = m.now
	}
	list := m.policy.Rule.Between(b.From.Add(-time.Nanosecond), until, MaxBackfill+1)
	if len(list) > MaxBackfill {
		return nil, registry.OutOfRange("to", "field.backfill_limit", MaxBackfill)
	}
	done := &Backfilled{Occurrences: list}
	if b.DryRun {
		return done, nil
	}
	n := max(1, min(maxJobs, maxBytes/max(1, len(m.def.Body))))
	for some := range slices.Chunk(jobsOf(m.def, m.topic, m.policy, list), n) {
		d, err := m.push(ctx, overlap, some)
		if err != nil {
			return done, fmt.Errorf("backfill %s: %w", name, err)
		}
		if d.What == store.FiredSkipped {
			done.LeftOut = len(list)
			return done, nil
		}
		for i := range d.Results {
			if d.Results[i].Duplicate {
				done.There++
			} else {
				done.Pushed++
			}
		}
		overlap = registry.OverlapAllow // they do not overlap each other
	}
	return done, nil
}

func (m *manual) check(b *Backfill, overlap registry.Overlap) error {
	switch {
	case b.From.IsZero():
		return registry.Malformed("from", "field.instant_required")
	case b.To.IsZero():
		return registry.Malformed("to", "field.instant_required")
	case !b.To.After(b.From):
		return registry.OutOfRange("to", "field.after_from")
	case b.To.After(m.now.Add(time.Second)):
		return registry.OutOfRange("to", "field.not_ahead")
	}
	return registry.ValidOverlap(overlap)
}
