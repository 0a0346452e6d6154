package child

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/redistest"
)

// localRedis is a redis-server on a socket in a data directory.
type localRedis struct {
	*redistest.Server
	dir, socket string
}

func startRedis(t *testing.T) *localRedis {
	t.Helper()
	s := redistest.Start(t, redistest.Options{Quick: true})
	_ = s.Client().Close() // its connection would be waited for
	if err := os.WriteFile(s.Dir()+"/"+LockFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return &localRedis{s, s.Dir(), s.Addr()}
}

func (r *localRedis) lives() bool {
	_, err := clients(r.socket)
	return err == nil
}

func TestTheRedisOfADeadMasterIsShutDown(t *testing.T) {
	r := startRedis(t)
	if err := StopOrphanedRedis(t.Context(), r.dir, r.socket, time.Minute); err != nil {
		t.Fatal(err)
	}
	r.WaitExit()
	if err := StopOrphanedRedis(t.Context(), r.dir, r.socket, time.Minute); err != nil {
		t.Errorf("when it has ended: %v", err)
	}
}

func TestTheRedisOfANewMasterStays(t *testing.T) {
	r := startRedis(t)
	unlock, err := lockMaster(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := StopOrphanedRedis(t.Context(), r.dir, r.socket, time.Minute); err != nil || !r.lives() {
		t.Errorf("%v, and it is running: %t", err, r.lives())
	}
}

// Other children settle their jobs before the server is shut down, unless they take too long.
func TestTheRedisOfADeadMasterWaitsForItsClients(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		r := startRedis(t)
		conn, err := net.Dial("unix", r.socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "+PONG\r\n" {
			t.Fatal(line, err)
		}
		limit := time.Minute
		if !leaves {
			limit = 3 * orphanPoll
		}
		done := make(chan error, 1)
		go func() { done <- StopOrphanedRedis(t.Context(), r.dir, r.socket, limit) }()
		if leaves {
			time.Sleep(3 * orphanPoll) // several polls, during which it must stay
			if !r.lives() {
				t.Error("it ended while a client was connected")
			}
			_ = conn.Close()
		}
		if err := <-done; err != nil {
			t.Errorf("leaves %t: %v", leaves, err)
		}
		r.WaitExit()
		_ = conn.Close()
	}
}

// TestAServerThatStartsSlowlyIsWaitedFor: it has locked its directory, but has no socket yet.
func TestAServerThatStartsSlowlyIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, LockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := syscall.Flock(int(server.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- StopOrphanedRedis(t.Context(), dir, filepath.Join(dir, "redis.sock"), time.Minute) }()
	select {
	case err := <-done:
		t.Fatalf("the wait ended while it was starting: %v", err)
	case <-time.After(2 * certain * orphanPoll):
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
