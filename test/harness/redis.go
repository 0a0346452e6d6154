package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/wait"
)

// RedisOptions describe how a redis-server is started.
type RedisOptions struct {
	Password string
	Args     []string // further arguments of redis-server, such as --maxmemory 10mb
	Env      []string // further environment
	Sentinel string   // configuration of a Sentinel, if it is one
}

// Redis is a redis-server on a TCP port of 127.0.0.1, with an append-only file synced every second; or a Sentinel.
type Redis struct {
	*process.Process
	t      testing.TB
	dir    string
	port   int
	opts   RedisOptions
	client *redis.Client
}

// StartRedis starts a redis-server in a directory of its own and waits until it answers.
func StartRedis(t testing.TB, opts RedisOptions) *Redis {
	t.Helper()
	r := &Redis{t: t, dir: process.Dir(t, "redis"), port: freeport.TCP(t), opts: opts}
	if opts.Sentinel != "" { // it rewrites its configuration
		if err := os.WriteFile(r.sentinelFile(), []byte(opts.Sentinel), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.client = redis.NewClient(&redis.Options{Addr: r.Addr(), Password: opts.Password, MaxRetries: -1})
	t.Cleanup(func() { _ = r.client.Close() })
	r.Restart()
	return r
}

func (r *Redis) sentinelFile() string { return filepath.Join(r.dir, "sentinel.conf") }

// Restart starts the server again on the same directory and port, after Kill9.
func (r *Redis) Restart() {
	r.t.Helper()
	args := []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	if r.opts.Sentinel != "" {
		args = []string{r.sentinelFile(), "--sentinel"}
	}
	args = append(args, "--bind", "127.0.0.1", "--port", strconv.Itoa(r.port), "--dir", r.dir, "--save", "")
	if r.opts.Password != "" {
		args = append(args, "--requirepass", r.opts.Password)
	}
	cmd := exec.Command(process.Need(r.t, "redis-server", "redis-server"), append(args, r.opts.Args...)...)
	cmd.Env = append(os.Environ(), r.opts.Env...)
	r.Process = process.Start(r.t, r.dir, filepath.Base(r.dir), cmd)
	Eventually(r.t, Patience, "redis-server to answer", func() error { return r.Try("PING") })
}

// URL returns the server's URL for redis.nodes.
func (r *Redis) URL() string {
	if r.opts.Password != "" {
		return fmt.Sprintf("redis://:%s@%s/0", r.opts.Password, r.Addr())
	}
	return "redis://" + r.Addr() + "/0"
}

// Addr returns the server's address without the rest of its URL.
func (r *Redis) Addr() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// Dir returns the server's directory.
func (r *Redis) Dir() string { return r.dir }

// Client returns a client of the server, which ends with the test.
func (r *Redis) Client() *redis.Client { return r.client }

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

// Try runs one command on a server that may be broken, and returns its error.
func (r *Redis) Try(args ...any) error { return r.run(args...).Err() }

// requestTime limits a request to a server that may be broken.
const requestTime = 5 * time.Second

func (r *Redis) run(args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	return r.client.Do(ctx, args...)
}

// Info returns a field of a section of the server's INFO, such as Memory; "" if it has none.
func (r *Redis) Info(section, field string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	info := r.client.InfoMap(ctx, section)
	return info.Item(section, field), info.Err()
}

// Role returns master or slave; "" if the server does not answer.
func (r *Redis) Role() string {
	role, _ := r.Info("Replication", "role")
	return role
}

// Follow makes the server a replica of another and waits until it has all of its data.
func (r *Redis) Follow(ctx context.Context, other *Redis) error {
	if err := r.Try("REPLICAOF", "127.0.0.1", other.port); err != nil {
		return err
	}
	return wait.Until(ctx, pollEvery, func() error {
		status, err := r.Info("Replication", "master_link_status")
		if err == nil {
			err = Equal("the link to its master", status, "up")
		}
		return err
	})
}

// Shutdown stops the server gracefully.
func (r *Redis) Shutdown() {
	r.t.Helper()
	r.Signal(syscall.SIGTERM)
	r.WaitExit()
}

// Remember copies the present append-only file. The function that it returns kills the server and restores the copy, so
// all later writes are lost. Restart starts the server again.
func (r *Redis) Remember() (forget func()) {
	r.t.Helper()
	dir := process.Dir(r.t, "redis-kept")
	if err := r.Backup(dir); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		r.t.Helper()
		if err := r.Restore(dir); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Backup copies the append-only file to an empty directory, while the server neither begins nor ends a rewrite of it.
func (r *Redis) Backup(dir string) error {
	if err := os.CopyFS(dir, os.DirFS(r.aof())); err != nil {
		return fmt.Errorf("copy the append-only file: %w", err)
	}
	return nil
}

// Restore kills the server and restores a backup. Restart starts the server again.
func (r *Redis) Restore(dir string) error {
	r.Lose()
	if err := os.CopyFS(r.aof(), os.DirFS(dir)); err != nil {
		return fmt.Errorf("restore the append-only file: %w", err)
	}
	return nil
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
