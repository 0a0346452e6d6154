package reconcile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// A Redis can lose writes: the last second of its append-only file, writes that a replica had not received, or
// everything. It loses the latest writes first. So every change of a job takes the next revision of its bucket, a
// counter in the data: the counter's value tells which changes the data has, and the journals of the hosts have the
// rest, each with its revision.
//
// The scripts work only while the hash cmp says that the server that answers has been compared with the journals
// (guard_compared.lua). A server that is new, or has lost everything, therefore refuses requests until then:
//
//	attend      one process for each journal, every few seconds: this host is running, and its journal reaches this
//	            far. The first one that meets a new server begins a comparison: its name, and the revision after which
//	            lines are missing. New revisions follow one that is above all that any journal has
//	replay      each host: the lines of its journal behind that revision, from the position that it noted last in
//	            the data
//	open_bucket each host: it has done that. When all hosts that may have lost lines have, or are silent for some
//	            seconds, the comparison ends: the scripts work again
//
// For each job the line with the highest revision decides, in whatever order the hosts replay their lines. A host that
// was silent is absent (absent.go): it replays late, see replay.lua.

// ReplayMode says which jobs lines of a journal may change.
type ReplayMode string

// The modes of Replay.
const (
	ReplayCompare ReplayMode = "compare" // the bucket is not open: nothing else changes jobs
	ReplayLate    ReplayMode = "late"    // the bucket is open: jobs that may have changed since stay
	ReplayByHand  ReplayMode = "hand"    // the same, with journals that an operator names
)

// EntryKind says what a line of a journal records about a job.
type EntryKind string

// The kinds of entries.
const (
	EntryStored    EntryKind = "stored"  // Job has all known fields
	EntryAdopted   EntryKind = "adopted" // as EntryStored, from a shard that is no longer in use
	EntryDeleted   EntryKind = "deleted"
	EntryDelivered EntryKind = "delivered"
	EntryDied      EntryKind = "died"      // Job has DeadAt, DeadReason, Attempts and History
	EntryCleared   EntryKind = "cleared"   // all jobs of Job.Topic
	EntryCancelled EntryKind = "cancelled" // the waiting and dead jobs of Job.Group; Job.Topic has topic patterns
	EntryClosed    EntryKind = "closed"    // Job.Group, for the patterns in Job.Topic until Job.DueAt
	EntryCursor    EntryKind = "cursor"    // the state of a schedule, in Schedule
	EntryMoved     EntryKind = "moved"     // as EntryCursor, from a shard that is no longer in use
	EntryFired     EntryKind = "fired"     // an occurrence of Job.Schedule at Job.For was pushed
)

// Entry is a line of a journal for Replay.
type Entry struct {
	Kind     EntryKind
	Revision int64
	Job      store.Job // Topic, ID and CreatedAt; more by Kind
	Schedule *store.ScheduleChange
	Gone     time.Time // of EntryCursor: occurrences up to here are of an earlier schedule of its name
}

// Effect says what replaying an entry did.
type Effect string

// The effects of entries. EffectNone means that the data had the change already, or that a later line overrides it.
const (
	EffectNone     Effect = ""
	EffectStored   Effect = "stored"
	EffectReplaced Effect = "replaced"
	EffectRemoved  Effect = "removed"
	EffectBuried   Effect = "buried"
)

// Comparison is the answer of a bucket to a host that attends it.
type Comparison struct {
	Open     bool   // the scripts work
	Name     string // of the comparison, unique
	After    int64  // revision of the data: while it is not open, later ones are lost
	Position string // in its journal that this host noted last, "" for none
	Missed   []Gap  // comparisons of an open bucket that this host has missed
	Hosts    []HostSeen
}

// Gap is a finished comparison: some of the revisions between After and Upto were lost.
type Gap struct{ After, Upto int64 }

// HostSeen says when another host attended a bucket last, by Redis's clock; the zero time when it was forgotten.
type HostSeen struct {
	Host string
	At   time.Time
}

// Attendance is what a host tells a bucket: it is running, and its journal ends at a position.
type Attendance struct {
	Host, Position string
	Revision       int64 // After of its last call while the bucket was open; 0: unknown
	Leaves         bool  // it stops
}

// Attend tells a bucket that a host is running. The host must call it every few seconds, and finally with Leaves.
func Attend(ctx context.Context, b *store.Bucket, a Attendance) (Comparison, error) {
	flag := ""
	if a.Leaves {
		flag = "1"
	}
	o, err := b.Call(ctx, attendScript, a.Host, a.Position, flag, rand.Text(), store.Format, a.Revision)
	if err != nil {
		return Comparison{}, fmt.Errorf("attend bucket %d: %w", b.Number(), err)
	}
	c, err := parseComparison(o.Value)
	if err != nil {
		return c, fmt.Errorf("attend shard %s: %w", b.Name(), err)
	}
	return c, nil
}

