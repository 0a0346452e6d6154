package app

import (
	"cmp"
	"context"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/callback"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/server"
)

// recordedQueue is the queue for the admin: what it changes stands in the journal, like what comes through the API. Pushes are recorded by
// the queue itself.
type recordedQueue struct {
	*queue.Queue
	record func(server.Record) error
}

func (p *parts) recordedQueue() *recordedQueue {
	return &recordedQueue{p.queue, func(r server.Record) error { return p.journal.Requests(recordLines(r)) }}
}

func (q *recordedQueue) Change(ctx context.Context, topic, id string, change queue.Change) (*queue.Job, error) {
	job, err := q.Queue.Change(ctx, topic, id, change)
	if err != nil && !queue.Stored(err) {
		return nil, err
	}
	return job, cmp.Or(q.record(server.Record{Op: server.OpChange, Topic: topic, ID: id, Count: 1, Change: &change, Job: job}), err)
}

func (q *recordedQueue) Delete(ctx context.Context, topic, id string) error {
	if err := q.Queue.Delete(ctx, topic, id); err != nil {
		return err
	}
	return q.record(server.Record{Op: server.OpDelete, Topic: topic, ID: id, Count: 1})
}

func (q *recordedQueue) RunNow(ctx context.Context, topic, id string) (*queue.Job, error) {
	job, err := q.Queue.RunNow(ctx, topic, id)
	if err != nil && !queue.Stored(err) {
		return nil, err
	}
	return job, cmp.Or(q.record(server.Record{Op: server.OpRun, Topic: topic, ID: id, Count: 1, Job: job}), err)
}

func (q *recordedQueue) RedriveDead(ctx context.Context, topic string, ids []string, limit int) (int, error) {
	n, err := q.Queue.RedriveDead(ctx, topic, ids, limit)
	if n == 0 {
		return n, err
	}
	if failed := q.record(server.Record{Op: server.OpRetryDead, Topic: topic, IDs: ids, Limit: limit, Count: n}); err == nil {
		err = failed
	}
	return n, err
}

func (q *recordedQueue) DeleteDead(ctx context.Context, topic string, ids []string, limit int) (int, error) {
	n, err := q.Queue.DeleteDead(ctx, topic, ids, limit)
	if n == 0 {
		return n, err
	}
	if failed := q.record(server.Record{Op: server.OpDeleteDead, Topic: topic, IDs: ids, Limit: limit, Count: n}); err == nil {
		err = failed
	}
	return n, err
}

func (q *recordedQueue) DropTopic(ctx context.Context, topic string) (int, error) {
	n, err := q.Queue.DropTopic(ctx, topic)
	if n == 0 {
		return n, err
	}
	if failed := q.record(server.Record{Op: server.OpDrop, Topic: topic, Count: n}); err == nil {
		err = failed
	}
	return n, err
}

// newCaller makes what calls addresses that people set: endpoints and webhooks of alerts.
func (p *parts) newCaller() (*callback.Caller, error) {
	return callback.New(callback.Options{Networks: p.cfg.Callback.Networks, Version: p.version})
}

// topicsParts are what the pages of topics and jobs work with.
func (p *parts) topicsParts(caller *callback.Caller) admin.TopicsParts {
	return admin.TopicsParts{Activity: activity.NewReader(p.queue), Caller: caller}
}
