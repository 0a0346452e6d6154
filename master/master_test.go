package master

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/master/child"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/wait"
)

// The test binary is also the children, and the master where a test must kill one.
func TestMain(m *testing.M) {
	if child.Is() {
		os.Exit(child.Main(map[string]child.Role{
			"server": serverRole, "timer": idleRole, "redis-checker": checkerRole, "worker": workerRole,
			"stuck": stuckRole,
			"crash": crashRole, "gated": gatedRole,
		}))
	}
	if dir := os.Getenv("TEST_MASTER_DIR"); dir != "" {
		os.Exit(masterMain(dir))
	}
	os.Exit(m.Run())
}

// serverRole answers every connection with its pid.
func serverRole(ctx context.Context, c *child.Child) error {
	r := prometheus.NewRegistry()
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_gauge", Help: "h"})
	r.MustRegister(g)
	g.Set(7)
	c.SetGatherer(r)
	c.SetStatus(func() map[string]any { return map[string]any{"config": string(c.Config)} })
	l := c.Listeners["http"]
	go func() { <-ctx.Done(); _ = l.Close() }()
	c.Ready()
	for {
		conn, err := l.Accept()
		if err != nil {
			return nil
		}
		_, _ = fmt.Fprintln(conn, os.Getpid())
		_ = conn.Close()
	}
}

func idleRole(ctx context.Context, c *child.Child) error {
	c.Ready()
	<-ctx.Done()
	return nil
}

func checkerRole(ctx context.Context, c *child.Child) error {
	c.Ready()
	<-ctx.Done()
	if !c.Orphaned() {
		return nil
	}
	var dir string
	if err := json.Unmarshal(c.Config, &dir); err != nil {
		return err
	}
	return child.StopOrphanedRedis(context.Background(), dir, filepath.Join(dir, "redis", "redis.sock"), time.Second)
}

func options(dir, addr string) Options {
	conf, _ := json.Marshal(dir)
	return Options{
		DataDir: dir, ShutdownTimeout: 5 * time.Second,
		Redis: RedisOptions{
			Managed: true, Binary: "redis-server", Dir: dir + "/redis", Socket: dir + "/redis/redis.sock",
		},
		Roles: []RoleSpec{
			{Name: "server", Count: 1, Listeners: []ListenSpec{{Name: "http", Key: "server.addr", Addr: addr}},
				Config: conf},
			{Name: "timer", Count: 2, Numbered: true, Config: conf},
			{Name: "redis-checker", Count: 1, Config: conf},
		},
	}
}

func masterMain(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	o := options(dir, os.Getenv("TEST_MASTER_ADDR"))
	o.MetricsAddr = os.Getenv("TEST_MASTER_METRICS")
	o.Reload = func() (Options, error) {
		if _, err := os.Stat(dir + "/bad"); err == nil {
			return Options{}, errors.New("bad configuration")
		}
		return o, nil
	}
	if err := Run(ctx, hup, o); err != nil {
		fmt.Fprintln(os.Stderr, "master:", err)
		return 1
	}
	return 0
}

type running struct {
	t    *testing.T
	dir  string
	addr string
	cmd  *exec.Cmd
	out  *bytes.Buffer
}

func tempDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "wkm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually(t, "no redis-server is left", func() bool {
			if pid, _ := redisPID(dir + "/redis/redis.sock"); pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return redisUnlocked(dir)
		})
		_ = os.RemoveAll(dir)
	})
	return dir
}

func freeAddr(t *testing.T) string {
	return fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
}

func launch(t *testing.T, dir, addr string, env ...string) *running {
	t.Helper()
	r := &running{t: t, dir: dir, addr: addr, cmd: exec.Command(os.Args[0]), out: &bytes.Buffer{}}
	r.cmd.Env = append(append(os.Environ(), "TEST_MASTER_DIR="+dir, "TEST_MASTER_ADDR="+addr), env...)
	r.cmd.Stderr = os.Stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill(); _ = r.cmd.Wait() })
	return r
}

var eventually = wait.For

func (r *running) tree() *Tree {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tree, err := At(r.dir).Ps(ctx)
	if err != nil {
		return nil
	}
	return tree
}

// up waits until everything of this master serves requests.
func (r *running) up() *Tree {
	r.t.Helper()
	var tree *Tree
	eventually(r.t, "all processes run", func() bool {
		tree = r.tree()
		if tree == nil || tree.Pid != r.cmd.Process.Pid || len(tree.Processes) != 5 {
			return false
		}
		for _, p := range tree.Processes {
			if p.State != "running" && p.State != "adopted" {
				return false
			}
		}
		return true
	})
	return tree
}

func (r *running) process(role string) Process {
	for _, p := range r.up().Processes {
		if p.Role == role {
			return p
		}
	}
	r.t.Fatalf("no %s runs", role)
	return Process{}
}

