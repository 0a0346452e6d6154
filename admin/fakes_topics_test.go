package admin

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/test/wait"
)

func (q *fakeQueue) Totals(context.Context, []string) (map[string]queue.TopicTotals, error) {
	return map[string]queue.TopicTotals{}, nil
}

func (q *fakeQueue) Forecast(context.Context, string) (queue.Forecast, error) {
	return queue.Forecast{}, nil
}

func (q *fakeQueue) FindAny(context.Context, string, []string) ([]*queue.Job, error) { return nil, nil }

func (q *fakeQueue) Recall(ctx context.Context, topic, id string) (*queue.Job, error) {
	return q.Get(ctx, topic, id)
}

func (q *fakeQueue) ListFinished(context.Context, string, string, string, int) ([]queue.Job, string, error) {
	return nil, "", nil
}

func (q *fakeQueue) Resend(context.Context, string, string) (*queue.Job, error) {
	return nil, queue.ErrNotFound
}

func (q *fakeQueue) End(_ context.Context, list []queue.Ending) []queue.Ended {
	return []queue.Ended{{Err: queue.ErrNotFound}}
}

func (q *fakeQueue) Push(context.Context, queue.Push) queue.Result { return queue.Result{} }

func (q *fakeQueue) Change(context.Context, string, string, queue.Change) (*queue.Job, error) {
	return nil, queue.ErrNotFound
}

func (q *fakeQueue) Delete(context.Context, string, string) error { return queue.ErrNotFound }

func (q *fakeQueue) RunNow(context.Context, string, string) (*queue.Job, error) {
	return nil, queue.ErrNotFound
}

func (q *fakeQueue) Lookup(_ context.Context, refs []queue.Ref, _ string) ([]*queue.Job, error) {
	return make([]*queue.Job, len(refs)), nil
}

func (q *fakeQueue) DropTopic(context.Context, string) (int, error) { return 0, nil }

// realQueue is a queue on a private redis-server.
func realQueue(t *testing.T) *queue.Queue {
	t.Helper()
	dir := t.TempDir()
	sock := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", sock, "--dir", dir, "--save", "")
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (apt-get install redis-server)", err)
	}
	q := queue.Open(queue.Options{Timeout: wait.Limit})
	t.Cleanup(func() {
		_ = q.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := q.SetShards(t.Context(),
		[]queue.ShardConfig{{Name: "a", URL: "unix://" + sock, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "redis-server to answer", func() bool {
		return queuetest.Adopt(t.Context(), q.Shards()[0]) == nil &&
			q.Push(t.Context(), queue.Push{Topic: "probe", ID: "p"}).Err == nil
	})
	_, _ = q.DropTopic(t.Context(), "probe")
	return q
}
