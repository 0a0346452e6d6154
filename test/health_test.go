package test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// health is what `wakecall health` says. It must say so with its exit code, too.
type health struct {
	Ready     bool
	Reason    string
	Processes []struct{ Role, State, Health string }
}

func healthOf(t *testing.T, w *harness.Wakecall, args ...string) (h health) {
	t.Helper()
	code, out := w.Run(append([]string{"health", "-o", "json", "--timeout", "30s"}, args...)...)
	if err := json.Unmarshal([]byte(out), &h); err != nil || (code == 0) != h.Ready || code > 1 {
		t.Fatalf("wakecall health %v: code %d, %v\n%s", args, code, err, out)
	}
	return h
}

func waitHealthy(t *testing.T, w *harness.Wakecall, args ...string) (h health) {
	t.Helper()
	harness.Eventually(t, harness.Patience, "wakecall health to say 0", func() error {
		if h = healthOf(t, w, args...); !h.Ready {
			return errors.New(h.Reason)
		}
		return nil
	})
	return h
}

func unhealthy(t *testing.T, w *harness.Wakecall, reason string, args ...string) {
	t.Helper()
	if h := healthOf(t, w, args...); h.Ready || !strings.Contains(h.Reason, reason) {
		t.Errorf("wakecall health %v is %+v, want %q", args, h, reason)
	}
}

// certificate writes a certificate that nobody trusts.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	pair, dir := srv.TLS.Certificates[0], t.TempDir()
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}

// TestHealthOfAHost whose API and admin listen on every address with certificates that nobody trusts, the admin on a
// free port: 1 before the start, 0 when every process is ready, 1 while a killed one is not, 1 after the end.
func TestHealthOfAHost(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	cert, key := certificate(t)
	w := harness.New(t, harness.Options{Env: map[string]string{
		"WAKECALL_SERVER_ADDR":     fmt.Sprintf("0.0.0.0:%d", freeport.TCP(t)),
		"WAKECALL_SERVER_TLS_CERT": cert, "WAKECALL_SERVER_TLS_KEY": key,
		"WAKECALL_ADMIN_ADDR":     ":0",
		"WAKECALL_ADMIN_TLS_CERT": cert, "WAKECALL_ADMIN_TLS_KEY": key,
		"WAKECALL_DISPATCHERS": "1",
	}})
	unhealthy(t, w, "no process of Wakecall runs on data_dir "+w.Data)
	w.Up()
	h := waitHealthy(t, w)
	if len(h.Processes) != 6 || h.Processes[0].Role != "server" ||
		!strings.HasPrefix(h.Processes[0].Health, "https://127.0.0.1:") {
		t.Errorf("it checked %+v", h.Processes)
	}
	if code, out := w.Run("health"); code != 0 ||
		out != "ready: server, timer 1, dispatcher 1, redis-checker, admin, redis-server\n" {
		t.Errorf("as text: code %d, %s", code, out)
	}

	// A process that crashes in a loop: the master waits longer before each start.
	harness.Eventually(t, harness.Patience, "a killed dispatcher to be noticed", func() error {
		if len(w.Role("dispatcher")) > 0 {
			w.KillRole("dispatcher")
		}
		h := healthOf(t, w)
		if h.Ready || !strings.HasPrefix(h.Reason, "dispatcher 1: waiting (last exit: signal: killed") {
			return fmt.Errorf("it is %+v", h)
		}
		return nil
	})
	if h := healthOf(t, w, "--role", "timer"); !h.Ready || len(h.Processes) != 1 {
		t.Errorf("of the timer: %+v", h)
	}
	waitHealthy(t, w)

	resume := process.Pause(t, w.Role("server")[0])
	unhealthy(t, w, "server: silent")
	resume()
	waitHealthy(t, w)

	w.Kill9()
	unhealthy(t, w, "master: ended")
	w.Up()
	waitHealthy(t, w)
	w.Signal(syscall.SIGTERM)
	w.WaitExit()
	unhealthy(t, w, "no process of Wakecall runs on data_dir "+w.Data)
	if code, out := w.Run("health", "--role", "dispatchers"); code != 2 {
		t.Errorf("an unknown role: code %d, %s", code, out)
	}
}