func parseComparison(v any) (c Comparison, err error) {
	reply := store.Values(v)
	if len(reply) != 6 {
		return c, store.ErrReply
	}
	c.Open, c.Name = reply[0] == int64(1), store.Text(reply[1])
	c.After, c.Position = store.Integer(reply[2]), store.Text(reply[3])
	missed, hosts := store.Values(reply[4]), store.Values(reply[5])
	if len(missed)%3 != 0 || len(hosts)%2 != 0 {
		return c, store.ErrReply
	}
	for gap := range slices.Chunk(missed, 3) {
		c.Missed = append(c.Missed, Gap{store.Number(store.Text(gap[1])), store.Number(store.Text(gap[2]))})
	}
	for pair := range slices.Chunk(hosts, 2) {
		seen := HostSeen{Host: store.Text(pair[0])}
		if at := store.Number(store.Text(pair[1])); at > 0 {
			seen.At = time.UnixMilli(at).UTC()
		}
		c.Hosts = append(c.Hosts, seen)
	}
	return c, nil
}

// entriesACall is the most entries in one call of the replay script.
const entriesACall = 100

// Replay applies lines of a journal to a bucket. name is the comparison's; ReplayByHand ignores it. All entries must be
// of topics in this bucket. With dry it only returns what it would do. After an error some entries may have been
// applied; they may be replayed again.
func Replay(
	ctx context.Context, b *store.Bucket, m ReplayMode, name string, dry bool, entries []Entry,
) ([]Effect, error) {
	effects := make([]Effect, 0, len(entries))
	for chunk := range slices.Chunk(entries, entriesACall) {
		some, err := replayEntries(ctx, b, m, name, dry, chunk)
		if err != nil {
			return effects, fmt.Errorf("replay %d lines of the journal in shard %s: %w", len(chunk), b.Name(), err)
		}
		effects = append(effects, some...)
	}
	return effects, nil
}

func replayEntries(
	ctx context.Context, b *store.Bucket, m ReplayMode, name string, dry bool, entries []Entry,
) ([]Effect, error) {
	script := replayScript
	if m == ReplayByHand {
		script = handReplayScript
	}
	args := make([]any, 3, 3+8*len(entries))
	args[0], args[1], args[2] = string(m), name, ""
	if dry {
		args[2] = "1"
	}
	for i := range entries {
		args = appendEntry(args, &entries[i])
	}
	o, err := b.Call(ctx, script, args...)
	if redis.HasErrorPrefix(err, "OTHERSERVER") {
		return nil, fmt.Errorf("%w: %w", ErrOtherComparison, err)
	}
	if err != nil {
		return nil, err
	}
	reply, ok := o.Value.([]any)
	if !ok || len(reply) != len(entries) {
		return nil, store.ErrReply
	}
	effects := make([]Effect, len(reply))
	for i, e := range reply {
		effects[i] = Effect(store.Text(e))
		if c := &entries[i]; c.Kind == EntryCleared && !dry {
			if err := queue.DropUpTo(ctx, b, c.Job.Topic, c.Revision); err != nil {
				return nil, err
			}
		}
		if c := &entries[i]; c.Kind == EntryCancelled && !dry {
			if err := queue.CancelUpTo(ctx, b, c.Job.Group, c.Job.Topic, c.Revision); err != nil {
				return nil, err
			}
		}
	}
	return effects, nil
}

func appendEntry(args []any, e *Entry) []any {
	j := &e.Job
	switch e.Kind {
	case EntryCursor, EntryMoved:
		return appendCursor(args, e)
	case EntryFired:
		return append(args, string(e.Kind), e.Revision, j.Topic, j.Schedule, "", "", "", j.For.UnixMilli(), "", 0)
	}
	var record, long []byte
	var attempts []store.Attempt
	created, died, reason := "", "", ""
	if !j.CreatedAt.IsZero() {
		created = strconv.FormatInt(j.CreatedAt.UnixMilli(), 10)
	}
	if e.Kind == EntryStored || e.Kind == EntryAdopted {
		record, long = store.RecordOf(j)
		attempts = j.History
	} else {
		record = []byte(j.Schedule)
	}
	if e.Kind == EntryDied || j.State == store.Dead {
		died, reason, attempts = strconv.FormatInt(j.DeadAt.UnixMilli(), 10), store.Escape(j.DeadReason), j.History
	}
	if j.Answer != nil {
		long, attempts = []byte(j.Answer.Encode()), j.History
		died = strconv.FormatInt(j.FinishedAt.UnixMilli(), 10)
	}
	id := j.ID
	if e.Kind == EntryCancelled || e.Kind == EntryClosed {
		id, died = store.Escape(j.Group), strconv.FormatInt(j.DueAt.UnixMilli(), 10)
	}
	args = append(args, string(e.Kind), e.Revision, j.Topic, id, created, record, long, died, reason)
	return store.AppendAttempts(args, attempts)
}

