package test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	beanstalk "github.com/beanstalkd/go-beanstalk"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// passedSocket is a listening socket that a service manager would hold, open until the test ends.
func passedSocket(t *testing.T) (addr string, f *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // f keeps listening
	if f, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return l.Addr().String(), f
}

// TestSocketActivation: the API and the admin are served on passed sockets, including connections from before the
// start. While the whole master is restarted, no connection is refused and no request fails.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	harness.Binary(t) // built before the clients' time limits begin
	api, apiSocket := passedSocket(t)
	admin, adminSocket := passedSocket(t)
	other, otherSocket := passedSocket(t)
	i := &installation{harness.New(t, harness.Options{
		Sockets: []*os.File{adminSocket, otherSocket, apiSocket},
		Env:     map[string]string{"WAKECALL_SERVER_ADDR": api, "WAKECALL_ADMIN_ADDR": admin},
	}), harness.StartEndpoint(t)}
	early := make(chan error, 2)
	for _, url := range []string{i.Base + "/healthz", i.AdminURL() + "/login"} {
		go func() {
			res, err := (&http.Client{Timeout: 45 * time.Second}).Get(url)
			if err == nil {
				_ = res.Body.Close()
				err = harness.Equal(url, res.StatusCode, http.StatusOK)
			}
			early <- err
		}()
	}
	i.Up()
	for range 2 {
		if err := <-early; err != nil {
			t.Errorf("a connection made before the start: %v", err)
		}
	}
	i.WaitReady()
	if !strings.Contains(i.Log(0), "address="+other) && !strings.Contains(i.Log(0), `"address":"`+other+`"`) {
		t.Errorf("the log does not say that %s is not served: %s", other, i.Log(2000))
	}

	topic := i.topic(t, nil, nil)
	storm := harness.StartStorm(t, i.API, harness.StormOptions{Topic: topic, Rate: 500, Kept: 16, Short: 64})
	storm.WaitRequests(t, 250)
	for range 3 {
		i.Signal(syscall.SIGTERM)
		if code := i.WaitExit(); code != 0 {
			t.Errorf("the master's exit code is %d", code)
		}
		i.Up()
		storm.WaitRequests(t, 250)
	}
	i.Signal(syscall.SIGHUP)
	storm.WaitRequests(t, 250)
	seen := storm.Stop()
	pushed := int(storm.Pushed.Load())
	t.Logf("%d requests; the slowest took %s", seen.Requests, seen.Slowest.Round(time.Millisecond))
	if n := len(seen.Failed); n > 0 {
		t.Errorf("%d requests failed: %s", n, strings.Join(seen.Failed[:min(n, 10)], "; "))
	}
	if stats, err := i.Stats(ctx, topic); err != nil || stats.Delayed != pushed {
		t.Errorf("%d pushes were acknowledged, and %d jobs exist (%v)", pushed, stats.Delayed, err)
	}
	i.passes(t)
}

// TestSocketActivationOfGateways: a client that connects before the start, or while the master restarts, is served by
// the gateway. One gateway has a passed socket, and another opens its own.
func TestSocketActivationOfGateways(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	harness.Binary(t) // built before the clients' time limits begin
	addr, socket := passedSocket(t)
	own := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
	w := harness.New(t, harness.Options{Sockets: []*os.File{socket}, Env: map[string]string{
		"WAKECALL_GATEWAYS_BEANSTALK_ADDR": addr, "WAKECALL_GATEWAYS_PHPDQ_ADDR": own,
	}})
	for n := range 2 {
		early, err := net.Dial("tcp", addr) // nobody accepts yet
		if err != nil {
			t.Fatal(err)
		}
		defer early.Close()
		_ = early.SetDeadline(time.Now().Add(soon))
		c := beanstalk.NewConn(early)
		w.Up()
		if _, err := c.Put([]byte("x"), 1, time.Hour, time.Minute); err != nil {
			t.Errorf("start %d: a connection made before: %v", n+1, err)
		}
		w.WaitReady()
		waitListening(t, own)
		w.Signal(syscall.SIGTERM)
		w.WaitExit()
	}
	if strings.Contains(w.Log(0), "passed socket not served") {
		t.Errorf("the log has\n%s", w.Log(0))
	}
}

// TestNoSocketIsPassed: an address without a passed socket is opened, even if sockets were passed that are meant for
// another process.
func TestNoSocketIsPassed(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	_, socket := passedSocket(t)
	i := start(t, harness.Options{Sockets: []*os.File{socket}})
	i.passes(t)
	start(t, harness.Options{Env: map[string]string{"LISTEN_PID": "1", "LISTEN_FDS": "nonsense"}}).passes(t)
}

// TestWrongSocketsArePassed: nothing is started, and the message names the passed sockets and the error.
func TestWrongSocketsArePassed(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	_, socket := passedSocket(t)
	plain, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, c := range []struct{ env, want string }{
		{"LISTEN_PID=$$ LISTEN_FDS=two", `LISTEN_FDS="two"`},
		{"LISTEN_PID=$$ LISTEN_FDS=-1", `LISTEN_FDS="-1"`},
		{"LISTEN_PID=$$ LISTEN_FDS=0", `LISTEN_FDS="0"`},
		{"LISTEN_PID=me LISTEN_FDS=1", `LISTEN_PID="me"`},
		{"LISTEN_PID=$$ LISTEN_FDS=2", "descriptor 4"},
		{"LISTEN_PID=$$ LISTEN_FDS=99999999", "descriptor 4"},
		{"LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=api:admin", "2 names"},
	} {
		cmd := exec.Command("/bin/sh", "-c", c.env+` exec "$0" up`, harness.Binary(t))
		cmd.Dir = t.TempDir()
		cmd.ExtraFiles = []*os.File{socket, plain}
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, with the output %s", c.env, err, out)
		}
		if files, _ := os.ReadDir(cmd.Dir); len(files) > 0 {
			t.Errorf("%s: it has created %v", c.env, files)
		}
	}
}
