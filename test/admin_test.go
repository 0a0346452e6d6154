package test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

func TestAdminSignsInWithThePasswordOfTheFirstStart(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	browser := signIn(t, i.Wakecall)
	res, err := browser.Get(i.AdminURL() + "/processes")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(body), "redis-checker") ||
		!strings.Contains(string(body), "WAKECALL_ADMIN_ADDR") {
		t.Errorf("%v: the page of processes is\n%s", err, body)
	}
}

// signIn returns a client that is signed in with the password of the first start.
func signIn(t *testing.T, w *harness.Wakecall) *http.Client {
	t.Helper()
	w.WaitRole("admin", 1)
	password, err := os.ReadFile(filepath.Join(w.Data, "admin-password"))
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil) // never fails without options
	browser := &http.Client{Jar: jar, Timeout: soon}
	res, err := browser.PostForm(w.AdminURL()+"/login",
		url.Values{"username": {"admin"}, "password": {strings.TrimSpace(string(password))}})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return browser
}

func TestHangupReplacesTheAdminWithoutARefusal(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	i.WaitRole("admin", 1)
	ctx, stop := context.WithCancel(t.Context())
	var served atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { visit(ctx, t, i.AdminURL()+"/login", &served) })
	}
	for range 3 {
		old := i.Role("admin")
		i.Signal(syscall.SIGHUP)
		i.WaitRole("admin", 1, old...)
	}
	stop()
	wg.Wait()
	if served.Load() == 0 {
		t.Error("no page was served")
	}
}

// visit opens a page again and again, with a new connection each time.
func visit(ctx context.Context, t *testing.T, page string, served *atomic.Int64) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		req, err := http.NewRequest(http.MethodGet, page, nil)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := client.Do(req)
		if err != nil {
			t.Errorf("after %d pages: %v", served.Load(), err)
			return
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("after %d pages: %s", served.Load(), res.Status)
		}
		served.Add(1)
	}
}
