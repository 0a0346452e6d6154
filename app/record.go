package app

import (
	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/server"
)

// acceptedLines are the journal's lines of the pushes that were stored, or found their job there.
func acceptedLines(pushes []queue.Push, results []queue.Result) []journal.RequestLine {
	lines := make([]journal.RequestLine, 0, len(pushes))
	for i := range pushes {
		p, r := &pushes[i], &results[i]
		if r.Err != nil {
			continue
		}
		if r.Duplicate && p.OnDuplicate == queue.Keep {
			lines = append(lines, lineOf(journal.OpDuplicate, &r.Job))
			continue
		}
		op := journal.OpPush
		if r.Duplicate {
			op = journal.OpReplace
		}
		lines = append(lines, journal.RequestLine{
			Op: op, Topic: p.Topic, ID: r.Job.ID, Shard: r.Job.Shard, DueAt: r.Job.DueAt, CreatedAt: r.Job.CreatedAt,
			Priority: p.Priority.String(), TTR: p.TTR, MaxAttempts: p.MaxAttempts, ContentType: p.ContentType, Body: p.Body,
		})
	}
	return lines
}

// movedLines are the journal's lines of jobs that are in another shard now.
func movedLines(jobs []queue.Job) []journal.RequestLine {
	lines := make([]journal.RequestLine, len(jobs))
	for i := range jobs {
		lines[i] = lineOf(journal.OpMove, &jobs[i])
	}
	return lines
}

// lineOf is a job as it is.
func lineOf(op journal.Op, j *queue.Job) journal.RequestLine {
	return journal.RequestLine{
		Op: op, Topic: j.Topic, ID: j.ID, Shard: j.Shard, DueAt: j.DueAt, CreatedAt: j.CreatedAt,
		Priority: j.Priority.String(), TTR: j.TTR, MaxAttempts: j.MaxAttempts, ContentType: j.ContentType, Body: j.Body,
	}
}

var recordOps = map[string]journal.Op{
	server.OpChange: journal.OpChange, server.OpRun: journal.OpRun,
	server.OpRetryDead: journal.OpRedrive, server.OpDeleteDead: journal.OpDrop, server.OpDrop: journal.OpClear,
}

// recordLines are the journal's lines of a change of jobs: one for each job that is named, else one for all of them. Deletions of single
// jobs are recorded by the queue.
func recordLines(r server.Record) []journal.RequestLine {
	if r.Op == server.OpDelete {
		return nil
	}
	if len(r.IDs) > 0 {
		lines := make([]journal.RequestLine, len(r.IDs))
		for i, id := range r.IDs {
			lines[i] = journal.RequestLine{Op: recordOps[r.Op], Topic: r.Topic, ID: id}
		}
		return lines
	}
	line := journal.RequestLine{Op: recordOps[r.Op], Topic: r.Topic, ID: r.ID}
	if r.ID == "" {
		line.Count = r.Count
	}
	if r.Job != nil {
		line.Shard, line.DueAt, line.CreatedAt, line.Priority = r.Job.Shard, r.Job.DueAt, r.Job.CreatedAt, r.Job.Priority.String()
		line.ChangedAt = r.Job.ChangedAt
		line.TTR, line.MaxAttempts = r.Job.TTR, r.Job.MaxAttempts
	}
	if r.Change != nil && r.Change.Body != nil {
		line.Body = *r.Change.Body
	}
	return []journal.RequestLine{line}
}
