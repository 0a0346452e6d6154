package reconcile

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// key stands for a topic and an id: two independent 64-bit hashes, so that the chance of a collision among a billion
// jobs is one in 10^20.
type key [2]uint64

func keyOf(topic, id string) key {
	text := topic + "\x00" + id
	return key{xxhash.Sum64String(text), xxhash.Sum64String(text + "\x01")}
}

// line is what one line of a journal says about a job, or about a topic's jobs.
type line struct {
	kind         EntryKind
	topic, shard string
	key          key
	revision     int64
	request      *journal.RequestLine
	attempt      *journal.AttemptLine
}

var requestKinds = map[journal.Op]EntryKind{
	journal.OpPush: EntryStored, journal.OpReplace: EntryStored, journal.OpDuplicate: EntryStored,
	journal.OpMove: EntryStored, journal.OpChange: EntryStored, journal.OpRun: EntryStored,
	journal.OpRedrive: EntryStored, journal.OpSnapshot: EntryStored,
	journal.OpDelete: EntryDeleted, journal.OpDrop: EntryDeleted,
	journal.OpLeave: EntryDeleted, journal.OpClear: EntryCleared,
	journal.OpCancel: EntryCancelled, journal.OpClose: EntryClosed, journal.OpSchedule: EntryCursor,
}

// lineOfRequest converts a request; ok is false for lines that do not concern jobs in shards.
func lineOfRequest(r *journal.RequestLine) (l line, ok bool) {
	kind := requestKinds[r.Op]
	l = line{kind: kind, topic: r.Topic, shard: r.Shard, key: keyOf(r.Topic, r.ID), revision: r.Revision, request: r}
	switch {
	case l.ofGroup():
		l.key = keyOf("", r.Group)
	case kind == EntryCursor:
		l.key = keyOf("@", r.Schedule)
	}
	return l, kind != "" && r.Revision != 0 && (r.ID != "" || kind == EntryCleared || l.namesBucket())
}

var attemptKinds = map[journal.Outcome]EntryKind{
	journal.Done: EntryDelivered, journal.Dead: EntryDied, journal.Expired: EntryDied,
}

// lineOfAttempt converts an attempt; ok is false for those that ended no job. A death without a revision was not
// settled: its job is called again.
func lineOfAttempt(a *journal.AttemptLine) (l line, ok bool) {
	kind := attemptKinds[a.Outcome]
	l = line{kind: kind, topic: a.Topic, shard: a.Shard, key: keyOf(a.Topic, a.ID), revision: a.Revision, attempt: a}
	return l, kind != "" && a.Revision != 0
}

// ofGroup reports whether a line is about a group in one bucket, and not about a topic's jobs.
func (l *line) ofGroup() bool { return l.kind == EntryCancelled || l.kind == EntryClosed }

// namesBucket reports whether a line is about something else than jobs, in one bucket.
func (l *line) namesBucket() bool { return l.ofGroup() || l.kind == EntryCursor }

// occurrence returns which occurrence a line tells to have been pushed; ok is false for other jobs, for jobs that were
// pushed by hand beside the cursor, and for those that were pushed before their time.
func (l *line) occurrence() (schedule string, at time.Time, ok bool) {
	var id string
	var created time.Time
	switch {
	case l.attempt != nil:
		schedule, at, id, created = l.attempt.Schedule, l.attempt.For, l.attempt.ID, l.attempt.CreatedAt
	case l.request != nil:
		schedule, at, id, created = l.request.Schedule, l.request.For, l.request.ID, l.request.CreatedAt
	}
	return schedule, at, schedule != "" && strings.HasPrefix(id, schedule+"@") && !at.After(created)
}

// selection selects the lines to read from one or several journals.
type selection struct {
	dirs  []string
	from  journal.Range
	wants func(*line) bool
}

