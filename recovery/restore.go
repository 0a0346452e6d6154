package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/queue"
)

// restore goes through the requests once more, stores what is missing in the order in which it was accepted, and makes changes again. Jobs that were
// changed are kept until all of their lines were read.
func (r *recovery) restore(ctx context.Context) error {
	changed := map[key][]journal.RequestLine{}
	var order []key
	var batch []journal.RequestLine
	flush := func() error {
		defer func() { batch = batch[:0] }()
		return r.store(ctx, batch)
	}
	err := r.requests(ctx, r.Since, new(int), func(l *journal.RequestLine) error {
		k := keyOf(l.Topic, l.ID)
		e, ok := r.books.entries[k]
		if !ok || !r.wanted(l, &e) {
			return nil
		}
		if !e.changed && !e.seen {
			e.checked = false // a line may come twice
			r.books.entries[k] = e
			batch = append(batch, *l)
			if len(batch) < step {
				return nil
			}
			return flush()
		}
		if changed[k] == nil {
			order = append(order, k)
		}
		changed[k] = append(changed[k], *l)
		return nil
	})
	if err == nil {
		err = flush()
	}
	for _, k := range order {
		if err != nil {
			return err
		}
		e, l := r.books.entries[k], asChanged(changed[k], r.elsewhere[k])
		if !e.missing {
			err = r.change(ctx, &l, &e)
			continue
		}
		err = r.store(ctx, []journal.RequestLine{l})
	}
	return err
}

// asChanged is what became of a job by its lines here and its changes on other hosts, in the order of their times by the shard's clock; lines of
// older versions have only that of their host. A push comes first.
func asChanged(here, elsewhere []journal.RequestLine) journal.RequestLine {
	lines := slices.Concat(here, elsewhere)
	slices.SortStableFunc(lines, func(a, b journal.RequestLine) int {
		if first := isPush(b.Op) - isPush(a.Op); first != 0 {
			return first
		}
		return changedAt(&a).Compare(changedAt(&b))
	})
	for i := range lines[1:] {
		amend(&lines[0], &lines[1+i])
	}
	return lines[0]
}

func changedAt(l *journal.RequestLine) time.Time {
	if l.ChangedAt.IsZero() {
		return l.TS
	}
	return l.ChangedAt
}

func isPush(op journal.Op) int {
	if op == journal.OpPush || op == journal.OpReplace || asItWas(op) || op == journal.OpSpool {
		return 1
	}
	return 0
}

// wanted says whether a line is part of what a job was accepted as, and the job still to be put right.
func (r *recovery) wanted(l *journal.RequestLine, e *entry) bool {
	at := l.TS.UnixMilli()
	again := l.Op == journal.OpSpool && l.OnDuplicate == replaceText // of the same millisecond as one before
	if e.state != living && e.state != dead || !e.checked && !again || !e.missing && !(e.changed && e.there) {
		return false
	}
	switch l.Op {
	case journal.OpPush, journal.OpReplace, journal.OpMove, journal.OpDuplicate:
		return e.missing && !e.spooled && l.CreatedAt.UnixMilli() == e.created
	case journal.OpSpool:
		return e.missing && e.spooled && at == e.at
	case journal.OpChange, journal.OpRun:
		return (e.changed || e.seen) && (l.CreatedAt.IsZero() || l.CreatedAt.UnixMilli() == e.created)
	}
	return false
}

func amend(had, l *journal.RequestLine) {
	if !l.DueAt.IsZero() {
		had.DueAt = l.DueAt
	}
	if l.Priority != "" {
		had.Priority = l.Priority
	}
	if l.Body != nil {
		had.Body = l.Body
	}
}

func priorityOf(l *journal.RequestLine) queue.Priority {
	p, err := queue.ParsePriority(l.Priority)
	if err != nil {
		return queue.Normal
	}
	return p
}

// store brings missing jobs back. Those that were spooled are pushed: no shard has had them yet.
func (r *recovery) store(ctx context.Context, lines []journal.RequestLine) error {
	var pushes []queue.Push
	var jobs []queue.Job
	for i := range lines {
		l := &lines[i]
		k := keyOf(l.Topic, l.ID)
		e := r.books.entries[k]
		if !r.Topic(l.Topic) {
			r.report.Unknown++
			r.Logger.Warn("a missing job is not stored again: its topic is not registered any more", "topic", l.Topic, "id", l.ID)
			continue
		}
		if e.stale {
			if err := r.delete(ctx, queue.Ref{Topic: l.Topic, ID: l.ID}); err != nil {
				return err
			}
		}
		if e.spooled {
			pushes = append(pushes, pushOf(l))
		} else {
			jobs = append(jobs, r.jobOf(l, k, &e))
		}
	}
	if err := r.push(ctx, pushes); err != nil {
		return err
	}
	return r.storeJobs(ctx, jobs)
}

