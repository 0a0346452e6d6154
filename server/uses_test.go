package server_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
)

// A token is refused from the second at which it expires, by a running server.
func TestATokenExpires(t *testing.T) {
	expires := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	now := expires.Add(-time.Nanosecond)
	a := newAPI(t, func(o *server.Options) { o.Now = func() time.Time { return now } })
	a.registry.edit(func(s *registry.Snapshot) {
		token := *s.Tokens[hashOf(a.token)]
		token.ExpiresAt = &expires
		s.Tokens[token.Hash] = &token
	})
	a.do("POST", orders, `{"body":1}`).want(201)
	now = expires
	for _, path := range []string{orders, "/v1/jobs", "/nowhere"} {
		r := a.do("POST", path, `{"body":1}`).problem(401, "", "expired at 2030-01-31T08:00:00Z")
		if got := r.header.Get("WWW-Authenticate"); got != `Bearer error="invalid_token"` {
			t.Errorf("WWW-Authenticate %q", got)
		}
	}
	if n := len(a.jobs.changes()); n != 1 {
		t.Errorf("%d pushes were stored, want 1", n)
	}
}

// However often tokens are used, their uses are stored once a minute, and when the server stops. Uses that could not be
// stored are dropped.
func TestUsesOfTokensAreStoredOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRegistry()
		one, two := f.grant("one", "*", registry.RightRead), f.grant("two", "*", registry.RightRead)
		f.edit(func(s *registry.Snapshot) { s.Tokens[hashOf(one)].ID, s.Tokens[hashOf(two)].ID = 1, 2 })
		s, err := server.New(server.Options{Jobs: newFakeJobs(), Workers: &fakeWorkers{}, Registry: f})
		if err != nil {
			t.Fatal(err)
		}
		stop := serveNobody(t, s)
		use := func(token string) {
			r := httptest.NewRequest(http.MethodGet, orders+"?state=ready", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			s.ServeHTTP(httptest.NewRecorder(), r)
		}
		minute := func(what string, uses ...string) {
			time.Sleep(30 * time.Second)
			for range 3 {
				for _, token := range uses {
					use(token)
				}
			}
			use("wk_unknown")
			time.Sleep(29 * time.Second)
			if early := f.storedUses(); early != nil {
				t.Errorf("%s: stored before the minute was over: %q", what, early)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		expect := func(what string, want ...string) {
			if got := f.storedUses(); !slices.Equal(got, want) {
				t.Errorf("%s: stored %q, want %q", what, got, want)
			}
		}
		// synctest begins at midnight.
		minute("both are used", two, one)
		expect("both are used", "[1 2] 00:01:00")
		minute("none is used")
		expect("none is used")
		f.fail = errors.New("the database is away")
		minute("the database is away", one)
		expect("the database is away")
		f.fail = nil
		minute("one is used", two)
		expect("one is used", "[2] 00:04:00")
		use(one)
		stop()
		expect("the server stops", "[1] 00:04:00")
	})
}

// serveNobody runs a server on a listener without clients, and returns a function that stops it.
func serveNobody(t *testing.T, s *server.Server) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, noConns{make(chan struct{})}) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

type noConns struct{ closed chan struct{} }

func (l noConns) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l noConns) Addr() net.Addr            { return &net.TCPAddr{} }
func (l noConns) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}
