package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Redis can lose writes: the last second of its append-only file, what a replica had not received, or everything. It
// loses the latest writes first. So every change of a job takes the next revision of its bucket, a counter in the data:
// the revision that the data holds tells which changes it has, and the journals of the hosts have the rest, each with
// its revision.
//
// The scripts work only while run names the server that answers (lua/shared/serverguard.lua). A server that is new, or
// has lost everything, therefore answers nothing until it has been compared:
//
//	attend      one process for each journal, every second: this host is at work, and its journal reaches this far. The
//	            first one that meets a new server begins a comparison: its name, and the revision after which lines are
//	            missing
//	replay      each host: the lines of its journal behind that revision, from the position that it noted last in the
//	            data
//	compared    each host: it has done that. When all hosts at work have, revisions continue behind all that any journal
//	            knows, and run is set: the scripts work again
//
// Of a job the line with the highest revision decides, in whatever order hosts replay theirs. A host that was away
// replays late, see replay.lua.

// ReplayMode says what lines of a journal may change.
type ReplayMode string

// The modes of Replay.
const (
	ReplayCompare ReplayMode = "compare" // nobody else changes jobs meanwhile
	ReplayLate    ReplayMode = "late"    // the bucket is open: what may have been changed since stays
	ReplayByHand  ReplayMode = "hand"    // the same, of journals that an operator names
)

// EntryKind says what a line of a journal tells of a job.
type EntryKind string

// The kinds of entries.
const (
	EntryStored    EntryKind = "stored" // Job is all that is known of it
	EntryDeleted   EntryKind = "deleted"
	EntryDelivered EntryKind = "delivered"
	EntryDied      EntryKind = "died"    // Job has DeadAt, DeadReason, Attempts and History
	EntryCleared   EntryKind = "cleared" // all jobs of Job.Topic
)

// Entry is a line of a journal for Replay.
type Entry struct {
	Kind     EntryKind
	Revision int64 // 0 of delivered ones by older versions, unless what was delivered is known
	Since    int64 // of stored ones: the last revision known at which the job was alive; 0: it is not known
	Job      Job   // Topic, ID and CreatedAt; more by Kind
}

// Effect is what replaying an entry did.
type Effect string

// The effects of entries. EffectNone is for what was so already, or is overtaken by a later line.
const (
	EffectNone     Effect = ""
	EffectStored   Effect = "stored"
	EffectReplaced Effect = "replaced"
	EffectRemoved  Effect = "removed"
	EffectBuried   Effect = "buried"
)

// Comparison is what a bucket tells a host that attends it.
type Comparison struct {
	Now      time.Time // by Redis's clock
	Open     bool      // the scripts work
	Name     string    // of the comparison, different from all others
	After    int64     // revision of the data: later ones are lost
	Position string    // what this host noted last, "" for nothing
	// Older is what a version before revisions noted of this host: "same" when it has compared its journal with this
	// server, else "until " and the milliseconds, by the host's clock, before which its journal is in the data.
	Older  string
	Empty  bool  // there is nothing in the bucket
	Missed []Gap // comparisons of an open bucket that this host has not done
	Hosts  []HostSeen
}

// Gap is a comparison that has been: of the revisions between After and Upto some were lost.
type Gap struct{ After, Upto int64 }

// HostSeen is what a bucket knows of a host.
type HostSeen struct {
	Host string
	At   time.Time // by Redis's clock, when it attended last
	Left bool      // it said so then
}

// Attend tells a bucket that a host is at work and that its journal ends at a position. It is to be called again every
// few seconds, and at last with leaves.
func (s *Shard) Attend(ctx context.Context, bucket int, host, position string, leaves bool) (Comparison, error) {
	flag := ""
	if leaves {
		flag = "1"
	}
	if err := s.Identify(ctx); err != nil { // or a second name would open a shard without the lines of the first
		return Comparison{}, fmt.Errorf("attend shard %s: %w", s.name, err)
	}
	v, err := s.eval(ctx, bucket, "attend", host, position, flag, rand.Text())
	if err != nil {
		return Comparison{}, fmt.Errorf("attend shard %s: %w", s.name, err)
	}
	c, err := parseComparison(v)
	if err != nil {
		return c, fmt.Errorf("attend shard %s: %w", s.name, err)
	}
	return c, nil
}

