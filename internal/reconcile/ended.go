package reconcile

import (
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

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
				Schedule: d.Schedule, For: d.For, Via: d.Via,
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

// opOf returns the operation on a job without a lease; empty for the end of a lease, unless the job was deleted then.
func opOf(d *store.Ended) journal.Op {
	switch {
	case d.Withdrawn():
		return journal.OpDelete
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
		Result: d.Result, Schedule: d.Schedule, For: d.For, Answer: d.Answer.Encode(),
	}
	switch {
	case d.State == store.Dead:
		line.Outcome, line.Reason = journal.Dead, d.Reason
	case d.Verb == store.Fail:
		line.Outcome = journal.Retry
	}
	return line
}
