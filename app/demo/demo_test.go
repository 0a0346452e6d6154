package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log/printable/printabletest"
)

func TestDemoEndpointPrintsCallbacks(t *testing.T) {
	var out bytes.Buffer
	h := handler(&out, func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 3e6, time.UTC) })
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{\"n\":\n1}"))
	for name, value := range map[string]string{
		"Wakecall-Id": "order-1", "Wakecall-Attempt": "1", "Wakecall-Max-Attempts": "10",
		"Wakecall-Due-At": "2026-01-02T03:04:05.000Z",
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

func TestTheEndpointLivesUntilTheEnd(t *testing.T) {
	t.Chdir(t.TempDir())
	failed := errors.New("the address is in use")
	ctx, cancel := context.WithCancel(context.Background())
	err := Run(ctx, conf.Default(), io.Discard, func(context.Context) error {
		cancel()
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
}

func TestGreetingCanBePastedIntoAShell(t *testing.T) {
	t.Chdir(t.TempDir())
	cfg := conf.Default()
	cfg.DataDir = "my data"
	text := greeting(cfg, "http://127.0.0.1:8089/")
	for _, want := range []string{"$(cat 'my data/api-token')", "curl http://127.0.0.1:6789/v1/topics/demo/jobs "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
}

// TestGreetingSaysHowToSignIn, which nobody guesses inside a container.
func TestGreetingSaysHowToSignIn(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	cfg := conf.Default()
	cfg.DataDir, cfg.Admin.Addr = dir, "0.0.0.0:8088" // as in the images, which start in data_dir
	if text := greeting(cfg, ""); !strings.Contains(text, "http://127.0.0.1:8088/ (user admin).") {
		t.Errorf("without a password file: %s", text)
	}
	file := filepath.Join(dir, "admin-password")
	if err := os.WriteFile(file, []byte("do not print"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := greeting(cfg, "")
	if !strings.Contains(text, "\n  cat "+file+"\n") || strings.Contains(text, "do not print") {
		t.Errorf("the way to the password, but not the password: %s", text)
	}
}

func TestNearPath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for path, want := range map[string]string{
		filepath.Join(dir, "data", "x"): "data/x", "/elsewhere/x": "/elsewhere/x", dir: dir,
	} {
		if got := nearPath(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestTheDemoSteersNoTerminal(t *testing.T) {
	var out bytes.Buffer
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(printabletest.Hostile+"\xff"))
	for _, name := range []string{"Wakecall-Id", "Wakecall-Attempt", "Wakecall-Max-Attempts"} {
		r.Header.Set(name, printabletest.Hostile)
	}
	handler(&out, time.Now).ServeHTTP(httptest.NewRecorder(), r)
	printabletest.Check(t, "the demo", out.String())
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("a callback is printed in several lines: %q", out.String())
	}
}
