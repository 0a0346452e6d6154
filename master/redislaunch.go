package master

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/master/child"
)

func (r *redisServer) logFile() string { return filepath.Join(r.opts.Dir, "redis.log") }

// launch starts a server, or adopts a running one, and waits until it answers. wait blocks until that server has ended.
func (r *redisServer) launch(ctx context.Context) (wait func(), err error) {
	patience := newPatience()
	for {
		lock, err := os.OpenFile(filepath.Join(r.opts.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock directory of the managed redis-server: %w", err)
		}
		if err := disk.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			wait, err := r.spawn(lock)
			_ = lock.Close() // inherited by the server
			if err != nil {
				return nil, err
			}
			return wait, r.untilUp(ctx)
		}
		_ = lock.Close()
		// An earlier master's server is running. Adopt it if it answers; it may also be ending.
		pid, err := redisPID(r.opts.Socket)
		if pid > 0 {
			r.set(pid, true)
		}
		if err == nil {
			r.log.Info("adopting the redis-server of an earlier master", "pid", pid)
			return func() { awaitExit(pid) }, nil
		}
		if err := patience.wait(ctx, err); err != nil {
			return nil, fmt.Errorf(
				"an earlier redis-server on %s neither answers nor ends (%w); find it with: fuser %s",
				r.opts.Dir, err, filepath.Join(r.opts.Dir, "lock"))
		}
	}
}

// untilUp waits until the newly started server answers.
func (r *redisServer) untilUp(ctx context.Context) error {
	patience := newPatience()
	for {
		pid, err := redisPID(r.opts.Socket)
		if err == nil {
			r.log.Info("managed redis-server is ready", "pid", pid)
			return nil
		}
		r.mu.Lock()
		ended := syscall.Kill(r.pid, 0) != nil
		r.mu.Unlock()
		if ended {
			return fmt.Errorf("the managed redis-server ended immediately; see its log %s", r.logFile())
		}
		if err := patience.wait(ctx, err); err != nil {
			return fmt.Errorf("the managed redis-server does not answer (%w); see its log %s", err, r.logFile())
		}
	}
}

const redisUpWithin = 60 * time.Second

// patience limits the wait for a server. A server that loads its data may take any time.
type patience struct{ until time.Time }

func newPatience() *patience { return &patience{time.Now().Add(redisUpWithin)} }

// wait pauses before the next try. err is the result of the last one; wait returns it on a timeout.
func (p *patience) wait(ctx context.Context, err error) error {
	if errors.Is(err, errLoading) && time.Until(p.until) < redisUpWithin*3/4 {
		p.until = time.Now().Add(redisUpWithin)
		systemd{}.starting(redisUpWithin)
	}
	if time.Now().After(p.until) {
		return err
	}
	if !pause.For(ctx, redisPoll/4) {
		return ctx.Err()
	}
	return nil
}

var errLoading = errors.New("loading its data")

// redisPID returns the pid of the server at a socket, also together with errLoading.
func redisPID(socket string) (pid int, err error) {
	err = child.WithRedis(socket, func(ctx context.Context, c *redis.Client) error {
		info, err := c.InfoMap(ctx, "server", "persistence").Result()
		if err != nil {
			return err
		}
		if pid, err = strconv.Atoi(info["Server"]["process_id"]); err == nil && info["Persistence"]["loading"] != "0" {
			err = errLoading
		}
		return err
	})
	return pid, err
}

// awaitExit waits for a process that is not a child of this one.
func awaitExit(pid int) {
	for syscall.Kill(pid, 0) == nil {
		time.Sleep(redisPoll)
	}
}