func appendCursor(args []any, e *Entry) []any {
	c := e.Schedule
	last, _ := json.Marshal(append([]store.Occurrence{}, c.Last...)) // texts and numbers: cannot fail
	args = append(args, string(e.Kind), e.Revision, c.Topic, c.Name, c.Rev, last, "", c.At.UnixMilli(),
		max(0, e.Gone.UnixMilli()), 2*len(c.LeftOut))
	for reason, n := range c.LeftOut {
		args = append(args, reason, n)
	}
	return args
}

// ErrOtherComparison means that a comparison has ended, or that another one has begun: the host must attend again.
var ErrOtherComparison = errors.New("the comparison has ended")

// ComparedMode says what a report of a host is about.
type ComparedMode string

// The modes of OpenBucket.
const (
	ComparedNow    ComparedMode = ""       // the host has replayed what the server lost
	ComparedLate   ComparedMode = "late"   // the bucket was open: it has replayed all that it had missed
	ComparedForget ComparedMode = "forget" // it will not be back
)

// ComparedBy is the report of a host to a bucket that it has replayed its journal.
type ComparedBy struct {
	Host    string
	Name    string // of the comparison
	Highest int64  // revision of this bucket that the host knows; 0: none, as of a new bucket
	Mode    ComparedMode
	Known   []string // hosts that this one knows, besides those that the bucket knows
	// Patience is how long to wait for a host that does not attend the bucket. The wait for one that does is 20 times
	// as long.
	Patience time.Duration
}

// Opened is the outcome of a comparison.
type Opened struct {
	Open    bool
	Another bool     // another server answers, or it has lost everything: nothing was stored
	Upto    int64    // no later revision was lost
	Absent  []string // hosts that did not answer in time, when this call has opened the bucket
}

// OpenBucket stores that a host has replayed its journal, and opens the bucket when all the hosts to wait for have done
// so.
func OpenBucket(ctx context.Context, b *store.Bucket, d ComparedBy) (Opened, error) {
	args := []any{d.Host, d.Name, d.Highest, d.Patience.Milliseconds(), string(d.Mode)}
	for _, h := range d.Known {
		args = append(args, h)
	}
	call, err := b.Call(ctx, openBucketScript, args...)
	if err != nil {
		return Opened{}, fmt.Errorf("note the comparison with shard %s: %w", b.Name(), err)
	}
	reply, ok := call.Value.([]any)
	if !ok || len(reply) < 2 {
		return Opened{}, fmt.Errorf("note the comparison with shard %s: %w", b.Name(), store.ErrReply)
	}
	o := Opened{Open: reply[0] == int64(1), Another: reply[0] == int64(-1), Upto: store.Number(store.Text(reply[1]))}
	for _, host := range reply[2:] {
		o.Absent = append(o.Absent, fmt.Sprint(host))
	}
	return o, nil
}

// Gaps returns which revisions a bucket may have lost in earlier comparisons.
func Gaps(ctx context.Context, b *store.Bucket) ([]Gap, error) {
	began := time.Now()
	past, err := b.Shard().Redis().LRange(ctx, b.Key("past"), 0, -1).Result()
	if err != nil {
		return nil, b.Failed(ctx, began, err)
	}
	gaps := make([]Gap, 0, len(past)/3)
	for one := range slices.Chunk(past, 3) {
		if len(one) == 3 {
			gaps = append(gaps, Gap{store.Number(one[1]), store.Number(one[2])})
		}
	}
	return gaps, nil
}

// IsCompared reports whether the last comparison of a bucket has ended: not while the bucket waits for one, as after it
// lost everything. It does not notice when another server answers.
func IsCompared(ctx context.Context, b *store.Bucket) (bool, error) {
	ended, err := b.Shard().Redis().HExists(ctx, b.Key("cmp"), "upto").Result()
	if err != nil {
		return false, fmt.Errorf("read whether bucket %d of shard %s was compared: %w", b.Number(), b.Name(), err)
	}
	return ended, nil
}
