package assistant

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fakeAPI gives canned answers, by method and URI. Others are 404, and 401 with another token.
type fakeAPI struct {
	url     string
	answers map[string]answer

	mu   sync.Mutex
	sent []string // METHOD URI BODY of every request that changes state
}

type answer struct {
	status int
	body   string
}

func newFakeAPI(t *testing.T, answers map[string]answer) *fakeAPI {
	t.Helper()
	f := &fakeAPI{answers: answers}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, known := f.answers[r.Method+" "+r.RequestURI]
	switch {
	case r.Header.Get("Authorization") != "Bearer secret-token":
		a = answer{401, `{"status":401,"detail":"the token is not known"}`}
	case !known:
		a = answer{404, `{"status":404,"detail":"there is no such job"}`}
	}
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodGet {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.sent = append(f.sent, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// changes returns and clears the requests that change state.
func (f *fakeAPI) changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent := f.sent
	f.sent = nil
	return sent
}

func options(t *testing.T, url, token string) Options {
	t.Helper()
	c, err := client.New(client.Options{URL: url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return Options{API: c, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return testNow }}
}