const comparisonHead = 7

func parseComparison(v any) (c Comparison, err error) {
	reply, _ := v.([]any)
	end := slices.IndexFunc(reply[min(comparisonHead, len(reply)):], func(v any) bool { return v == "" })
	if end < 0 || end%3 != 0 {
		return c, errReply
	}
	number := func(i int) int64 { n, _ := reply[i].(int64); return n }
	c.Now, c.Open, c.After = millis(reply[0]), number(1) == 1, number(3)
	c.Name, _ = reply[2].(string)
	c.Position, _ = reply[4].(string)
	c.Older, _ = reply[5].(string)
	c.Empty = number(6) == 1
	missed, hosts := reply[comparisonHead:comparisonHead+end], reply[comparisonHead+end+1:]
	for gap := range slices.Chunk(missed, 3) {
		c.Missed = append(c.Missed, Gap{parseNumber(gap[1]), parseNumber(gap[2])})
	}
	for pair := range slices.Chunk(hosts, 2) {
		if len(pair) < 2 {
			return c, errReply
		}
		host, _ := pair[0].(string)
		at := parseNumber(pair[1])
		c.Hosts = append(c.Hosts, HostSeen{Host: host, At: time.UnixMilli(max(at, -at)).UTC(), Left: at < 0})
	}
	return c, nil
}

func parseNumber(v any) int64 {
	text, _ := v.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// replayStep is how many entries one call of the replay script takes.
const replayStep = 100

// Replay applies lines of a journal to a bucket. name is the comparison's, ignored by hand. All entries must be of
// topics in this bucket. dry only tells what would be done. On an error some may have been applied; they may be
// replayed again.
func (s *Shard) Replay(
	ctx context.Context, bucket int, m ReplayMode, name string, dry bool, entries []Entry,
) ([]Effect, error) {
	effects := make([]Effect, 0, len(entries))
	for chunk := range slices.Chunk(entries, replayStep) {
		some, err := s.replay(ctx, bucket, m, name, dry, chunk)
		if err != nil {
			return effects, fmt.Errorf("replay %d lines of the journal in shard %s: %w", len(chunk), s.name, err)
		}
		effects = append(effects, some...)
	}
	return effects, nil
}

func (s *Shard) replay(
	ctx context.Context, bucket int, m ReplayMode, name string, dry bool, entries []Entry,
) ([]Effect, error) {
	args := make([]any, 3, 3+11*len(entries))
	args[0], args[1], args[2] = string(m), name, ""
	if dry {
		args[2] = "1"
	}
	for i := range entries {
		var err error
		if args, err = s.appendEntry(args, &entries[i]); err != nil {
			return nil, err
		}
	}
	v, err := s.eval(ctx, bucket, "replay", args...)
	if errors.Is(err, errConnection) || reasonOf(err) == "connection" {
		v, err = s.eval(ctx, bucket, "replay", args...)
	}
	if err != nil {
		return nil, err
	}
	reply, ok := v.([]any)
	if !ok || len(reply) != len(entries) {
		return nil, errReply
	}
	effects := make([]Effect, len(reply))
	for i, e := range reply {
		text, _ := e.(string)
		effects[i] = Effect(text)
	}
	return effects, nil
}

func (s *Shard) appendEntry(args []any, e *Entry) ([]any, error) {
	j := &e.Job
	var record, long []byte
	died, attempts := "", ""
	if e.Kind == EntryStored {
		record, long = recordOf(j)
	}
	if e.Kind == EntryDied || j.State == Dead {
		b, err := encodeAttempts(j.Attempts, 0, j.DeadReason, j.History)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", j.Topic, j.ID, err)
		}
		died, attempts = strconv.FormatInt(j.DeadAt.UnixMilli(), 10), string(b)
	}
	created := int64(0)
	if !j.CreatedAt.IsZero() {
		created = j.CreatedAt.UnixMilli()
	}
	return append(args, string(e.Kind), e.Revision, e.Since, j.Topic, s.address(j.Topic, j.ID), j.ID, created, record,
		long, died, attempts), nil
}

