package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/client"
)

// installation is a private Wakecall with its own directory and ports.
type installation struct {
	dir     string
	addr    string // address of the API
	admin   string
	metrics string // address of /metrics
	token   string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the master has ended
	ready   time.Duration // from the start of the process until /readyz answered 200
	api     *client.Client
	redis   *redis.Client

	servers []*exec.Cmd // servers of further shards, see addShards
}

const redisName = "redis-server"

const (
	startLimit = 30 * time.Second
	stopLimit  = 45 * time.Second // longer than shutdown_timeout
)

// startInstallation runs `wakecall up` with no configuration except its directory and addresses, and env.
func startInstallation(ctx context.Context, binary string, env ...string) (*installation, error) {
	dir, err := os.MkdirTemp("", "wakecall-bench-")
	if err != nil {
		return nil, err
	}
	in := &installation{dir: dir, done: make(chan struct{})}
	if err := in.start(ctx, binary, env); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a private installation: %w", err), in.Close())
	}
	return in, nil
}

func (in *installation) start(ctx context.Context, binary string, env []string) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	in.addr, in.admin, in.metrics = ports[0], ports[1], ports[2]
	log, err := os.OpenFile(in.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	in.cmd = exec.Command(binary, "up")
	in.cmd.Dir = in.dir
	in.cmd.Env = append(
		foreignEnv(),
		"WAKECALL_DATA_DIR="+in.dir,
		"WAKECALL_SERVER_ADDR="+ports[0],
		"WAKECALL_ADMIN_ADDR="+ports[1],
		"WAKECALL_METRICS_ADDR="+ports[2],
	)
	in.cmd.Env = append(in.cmd.Env, env...)
	in.cmd.Stdout, in.cmd.Stderr = log, log
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started := time.Now()
	if err := in.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = in.cmd.Wait() // its log says how it ended
		close(in.done)
	}()
	if err := in.connect(ctx); err != nil {
		return fmt.Errorf("%w; its log ends with:\n%s", err, in.logTail())
	}
	in.ready = time.Since(started)
	if err := in.readToken(); err != nil {
		return err
	}
	in.redis = redis.NewClient(&redis.Options{Network: "unix", Addr: in.redisSocket(), PoolSize: 1, MaxRetries: -1})
	return in.redis.Ping(ctx).Err()
}

// connect waits until the installation can accept a push.
func (in *installation) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	api, err := client.New(client.Options{URL: "http://" + in.addr})
	if err != nil {
		return err
	}
	defer api.Close()
	return until(ctx, 2*time.Millisecond, func() (bool, error) {
		select {
		case <-in.done:
			return false, errors.New("it ended before it was ready")
		default:
			return api.Ready(ctx) == nil, nil
		}
	})
}

func (in *installation) readToken() error {
	token, err := os.ReadFile(filepath.Join(in.dir, "api-token"))
	if err != nil {
		return err
	}
	in.token = strings.TrimSpace(string(token))
	in.api, err = client.New(client.Options{URL: "http://" + in.addr, Token: in.token})
	return err
}

func (in *installation) logFile() string     { return filepath.Join(in.dir, "bench.log") }
func (in *installation) redisSocket() string { return filepath.Join(in.dir, "redis", "redis.sock") }

func (in *installation) logTail() string {
	const limit = 2000
	b, err := os.ReadFile(in.logFile())
	if err != nil {
		return err.Error()
	}
	if len(b) > limit {
		b = b[len(b)-limit:]
	}
	return string(bytes.TrimSpace(b))
}

// Close stops the installation, waits for its end and removes its files.
func (in *installation) Close() error {
	if in.redis != nil {
		in.redis.Close()
	}
	if in.api != nil {
		in.api.Close()
	}
	return errors.Join(in.stop(), os.RemoveAll(in.dir))
}

func (in *installation) stop() error {
	if in.cmd == nil || in.cmd.Process == nil {
		return nil
	}
	_ = in.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-in.done:
		return nil
	case <-time.After(stopLimit):
	}
	_ = syscall.Kill(-in.cmd.Process.Pid, syscall.SIGKILL)
	<-in.done
	return fmt.Errorf(
		"the installation did not stop within %s after SIGTERM and was killed; its log ends with:\n%s",
		stopLimit,
		in.logTail(),
	)
}

// putTopic creates or replaces a topic of the installation.
func (in *installation) putTopic(ctx context.Context, name, callback, state string) error {
	topic, err := json.Marshal(map[string]any{"callback_url": callback, "state": state})
	if err != nil {
		return err
	}
	_, _, err = in.api.PutTopicJSON(ctx, name, topic)
	return err
}

// load puts a load on the installation. It also returns the CPU time per request, in microseconds, of the installation
// itself, including Redis: unlike the rate, it does not suffer from other work on the machine.
func (in *installation) load(ctx context.Context, l load) (r loadResult, cpuMicros float64, err error) {
	before, err := treeCPU(in.cmd.Process.Pid)
	if err != nil {
		return r, 0, err
	}
	if r, err = l.run(ctx); err != nil {
		return r, 0, err
	}
	after, err := treeCPU(in.cmd.Process.Pid)
	return r, perRequest(after-before, r.All), err
}

func perRequest(cpu time.Duration, n int) float64 {
	return float64(cpu.Microseconds()) / float64(max(n, 1))
}

// info reads one number of Redis's INFO.
func (in *installation) info(ctx context.Context, section, key string) (int64, error) {
	text, err := in.redis.Info(ctx, section).Result()
	if err != nil {
		return 0, fmt.Errorf("INFO %s: %w", section, err)
	}
	return infoNumber(text, key)
}

func infoNumber(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO has no %s", key)
}

// foreignEnv returns the environment without Wakecall's variables, so that the installation under test has the
// defaults.
func foreignEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "WAKECALL_") {
			env = append(env, kv)
		}
	}
	return env
}

// freePorts returns n free addresses on 127.0.0.1.
func freePorts(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // closed at the end, so that the ports differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
