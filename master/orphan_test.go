package master

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/wakecall/wakecall/master/child"
)

func TestARedisThatIsStillStartingIsNoOrphanForLong(t *testing.T) {
	dir := tempDir(t)
	if err := os.WriteFile(dir+"/"+child.LockFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(dir, "").Redis
	r := newRedis(o, slog.New(slog.DiscardHandler))
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	wait, err := r.launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := child.StopOrphanedRedis(t.Context(), dir, o.Socket, time.Minute); err != nil { // it has no socket yet
		t.Fatal(err)
	}
	wait()
	if !redisUnlocked(dir) {
		t.Fatal("the redis-server is still running")
	}
}

// TestPatienceLastsAsLongAsRedisLoads, and so does that of systemd, which would kill the master and start it again.
func TestPatienceLastsAsLongAsRedisLoads(t *testing.T) {
	told := manager(t)
	p := &patience{time.Now().Add(-time.Second)}
	if err := p.wait(t.Context(), errors.Join(errLoading)); err != nil {
		t.Fatalf("while it loads: %v", err)
	}
	told("EXTEND_TIMEOUT_USEC=60000000")
	silent := errors.New("silent")
	p.until = time.Now().Add(-time.Second)
	if err := p.wait(t.Context(), silent); !errors.Is(err, silent) {
		t.Fatalf("silent for too long: %v", err)
	}
}