func (r *recovery) storeJobs(ctx context.Context, jobs []queue.Job) error {
	for _, j := range jobs {
		r.Logger.Info("a job that was forgotten is stored again", "topic", j.Topic, "id", j.ID, "state", j.State, "due_at", j.DueAt)
	}
	isDead := func(j queue.Job) bool { return j.State == queue.Dead }
	died := slices.DeleteFunc(slices.Clone(jobs), func(j queue.Job) bool { return !isDead(j) })
	n, err := r.Queue.Restore(ctx, slices.DeleteFunc(jobs, isDead))
	r.report.Pushed += n
	if err == nil {
		n, err = r.Queue.Restore(ctx, died)
		r.report.Restored += n
	}
	if err != nil {
		return fmt.Errorf("store missing jobs again: %w", err)
	}
	return nil
}

func pushOf(l *journal.RequestLine) queue.Push {
	p := queue.Push{
		Topic: l.Topic, ID: l.ID, Body: l.Body, ContentType: l.ContentType, DueAt: l.DueAt, TTR: l.TTR, MaxAttempts: l.MaxAttempts,
		Priority: priorityOf(l), OnDuplicate: queue.Keep,
	}
	if l.DueAt.IsZero() { // what is left of its delay: its shard's clock may be another than this host's
		p.Delay = max(0, time.Until(l.TS.Add(l.Delay+time.Millisecond))) // TS has lost a part of a millisecond
	}
	if l.OnDuplicate == replaceText {
		p.OnDuplicate = queue.Replace
	}
	return p
}

// jobOf is a job as it was, or, if it had all of its attempts, as it died.
func (r *recovery) jobOf(l *journal.RequestLine, k key, e *entry) queue.Job {
	job := queue.Job{
		Topic: l.Topic, ID: l.ID, Body: l.Body, ContentType: l.ContentType, Priority: priorityOf(l), TTR: l.TTR, MaxAttempts: l.MaxAttempts,
		CreatedAt: l.CreatedAt, DueAt: l.DueAt, State: queue.Delayed, Shard: l.Shard,
	}
	last := r.books.deaths[k]
	if e.state != dead || last == nil {
		return job
	}
	job.State, job.DeadAt, job.DeadReason, job.Attempts = queue.Dead, last.TS, last.Reason, last.N
	if last.Outcome == journal.Expired {
		job.DeadReason = "expired"
	}
	if !last.StartedAt.IsZero() {
		job.History = []queue.Attempt{{N: last.N, StartedAt: last.StartedAt.UnixMilli(), TookMS: float64(last.Took) / 1e6, Status: last.Status, Error: last.Error}}
	}
	return job
}

func (r *recovery) push(ctx context.Context, pushes []queue.Push) error {
	var away error
	for i, result := range r.Queue.PushBatch(ctx, pushes) {
		p := &pushes[i]
		var un *queue.UnavailableError
		switch {
		case result.Err == nil, queue.Stored(result.Err): // there all the same; a replica that is away must not hold up the rest
			r.report.Pushed++
		case errors.As(result.Err, &un) || ctx.Err() != nil:
			away = result.Err
		default:
			r.report.Failed++
			r.Logger.Error("a push that was taken while no shard was up is refused now", "topic", p.Topic, "id", p.ID, "error", result.Err)
		}
	}
	if away != nil {
		return fmt.Errorf("push what was spooled: %w", away)
	}
	return nil
}

// change makes a job that is there as its last change left it. The due time is what a change sets; a retry does not move it. One that looks
// different from before was changed meanwhile, on a host that may not have told of it: that change was not forgotten, and is the newer one.
func (r *recovery) change(ctx context.Context, l *journal.RequestLine, e *entry) error {
	jobs, err := r.Queue.Lookup(ctx, []queue.Ref{{Topic: l.Topic, ID: l.ID}}, r.Shard)
	if err != nil {
		return err
	}
	job := jobs[0]
	if job == nil || job.Newer || job.CreatedAt.UnixMilli() != e.created || job.State != queue.Delayed && job.State != queue.Ready || lookOf(job) != e.look {
		return nil
	}
	var c queue.Change
	if !l.DueAt.IsZero() && !l.DueAt.Equal(job.DueAt) {
		c.DueAt = &l.DueAt
	}
	if p := priorityOf(l); l.Priority != "" && p != job.Priority {
		c.Priority = &p
	}
	if l.Body != nil && !bytes.Equal(l.Body, job.Body) {
		c.Body = &l.Body
	}
	if c == (queue.Change{}) {
		return nil
	}
	_, err = r.Queue.Change(ctx, l.Topic, l.ID, c)
	if errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrRunning) || errors.Is(err, queue.ErrDead) {
		return nil // it went on meanwhile
	}
	if err == nil || queue.Stored(err) {
		r.report.Changed++
		return nil
	}
	return err
}
