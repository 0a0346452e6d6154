package admintest

import (
	"context"
	"slices"
	"strconv"

	"github.com/wakecall/wakecall/internal/store"
)

// DeadQueue is a queue of dead jobs: re-driven jobs get the result that the test chose.
type DeadQueue struct {
	Queue
	Dead     map[string][]store.Job // dead jobs by topic
	Fate     func(topic, id string) *store.Job
	alive    map[store.Ref]bool
	Redriven int
	Lists    int // calls of List
	Shards   []store.ShardHealth
}

func NewDeadQueue(topic string, n int) *DeadQueue {
	q := &DeadQueue{Dead: map[string][]store.Job{}, alive: map[store.Ref]bool{},
		Fate: func(string, string) *store.Job { return nil }}
	for i := range n {
		q.Dead[topic] = append(q.Dead[topic], store.Job{
			Topic: topic, ID: "job-" + strconv.Itoa(i), State: store.Dead, DeadReason: "attempts", Attempts: 3,
			History: []store.Attempt{{N: 3, Error: "connection refused"}},
		})
	}
	q.ByTopic = map[string]store.Stats{topic: {Dead: int64(n)}}
	return q
}

func (q *DeadQueue) List(
	_ context.Context, topic string, _ store.State, cursor string, limit int,
) ([]store.Job, string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.Lists++
	begin, _ := strconv.Atoi(cursor)
	all := q.Dead[topic]
	end := min(len(all), begin+limit)
	next := ""
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return slices.Clone(all[begin:end]), next, nil
}

func (q *DeadQueue) Get(_ context.Context, topic, id string, _ ...store.State) (*store.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, j := range q.Dead[topic] {
		if j.ID == id {
			return &q.Dead[topic][i], nil
		}
	}
	if !q.alive[store.Ref{Topic: topic, ID: id}] {
		return nil, store.ErrNotFound
	}
	if j := q.Fate(topic, id); j != nil {
		return j, nil
	}
	return nil, store.ErrNotFound
}

func (q *DeadQueue) Find(_ context.Context, refs []store.Ref) ([]*store.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs := make([]*store.Job, len(refs))
	for i, ref := range refs {
		if n := slices.IndexFunc(q.Dead[ref.Topic], func(j store.Job) bool { return j.ID == ref.ID }); n >= 0 {
			job := q.Dead[ref.Topic][n]
			jobs[i] = &job
		}
	}
	return jobs, nil
}

func (q *DeadQueue) take(topic string, ids []string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.Dead[topic])
	q.Dead[topic] = slices.DeleteFunc(q.Dead[topic], func(j store.Job) bool { return slices.Contains(ids, j.ID) })
	for _, id := range ids {
		q.alive[store.Ref{Topic: topic, ID: id}] = true
	}
	return before - len(q.Dead[topic])
}

func (q *DeadQueue) EndDead(_ context.Context, c store.DeadCall) (int, error) {
	n := q.take(c.Topic, c.IDs)
	if c.Kind == store.Redriven {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.Redriven += n
	}
	return n, nil
}

func (q *DeadQueue) Health(context.Context) []store.ShardHealth { return q.Shards }
