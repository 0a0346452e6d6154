package master

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// redisServer is the managed redis-server: started here, or adopted from a master that was killed. It inherits a locked file, so the
// lock lives exactly as long as the server does, whoever started it: two never work on one directory.
type redisServer struct {
	opts RedisOptions
	log  *slog.Logger

	mu       sync.Mutex
	pid      int
	started  time.Time
	restarts int
	lastExit string
	adopted  bool

	cancel context.CancelFunc
	ended  chan struct{}
}

const (
	redisUpWithin = 60 * time.Second
	redisPoll     = 100 * time.Millisecond
)

func newRedis(o RedisOptions, log *slog.Logger) *redisServer {
	return &redisServer{opts: o, log: log, ended: make(chan struct{})}
}

// start returns when the server answers.
func (r *redisServer) start(ctx context.Context) error {
	if err := r.prepare(); err != nil {
		return err
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

// prepare checks what is needed before anything is started.
func (r *redisServer) prepare() error {
	if err := os.MkdirAll(r.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the managed redis-server: %w", err)
	}
	const wayOut = "install it (apt-get install redis-server), or set redis.nodes to a Redis that runs already"
	out, err := exec.Command(r.opts.Binary, "--version").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not on the PATH: %s", r.opts.Binary, wayOut)
	}
	if err != nil {
		return fmt.Errorf("%s --version: %w: %s", r.opts.Binary, err, wayOut)
	}
	_, rest, _ := strings.Cut(string(out), "v=")
	major, _, _ := strings.Cut(rest, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("%s is version %.10q; 7.0 or newer is needed: %s", r.opts.Binary, rest, wayOut)
	}
	return nil
}

// launch starts a server, or adopts the living one, and waits until it answers. wait blocks until that server has ended.
func (r *redisServer) launch(ctx context.Context) (wait func(), err error) {
	patience := newPatience()
	for {
		lock, err := os.OpenFile(filepath.Join(r.opts.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock the managed redis-server's directory: %w", err)
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			wait, err := r.spawn(lock)
			_ = lock.Close() // the server has it
			if err != nil {
				return nil, err
			}
			return wait, r.untilUp(ctx)
		}
		_ = lock.Close()
		// An earlier master's server lives: adopt it when it answers; it may also be on its way out.
		pid, err := redisPID(r.opts.Socket)
		if pid > 0 {
			r.set(pid, true)
		}
		if err == nil {
			r.log.Info("adopting the redis-server that an earlier master left", "pid", pid)
			return func() { awaitExit(pid) }, nil
		}
		if err := patience.wait(ctx, err); err != nil {
			return nil, fmt.Errorf("an earlier redis-server on %s neither answers nor ends (%w); look for it: fuser %s",
				r.opts.Dir, err, filepath.Join(r.opts.Dir, "lock"))
		}
	}
}

// patience is how much longer to wait for an answer: as long as a server loads its data it is alive, however long that takes.
type patience struct{ until time.Time }

func newPatience() *patience { return &patience{time.Now().Add(redisUpWithin)} }

// wait waits until it is time to ask again. err is what the last question gave.
func (p *patience) wait(ctx context.Context, err error) error {
	if errors.Is(err, errLoading) {
		p.until = time.Now().Add(redisUpWithin)
	}
	if time.Now().After(p.until) {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(redisPoll / 4):
		return nil
	}
}

func (r *redisServer) spawn(lock *os.File) (wait func(), err error) {
	args := []string{
		"--port", "0", "--unixsocket", r.opts.Socket, "--unixsocketperm", "700", "--dir", r.opts.Dir, "--appendonly", "yes",
		"--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no",
		// Its log is written anew, which stops it for up to 60 ms, every half minute at full speed, not every eight seconds; read at a start it takes 4 s.
		"--auto-aof-rewrite-min-size", "256mb",
		"--hz", "2", // its own round: ten a second take a quarter of what an idle installation uses, and nothing here waits for one
		"--logfile", filepath.Join(r.opts.Dir, "redis.log"),
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
		err := cmd.Wait()
		r.mu.Lock()
		r.lastExit = "exit 0"
		if err != nil {
			r.lastExit = err.Error()
		}
		r.mu.Unlock()
		close(done)
	}()
	return func() { <-done }, nil
}

func (r *redisServer) set(pid int, adopted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid, r.adopted, r.started = pid, adopted, time.Now().UTC()
}

// untilUp waits until the server answers; while it loads its data it counts as alive, however long that takes.
func (r *redisServer) untilUp(ctx context.Context) error {
	patience := newPatience()
	for {
		pid, err := redisPID(r.opts.Socket)
		if err == nil {
			r.log.Info("the managed redis-server answers", "pid", pid)
			return nil
		}
		r.mu.Lock()
		gone := syscall.Kill(r.pid, 0) != nil
		r.mu.Unlock()
		if gone {
			return fmt.Errorf("the managed redis-server ended at once; its log is %s", filepath.Join(r.opts.Dir, "redis.log"))
		}
		if err := patience.wait(ctx, err); err != nil {
			return fmt.Errorf("the managed redis-server does not answer (%w); its log is %s", err, filepath.Join(r.opts.Dir, "redis.log"))
		}
	}
}

// keep starts the server again when it ends, until the master stops.
func (r *redisServer) keep(ctx context.Context, wait func()) {
	defer close(r.ended)
	backoff := minBackoff
	for {
		began := time.Now()
		wait()
		if ctx.Err() != nil {
			return
		}
		r.log.Error("the managed redis-server ended; starting it again")
		r.mu.Lock()
		r.restarts++
		r.mu.Unlock()
		if time.Since(began) > stableAfter {
			backoff = minBackoff
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(backoff):
			}
			backoff = min(2*backoff, maxBackoff)
			next, err := r.launch(ctx)
			if next != nil {
				wait = next
				break
			}
			r.log.Error("the managed redis-server cannot be started", "error", err)
		}
	}
}

// stop shuts the server down and waits until it has written what it must.
func (r *redisServer) stop() {
	r.cancel()
	t := time.NewTicker(10 * redisPoll)
	defer t.Stop()
	for { // again and again: one may just be being started
		r.terminate()
		select {
		case <-r.ended:
			return
		case <-t.C:
		}
	}
}

func (r *redisServer) terminate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pid > 0 {
		_ = syscall.Kill(r.pid, syscall.SIGTERM) // an error: it has ended
	}
}

var errLoading = errors.New("it is loading its data")

// redisPID asks the server at a socket for its process. It may give one beside errLoading.
func redisPID(socket string) (int, error) {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.WriteString(conn, "PING\r\nINFO server\r\n"); err != nil {
		return 0, err
	}
	var state error
	for s := bufio.NewScanner(conn); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if strings.HasPrefix(line, "-LOADING") {
			state = errLoading
		}
		if pid, ok := strings.CutPrefix(line, "process_id:"); ok {
			n, err := strconv.Atoi(pid)
			return n, errors.Join(state, err)
		}
	}
	return 0, errors.Join(state, errors.New("it gave no answer"))
}

// awaitExit waits for a process that is not a child of this one.
func awaitExit(pid int) {
	for syscall.Kill(pid, 0) == nil {
		time.Sleep(redisPoll)
	}
}
