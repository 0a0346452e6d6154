package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/wait"
)

// Options describe how a redis-server is started.
type Options struct {
	Password string
	Args     []string // further arguments of redis-server, such as --maxmemory 10mb
	Env      []string // further environment
	Sentinel string   // configuration of a Sentinel, if it is one
	Port     string   // "": a free one
	// Quick servers listen on a Unix socket only and keep nothing on disk: for tests that do not restart them.
	Quick bool
}

// Server is a redis-server on a TCP port of 127.0.0.1, with an append-only file synced every second; or a Sentinel, or
// a quick one.
type Server struct {
	*process.Process
	t      testing.TB
	dir    string
	port   string
	opts   Options
	client *redis.Client
}

// Start starts a redis-server in a directory of its own and waits until it answers.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	r := &Server{t: t, dir: process.Dir(t, "redis"), port: opts.Port, opts: opts}
	switch {
	case opts.Quick:
		r.port = "0"
	case r.port == "":
		r.port = freePort(t)
	}
	if opts.Sentinel != "" { // it rewrites its configuration
		if err := os.WriteFile(r.sentinelFile(), []byte(opts.Sentinel), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.client = redis.NewClient(&redis.Options{
		Network: r.network(), Addr: r.Addr(), Password: opts.Password, MaxRetries: -1,
	})
	t.Cleanup(func() { _ = r.client.Close() })
	r.Restart()
	return r
}

func (r *Server) sentinelFile() string { return filepath.Join(r.dir, "sentinel.conf") }

// socket is where a quick server listens.
func (r *Server) socket() string { return filepath.Join(r.dir, "s") }

func (r *Server) network() string {
	if r.opts.Quick {
		return "unix"
	}
	return "tcp"
}

// Restart starts the server again on the same directory and port, after Kill9.
func (r *Server) Restart() {
	r.t.Helper()
	cmd := exec.Command(process.Need(r.t, "redis-server", "redis-server"), append(r.arguments(), r.opts.Args...)...)
	cmd.Env = append(os.Environ(), r.opts.Env...)
	r.Process = process.Start(r.t, r.dir, filepath.Base(r.dir), cmd)
	wait.For(r.t, "redis-server to answer", func() bool { return r.Try("PING") == nil })
}

func (r *Server) arguments() (args []string) {
	if r.opts.Sentinel != "" {
		args = []string{r.sentinelFile(), "--sentinel"}
	} else if !r.opts.Quick {
		args = []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	}
	args = append(args, "--bind", "127.0.0.1", "--port", r.port, "--dir", r.dir, "--save", "")
	if r.opts.Quick {
		args = append(args, "--unixsocket", r.socket(), "--enable-debug-command", "yes")
	}
	if r.opts.Password != "" {
		args = append(args, "--requirepass", r.opts.Password)
	}
	return args
}

// URL returns the server's URL for redis.nodes.
func (r *Server) URL() string {
	switch {
	case r.opts.Quick:
		return "unix://" + r.socket()
	case r.opts.Password != "":
		return fmt.Sprintf("redis://:%s@%s/0", r.opts.Password, r.Addr())
	}
	return "redis://" + r.Addr() + "/0"
}

// Addr returns the server's address without the rest of its URL.
func (r *Server) Addr() string {
	if r.opts.Quick {
		return r.socket()
	}
	return "127.0.0.1:" + r.port
}

func freePort(t testing.TB) string { t.Helper(); return strconv.Itoa(freeport.TCP(t)) }

// busPort returns the port on which a node of a Cluster listens for the others.
func busPort(port string) string {
	n, _ := strconv.Atoi(port)
	return strconv.Itoa(n + freeport.BusOffset)
}

// portOf returns the port of an address.
func portOf(addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	return port
}

// Dir returns the server's directory.
func (r *Server) Dir() string { return r.dir }

// Client returns a client of the server, which ends with the test.
func (r *Server) Client() *redis.Client { return r.client }

// ConfigSet changes a setting of the running server.
func (r *Server) ConfigSet(key, value string) {
	r.t.Helper()
	r.Do("CONFIG", "SET", key, value)
}

// Do runs one command and returns its answer.
func (r *Server) Do(args ...any) any {
	r.t.Helper()
	answer, err := r.run(args...).Result()
	if err != nil {
		r.t.Fatalf("redis %v: %v", args, err)
	}
	return answer
}

// Try runs one command on a server that may be broken, and returns its error.
func (r *Server) Try(args ...any) error { return r.run(args...).Err() }

// pollEvery is how often a condition is checked.
const pollEvery = 20 * time.Millisecond

// requestTime limits a request to a server that may be broken.
const requestTime = 5 * time.Second

func (r *Server) run(args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	return r.client.Do(ctx, args...)
}

// Info returns a field of a section of the server's INFO, such as Memory; "" if it has none.
func (r *Server) Info(section, field string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	info := r.client.InfoMap(ctx, section)
	return info.Item(section, field), info.Err()
}

// Role returns master or slave; "" if the server does not answer.
func (r *Server) Role() string {
	role, _ := r.Info("Replication", "role")
	return role
}

// Follow makes the server a replica of another and waits until it has all of its data.
func (r *Server) Follow(ctx context.Context, other *Server) error { return r.FollowAt(ctx, other.port) }

// FollowAt is Follow of the server, or a proxy, at a port.
func (r *Server) FollowAt(ctx context.Context, port string) error {
	if err := r.Try("REPLICAOF", "127.0.0.1", port); err != nil {
		return err
	}
	return wait.Until(ctx, pollEvery, func() error {
		status, err := r.Info("Replication", "master_link_status")
		if err == nil && status != "up" {
			err = fmt.Errorf("the link to its master is %s", status)
		}
		return err
	})
}

// Shutdown stops the server gracefully.
func (r *Server) Shutdown() {
	r.t.Helper()
	r.Signal(syscall.SIGTERM)
	r.WaitExit()
}

// Remember copies the present append-only file. The function that it returns kills the server and restores the copy, so
// all later writes are lost. Restart starts the server again.
func (r *Server) Remember() (forget func()) {
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
func (r *Server) Backup(dir string) error {
	if err := os.CopyFS(dir, os.DirFS(r.aof())); err != nil {
		return fmt.Errorf("copy the append-only file: %w", err)
	}
	return nil
}

// Restore kills the server and restores a backup. Restart starts the server again.
func (r *Server) Restore(dir string) error {
	r.Lose()
	if err := os.CopyFS(r.aof(), os.DirFS(dir)); err != nil {
		return fmt.Errorf("restore the append-only file: %w", err)
	}
	return nil
}

// Lose kills the server and removes all of its data.
func (r *Server) Lose() {
	r.t.Helper()
	r.Kill9()
	if err := os.RemoveAll(r.aof()); err != nil {
		r.t.Fatalf("remove the append-only file: %v", err)
	}
}

func (r *Server) aof() string { return filepath.Join(r.dir, "appendonlydir") }
