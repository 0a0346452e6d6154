package admintest

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
)

// Queue is a queue that reports any numbers of jobs, but has none.
type Queue struct {
	mu      sync.Mutex
	ByTopic map[string]queue.Stats
}

func (q *Queue) Counts(context.Context) (map[string]queue.Stats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.ByTopic), nil
}

func (q *Queue) Stats(context.Context, []string) (map[string]queue.Stats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ByTopic, nil
}

func (*Queue) List(context.Context, string, queue.State, string, int) ([]queue.Job, string, error) {
	return nil, "", nil
}

func (*Queue) Get(context.Context, string, string) (*queue.Job, error) {
	return nil, queue.ErrNotFound
}

func (*Queue) RedriveDead(context.Context, string, []string, int) (int, error) { return 0, nil }

func (*Queue) DeleteDead(context.Context, string, []string, int) (int, error) { return 0, nil }

func (*Queue) Health(context.Context) []queue.ShardHealth { return nil }

func (*Queue) Workers(context.Context, string) (queue.Workers, error) {
	return queue.Workers{Waiting: 7, Oldest: time.Now().Add(-time.Hour)}, nil
}

func (*Queue) TopicLimits(context.Context, []string) (map[string]queue.TopicLimits, error) {
	return nil, nil
}

func (*Queue) Totals(context.Context, []string) (map[string]queue.TopicTotals, error) {
	return map[string]queue.TopicTotals{}, nil
}

func (*Queue) Forecast(context.Context, string, time.Duration) (queue.Forecast, error) {
	return queue.Forecast{}, nil
}

func (*Queue) Find(context.Context, string, []string) ([]*queue.Job, error) { return nil, nil }

func (q *Queue) Recall(ctx context.Context, topic, id string) (*queue.Job, error) {
	return q.Get(ctx, topic, id)
}

func (*Queue) ListFinished(context.Context, string, string, string, int) ([]queue.Job, string, error) {
	return nil, "", nil
}

func (*Queue) Resend(context.Context, string, string) (*queue.Job, error) {
	return nil, queue.ErrNotFound
}

func (*Queue) End(_ context.Context, list []queue.End) []queue.Ended {
	return []queue.Ended{{Err: queue.ErrNotFound}}
}

func (*Queue) Push(context.Context, queue.Push) queue.Result { return queue.Result{} }

func (*Queue) Change(context.Context, string, string, queue.Change) (*queue.Job, error) {
	return nil, queue.ErrNotFound
}

func (*Queue) Delete(context.Context, string, string) error { return queue.ErrNotFound }

func (*Queue) RunNow(context.Context, string, string) (*queue.Job, error) {
	return nil, queue.ErrNotFound
}

func (*Queue) Lookup(_ context.Context, refs []queue.Ref, _ string) ([]*queue.Job, error) {
	return make([]*queue.Job, len(refs)), nil
}

func (*Queue) ProbeNow(context.Context, string) (bool, error) { return false, nil }

func (*Queue) DropTopic(context.Context, string) (int, error) { return 0, nil }

func (*Queue) LatenessOfAll(context.Context, time.Time) (map[int]int64, error) { return nil, nil }

func (*Queue) ReserveCounts(context.Context, time.Time) (sums [3]int64, err error) { return sums, nil }

func (*Queue) Standing(context.Context, *queue.Job) (queue.Standing, bool, error) {
	return queue.Standing{}, false, nil
}

func (*Queue) DownFor(string, string) []string { return nil }
