package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// A snapshot of a bucket is not of one instant. Each job is read whole, and has the revision of its last change: in the
// end that revision and those in the journal, copied later, decide, as they do after a loss of data.

// SnapshotCounts says what a snapshot has.
type SnapshotCounts struct {
	Jobs      int `json:"jobs"` // waiting, running and dead
	Dead      int `json:"dead"`
	Schedules int `json:"schedules"`
	Closed    int `json:"closed_groups"`
	Damaged   int `json:"damaged"` // jobs that cannot be decoded; they are left out
}

// Add adds the counts of another bucket.
func (c *SnapshotCounts) Add(o SnapshotCounts) {
	c.Jobs += o.Jobs
	c.Dead += o.Dead
	c.Schedules += o.Schedules
	c.Closed += o.Closed
	c.Damaged += o.Damaged
}

// Snapshot passes the jobs, the schedules' cursors and the closed groups of a bucket to write, as lines of a journal.
// Every job that exists from the beginning to the end is among them. Finished jobs are not.
func Snapshot(
	ctx context.Context, b *store.Bucket, write func([]journal.RequestLine) error,
) (counts SnapshotCounts, err error) {
	s := &snapshot{Bucket: b, write: write}
	if err := errors.Join(s.groups(ctx), s.schedules(ctx), s.jobs(ctx)); err != nil {
		return s.counts, fmt.Errorf("read bucket %d of shard %s: %w", b.Number(), b.Name(), err)
	}
	return s.counts, nil
}

type snapshot struct {
	*store.Bucket
	write  func([]journal.RequestLine) error
	counts SnapshotCounts
}

// snapshotStep is how many jobs are read at once.
const snapshotStep = 100

func (s *snapshot) jobs(ctx context.Context) error {
	topics, err := s.Shard().Redis().SMembers(ctx, s.Key("topics")).Result()
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	slices.Sort(topics)
	for _, topic := range topics {
		if err := s.topic(ctx, topic); err != nil {
			return fmt.Errorf("topic %s: %w", topic, err)
		}
	}
	return nil
}

// topic scans the hash that has the jobs of a topic in all states: a list of one state would miss those that change it
// meanwhile.
func (s *snapshot) topic(ctx context.Context, topic string) error {
	for cursor := uint64(0); ; {
		fields, next, err := s.Shard().Redis().HScan(ctx, s.Key("j:"+topic), cursor, "", snapshotStep).Result()
		if err != nil {
			return err
		}
		refs := make([]store.Ref, 0, len(fields)/2)
		for pair := range slices.Chunk(fields, 2) {
			refs = append(refs, store.Ref{Topic: topic, ID: pair[0]})
		}
		for some := range slices.Chunk(refs, snapshotStep) {
			if err := s.read(ctx, some); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (s *snapshot) read(ctx context.Context, refs []store.Ref) error {
	jobs, _, err := s.Read(ctx, refs)
	if err != nil && !errors.Is(err, store.ErrRecord) {
		return err
	}
	if err != nil {
		s.counts.Damaged++
	}
	var lines []journal.RequestLine
	for _, j := range jobs {
		if j == nil || j.State == store.Finished {
			continue
		}
		lines = append(lines, snapshotLine(j))
		s.counts.Jobs++
		if j.State == store.Dead {
			s.counts.Dead++
		}
	}
	return s.write(lines)
}

func (s *snapshot) schedules(ctx context.Context) error {
	names, err := s.Shard().Redis().SMembers(ctx, s.Key("schedules")).Result()
	if err != nil {
		return fmt.Errorf("list schedules: %w", err)
	}
	for some := range slices.Chunk(names, snapshotStep) {
		cursors, err := s.Cursors(ctx, some)
		if err != nil {
			return err
		}
		var lines []journal.RequestLine
		for i, c := range cursors {
			if c == nil {
				continue
			}
			last, _ := json.Marshal(append([]store.Occurrence{}, c.Last...)) // texts and numbers: cannot fail
			lines = append(lines, journal.RequestLine{
				Op: journal.OpSchedule, Schedule: some[i], Topic: c.Topic, Shard: s.Name(), Bucket: s.Number(),
				Revision: max(1, c.Changed), Definition: c.Revision, For: c.At, Last: last, LeftOut: c.LeftOut,
			})
		}
		s.counts.Schedules += len(lines)
		if err := s.write(lines); err != nil {
			return err
		}
	}
	return nil
}

// groups writes which groups are closed, with the revision of the bucket before they were read: later lines say more.
func (s *snapshot) groups(ctx context.Context) error {
	redis := s.Shard().Redis()
	revisions, err := redis.MGet(ctx, s.Key("rev")).Result()
	if err != nil {
		return fmt.Errorf("read the revision: %w", err)
	}
	closed, err := redis.ZRangeWithScores(ctx, s.Key("closed"), 0, -1).Result()
	if err != nil {
		return fmt.Errorf("list closed groups: %w", err)
	}
	var lines []journal.RequestLine
	for _, one := range closed {
		group, topics, _ := strings.Cut(fmt.Sprint(one.Member), " ")
		if group, err = url.PathUnescape(group); err != nil {
			return fmt.Errorf("closed group %.60q: %w", one.Member, err)
		}
		lines = append(lines, journal.RequestLine{
			Op: journal.OpClose, Group: group, Topics: topics, Shard: s.Name(), Bucket: s.Number(),
			Revision: max(1, store.Number(store.Text(revisions[0]))), DueAt: store.Millis(int64(one.Score)),
		})
	}
	s.counts.Closed += len(lines)
	return s.write(lines)
}

// snapshotLine returns a line with everything that restores a job. A running one waits again, as after its lease.
func snapshotLine(j *store.Job) journal.RequestLine {
	line := lineOf(journal.OpSnapshot, j)
	line.NextAt, line.Attempts, line.Snoozes = j.NextAt, j.Attempts, j.Snoozes
	line.DeadAt, line.DeadReason = j.DeadAt, j.DeadReason
	if len(j.History) > 0 {
		line.History, _ = json.Marshal(j.History) // texts and numbers: cannot fail
	}
	return line
}

// addSnapshot adds what only the line of a snapshot has. Attempts that another version wrote and this one cannot decode
// are left out: the line has their number, and the job matters more.
func addSnapshot(j *store.Job, r *journal.RequestLine) {
	if err := json.Unmarshal(r.History, &j.History); err != nil {
		j.History = nil
	}
	if !r.DeadAt.IsZero() {
		j.State, j.DeadAt, j.DeadReason = store.Dead, r.DeadAt, r.DeadReason
	}
}
