package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/account"
)

// TestTheSixthWrongPasswordWaits, and an unknown name costs the same work as a known one.
func TestTheSixthWrongPasswordWaits(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, name := range []string{"root", "nobody-of-this-name"} {
		for n := 1; n <= 6; n++ {
			want := http.StatusUnauthorized
			if n == 6 {
				want = http.StatusTooManyRequests
			}
			if status, _ := s.post("/login", "username", name, "password", fmt.Sprint("wrong ", n)); status != want {
				t.Errorf("attempt %d as %s got %d, want %d", n, name, status, want)
			}
		}
	}
	if status, _ := s.post("/login", "username", "root", "password", password); status != http.StatusTooManyRequests {
		t.Errorf("the right password after six wrong ones got %d", status)
	}
}

// fromAddress is a browser behind a trusted proxy.
type fromAddress string

func (a fromAddress) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Forwarded-For", string(a))
	return http.DefaultTransport.RoundTrip(r)
}

// TestGuessingLocksNoUserOut: guessers must wait, while the user can sign in from elsewhere.
func TestGuessingLocksNoUserOut(t *testing.T) {
	t.Parallel()
	_, loopback, err := net.ParseCIDR("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(o *Options) { o.TrustedProxies = []*net.IPNet{loopback} })
	from := func(address, pass string) int {
		s.client = newClient()
		s.client.Transport = fromAddress(address)
		status, _ := s.post("/login", "username", "root", "password", pass)
		return status
	}
	if status := from("10.0.0.5", password); status != http.StatusOK {
		t.Fatalf("the first sign-in got %d", status)
	}
	for n := range 105 { // from enough addresses that the whole account must wait
		from(fmt.Sprintf("203.0.113.%d", n), "wrong password")
	}
	if status := from("203.0.113.200", password); status != http.StatusTooManyRequests {
		t.Errorf("one guesser more got %d", status)
	}
	if status := from("10.0.0.5", password); status != http.StatusOK {
		t.Errorf("the user, from where they signed in before, got %d", status)
	}
}

// TestALimitHasNoWayAround: spaces that a database ignores make no new account, addresses of one network count as one,
// and a name of megabytes is neither stored nor logged.
func TestALimitHasNoWayAround(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	s := open(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	if status, _ := s.post("/login", "username", "root ", "password", password); status != http.StatusUnauthorized {
		t.Errorf("root with a space got %d", status)
	}
	s.post("/login", "username", strings.Repeat("x\n", 1<<20), "password", "wrong password")
	if logged.Len() > 2000 || strings.Count(logged.String(), "\n") != 2 {
		t.Errorf("two failed sign-ins are %d bytes and %d lines of the log", logged.Len(),
			strings.Count(logged.String(), "\n"))
	}
}

// TestAnEarlierUsersSessionHasNoStream: a deleted user gets no live updates, even after another user gets the name.
func TestAnEarlierUsersSessionHasNoStream(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(-time.Hour)
	s := open(t, func(o *Options) { o.Now = func() time.Time { return now } }).as("look")
	now = time.Now().Add(time.Hour) // the cached users are outdated, and the session is an hour old
	if err := errors.Join(s.registry.DeleteUser(t.Context(), "test", "look"),
		s.registry.CreateUser(t.Context(), "test", "look", password, account.RoleAdmin)); err != nil {
		t.Fatal(err)
	}
	if status, _ := s.get("/events?on=strip"); status != http.StatusNoContent {
		t.Errorf("the stream of an earlier user got %d", status)
	}
	if _, body := s.get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("an earlier user's session is signed in")
	}
}

// TestSigningInBeginsANewSession: a cookie that an attacker planted before is invalid afterwards.
func TestSigningInBeginsANewSession(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	base, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	s.post("/login", "username", "root", "password", "wrong password")
	s.post("/language", "choice", "zh-Hans", "back", "/login") // starts a session before the sign-in
	before := map[string]string{}
	for _, c := range s.client.Jar.Cookies(base) {
		before[c.Name] = c.Value
	}
	if status, _ := s.post("/login", "username", "root", "password", password); status != http.StatusOK {
		t.Fatalf("signing in got %d", status)
	}
	var planted []*http.Cookie
	for _, c := range s.client.Jar.Cookies(base) {
		if strings.Contains(c.Name, "session") && before[c.Name] == c.Value {
			t.Errorf("the cookie %s was not replaced", c.Name)
		}
	}
	for name, value := range before {
		planted = append(planted, &http.Cookie{Name: name, Value: value, Path: "/"})
	}
	s.client = newClient()
	s.client.Jar, _ = cookiejar.New(nil)
	s.client.Jar.SetCookies(base, planted)
	if _, body := s.get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("the cookie from before the sign-in is signed in")
	}
}

// TestEveryChangeFromAnotherSiteIsRefused on every route, by the headers that browsers send: Sec-Fetch-Site, or an
// Origin other than the host.
func TestEveryChangeFromAnotherSiteIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	for _, path := range []string{"/login", "/logout", "/topics", "/topics/x/delete", "/push", "/access/tokens",
		"/alerts/mail", "/shards", "/nowhere"} {
		for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
			r, _ := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader("a=b"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(name, value)
			res, err := s.client.Do(r)
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

// TestHalfOpenBrowsersKeepNobodyOut: 2,000 connections that send nothing, half a header or half a body, while a normal
// client is served.
func TestHalfOpenBrowsersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	addr := serving(t)
	begins := []string{"", "G", "POST /login HTTP/1.1\r\nHost: x\r\nX-",
		"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nu"}
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
	for range maxConns {
		c := dial(t, addr)
		if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	browse(t, addr)
	if took := time.Since(began); took > idleTimeout {
		t.Skipf("this machine took %s, after which they would have ended anyway", took)
	}
}

// serving runs an admin as its process does, until the test ends.
func serving(t *testing.T) (addr string) {
	t.Helper()
	s := open(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.admin.Run(ctx, l) }()
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

// TestHostileWordsAreInert: untrusted text is text on every page that shows it, never markup.
func TestHostileWordsAreInert(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	const evil = `"'><script>alert(1)</script><img src=x onerror=alert(1)>`
	escaped := url.QueryEscape(evil)
	for _, path := range []string{
		"/topics?q=" + escaped, "/topics/" + url.PathEscape(evil), "/topics/x/jobs/" + url.PathEscape(evil),
		"/search?id=" + escaped, "/dead?q=" + escaped,
		"/audit?q=" + escaped, "/login?next=" + escaped, "/push?topic=" + escaped, "/" + url.PathEscape(evil),
		"/topics?sort=" + escaped + "&page=" + escaped,
	} {
		if _, body := s.get(path); strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") {
			t.Errorf("%s shows markup from the request", path)
		}
	}
	s.client = newClient()
	if _, body := s.post("/login", "username", evil, "password", "wrong password", "next", evil); strings.Contains(body,
		"<script>alert") {
		t.Error("the sign-in shows a name as markup")
	}
}
