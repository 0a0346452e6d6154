package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A schedule's cursor is in the bucket of its topic, in the schedule's shard: all occurrences up to it are decided. The
// jobs of the next ones are stored in the same call as the cursor behind them, by whoever comes first. So each
// occurrence is one job, however many processes try.

// Fire is what a process wants to do about the occurrences of a schedule that have come.
type Fire struct {
	Name, Topic string
	Revision    int64 // of the definition

	// The cursor as it is known, and behind the occurrences. Both are zero to push jobs that are no new occurrences,
	// or, without jobs, to read the cursor.
	Cursor, New time.Time

	Overlap string // skip, replace or allow
	Jobs    []Push // with Schedule and For

	Late, Limit, Paused int // occurrences that are left out, by reason
}

// Fired says what became of a Fire.
type Fired struct {
	What     FiredWhat
	Cursor   time.Time
	Revision int64           // of the definition that the cursor knows
	Results  []Result        // of the jobs, if they were pushed
	Replaced *Job            // the occurrence before, deleted because it waited
	Doubtful bool            // the first answer was lost, so the cursor may have been moved by this call
	Noted    *ScheduleChange // for the journal; nil: nothing was changed
}

// FiredWhat is what became of a Fire.
type FiredWhat string

// What may become of a Fire.
const (
	FiredJobs    FiredWhat = "fired"
	FiredSkipped FiredWhat = "skipped" // the occurrence before has not ended
	FiredMoved   FiredWhat = "moved"   // another process has decided: the cursor is another one
	FiredOther   FiredWhat = "other"   // the definition has another revision
	FiredEarly   FiredWhat = "early"   // by the shard's clock, an occurrence has not come
	FiredNone    FiredWhat = "none"    // there is no such schedule in the bucket
)

// Fire decides about the occurrences of schedules, whose topics are all in the bucket. It also returns the shard's
// clock.
func (b *Bucket) Fire(ctx context.Context, list []Fire) (fired []Fired, clock Clock, err error) {
	args, changes := []any{0}, len(list)
	for i := range list {
		f := &list[i]
		args = append(args, f.Name, f.Topic, f.Revision, millisOrNone(f.Cursor), f.New.UnixMilli(), f.Overlap,
			f.Late, f.Limit, f.Paused, len(f.Jobs))
		for k := range f.Jobs {
			args = appendPush(args, &f.Jobs[k])
		}
		changes += len(f.Jobs)
	}
	args[0] = changes
	asked := time.Now()
	o, err := b.Call(ctx, fireScript, args...)
	if err != nil {
		return nil, clock, fmt.Errorf("fire %d schedules: %w", len(list), err)
	}
	reply := Values(o.Value)
	if len(reply) != len(list)+1 {
		return nil, clock, fmt.Errorf("fire %d schedules: %w", len(list), ErrReply)
	}
	now := micros(reply[0])
	clock, fired = b.clockAt(now, asked), make([]Fired, len(list))
	number := 0
	for i := range list {
		if fired[i], err = b.fired(&list[i], Values(reply[i+1]), now, o.Doubtful, &number); err != nil {
			return nil, clock, fmt.Errorf("fire %s: %w", list[i].Name, err)
		}
	}
	return fired, clock, nil
}

// millisOrNone is the argument of a script for a time that may be missing.
func millisOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// Lengths of a schedule's state in the reply of fire.lua: without what journals need, and with it.
const (
	firedHead = 6
	firedAll  = firedHead + notedFields
)

// fired decodes what became of a Fire. number is how many jobs and schedules of the call came before.
func (b *Bucket) fired(
	f *Fire, state []any, now time.Time, doubtful bool, number *int,
) (d Fired, err error) {
	if len(state) < firedHead-2 {
		return d, ErrReply
	}
	d = Fired{
		What: FiredWhat(Text(state[0])), Cursor: Millis(state[1]), Revision: Integer(state[2]), Doubtful: doubtful,
	}
	first := Integer(state[3])
	if first == 0 {
		return d, nil
	}
	if len(state) < firedAll || (len(state)-firedAll)%duplicateFields != 0 {
		return d, ErrReply
	}
	jobs := f.Jobs
	if d.What == FiredSkipped {
		jobs = nil
	}
	if id := Text(state[4]); id != "" {
		d.Replaced = &Job{
			Topic: f.Topic, ID: id, Shard: b.shard.name, Revision: first, CreatedAt: Millis(state[5]),
		}
	}
	d.Results = make([]Result, len(jobs))
	for i := range jobs {
		d.Results[i].Job = b.fresh(&jobs[i], dueAt(&jobs[i], now, *number+i), now)
		d.Results[i].Job.Revision = first + int64(i)
	}
	for found := range slices.Chunk(state[firedAll:], duplicateFields) {
		n := int(Integer(found[0])) - *number - 1
		if n < 0 || n >= len(jobs) {
			return d, ErrReply
		}
		d.Results[n] = b.duplicate(&jobs[n], d.Results[n].Job, found[1] == "replaced", found[2], now, doubtful)
	}
	d.Noted, err = b.noted(f.Name, f.Topic, d.Revision, d.Cursor, first+int64(len(jobs)), state[firedHead:firedAll])
	*number += len(jobs) + 1
	return d, err
}

// notedFields is how many fields of a reply are for journals, see occurrence.lua.
const notedFields = 6

