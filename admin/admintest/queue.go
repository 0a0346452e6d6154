package admintest

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// Queue is a queue that reports any numbers of jobs, but has none.
type Queue struct {
	mu      sync.Mutex
	ByTopic map[string]store.Stats
	// CountsErr is the error of Counts.
	CountsErr error
}

func (q *Queue) Counts(context.Context) (map[string]store.Stats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.ByTopic), q.CountsErr
}

func (q *Queue) Stats(context.Context, []string) (map[string]store.Stats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ByTopic, nil
}

func (*Queue) List(context.Context, string, store.State, string, int) ([]store.Job, string, error) {
	return nil, "", nil
}

func (*Queue) Get(context.Context, string, string, ...store.State) (*store.Job, error) {
	return nil, store.ErrNotFound
}

func (*Queue) EndDead(context.Context, store.DeadCall) (int, error) { return 0, nil }

func (*Queue) Health(context.Context) []store.ShardHealth { return nil }

func (*Queue) Workers(context.Context, string) (queue.Workers, error) {
	return queue.Workers{Waiting: 7, Oldest: time.Now().Add(-time.Hour)}, nil
}

func (*Queue) TopicLimits(context.Context, []string) (map[string]observe.TopicLimits, error) {
	return nil, nil
}

func (*Queue) Totals(context.Context, []string) (map[string]observe.TopicTotals, error) {
	return map[string]observe.TopicTotals{}, nil
}

func (*Queue) Forecast(context.Context, string, time.Duration) (observe.Forecast, error) {
	return observe.Forecast{}, nil
}

func (*Queue) Find(_ context.Context, refs []store.Ref) ([]*store.Job, error) {
	return make([]*store.Job, len(refs)), nil
}

func (*Queue) ListFinished(context.Context, string, string, string, int) ([]store.Job, string, error) {
	return nil, "", nil
}

func (*Queue) Group(context.Context, string, []string, int) (queue.Group, error) {
	return queue.Group{}, nil
}

func (*Queue) CancelGroup(context.Context, string, []string, time.Duration) (queue.Cancelled, error) {
	return queue.Cancelled{}, nil
}

func (*Queue) Resend(context.Context, string, string) (*store.Job, error) {
	return nil, store.ErrNotFound
}

func (*Queue) End(_ context.Context, list []store.End) []store.Ended {
	return []store.Ended{{Err: store.ErrNotFound}}
}

func (*Queue) Push(context.Context, store.Push) store.Result { return store.Result{} }

func (*Queue) Change(context.Context, string, string, store.Change) (*store.Job, error) {
	return nil, store.ErrNotFound
}

func (*Queue) Delete(context.Context, string, string, store.Match) error { return store.ErrNotFound }

func (*Queue) RunNow(context.Context, string, string, store.Match) (*store.Job, error) {
	return nil, store.ErrNotFound
}

func (*Queue) ProbeNow(context.Context, string) (bool, error) { return false, nil }

func (*Queue) DropTopic(context.Context, string) (int, error) { return 0, nil }

func (*Queue) LatenessOfAll(context.Context, time.Time) (map[int]int64, error) { return nil, nil }

func (*Queue) ReserveCounts(context.Context, time.Time) (sums [3]int64, err error) { return sums, nil }

func (*Queue) Standing(context.Context, *store.Job) (observe.Standing, bool, error) {
	return observe.Standing{}, false, nil
}

func (*Queue) DownFor(string, string) []string { return nil }
