package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/alert/activity"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/test/wait"
)

// fakeQueue is the queue of tests. Each group of tests adds its methods in its own file.
type fakeQueue struct {
	mu    sync.Mutex
	stats map[string]queue.Stats
}

func (q *fakeQueue) Counts(context.Context) (map[string]queue.Stats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.stats), nil
}

func (q *fakeQueue) Stats(context.Context, []string) (map[string]queue.Stats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats, nil
}

// openRegistry is a real registry in a directory of the test, with the users root (admin), ops (operator) and look
// (viewer), all with the password "correct horse". It is a copy of one that is created once, because hashing passwords
// takes long.
func openRegistry(t *testing.T) testRegistry {
	t.Helper()
	seed, err := seededRegistry()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "registry.db")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(registry.Options{DSN: "sqlite:" + file, Migrate: true, SecretKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return testRegistry{r, account.NewStore(r), file}
}

var seededRegistry = sync.OnceValues(func() (db []byte, err error) {
	dir, err := os.MkdirTemp("", "wakecall-admin")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "registry.db")
	r, err := registry.Open(registry.Options{DSN: "sqlite:" + file, Migrate: true})
	if err != nil {
		return nil, err
	}
	for name, role := range map[string]account.Role{"root": account.RoleAdmin, "ops": account.RoleOperator,
		"look": account.RoleViewer} {
		err = errors.Join(err, account.NewStore(r).CreateUser(context.Background(), "test", name, password, role))
	}
	if err := errors.Join(err, r.Close()); err != nil { // Close also writes the log into the file
		return nil, err
	}
	return os.ReadFile(file)
})

const password = "correct horse"

// testRegistry is a registry and the admin's users in it.
type testRegistry struct {
	*registry.Registry
	*account.Store
	file string
}

// site is an admin that serves a test.
type site struct {
	*testing.T
	admin    *Admin
	queue    *fakeQueue
	registry testRegistry
	url      string
	client   *http.Client
}

// open serves an admin; change may alter its options.
func open(t *testing.T, change func(*Options)) *site {
	t.Helper()
	s := &site{T: t, queue: &fakeQueue{}, registry: openRegistry(t)}
	opts := quiet()
	opts.Queue, opts.Registry, opts.Editor, opts.Version = s.queue, s.registry.Registry, s.registry, "test"
	opts.Accounts = s.registry.Store
	opts.SessionStore, opts.Alerts = account.NewSessions(s.registry.DB()), alert.NewStore(s.registry.DB())
	opts.Web, opts.Tasks, opts.WorkDir = http.DefaultClient, bulk.NewStore(s.registry.Registry), t.TempDir()
	if change != nil {
		change(&opts)
	}
	a, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(a)
	t.Cleanup(func() {
		a.page.Hub.Close()
		srv.Close()
	})
	s.admin, s.url = a, srv.URL+a.page.BasePath
	s.client = newClient()
	return s
}

func newClient() *http.Client {
	jar, _ := cookiejar.New(nil) // never fails without options
	return &http.Client{Jar: jar, Timeout: wait.Limit}
}

// quiet are the options of an installation without any events yet.
func quiet() Options {
	return Options{
		Master: idleMaster{}, Config: conf.Default(), History: noHistory{}, Activity: noActivity{}, Caller: noCalls{},
		Lead:     func(context.Context, string, string, time.Duration) (bool, error) { return true, nil },
		Lateness: func(context.Context, float64) (time.Duration, bool) { return 0, false },
		Shares:   func(context.Context) ([3]int64, error) { return [3]int64{}, nil },
		Weights:  [3]int{5, 3, 2},
		Log:      slog.New(slog.DiscardHandler), Now: time.Now, Host: "localhost", ShutdownTimeout: 30 * time.Second,
	}
}

type (
	idleMaster struct{ page.Master }
	noHistory  struct{}
	noActivity struct{}
	noCalls    struct{ page.Caller }
)

func (idleMaster) Ps(context.Context) (*master.Tree, error) { return &master.Tree{}, nil }

func (noHistory) Series(context.Context, string, string) (history.Points, error) {
	return history.Points{}, nil
}

func (noActivity) Attempts(context.Context, string, int) ([]activity.Attempt, error) { return nil, nil }
func (noActivity) Errors(context.Context, string) ([]queue.ErrorNote, error)         { return nil, nil }
func (noActivity) ClearErrors(context.Context, string) error                         { return nil }

func (noCalls) Describe(*callback.Endpoint, *callback.Request) (*callback.Sent, error) {
	return nil, errors.New("no calls here")
}

// as signs in.
func (s *site) as(name string) *site {
	s.Helper()
	s.client = newClient()
	if status, body := s.post("/login", "username", name, "password", password); status != http.StatusOK {
		s.Fatalf("signing in as %s: %d\n%s", name, status, body)
	}
	return s
}

func (s *site) get(path string) (int, string) {
	s.Helper()
	return s.do(http.MethodGet, path, nil)
}

// post sends a form with pairs of field name and value, and follows the redirect.
func (s *site) post(path string, pairs ...string) (int, string) {
	s.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return s.do(http.MethodPost, path, strings.NewReader(form.Encode()))
}

func (s *site) do(method, path string, body io.Reader) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, body)
	if err != nil {
		s.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return s.send(r)
}

func (s *site) send(r *http.Request) (int, string) {
	s.Helper()
	res, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
