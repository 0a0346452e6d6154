package admin

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
)

// deadQueue is a queue of dead jobs: re-driven jobs get the result that the test chose.
type deadQueue struct {
	fakeQueue
	jobs     map[string][]queue.Job // dead jobs by topic
	fate     func(topic, id string) *queue.Job
	alive    map[queue.Ref]bool
	redriven int
	lists    int // calls of List
	health   []queue.ShardHealth
}

func newDeadQueue(topic string, n int) *deadQueue {
	q := &deadQueue{jobs: map[string][]queue.Job{}, alive: map[queue.Ref]bool{},
		fate: func(string, string) *queue.Job { return nil }}
	for i := range n {
		q.jobs[topic] = append(q.jobs[topic], queue.Job{
			Topic: topic, ID: "job-" + strconv.Itoa(i), State: queue.Dead, DeadReason: "attempts", Attempts: 3,
			History: []queue.Attempt{{N: 3, Error: "connection refused"}},
		})
	}
	q.stats = map[string]queue.Stats{topic: {Dead: int64(n)}}
	return q
}

func (q *deadQueue) List(
	_ context.Context, topic string, _ queue.State, cursor string, limit int,
) ([]queue.Job, string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lists++
	begin, _ := strconv.Atoi(cursor)
	all := q.jobs[topic]
	end := min(len(all), begin+limit)
	next := ""
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return slices.Clone(all[begin:end]), next, nil
}

func (q *deadQueue) Get(_ context.Context, topic, id string) (*queue.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, j := range q.jobs[topic] {
		if j.ID == id {
			return &q.jobs[topic][i], nil
		}
	}
	if !q.alive[queue.Ref{Topic: topic, ID: id}] {
		return nil, queue.ErrNotFound
	}
	if j := q.fate(topic, id); j != nil {
		return j, nil
	}
	return nil, queue.ErrNotFound
}

func (q *deadQueue) Recall(ctx context.Context, topic, id string) (*queue.Job, error) {
	return q.Get(ctx, topic, id)
}

func (q *deadQueue) Lookup(_ context.Context, refs []queue.Ref, _ string) ([]*queue.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs := make([]*queue.Job, len(refs))
	for i, ref := range refs {
		if n := slices.IndexFunc(q.jobs[ref.Topic], func(j queue.Job) bool { return j.ID == ref.ID }); n >= 0 {
			job := q.jobs[ref.Topic][n]
			jobs[i] = &job
		}
	}
	return jobs, nil
}

func (q *deadQueue) take(topic string, ids []string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.jobs[topic])
	q.jobs[topic] = slices.DeleteFunc(q.jobs[topic], func(j queue.Job) bool { return slices.Contains(ids, j.ID) })
	for _, id := range ids {
		q.alive[queue.Ref{Topic: topic, ID: id}] = true
	}
	return before - len(q.jobs[topic])
}

func (q *deadQueue) RedriveDead(_ context.Context, topic string, ids []string, _ int) (int, error) {
	n := q.take(topic, ids)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.redriven += n
	return n, nil
}

func (q *deadQueue) DeleteDead(_ context.Context, topic string, ids []string, _ int) (int, error) {
	return q.take(topic, ids), nil
}

func (q *deadQueue) Health(context.Context) []queue.ShardHealth { return q.health }

// The queue of the other tests has no jobs and no shards.
func (q *fakeQueue) List(context.Context, string, queue.State, string, int) ([]queue.Job, string, error) {
	return nil, "", nil
}

func (q *fakeQueue) Get(context.Context, string, string) (*queue.Job, error) {
	return nil, queue.ErrNotFound
}

func (q *fakeQueue) RedriveDead(context.Context, string, []string, int) (int, error) { return 0, nil }

func (q *fakeQueue) DeleteDead(context.Context, string, []string, int) (int, error) { return 0, nil }

func (q *fakeQueue) Health(context.Context) []queue.ShardHealth { return nil }

func (q *fakeQueue) Workers(context.Context, string) (queue.Workers, error) {
	return queue.Workers{Waiting: 7, Oldest: time.Now().Add(-time.Hour)}, nil
}

func (q *fakeQueue) TopicLimits(context.Context, []string) (map[string]queue.TopicLimits, error) {
	return nil, nil
}