// each calls f with the requests of all journals and then with their attempts. torn counts torn lines of killed
// processes, whose requests were not answered.
func (s *selection) each(ctx context.Context, torn *int, f func(*line) error) error {
	for _, dir := range s.dirs {
		if err := eachOf(ctx, s, journal.ReadRequests(dir, s.from), torn, lineOfRequest, f); err != nil {
			return err
		}
	}
	for _, dir := range s.dirs {
		if err := eachOf(ctx, s, journal.ReadAttempts(dir, s.from), torn, lineOfAttempt, f); err != nil {
			return err
		}
	}
	return nil
}

func eachOf[T any](
	ctx context.Context, s *selection, lines iter.Seq2[T, error], torn *int, convert func(*T) (line, bool),
	f func(*line) error,
) error {
	for read, err := range lines {
		if err := errors.Join(ctx.Err(), skipTorn(err, torn)); err != nil {
			return err
		}
		if l, ok := convert(&read); err == nil && ok && s.wants(&l) {
			if err := f(&l); err != nil {
				return err
			}
		}
	}
	return nil
}

func skipTorn(err error, torn *int) error {
	if _, ok := errors.AsType[*journal.TornError](err); ok {
		*torn++
		return nil
	}
	return err
}

// entryOf converts a line for Replay.
func entryOf(l *line) Entry {
	e := Entry{Kind: l.kind, Revision: l.revision}
	switch {
	case l.attempt != nil:
		a := l.attempt
		e.Job = store.Job{Topic: a.Topic, ID: a.ID, CreatedAt: a.CreatedAt, Schedule: a.Schedule, For: a.For}
		switch {
		case l.kind == EntryDied:
			died(&e.Job, a)
		case a.Answer != "":
			e.Job.Answer, e.Job.History = store.DecodeAnswer(a.Answer), historyOf(a)
			e.Job.FinishedAt = a.StartedAt.Add(a.Took) // by the shard's clock, unlike TS
		}
	case l.kind == EntryStored:
		r := l.request
		e.Job = store.Job{
			Topic: r.Topic, ID: r.ID, Body: r.Body, ContentType: r.ContentType, Priority: priorityOf(r), Order: r.Order,
			TTR: r.TTR, MaxAttempts: r.MaxAttempts, CreatedAt: r.CreatedAt, DueAt: r.DueAt,
			ExpiresAt: r.ExpiresAt, Headers: r.Headers, Retry: r.Retry, Group: r.Group, Key: r.Key,
			Traceparent: r.Traceparent, URL: r.URL, Quota: r.Quota, Schedule: r.Schedule, For: r.For,
			Awaited: r.Awaited, NextAt: r.NextAt, Attempts: r.Attempts, Snoozes: r.Snoozes,
		}
		if r.Op == journal.OpSnapshot {
			addSnapshot(&e.Job, r)
		}
	case l.ofGroup():
		e.Job = store.Job{Topic: l.request.Topics, Group: l.request.Group, DueAt: l.request.DueAt}
	default:
		r := l.request
		e.Job = store.Job{Topic: r.Topic, ID: r.ID, CreatedAt: r.CreatedAt, Schedule: r.Schedule, For: r.For}
	}
	return e
}

func priorityOf(r *journal.RequestLine) store.Priority {
	p, err := store.ParsePriority(r.Priority)
	if err != nil {
		return store.Normal
	}
	return p
}

// died makes a job dead by the line of its last attempt.
func died(j *store.Job, a *journal.AttemptLine) {
	j.State, j.DeadAt, j.DeadReason, j.Attempts = store.Dead, a.TS, a.Reason, a.N
	switch {
	case a.Outcome == journal.Expired:
		j.DeadReason = "expired"
	case a.Status == http.StatusGone:
		j.DeadReason = "gone"
	case a.Status != 0 || a.Error != "" && a.Reason != "buried": // a callback, whose line says why it failed
		j.DeadReason = "attempts"
	}
	j.History = historyOf(a)
}

func historyOf(a *journal.AttemptLine) []store.Attempt {
	if a.StartedAt.IsZero() {
		return nil
	}
	return []store.Attempt{{
		N: a.N, StartedAt: a.StartedAt.UnixMilli(), TookMS: float64(a.Took) / 1e6, Status: a.Status, Error: a.Error,
	}}
}
