package master

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wakecall/wakecall/master/child"
	"github.com/wakecall/wakecall/test/wait"
)

// workerRole appends its name to a file when it is asked to stop, and ends when the file named busy is removed.
func workerRole(ctx context.Context, c *child.Child) error {
	var conf struct{ Name, Dir string }
	if err := json.Unmarshal(c.Config, &conf); err != nil {
		return err
	}
	c.Ready()
	<-ctx.Done()
	f, err := os.OpenFile(filepath.Join(conf.Dir, "told"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, conf.Name)
	for {
		if _, gone := os.Stat(filepath.Join(conf.Dir, "busy")); gone != nil {
			return errors.Join(err, f.Close())
		}
		time.Sleep(5 * time.Millisecond) // the work that a stop waits for
	}
}

// stuckRole never serves.
func stuckRole(ctx context.Context, _ *child.Child) error {
	<-ctx.Done()
	return nil
}

func worker(dir, name string) RoleSpec {
	conf, _ := json.Marshal(map[string]string{"Name": name, "Dir": dir})
	return RoleSpec{Name: "worker", Count: 1, Config: conf}
}

// inProcess runs a master in the test's process, until stop.
func inProcess(t *testing.T, o Options) (stop func(), result chan error) {
	return hungUp(t, o, nil)
}

// hungUp is inProcess with a channel for SIGHUP.
func hungUp(t *testing.T, o Options, hup <-chan os.Signal) (stop func(), result chan error) {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	result = make(chan error, 1)
	var once sync.WaitGroup
	once.Go(func() { result <- Run(ctx, hup, o) })
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(o.DataDir, "busy"))
		cancel()
		once.Wait()
		goleak.VerifyNone(t, leaks)
	})
	return cancel, result
}

// psUntil waits until the processes match, and returns them.
func psUntil(t *testing.T, dir, what string, fits func([]Process) bool) []Process {
	t.Helper()
	var list []Process
	eventually(t, what, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		tree, err := At(dir).Ps(ctx)
		if err != nil {
			return false
		}
		list = tree.Processes
		return fits(list)
	})
	return list
}

func runs(n int) func([]Process) bool {
	return func(list []Process) bool {
		for _, p := range list {
			if p.State != "running" {
				return false
			}
		}
		return len(list) == n
	}
}

func told(dir string) string {
	b, _ := os.ReadFile(filepath.Join(dir, "told"))
	return strings.Join(strings.Fields(string(b)), " ")
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAGracefulStopWaitsForWork(t *testing.T) {
	dir := tempDir(t)
	touch(t, dir+"/busy")
	stop, result := inProcess(t, Options{
		DataDir: dir, ShutdownTimeout: time.Minute, Roles: []RoleSpec{worker(dir, "a")},
	})
	pid := psUntil(t, dir, "the worker runs", runs(1))[0].Pid
	stop()
	eventually(t, "the worker is asked to stop", func() bool { return told(dir) == "a" })
	select {
	case err := <-result:
		t.Fatalf("the master did not wait for the work: %v", err)
	default:
	}
	if !alive(pid) {
		t.Fatal("the worker was stopped during its work")
	}
	if err := os.Remove(dir + "/busy"); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatalf("after a graceful stop: %v", err)
	}
	if alive(pid) {
		t.Fatal("the worker outlived its master")
	}
}

func TestASecondStopEndsAtOnce(t *testing.T) {
	dir, kill := tempDir(t), make(chan struct{})
	touch(t, dir+"/busy")
	stop, result := inProcess(t, Options{
		DataDir: dir, ShutdownTimeout: time.Hour, Kill: kill, Roles: []RoleSpec{worker(dir, "a")},
	})
	pid := psUntil(t, dir, "the worker runs", runs(1))[0].Pid
	go func() { _ = At(dir).Restart(context.Background(), "worker", 0) }() // its predecessor is busy, too
	psUntil(t, dir, "a successor runs", func(list []Process) bool { return list[0].Pid != pid && runs(1)(list) })
	stop()
	eventually(t, "both are asked to stop", func() bool { return told(dir) == "a a" })
	close(kill)
	if err := <-result; !errors.Is(err, errKilled) {
		t.Fatalf("after a second stop: %v", err)
	}
	if alive(pid) {
		t.Fatal("the predecessor outlived its master")
	}
}

func TestASecondStopDoesNotWaitForARedisThatHangs(t *testing.T) {
	dir, kill := tempDir(t), make(chan struct{})
	o := options(dir, freeAddr(t))
	up := make(chan struct{})
	o.Kill, o.Roles, o.Ready = kill, nil, func() { close(up) }
	stop, result := inProcess(t, o)
	<-up
	pid := psUntil(t, dir, "the redis-server runs", runs(1))[0].Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stop()
	close(kill)
	select {
	case err := <-result:
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(pid)) {
			t.Errorf("the master left a redis-server and returned %v", err)
		}
	case <-time.After(leaveAfter + 20*time.Second):
		t.Error("the master waits for a hanging redis-server")
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the redis-server ends when it resumes", func() bool { return !alive(pid) })
}

func TestRolesStopInTheirOrder(t *testing.T) {
	dir := tempDir(t)
	names := []string{"server", "dispatcher", "timer", "redis-checker"}
	m := &Master{slots: map[string][]*slot{}}
	for _, name := range names {
		m.order = append(m.order, name)
		ctx, cancel := context.WithCancel(t.Context())
		s := &slot{m: m, cancel: cancel, ended: make(chan struct{})}
		m.slots[name] = []*slot{s}
		go func() {
			<-ctx.Done()
			_ = appendLine(dir+"/told", name)
			close(s.ended)
		}()
	}
	if err := m.stopAll(); err != nil {
		t.Fatal(err)
	}
	if got := told(dir); got != strings.Join(names, " ") {
		t.Fatalf("stopped: %s", got)
	}
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// children returns the titles of this process's children.
func children(t *testing.T) string {
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "args=", "--ppid", fmt.Sprint(os.Getpid())).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

func TestAQuestionRightAfterTheStartIsAnswered(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		p, err := start(Options{Executable: executable, AnswerWithin: time.Minute}, "timer",
			child.Boot{Role: "timer", ShutdownTimeoutMS: 1000}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := p.ask(child.AskStatus, time.Minute); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		p.stop(5*time.Second, nil)
	}
}

func TestALockHeldForADeadMasterIsWaitedFor(t *testing.T) {
	dir := tempDir(t)
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, child.LockFile)
	if err := os.WriteFile(path, fmt.Appendln(nil, dead.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*lockCheck, func() { _ = f.Close() }) // an orphan has shut down the redis-server
	unlock, unclean, err := lock(t.Context(), dir)
	if err != nil || !unclean {
		t.Fatalf("unclean %v, %v", unclean, err)
	}
	unlock()
}

// redisSays sends one command to the managed redis-server and returns the first line of the answer.
func redisSays(t *testing.T, dir, command string) string {
	t.Helper()
	conn, err := net.Dial("unix", dir+"/redis/redis.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// TestAServerThatEndedIsNotStopped: its process id may belong to another process by now.
func TestAServerThatEndedIsNotStopped(t *testing.T) {
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	r := newRedis(RedisOptions{}, slog.New(slog.DiscardHandler))
	r.set(other.Process.Pid, false)
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go r.keep(ctx, func() {})
	wait.For(t, "the end of the server to be noticed", func() bool { return r.describe().State != "running" })
	if err := r.stop(nil); err != nil {
		t.Error(err)
	}
	if err := errors.Join(other.Process.Kill(), other.Wait()); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the other process ended with %v, want killed by this test", err)
	}
}
