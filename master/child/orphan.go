package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// heldLong is how often in a row the lock must be seen held. A dying master's control sockets may close before its lock does.
const heldLong = 4

// absentLong is how often in a row its socket must be seen missing: a redis-server that is just starting has none yet.
const absentLong = 4

// LockFile is what the living master of a data directory holds locked.
const LockFile = "master.lock"

// StopOrphanedRedis shuts down the managed redis-server that a killed master left behind, unless a new master has taken over. It first
// gives the other children up to wait to leave: they still settle.
func StopOrphanedRedis(ctx context.Context, dataDir, socket string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for held, absent := 0, 0; ; {
		unlock, err := lockMaster(dataDir)
		if err != nil {
			if held++; held == heldLong {
				return nil // a new master is there: the server is its own
			}
			<-t.C
			continue
		}
		n, err := clients(socket)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			unlock()
			if absent++; absent == absentLong {
				return nil // it is gone already
			}
			<-t.C
			continue
		}
		absent = 0
		// One that only does not answer, because it loads its data, say, is not gone.
		if err == nil && n == 0 || ctx.Err() != nil {
			defer unlock()
			_, err := ask(socket, "SHUTDOWN")
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("shut down the redis-server that was left behind: %w", err)
			}
			return nil
		}
		unlock()
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
}

func lockMaster(dataDir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dataDir, LockFile), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// clients counts the connections beside the one that asks.
func clients(socket string) (int, error) {
	list, err := ask(socket, "CLIENT LIST")
	if err != nil {
		return 0, err
	}
	return strings.Count(list, "\n") - 1, nil
}

// ask sends one inline command and reads its answer.
func ask(socket, command string) (string, error) {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	head, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	if refusal, ok := strings.CutPrefix(head, "-"); ok {
		return "", fmt.Errorf("redis: %s", strings.TrimSpace(refusal))
	}
	var n int
	if _, err := fmt.Sscanf(head, "$%d", &n); err != nil {
		return head, nil
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return string(b), err
}
