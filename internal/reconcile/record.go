package reconcile

import (
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

// Ended records ends by workers and people: attempts that ended, and jobs that were removed or redriven by their ids.
func (r Recorder) Ended(list []store.Ended) error {
	var requests []journal.RequestLine
	var attempts []journal.AttemptLine
	for i := range list {
		d := &list[i]
		switch op := opOf(d); {
		case d.Err != nil:
		case op != "":
			line := journal.RequestLine{
				Op: op, Topic: d.Topic, ID: d.ID, Shard: d.Shard, Revision: d.Revision, CreatedAt: d.CreatedAt,
				Via: d.Via,
			}
			if d.Job != nil {
				line = lineOf(op, d.Job)
			}
			requests = append(requests, line)
		case d.Verb == store.Done || d.Verb == store.Fail || d.Verb == store.Bury:
			attempts = append(attempts, attemptOf(d))
		}
	}
	if len(attempts) > 0 {
		_ = r.Journal.Attempts(attempts) // the journal logs it, and nothing waits for it: at worst a job is repeated
	}
	if len(requests) == 0 {
		return nil
	}
	return r.Journal.Requests(requests)
}

// opOf returns the operation on a job without a lease; empty for the end of a lease.
func opOf(d *store.Ended) journal.Op {
	switch {
	case d.Was == store.Running:
		return ""
	case d.Verb == store.Release:
		return journal.OpRedrive
	case d.Verb != store.Done:
		return ""
	case d.Was == store.Dead:
		return journal.OpDrop
	}
	return journal.OpDelete
}

func attemptOf(d *store.Ended) journal.AttemptLine {
	line := journal.AttemptLine{
		Topic: d.Topic, ID: d.ID, CreatedAt: d.CreatedAt, N: d.Attempt, StartedAt: d.StartedAt, Took: d.Took,
		Outcome: journal.Done, Error: d.Error, Shard: d.Shard, Revision: d.Revision,
		Result: d.Result,
	}
	switch {
	case d.State == store.Dead:
		line.Outcome, line.Reason = journal.Dead, d.Reason
	case d.Verb == store.Fail:
		line.Outcome = journal.Retry
	}
	return line
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
		op, kept := journal.OpPush, r.Duplicate && p.OnDuplicate == store.Keep
		switch {
		case kept:
			op = journal.OpDuplicate
		case r.Duplicate:
			op = journal.OpReplace
		}
		line := lineOf(op, &r.Job)
		if line.Via = p.Via; !kept { // the job of a push that was stored comes without them
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
				Via: j.Via, By: j.By,
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
		Via: j.Via, By: j.By,
	}
}
