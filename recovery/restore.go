package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/queue"
)

// restore goes through the requests once more, pushes what is missing in the order in which it was accepted, and makes changes again. Jobs that
// were changed are kept until all of their lines were read.
func (r *recovery) restore(ctx context.Context) error {
	changed := map[key]*journal.RequestLine{}
	var order []key
	var batch []queue.Push
	flush := func() error {
		defer func() { batch = batch[:0] }()
		return r.push(ctx, batch)
	}
	err := r.requests(ctx, r.Since, new(int), func(l *journal.RequestLine) error {
		k := keyOf(l.Topic, l.ID)
		e, ok := r.books.entries[k]
		if !ok || !r.wanted(l, &e) {
			return nil
		}
		if !e.changed {
			e.missing = false // a line may come twice
			r.books.entries[k] = e
			batch = append(batch, r.again(l, &e))
			if len(batch) < step {
				return nil
			}
			return flush()
		}
		if had := changed[k]; had != nil {
			amend(had, l)
		} else {
			copied := *l
			changed[k] = &copied
			order = append(order, k)
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	for _, k := range order {
		if err != nil {
			return err
		}
		e := r.books.entries[k]
		if e.missing {
			err = r.push(ctx, []queue.Push{r.again(changed[k], &e)})
		} else {
			err = r.change(ctx, changed[k], &e)
		}
	}
	return err
}

// wanted says whether a line is part of what a job was accepted as, and the job still to be put right.
func (r *recovery) wanted(l *journal.RequestLine, e *entry) bool {
	at := l.TS.UnixMilli()
	if e.state != living || !e.missing && !(e.changed && e.there) {
		return false
	}
	switch l.Op {
	case journal.OpPush, journal.OpReplace:
		return e.missing && !e.spooled && l.CreatedAt.UnixMilli() == e.created
	case journal.OpSpool:
		return e.missing && e.spooled && at == e.at
	case journal.OpChange, journal.OpRun:
		return e.changed && (l.CreatedAt.IsZero() || l.CreatedAt.UnixMilli() == e.created)
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

func (r *recovery) again(l *journal.RequestLine, e *entry) queue.Push {
	p := queue.Push{
		Topic: l.Topic, ID: l.ID, Body: l.Body, ContentType: l.ContentType, DueAt: l.DueAt, TTR: l.TTR, MaxAttempts: l.MaxAttempts,
		Priority: priorityOf(l), OnDuplicate: queue.Keep,
	}
	if e.stale || l.OnDuplicate == replaceText {
		p.OnDuplicate = queue.Replace
	}
	return p
}

func priorityOf(l *journal.RequestLine) queue.Priority {
	p, err := queue.ParsePriority(l.Priority)
	if err != nil {
		return queue.Normal
	}
	return p
}

func (r *recovery) push(ctx context.Context, batch []queue.Push) error {
	known := make([]queue.Push, 0, len(batch))
	for _, p := range batch {
		if !r.Topic(p.Topic) {
			r.report.Unknown++
			r.Logger.Warn("a missing job is not pushed again: its topic is not registered any more", "topic", p.Topic, "id", p.ID)
			continue
		}
		known = append(known, p)
	}
	var away error
	for i, result := range r.Queue.PushBatch(ctx, known) {
		p := &known[i]
		var un *queue.UnavailableError
		switch {
		case result.Err == nil:
			r.report.Pushed++
			r.Logger.Info("a missing job was pushed again", "topic", p.Topic, "id", p.ID, "due_at", p.DueAt)
		case errors.As(result.Err, &un) || ctx.Err() != nil:
			away = result.Err
		default:
			r.report.Failed++
			r.Logger.Error("a missing job cannot be pushed again", "topic", p.Topic, "id", p.ID, "error", result.Err)
		}
	}
	if away != nil {
		return fmt.Errorf("push missing jobs again: %w", away)
	}
	return nil
}

// change makes a job that is there as its last change left it. The due time is what a change sets; a retry does not move it.
func (r *recovery) change(ctx context.Context, l *journal.RequestLine, e *entry) error {
	jobs, err := r.Queue.Lookup(ctx, []queue.Ref{{Topic: l.Topic, ID: l.ID}})
	if err != nil {
		return err
	}
	job := jobs[0]
	if job == nil || job.CreatedAt.UnixMilli() != e.created || job.State != queue.Delayed && job.State != queue.Ready {
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
	if err == nil {
		r.report.Changed++
	}
	return err
}
