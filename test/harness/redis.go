package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/freeport"
)

// RedisOptions describe how a redis-server is started.
type RedisOptions struct {
	Password string
	Args     []string // further arguments of redis-server, such as --maxmemory 10mb
	Clock    *Clock   // nil: the clock of this machine
}

// Redis is a redis-server on a TCP port of 127.0.0.1, with an append-only file synced every second.
type Redis struct {
	*daemon
	t    testing.TB
	dir  string
	port int
	opts RedisOptions
}

// StartRedis starts a redis-server in a directory of its own and waits until it answers.
func StartRedis(t testing.TB, opts RedisOptions) *Redis {
	t.Helper()
	r := &Redis{t: t, dir: newDir(t, "redis"), port: freeport.TCP(t), opts: opts}
	r.Restart()
	return r
}

// Restart starts the server again on the same directory and port, after Kill9 or Shutdown.
func (r *Redis) Restart() {
	r.t.Helper()
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(r.port), "--dir", r.dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--daemonize", "no",
	}
	if r.opts.Password != "" {
		args = append(args, "--requirepass", r.opts.Password)
	}
	cmd := exec.Command(need(r.t, "redis-server", "redis-server"), append(args, r.opts.Args...)...)
	cmd.Dir = r.dir
	if r.opts.Clock != nil {
		cmd.Env = r.opts.Clock.environment()
	}
	r.daemon = startDaemon(r.t, r.dir, filepath.Base(r.dir), cmd)
	Eventually(r.t, Patience, "redis-server to answer", func() error { return r.run("PING").Err() })
}

// URL returns the server's URL for redis.nodes.
func (r *Redis) URL() string {
	if r.opts.Password != "" {
		return fmt.Sprintf("redis://:%s@127.0.0.1:%d/0", r.opts.Password, r.port)
	}
	return fmt.Sprintf("redis://127.0.0.1:%d/0", r.port)
}

// Addr returns the server's address without the rest of its URL.
func (r *Redis) Addr() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// Shutdown stops the server gracefully.
func (r *Redis) Shutdown() {
	r.t.Helper()
	_ = r.run("SHUTDOWN").Err() // the server closes the connection: always an error
	r.WaitExit()
}

// ConfigSet changes a setting of the running server.
func (r *Redis) ConfigSet(key, value string) {
	r.t.Helper()
	r.Do("CONFIG", "SET", key, value)
}

// Do runs one command and returns its answer.
func (r *Redis) Do(args ...any) any {
	r.t.Helper()
	answer, err := r.run(args...).Result()
	if err != nil {
		r.t.Fatalf("redis %v: %v", args, err)
	}
	return answer
}

func (r *Redis) run(args ...any) *redis.Cmd {
	c := redis.NewClient(&redis.Options{
		Addr: fmt.Sprintf("127.0.0.1:%d", r.port), Password: r.opts.Password, MaxRetries: -1, PoolSize: 1,
	})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Do(ctx, args...)
}

// Remember copies the present append-only file. The function that it returns kills the server and restores the copy, so
// all later writes are lost. Restart starts the server again.
func (r *Redis) Remember() (forget func()) {
	r.t.Helper()
	kept := newDir(r.t, "redis-kept")
	aof := r.aof()
	if err := os.CopyFS(filepath.Join(kept, "aof"), os.DirFS(aof)); err != nil {
		r.t.Fatalf("copy the append-only file: %v", err)
	}
	return func() {
		r.t.Helper()
		r.Lose()
		if err := os.CopyFS(aof, os.DirFS(filepath.Join(kept, "aof"))); err != nil {
			r.t.Fatalf("restore the append-only file: %v", err)
		}
	}
}

// Lose kills the server and removes all of its data.
func (r *Redis) Lose() {
	r.t.Helper()
	r.Kill9()
	if err := os.RemoveAll(r.aof()); err != nil {
		r.t.Fatalf("remove the append-only file: %v", err)
	}
}

func (r *Redis) aof() string { return filepath.Join(r.dir, "appendonlydir") }