func dial(addr string) (pid int, err error) {
	conn, err := net.DialTimeout("tcp", addr, wait.Limit)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(wait.Limit))
	b, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestTheTreeStartsServesAndStops(t *testing.T) {
	metrics := freeAddr(t)
	r := launch(t, tempDir(t), freeAddr(t), "TEST_MASTER_METRICS="+metrics)
	tree := r.up()
	if pid, err := dial(r.addr); err != nil || pid != r.process("server").Pid {
		t.Fatalf("served by %d, %v", pid, err)
	}
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", tree.Processes[2].Pid))
	if got := strings.TrimRight(string(cmdline), "\x00"); got != "wakecall: timer 2" {
		t.Errorf("ps shows %q", got)
	}
	resp, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	for _, want := range []string{
		`test_gauge{process="server"} 7`, `wakecall_process_up{process="timer-2"} 1`,
		`wakecall_process_up{process="redis-server"} 1`, `go_goroutines{process="master"}`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if st := string(r.process("server").Status); !strings.Contains(st, r.dir) {
		t.Errorf("status = %s", st)
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	if err := r.cmd.Wait(); err != nil {
		t.Fatalf("after TERM: %v", err)
	}
	for _, p := range tree.Processes {
		if alive(p.Pid) {
			t.Errorf("%s (%d) is still running after the master ended", p.Role, p.Pid)
		}
	}
}

func TestAProcessThatDiesIsStartedAgain(t *testing.T) {
	r := launch(t, tempDir(t), freeAddr(t))
	for _, role := range []string{"server", "redis-server"} {
		old := r.process(role)
		_ = syscall.Kill(old.Pid, syscall.SIGKILL)
		eventually(t, role+" is back", func() bool {
			p := r.process(role)
			return p.Pid != old.Pid && p.Restarts == 1 && strings.Contains(p.LastExit, "killed")
		})
	}
	if _, err := dial(r.addr); err != nil {
		t.Fatal(err)
	}
}

func TestReloadsRefuseNoConnection(t *testing.T) {
	r := launch(t, tempDir(t), freeAddr(t))
	r.up()
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			if _, err := dial(r.addr); err != nil {
				failed <- err
				return
			}
		}
	}()
	for range 10 {
		old := r.process("server").Pid
		_ = r.cmd.Process.Signal(syscall.SIGHUP)
		eventually(t, "the server is replaced", func() bool { return r.process("server").Pid != old })
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Fatalf("a connection failed: %v", err)
	}
	if err := os.WriteFile(r.dir+"/bad", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := r.process("server").Pid
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if err := At(r.dir).Reload(ctx); err == nil || !strings.Contains(err.Error(), "bad configuration") {
		t.Fatalf("a bad reload: %v", err)
	}
	if got := r.process("server").Pid; got != old {
		t.Fatal("a bad configuration replaced the server")
	}
}

func TestAKilledMasterLeavesNothingAndASuccessorStartsAtOnce(t *testing.T) {
	dir, addr := tempDir(t), freeAddr(t)
	r := launch(t, dir, addr)
	for round := range 5 {
		tree := r.up()
		key := fmt.Sprint("round", round)
		if got := redisSays(t, dir, "SET "+key+" kept"); got != "+OK" {
			t.Fatal(got)
		}
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		killed := time.Now()
		next := launch(t, dir, addr)
		for _, p := range tree.Processes {
			if p.Role != "redis-server" {
				eventually(t, p.Role+" notices", func() bool { return !alive(p.Pid) })
			}
		}
		if took := time.Since(killed); took > 22*time.Second { // 2 s, and the delay of a busy machine
			t.Fatalf("children left after %v", took)
		}
		next.up()
		if n := redisServers(dir); n != 1 {
			t.Fatalf("%d redis-servers on one directory", n)
		}
		if got := redisSays(t, dir, "EXISTS "+key); got != ":1" {
			t.Fatalf("round %d lost its write: %s", round, got)
		}
		r = next
	}
	redis := r.process("redis-server").Pid
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	eventually(t, "the redis-server that nobody adopts ends", func() bool { return !alive(redis) })
}

// redisUnlocked checks that no redis-server is running or starting in the directory.
func redisUnlocked(dir string) bool {
	f, err := os.Open(dir + "/redis/lock")
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func redisServers(dir string) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range all {
		b, _ := os.ReadFile(f)
		if strings.Contains(string(b), "redis-server") && strings.Contains(string(b), dir+"/redis") {
			n++
		}
	}
	return n
}

func TestASecondMasterIsRefused(t *testing.T) {
	r := launch(t, tempDir(t), freeAddr(t))
	r.up()
	err := Run(t.Context(), nil, options(r.dir, freeAddr(t)))
	pid := fmt.Sprint("pid ", r.cmd.Process.Pid)
	if err == nil || !strings.Contains(err.Error(), pid) || !strings.Contains(err.Error(), r.dir) {
		t.Fatalf("a second master: %v", err)
	}
}

func TestAPortInUseIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = Run(t.Context(), nil, options(tempDir(t), l.Addr().String()))
	if err == nil || !strings.Contains(err.Error(), "server.addr") ||
		!strings.Contains(err.Error(), l.Addr().String()) {
		t.Fatalf("a port in use: %v", err)
	}
}

// TestWhatIsStartedHasNoConfigurationInItsEnvironment: some variables contain passwords, also those of later versions.
func TestWhatIsStartedHasNoConfigurationInItsEnvironment(t *testing.T) {
	for _, name := range []string{"REGISTRY_DSN", "REDIS_NODES", "TOKEN", "OF_TOMORROW"} {
		t.Setenv("WAKECALL_"+name, "MARKsecret")
	}
	t.Setenv("SOMEBODY_ELSES", "kept")
	for what, env := range map[string][]string{"a child": childEnv(), "redis-server": othersEnv()} {
		all := strings.Join(env, "\n")
		if strings.Contains(all, "MARKsecret") || !strings.Contains(all, "SOMEBODY_ELSES=kept") {
			t.Errorf("%s gets %s", what, all)
		}
	}
}
