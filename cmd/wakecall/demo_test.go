package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDemoEndpointPrintsCallbacks(t *testing.T) {
	var out bytes.Buffer
	h := demoHandler(&out, func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 3e6, time.UTC) })
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{\"n\":\n1}"))
	for name, value := range map[string]string{
		"Wakecall-Id": "order-1", "Wakecall-Attempt": "1", "Wakecall-Max-Attempts": "10", "Wakecall-Due-At": "2026-01-02T03:04:05.000Z",
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	want := "demo: 03:04:05.003  order-1  attempt 1 of 10  3ms after it was due  {\"n\": 1}\n"
	if w.Code != 200 || out.String() != want {
		t.Errorf("code %d, printed %q, want %q", w.Code, out.String(), want)
	}
}

func TestDemoEndpointEndsWithItsInput(t *testing.T) {
	var out bytes.Buffer
	if err := serveDemo(strings.NewReader(""), &out); err != nil || !strings.HasPrefix(out.String(), "127.0.0.1:") {
		t.Errorf("error %v, printed %q", err, out.String())
	}
}

func TestGreetingCanBePastedIntoAShell(t *testing.T) {
	t.Chdir(t.TempDir())
	a := &cli{dataDir: "my data"}
	cfg, err := a.config(nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := greeting(cfg); !strings.Contains(text, "$(cat 'my data/api-token')") || !strings.Contains(text, "curl http://127.0.0.1:6789/v1/topics/demo/jobs ") {
		t.Error(text)
	}
}

func TestNearPath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for path, want := range map[string]string{filepath.Join(dir, "data", "x"): "data/x", "/elsewhere/x": "/elsewhere/x", dir: "."} {
		if got := nearPath(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestUpReportsTheFailureOfTheDemoEndpoint(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := wakecall(t, []string{"WAKECALL_REDIS_NODES=redis://127.0.0.1:1", "WAKECALL_SERVER_ADDR=" + l.Addr().String()}, "", "up", "--demo")
	for _, want := range []string{"server.addr", "exit status 3"} {
		if got.code != 1 || !strings.Contains(got.err, want) {
			t.Errorf("code %d, want 1 and %q: %s", got.code, want, got.err)
		}
	}
}
