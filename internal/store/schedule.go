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
	Known       bool  // Cursor is known; false: only it is read
	Cursor      time.Time
	New         time.Time // the cursor behind the occurrences
	Overlap     string    // skip, replace or allow
	Late, Limit int       // occurrences that are left out, by reason
	Jobs        []Push    // with Schedule and For
}

// Fired says what became of a Fire.
type Fired struct {
	What     FiredWhat
	Cursor   time.Time
	Revision int64    // of the definition that the cursor knows
	Changed  int64    // revision of the cursor's change; 0: it was not changed
	Results  []Result // of the jobs, if they were pushed
}

// FiredWhat is what became of a Fire.
type FiredWhat string

// What may become of a Fire.
const (
	FiredJobs    FiredWhat = "fired"
	FiredSkipped FiredWhat = "skipped" // the occurrence before has not ended
	FiredMoved   FiredWhat = "moved"   // another process has decided: the cursor is another one
	FiredOther   FiredWhat = "other"   // the definition has another revision
	FiredNone    FiredWhat = "none"    // there is no such schedule in the bucket
)

// Fire decides about the occurrences of schedules, whose topics are all in the bucket.
func (b *Bucket) Fire(ctx context.Context, list []Fire) ([]Fired, error) {
	args, changes := []any{0}, len(list)
	for i := range list {
		f := &list[i]
		known := ""
		if f.Known {
			known = strconv.FormatInt(f.Cursor.UnixMilli(), 10)
		}
		args = append(args, f.Name, f.Topic, f.Revision, known, f.New.UnixMilli(), f.Overlap, f.Late, f.Limit, len(f.Jobs))
		for k := range f.Jobs {
			args = appendPush(args, &f.Jobs[k])
		}
		changes += len(f.Jobs)
	}
	args[0] = changes
	reply, err := b.CallList(ctx, len(list)+1, fireScript, args...)
	if err != nil {
		return nil, fmt.Errorf("fire %d schedules: %w", len(list), err)
	}
	now, number, fired := micros(reply[0]), 0, make([]Fired, len(list))
	for i := range list {
		if fired[i], err = b.fired(&list[i], Values(reply[i+1]), now, &number); err != nil {
			return nil, fmt.Errorf("fire %s: %w", list[i].Name, err)
		}
	}
	return fired, nil
}

// firedHead is the length of a schedule's state in the reply of fire.lua before what was found.
const firedHead = 4

// fired decodes what became of a Fire. number is how many jobs and schedules of the call came before.
func (b *Bucket) fired(f *Fire, state []any, now time.Time, number *int) (d Fired, err error) {
	if len(state) < firedHead || (len(state)-firedHead)%duplicateFields != 0 {
		return d, ErrReply
	}
	d = Fired{What: FiredWhat(Text(state[0])), Cursor: Millis(state[1]), Revision: Integer(state[2])}
	first := Integer(state[3])
	if first == 0 {
		return d, nil
	}
	jobs := f.Jobs
	if d.What == FiredSkipped {
		jobs = nil
	}
	d.Results = make([]Result, len(jobs))
	for i := range jobs {
		d.Results[i].Job = b.fresh(&jobs[i], dueAt(&jobs[i], now, *number+i), now)
		d.Results[i].Job.Revision = first + int64(i)
	}
	for found := range slices.Chunk(state[firedHead:], duplicateFields) {
		n := int(Integer(found[0])) - *number - 1
		if n < 0 || n >= len(jobs) {
			return d, ErrReply
		}
		d.Results[n] = b.duplicate(&jobs[n], d.Results[n].Job, found[1] == "replaced", found[2], now, true)
	}
	d.Changed = first + int64(len(jobs))
	*number += len(jobs) + 1
	return d, nil
}

// CursorChange sets what a cursor knows of its schedule's definition.
type CursorChange struct {
	Name, Topic string    // no topic: the schedule is removed
	Was         int64     // revision of the definition before; 0: there is none
	Revision    int64     // of the definition
	LeftOut     int       // occurrences that are left out by the change
	Reason      string    // why: edited, paused
	Cursor      time.Time // zero: now
}

// ErrDefinition is the error of a change of a schedule whose definition was changed meanwhile.
var ErrDefinition = errors.New("the schedule was changed meanwhile")

// SetCursor makes a change. It returns the cursor, and the revision of the change. Errors: ErrDefinition,
// *UnavailableError. Removing a schedule that does not exist is no error.
func (b *Bucket) SetCursor(ctx context.Context, c CursorChange) (cursor time.Time, revision int64, err error) {
	was, at := "", ""
	if c.Was != 0 {
		was = strconv.FormatInt(c.Was, 10)
	}
	if !c.Cursor.IsZero() {
		at = strconv.FormatInt(c.Cursor.UnixMilli(), 10)
	}
	o, err := b.Call(ctx, cursorScript, c.Name, c.Topic, was, c.Revision, c.LeftOut, c.Reason, at)
	if err != nil {
		return cursor, 0, fmt.Errorf("change schedule %s: %w", c.Name, err)
	}
	reply := Values(o.Value)
	if len(reply) != firedHead {
		return cursor, 0, fmt.Errorf("change schedule %s: %w", c.Name, ErrReply)
	}
	cursor, revision = Millis(reply[1]), Integer(reply[3])
	switch what := Text(reply[0]); {
	case what != "other":
		return cursor, revision, nil
	case o.Doubtful && Integer(reply[2]) == c.Revision: // by the first call
		return cursor, revision, b.Unknown()
	}
	return cursor, 0, fmt.Errorf("change schedule %s: %w", c.Name, ErrDefinition)
}

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
	At       time.Time
	Last     []Occurrence   // oldest first
	LeftOut  map[string]int // by reason
}

// leftOut are the reasons for which occurrences are left out.
var leftOut = []string{"late", "overlap", "paused", "limit", "edited"}

// Cursor returns the state of a schedule; nil when the bucket has none of this name.
func (b *Bucket) Cursor(ctx context.Context, name string) (*Cursor, error) {
	found, err := b.Cursors(ctx, []string{name})
	return found[name], err
}

// cursorsAtOnce is how many schedules one pipeline reads.
const cursorsAtOnce = 500

// Cursors returns the states of those of the schedules that the bucket has, by name.
func (b *Bucket) Cursors(ctx context.Context, names []string) (map[string]*Cursor, error) {
	found := make(map[string]*Cursor, len(names))
	for some := range slices.Chunk(names, cursorsAtOnce) {
		began := time.Now()
		replies := make([]*redis.MapStringStringCmd, len(some))
		_, err := b.shard.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, name := range some {
				replies[i] = pipe.HGetAll(ctx, b.Key("s:"+name))
			}
			return nil
		})
		if err != nil {
			return nil, b.Failed(ctx, began, err)
		}
		for i, name := range some {
			fields := replies[i].Val()
			if len(fields) == 0 {
				continue
			}
			if found[name], err = cursorOf(fields); err != nil {
				return nil, fmt.Errorf("read schedule %s: %w", name, err)
			}
		}
	}
	return found, nil
}

func cursorOf(fields map[string]string) (*Cursor, error) {
	c := &Cursor{Topic: fields["topic"], Revision: Number(fields["rev"]), At: millisOf(fields["at"]),
		LeftOut: make(map[string]int, len(leftOut))}
	for _, reason := range leftOut {
		c.LeftOut[reason] = int(Number(fields[reason]))
	}
	if last := fields["last"]; last != "" && json.Unmarshal([]byte(last), &c.Last) != nil {
		return nil, ErrRecord
	}
	return c, nil
}