// ComparedBy is what a host tells a bucket when it has replayed its journal.
type ComparedBy struct {
	Host    string
	Name    string   // of the comparison
	Highest int64    // revision of this bucket in the journal
	Late    bool     // the bucket was open: it has replayed all that it had missed
	WaitFor []string // hosts at work
	// Patience is for how long a host that does not attend the bucket is waited for, and 20 times as long one that does.
	Patience time.Duration
}

// Opened is what became of a comparison.
type Opened struct {
	Open    bool
	Another bool     // another server answers, or it has lost everything: nothing was noted
	Upto    int64    // revisions continue behind this one
	Absent  []string // hosts that did not answer in time, when this call has opened the bucket
}

// Compared notes that a host has replayed its journal, and opens the bucket when the hosts that are waited for have
// done so too.
func (s *Shard) Compared(ctx context.Context, bucket int, d ComparedBy) (Opened, error) {
	args := []any{d.Host, d.Name, d.Highest, d.Patience.Milliseconds(), ""}
	if d.Late {
		args[4] = "1"
	}
	for _, h := range d.WaitFor {
		args = append(args, h)
	}
	v, err := s.eval(ctx, bucket, "compared", args...)
	if err != nil {
		return Opened{}, fmt.Errorf("note the comparison with shard %s: %w", s.name, err)
	}
	reply, ok := v.([]any)
	if !ok || len(reply) < 2 {
		return Opened{}, fmt.Errorf("note the comparison with shard %s: %w", s.name, errReply)
	}
	o := Opened{Open: reply[0] == int64(1), Another: reply[0] == int64(-1), Upto: parseNumber(reply[1])}
	for _, host := range reply[2:] {
		o.Absent = append(o.Absent, fmt.Sprint(host))
	}
	return o, nil
}

// Survey lists jobs of a topic in a state, also before the bucket is open. next is "" at the end.
func (s *Shard) Survey(
	ctx context.Context, topic string, state State, cursor string,
) (jobs []Job, next string, err error) {
	v, err := s.eval(ctx, s.bucketOf(topic), survey, topic, string(state), cursor, listStep)
	if err != nil {
		return nil, "", fmt.Errorf("survey %s in shard %s: %w", topic, s.name, err)
	}
	reply, _ := v.([]any)
	return s.listed(topic, state, reply)
}

// BucketOf is the bucket that has a topic's jobs.
func (s *Shard) BucketOf(topic string) int { return s.bucketOf(topic) }

// Adopt opens a shard without comparing it with any journal: for tests, and tools that have a Redis of their own.
func (s *Shard) Adopt(ctx context.Context) error {
	for bucket := range s.nodes {
		c, err := s.Attend(ctx, bucket, "adopted", "", true)
		if err != nil {
			return err
		}
		by := ComparedBy{Host: "adopted", Name: c.Name, Highest: c.After}
		if _, err := s.Compared(ctx, bucket, by); err != nil {
			return err
		}
		s.nodes[bucket].down.Store(false)
	}
	return nil
}

// ComparedWith are the servers that the shard's buckets were compared with, by bucket; "" for one that waits for it, as
// when it has lost everything. It does not tell when another server answers.
func (s *Shard) ComparedWith(ctx context.Context) ([]string, error) {
	servers := make([]string, len(s.nodes))
	cmds := make([]*redis.StringCmd, len(s.nodes))
	pipe := s.client.Pipeline()
	for bucket := range s.nodes {
		cmds[bucket] = pipe.Get(ctx, prefix(bucket)+"run")
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("ask shard %s which server it was compared with: %w", s.name, err)
	}
	for bucket, c := range cmds {
		servers[bucket] = c.Val()
	}
	return servers, nil
}
