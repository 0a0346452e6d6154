package signin

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/oidctest"
)

func open(t *testing.T, o Options) *Provider {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestAnAttemptEnds after ten minutes, wherever the browser has been.
func TestAnAttemptEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := open(t, Options{Issuer: oidctest.Start(t).URL, Now: func() time.Time { return now }})
	_, a, err := p.Begin(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(attemptLife + time.Second)
	if _, err := p.Finish(t.Context(), a, url.Values{"state": {a.State}}); !errors.Is(err, ErrOtherBegun) {
		t.Errorf("got %v", err)
	}
	if _, err := p.Finish(t.Context(), Attempt{}, url.Values{}); !errors.Is(err, ErrOtherBegun) {
		t.Errorf("without an attempt: %v", err)
	}
}

// TestABadProviderIsUnreachable: its answer is too long, is for another issuer, or is not JSON.
func TestABadProviderIsUnreachable(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"long": `{"issuer":"` + strings.Repeat("x", maxAnswer) + `"}`, "other": `{"issuer":"https://other.example.com"}`,
		"text": "<html>welcome</html>",
	} {
		requests := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(srv.Close)
		p := open(t, Options{Issuer: srv.URL})
		for range 3 {
			if _, _, err := p.Begin(t.Context(), "/"); !errors.Is(err, ErrUnreachable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if requests != 1 {
			t.Errorf("%s: %d requests at once", name, requests)
		}
	}
}

func TestAuthoritiesOfAFile(t *testing.T) {
	t.Parallel()
	provider := oidctest.Start(t)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"issuer":"https://` + r.Host + `","authorization_endpoint":"x","token_endpoint":"x"}`))
	}))
	srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	if err := open(t, Options{Issuer: srv.URL}).Discover(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("without its authority: %v", err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Options{Issuer: srv.URL, CAFile: file}).Discover(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{file, "/nowhere.pem"} {
		if _, err := New(Options{Issuer: provider.URL, CAFile: file}); err == nil ||
			!strings.Contains(err.Error(), "admin.oidc.ca_file") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
