package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/wakecall/wakecall/internal/disk"
)

// LockFile is the file that the running master of a data directory keeps locked.
const LockFile = "master.lock"

const (
	orphanPoll = 200 * time.Millisecond
	// certain is how often a state must be observed before it counts, because a dying master's control sockets may
	// close before its lock is released.
	certain = 4
)

// StopOrphanedRedis shuts down the managed redis-server of a killed master, unless a new master has taken over. It
// first waits up to the given time for the other children to disconnect, because they still settle jobs.
func StopOrphanedRedis(ctx context.Context, dataDir, socket string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	t := time.NewTicker(orphanPoll)
	defer t.Stop()
	for held, absent := 0, 0; held < certain && absent < certain; <-t.C {
		unlock, err := lockMaster(dataDir)
		if err != nil { // a new master runs and owns the server
			held++
			continue
		}
		n, err := clients(socket)
		switch {
		case isAbsent(err) && (ctx.Err() != nil || !isStarting(socket)):
			absent++
		case err == nil && n == 0 || ctx.Err() != nil:
			defer unlock()
			return shutdown(socket)
		default: // others are connected, or it does not answer, for example while it loads its data
			absent = 0
		}
		unlock()
	}
	return nil
}

func isAbsent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}

// isStarting reports whether a redis-server runs that has no socket yet. It holds the lock inherited from its master;
// no master can hold that lock meanwhile, because the caller holds the masters' lock.
func isStarting(socket string) bool {
	f, err := os.Open(filepath.Join(filepath.Dir(socket), "lock"))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return disk.Flock(f, syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

func lockMaster(dataDir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dataDir, LockFile), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := disk.Flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// clients counts the connections of other clients.
func clients(socket string) (n int, err error) {
	err = WithRedis(socket, func(ctx context.Context, c *redis.Client) error {
		list, err := c.ClientList(ctx).Result()
		n = strings.Count(list, "\n") - 1
		return err
	})
	return n, err
}

func shutdown(socket string) error {
	err := WithRedis(socket, func(ctx context.Context, c *redis.Client) error { return c.Shutdown(ctx).Err() })
	if err != nil {
		return fmt.Errorf("shut down orphaned redis-server: %w", err)
	}
	return nil
}

const redisTimeout = 5 * time.Second

// WithRedis calls f with a client that has one connection to the redis-server at a Unix socket.
func WithRedis(socket string, f func(context.Context, *redis.Client) error) error {
	c := redis.NewClient(&redis.Options{
		Network: "unix", Addr: socket, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second,
		ReadTimeout: redisTimeout, WriteTimeout: redisTimeout, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = c.Close() }()
	return f(context.Background(), c)
}
