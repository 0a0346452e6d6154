package reconcile

import (
	"encoding/json"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// LineWriter is the part of a journal.Journal that a Recorder needs.
type LineWriter interface {
	Requests(lines []journal.RequestLine) error
	Attempts(lines []journal.AttemptLine) error
}

// A Recorder writes the changes that a queue accepted to the journal: one line for each job, with the revision of its
// change. It implements the hooks of queue.Options. Its methods may be called from any goroutine.
type Recorder struct{ Journal LineWriter }

// Accepted records pushes that were stored, or whose job already existed.
func (r Recorder) Accepted(pushes []store.Push, results []store.Result) error {
	return r.Journal.Requests(acceptedLines(pushes, results))
}

// Changed records every other change.
func (r Recorder) Changed(kind store.ChangeKind, jobs []store.Job) error {
	return r.Journal.Requests(changedLines(kind, jobs))
}

// Grouped records a change of a whole group in a bucket.
func (r Recorder) Grouped(c store.GroupChange) error {
	op := journal.OpCancel
	if !c.Until.IsZero() {
		op = journal.OpClose
	}
	return r.Journal.Requests([]journal.RequestLine{{
		Op: op, Group: c.Group, Topics: c.Topics, Shard: c.Shard, Bucket: c.Bucket, Revision: c.Revision,
		DueAt: c.Until, Via: c.Via, By: c.By,
	}})
}

// Scheduled records a change of a schedule's cursor.
func (r Recorder) Scheduled(c store.ScheduleChange) error {
	var last []byte
	if len(c.Last) > 0 {
		last, _ = json.Marshal(c.Last) // texts and numbers: cannot fail
	}
	return r.Journal.Requests([]journal.RequestLine{{
		Op: journal.OpSchedule, Schedule: c.Name, Topic: c.Topic, Shard: c.Shard, Bucket: c.Bucket,
		Revision: c.Revision, Definition: c.Rev, For: c.At, Last: last, LeftOut: c.LeftOut,
	}})
}

func acceptedLines(pushes []store.Push, results []store.Result) []journal.RequestLine {
	lines := make([]journal.RequestLine, 0, len(pushes))
	for i := range pushes {
		p, r := &pushes[i], &results[i]
		if r.Err != nil {
			continue
		}
		if r.Duplicate && r.Job.State == store.Finished {
			continue // no job was stored, so no line is needed
		}
		op, keep := journal.OpPush, r.Duplicate && p.OnDuplicate == store.Keep
		switch {
		case keep:
			op = journal.OpDuplicate
		case r.Duplicate:
			op = journal.OpReplace
		}
		line := lineOf(op, &r.Job)
		if line.Via = p.Via; !keep { // the job of a push that was stored comes without them
			line.ContentType, line.Body = p.ContentType, p.Body
		}
		lines = append(lines, line)
	}
	return lines
}

var ops = map[store.ChangeKind]journal.Op{
	store.Changed: journal.OpChange, store.MadeDue: journal.OpRun, store.Deleted: journal.OpDelete,
	store.Redriven: journal.OpRedrive, store.DeadDeleted: journal.OpDrop, store.Cleared: journal.OpClear,
	store.MovedIn: journal.OpMove, store.MovedOut: journal.OpLeave,
}

func changedLines(kind store.ChangeKind, jobs []store.Job) []journal.RequestLine {
	lines := make([]journal.RequestLine, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		switch kind {
		case store.Changed, store.MadeDue, store.MovedIn, store.Redriven:
			lines[i] = lineOf(ops[kind], j)
		default:
			lines[i] = journal.RequestLine{
				Op: ops[kind], Topic: j.Topic, ID: j.ID, Shard: j.Shard, Revision: j.Revision, CreatedAt: j.CreatedAt,
				Schedule: j.Schedule, For: j.For, Via: j.Via, By: j.By,
			}
		}
	}
	return lines
}

// lineOf returns a line with the whole job, which is enough to restore it.
func lineOf(op journal.Op, j *store.Job) journal.RequestLine {
	return journal.RequestLine{
		Op: op, Topic: j.Topic, ID: j.ID, Shard: j.Shard, Revision: j.Revision, DueAt: j.DueAt, CreatedAt: j.CreatedAt,
		ChangedAt: j.ChangedAt, Priority: j.Priority.String(), Order: j.Order, TTR: j.TTR, MaxAttempts: j.MaxAttempts,
		ContentType: j.ContentType, Body: j.Body, ExpiresAt: j.ExpiresAt, Headers: j.Headers, Retry: j.Retry,
		Group: j.Group, Key: j.Key, Traceparent: j.Traceparent, URL: j.URL, Quota: j.Quota, Schedule: j.Schedule,
		For: j.For, Awaited: j.Awaited, Via: j.Via, By: j.By,
	}
}
