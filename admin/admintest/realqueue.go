package admintest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/test/wait"
)

// RealQueue is a queue on a private redis-server.
func RealQueue(t *testing.T) *queue.Queue {
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
