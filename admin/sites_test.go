package admin_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/conf"
)

func TestChangesFromOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	r, _ := http.NewRequest(http.MethodPost, s.URL+"/logout", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := s.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestEveryChangeFromAnotherSiteIsRefused on every route, by the headers that browsers send: Sec-Fetch-Site, or an
// Origin other than the host.
func TestEveryChangeFromAnotherSiteIsRefused(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	for _, path := range []string{"/login", "/logout", "/topics", "/topics/x/delete", "/push", "/access/tokens",
		"/alerts/mail", "/shards", "/nowhere"} {
		for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
			r, _ := http.NewRequest(http.MethodPost, s.URL+path, strings.NewReader("a=b"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(name, value)
			res, err := s.Client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("POST %s with %s: %s got %d", path, name, value, res.StatusCode)
			}
		}
	}
}

// TestChangesFromThePublicURLAreAccepted: a proxy without TLS may replace the Host, and browsers then send no
// Sec-Fetch-Site.
func TestChangesFromThePublicURLAreAccepted(t *testing.T) {
	t.Parallel()
	for public, origin := range map[string]string{
		"http://Wakecall.example.com:80/admin/": "http://wakecall.example.com",
		"https://wakecall.example.com":          "https://wakecall.example.com",
		"http://[::1]:8080/":                    "http://[::1]:8080",
	} {
		s := admintest.Open(t, func(o *admin.Options) {
			o.Config = conf.Default()
			o.Config.Admin.PublicURL = public
		})
		for from, want := range map[string]int{origin: http.StatusUnauthorized, origin + ".evil.example": http.StatusForbidden} {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/login", strings.NewReader("name=x&password=y"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", from)
			if status, _ := s.Send(r); status != want {
				t.Errorf("%s: a login from %s got %d, want %d", public, from, status, want)
			}
		}
	}
}

// TestEveryChangeComesFromThisSite: a browser's request from another site gets 403 on every registered route, for a
// signed-in admin and for the sign-in itself, whatever its headers say about its origin.
func TestEveryChangeComesFromThisSite(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/wakecall"} {
		s := admintest.Open(t, func(o *admin.Options) { o.BasePath = base + "/" }).As("root")
		s.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		host := strings.TrimPrefix(strings.TrimSuffix(s.URL, base), "http://")
		foreign := []map[string]string{
			{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
			{"Sec-Fetch-Site": "cross-site", "Origin": "http://" + host},
			{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://" + host + ".evil.example"},
			{"Origin": "http://evil.example/" + host},
			{"Sec-Fetch-Site": "nonsense"},
		}
		for _, route := range changes(s) {
			for _, headers := range foreign {
				r, err := http.NewRequestWithContext(t.Context(), route[0], s.URL+at(strings.TrimPrefix(route[1],
					base)),
					strings.NewReader("a=b"))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				for name, value := range headers {
					r.Header.Set(name, value)
				}
				if status, _ := s.Send(r); status != http.StatusForbidden {
					t.Errorf("%s %s with %v: %d", route[0], route[1], headers, status)
				}
			}
		}
		if status, _ := s.Get("/account"); status != http.StatusOK {
			t.Errorf("the session ended meanwhile: %d", status)
		}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/theme",
			strings.NewReader("choice=dark"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+host)
		if status, _ := s.Send(r); status != http.StatusSeeOther {
			t.Errorf("a change from this site: %d", status)
		}
	}
}

// TestHalfOpenBrowsersKeepNobodyOut: 2,000 connections that send nothing, half a header or half a body, while a normal
// client is served.
func TestHalfOpenBrowsersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	addr := serving(t)
	begins := []string{"", "G", "POST /login HTTP/1.1\r\nHost: x\r\nX-",
		"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n" +
			"Content-Length: 100\r\n\r\nu"}
	var first []net.Conn
	for i := range 2000 {
		c := dial(t, addr)
		if _, err := c.Write([]byte(begins[i%len(begins)])); err != nil {
			t.Fatal(err)
		}
		if i < len(begins)-1 {
			first = append(first, c)
		}
	}
	browse(t, addr)
	for i, c := range first { // they are closed for later connections, or by their timeout
		_ = c.SetReadDeadline(time.Now().Add(40 * time.Second))
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection that sent %q is still open", begins[i])
		}
	}
}

// TestIdleBrowsersKeepNobodyOut: idle kept connections are closed for others long before their own timeout.
func TestIdleBrowsersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	addr := serving(t)
	began := time.Now()
	for range admin.MaxConns {
		c := dial(t, addr)
		if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	browse(t, addr)
	if took := time.Since(began); took > admin.IdleTimeout {
		t.Skipf("this machine took %s, after which they would have ended anyway", took)
	}
}

// serving runs an admin as its process does, until the test ends.
func serving(t *testing.T) (addr string) {
	t.Helper()
	s := admintest.Open(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Admin.Run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// browse requests a page as a normal client, well before a kept connection times out.
func browse(t *testing.T, addr string) {
	t.Helper()
	client := &http.Client{Timeout: 40 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + addr + "/login")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("a normal client got %d", res.StatusCode)
	}
}
