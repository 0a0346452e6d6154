package master

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/pause"
)

// redisServer is the managed redis-server: started here, or adopted from a killed master. It inherits a locked file, so
// the lock lasts exactly as long as the server, whoever started it, and two servers never use the same directory.
type redisServer struct {
	opts RedisOptions
	log  *slog.Logger

	mu       sync.Mutex
	pid      int
	started  time.Time
	restarts int
	lastExit string
	adopted  bool
	deaths   deaths

	cancel context.CancelFunc
	ended  chan struct{}
}

const redisPoll = 100 * time.Millisecond

func newRedis(o RedisOptions, log *slog.Logger) *redisServer {
	return &redisServer{opts: o, log: log, ended: make(chan struct{})}
}

// start starts or adopts a server and waits until it answers.
func (r *redisServer) start(ctx context.Context) error {
	if err := os.MkdirAll(r.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("create directory of the managed redis-server: %w", err)
	}
	wait, err := r.launch(ctx)
	if err != nil {
		r.terminate()
		return err
	}
	watch, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.keep(watch, wait)
	return nil
}

// keep restarts the server when it ends, until the master stops.
func (r *redisServer) keep(ctx context.Context, wait func()) {
	defer close(r.ended)
	var delay backoff
	for {
		began := time.Now()
		wait()
		r.set(0, false) // another process may have its pid now, which stop must not signal
		if ctx.Err() != nil {
			return
		}
		r.log.Error("managed redis-server ended; restarting")
		r.mu.Lock()
		r.deaths.add(time.Now())
		r.mu.Unlock()
		if !pause.For(ctx, delay.next(time.Since(began))) {
			return
		}
		var err error
		if wait, err = r.launch(ctx); err != nil {
			r.log.Error("cannot start the managed redis-server", "error", err)
		}
		if wait == nil {
			wait = func() {}
			continue
		}
		r.mu.Lock()
		r.restarts++
		r.mu.Unlock()
	}
}

// spawn starts a server that inherits the lock. wait blocks until it has ended.
func (r *redisServer) spawn(lock *os.File) (wait func(), err error) {
	args := []string{
		"--port", "0", "--unixsocket", r.opts.Socket, "--unixsocketperm", "700", "--dir", r.opts.Dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction",
		"--daemonize", "no", "--logfile", r.logFile(),
		// A rewrite of the append-only file blocks the server for up to 60 ms. With this size it happens every half
		// minute under full load, instead of every eight seconds. A file of this size takes 4 s to load.
		"--auto-aof-rewrite-min-size", "256mb",
		// The default of ten rounds of background tasks per second uses a quarter of the CPU time of an idle
		// installation.
		"--hz", "2",
		// The hash of a topic with up to 128 jobs is a listpack, which takes at least 50 bytes less for each. With more
		// jobs its linear search would cost more than the memory is worth.
		"--hash-max-listpack-value", "512", "--hash-max-listpack-entries", "128",
	}
	if r.opts.MaxMemory > 0 {
		args = append(args, "--maxmemory", strconv.FormatInt(r.opts.MaxMemory, 10))
	}
	cmd := exec.Command(r.opts.Binary, args...)
	cmd.Env = othersEnv()
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the managed redis-server: %w", err)
	}
	r.set(cmd.Process.Pid, false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := cmd.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lastExit = "exit 0"
		if err != nil {
			r.lastExit = err.Error()
		}
	}()
	return func() { <-done }, nil
}

func (r *redisServer) set(pid int, adopted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid, r.adopted, r.started = pid, adopted, time.Now().UTC()
}

// leaveAfter is how long a server may take to end after a second stop signal.
const leaveAfter = 3 * time.Second

// stop shuts down the server and waits until it has written its data or, after now is closed, for at most leaveAfter. A
// suspended server ends when it resumes; until then its lock protects its data.
func (r *redisServer) stop(now <-chan struct{}) error {
	r.cancel()
	t := time.NewTicker(10 * redisPoll)
	defer t.Stop()
	var leave <-chan time.Time
	for { // repeated, because a server may just be starting
		r.terminate()
		select {
		case <-r.ended:
			return nil
		case <-now:
			now, leave = nil, time.After(leaveAfter)
		case <-leave:
			return fmt.Errorf("managed redis-server (pid %d) is suspended and was not stopped; it ends when it resumes",
				r.describe().Pid)
		case <-t.C:
		}
	}
}

func (r *redisServer) terminate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pid > 0 {
		_ = syscall.Kill(r.pid, syscall.SIGTERM) // on an error it has already ended
	}
}