// TestHealthOfRolesAlone is theirs alone, without a port for it, and in several data directories at once.
func TestHealthOfRolesAlone(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	cert, key := certificate(t)
	w := harness.New(t, onRedis(harness.StartRedis(t, harness.RedisOptions{})))
	w.SetEnv("WAKECALL_ADMIN_ADDR", "0.0.0.0:0")
	w.SetEnv("WAKECALL_ADMIN_TLS_CERT", cert)
	w.SetEnv("WAKECALL_ADMIN_TLS_KEY", key)
	w.SetEnv("WAKECALL_GATEWAYS_PHPDQ_ADDR", fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)))
	roles := map[string]*process.Process{}
	for n, role := range []string{"server", "timer", "dispatcher", "redis-checker", "admin", "gateway"} {
		unhealthy(t, w, "no "+role+" runs", "--role", role)
		roles[role] = w.StartRole(role)
		waitHealthy(t, w, "--role", role)
		if h := waitHealthy(t, w); len(h.Processes) != n+1 {
			t.Errorf("after the start of %s it checked %+v", role, h.Processes)
		}
	}
	roles["dispatcher"].Kill9()
	unhealthy(t, w, "dispatcher: ended")
	if h := healthOf(t, w, "--role", "timer"); !h.Ready {
		t.Errorf("of the timer: %+v", h)
	}
	w.StartRole("dispatcher")
	waitHealthy(t, w, "--role", "dispatcher")
	if h := waitHealthy(t, w); len(h.Processes) != 6 {
		t.Errorf("after another start it checked %+v", h.Processes)
	}
	roles["timer"].Signal(syscall.SIGTERM)
	roles["timer"].WaitExit()
	if h := healthOf(t, w); !h.Ready || len(h.Processes) != 5 {
		t.Errorf("without the timer: %+v", h)
	}
}

// TestHealthOfARoleThatStarts is 1: it waits for a database that does not answer.
func TestHealthOfARoleThatStarts(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	addr, _ := passedSocket(t) // accepts connections and says nothing
	w := harness.New(t, onRedis(harness.StartRedis(t, harness.RedisOptions{})))
	w.SetEnv("WAKECALL_REGISTRY_DSN", "mysql://wakecall:pw@tcp("+addr+")/wakecall")
	w.StartRole("timer")
	harness.Eventually(t, harness.Patience, "the timer to start", func() error {
		h := healthOf(t, w)
		if h.Ready || h.Reason != "timer: starting" {
			return fmt.Errorf("it is %+v", h)
		}
		return nil
	})
}

// TestHealthWithoutRedis stays 0: a probe that took every host out of service while Redis is down would also take the
// answers 503, the admin and the metrics away. /readyz says that no push can be accepted.
func TestHealthWithoutRedis(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	w := i.Wakecall
	topic := i.topic(t, nil, nil)
	waitHealthy(t, w)
	r.Kill9()
	harness.Eventually(t, harness.Patience, "/readyz to answer 503", func() error {
		if w.Readyz() == nil { // although no request has failed
			return errors.New("it answers 200")
		}
		return nil
	})
	if a := i.Push(ctx, topic, M{"body": 1}); a.Status != http.StatusServiceUnavailable {
		t.Errorf("a push is answered %d", a.Status)
	}
	if h := healthOf(t, w); !h.Ready {
		t.Errorf("without Redis: %+v", h)
	}
	old := w.KillRole("server") // what is started again meanwhile is ready, too
	w.WaitRole("server", 1, old)
	waitHealthy(t, w)
	r.Restart()
	w.WaitReady()
}