func (b *Bucket) noted(
	name, topic string, rev int64, at time.Time, revision int64, fields []any,
) (*ScheduleChange, error) {
	c := &ScheduleChange{
		Name: name, Topic: topic, Shard: b.shard.name, Bucket: b.n, Rev: rev, At: at, Revision: revision,
		LeftOut: map[string]int{},
	}
	if newest := Text(fields[0]); newest != "" {
		var o Occurrence
		if err := json.Unmarshal([]byte(newest), &o); err != nil {
			return nil, ErrReply
		}
		c.Last = []Occurrence{o}
	}
	for i, reason := range LeftOut {
		if n := int(Number(Text(fields[1+i]))); n > 0 {
			c.LeftOut[reason] = n
		}
	}
	return c, nil
}

// CursorChange sets what a cursor knows of its schedule's definition.
type CursorChange struct {
	Name, Topic string    // no topic: the schedule is removed
	Was         *int64    // revision of the definition before; 0: there is none; nil: any
	WasAt       time.Time // the cursor before; zero: any
	Revision    int64     // of the definition
	LeftOut     int       // occurrences that are left out by the change
	Reason      string    // why: edited, paused
	Cursor      time.Time // zero: as it is, or now if there is none
	Last        []Occurrence
	Counts      map[string]int // of those that were left out before, with Last from another shard
}

// Errors of a change of a schedule that was changed meanwhile: its definition, its cursor.
var (
	ErrDefinition = errors.New("the schedule was changed meanwhile")
	ErrMoved      = errors.New("the schedule's cursor has moved meanwhile")
)

// SetCursor makes a change. Errors: ErrDefinition, ErrMoved (also when it was made by a call whose answer was lost),
// *UnavailableError. Removing a schedule that does not exist is no error, and returns nil.
func (b *Bucket) SetCursor(ctx context.Context, c CursorChange) (*ScheduleChange, error) {
	change, err := b.setCursor(ctx, &c)
	if err != nil {
		return nil, fmt.Errorf("change schedule %s: %w", c.Name, err)
	}
	return change, nil
}

func (b *Bucket) setCursor(ctx context.Context, c *CursorChange) (*ScheduleChange, error) {
	was := ""
	if c.Was != nil {
		was = strconv.FormatInt(*c.Was, 10)
	}
	args := []any{c.Name, c.Topic, was, millisOrNone(c.WasAt), c.Revision, c.LeftOut, c.Reason, millisOrNone(c.Cursor)}
	if len(c.Last) > 0 {
		last, err := json.Marshal(c.Last)
		if err != nil {
			return nil, err
		}
		args = append(args, "last", last)
	}
	for reason, n := range c.Counts {
		args = append(args, reason, n)
	}
	o, err := b.Call(ctx, cursorScript, args...)
	if err != nil {
		return nil, err
	}
	reply := Values(o.Value)
	if len(reply) != cursorHead+notedFields {
		return nil, ErrReply
	}
	what, rev := Text(reply[0]), Integer(reply[2])
	switch {
	case what == "other" && o.Doubtful && rev == c.Revision: // by the first call
		return nil, b.Unknown()
	case what == "other":
		return nil, ErrDefinition
	case what == "moved":
		return nil, ErrMoved
	case what == "none":
		return nil, nil
	case what == "removed":
		rev = 0
	}
	return b.noted(c.Name, c.Topic, rev, Millis(reply[1]), Integer(reply[3]), reply[cursorHead:])
}

// cursorHead is the length of cursor.lua's reply without what journals need.
const cursorHead = 4

// Occurrence is one of the last occurrences of a schedule.
type Occurrence struct {
	ID    string `json:"id"`
	For   int64  `json:"for"` // nominal time, Unix ms
	State State  `json:"state"`
}

// Cursor is the state of a schedule in its shard.
type Cursor struct {
	Topic    string
	Revision int64 // of the definition
	Changed  int64 // revision of the last change
	At       time.Time
	Last     []Occurrence   // oldest first
	LeftOut  map[string]int // by reason
}

// LeftOut are the reasons for which occurrences are left out, in the order of occurrence.lua.
var LeftOut = []string{"late", "overlap", "paused", "limit", "edited"}

// Cursor returns the state of a schedule; nil when the bucket has none of this name.
func (b *Bucket) Cursor(ctx context.Context, name string) (*Cursor, error) {
	list, err := b.Cursors(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// Cursors returns the states of schedules; nil for those that the bucket does not have.
func (b *Bucket) Cursors(ctx context.Context, names []string) ([]*Cursor, error) {
	if err := b.Unusable(); err != nil {
		return nil, err
	}
	began := time.Now()
	read := make([]*redis.MapStringStringCmd, len(names))
	_, err := b.shard.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			read[i] = p.HGetAll(ctx, b.Key("s:"+name))
		}
		return nil
	})
	if err != nil {
		return nil, b.Failed(ctx, began, err)
	}
	list := make([]*Cursor, len(names))
	for i, name := range names {
		if list[i], err = cursorOf(read[i].Val()); err != nil {
			return nil, fmt.Errorf("read schedule %s: %w", name, err)
		}
	}
	return list, nil
}

func cursorOf(fields map[string]string) (*Cursor, error) {
	if fields["rev"] == "" {
		return nil, nil
	}
	c := &Cursor{
		Topic: fields["topic"], Revision: Number(fields["rev"]), Changed: Number(fields["revision"]),
		At: millisOf(fields["at"]), LeftOut: map[string]int{},
	}
	for _, reason := range LeftOut {
		c.LeftOut[reason] = int(Number(fields[reason]))
	}
	if last := fields["last"]; last != "" {
		if err := json.Unmarshal([]byte(last), &c.Last); err != nil {
			return nil, ErrRecord
		}
	}
	return c, nil
}
