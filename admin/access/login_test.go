package access_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	if status, body := s.Get("/topics"); status != http.StatusOK || !strings.Contains(body, `name="password"`) {
		t.Fatalf("without a session: %d\n%s", status, body)
	}
	if status, body := s.Post("/login", "username", "root", "password",
		"wrong password"); status != http.StatusUnauthorized ||
		!strings.Contains(body, "Wrong user name or password.") {
		t.Errorf("a wrong password got %d\n%s", status, body)
	}
	s.As("root")
	if status, body := s.Get("/"); status != http.StatusOK || !strings.Contains(body, "/logout") {
		t.Fatalf("root got %d\n%s", status, body)
	}
	if status, body := s.Get("/nowhere"); status != http.StatusNotFound || !strings.Contains(body, "/logout") {
		t.Errorf("a page that does not exist got %d\n%s", status, body)
	}
	s.Post("/logout")
	if _, body := s.Get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("signing out did not end the session")
	}
}

// TestTheSixthWrongPasswordWaits, and an unknown name costs the same work as a known one.
func TestTheSixthWrongPasswordWaits(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	for _, name := range []string{"root", "nobody-of-this-name"} {
		for n := 1; n <= 6; n++ {
			want := http.StatusUnauthorized
			if n == 6 {
				want = http.StatusTooManyRequests
			}
			if status, _ := s.Post("/login", "username", name, "password", fmt.Sprint("wrong ", n)); status != want {
				t.Errorf("attempt %d as %s got %d, want %d", n, name, status, want)
			}
		}
	}
	if status, _ := s.Post("/login", "username", "root", "password",
		admintest.Password); status != http.StatusTooManyRequests {
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
	s := admintest.Open(t, func(o *admin.Options) { o.Proxies = []*net.IPNet{loopback} })
	from := func(address, pass string) int {
		s.Client = admintest.NewClient()
		s.Client.Transport = fromAddress(address)
		status, _ := s.Post("/login", "username", "root", "password", pass)
		return status
	}
	if status := from("10.0.0.5", admintest.Password); status != http.StatusOK {
		t.Fatalf("the first sign-in got %d", status)
	}
	for n := range 105 { // from enough addresses that the whole account must wait
		from(fmt.Sprintf("203.0.113.%d", n), "wrong password")
	}
	if status := from("203.0.113.200", admintest.Password); status != http.StatusTooManyRequests {
		t.Errorf("one guesser more got %d", status)
	}
	if status := from("10.0.0.5", admintest.Password); status != http.StatusOK {
		t.Errorf("the user, from where they signed in before, got %d", status)
	}
}

// TestALimitHasNoWayAround: spaces that a database ignores make no new account, addresses of one network count as one,
// and a name of megabytes is neither stored nor logged.
func TestALimitHasNoWayAround(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	s := admintest.Open(t, func(o *admin.Options) { o.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	if status, _ := s.Post("/login", "username", "root ", "password",
		admintest.Password); status != http.StatusUnauthorized {
		t.Errorf("root with a space got %d", status)
	}
	s.Post("/login", "username", strings.Repeat("x\n", 1<<20), "password", "wrong password")
	if logged.Len() > 2000 || strings.Count(logged.String(), "\n") != 2 {
		t.Errorf("two failed sign-ins are %d bytes and %d lines of the log", logged.Len(),
			strings.Count(logged.String(), "\n"))
	}
}

// TestSigningInBeginsANewSession: a cookie that an attacker planted before is invalid afterwards.
func TestSigningInBeginsANewSession(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.Post("/login", "username", "root", "password", "wrong password")
	s.Post("/language", "choice", "zh-Hans", "back", "/login") // starts a session before the sign-in
	before := map[string]string{}
	for _, c := range s.Client.Jar.Cookies(base) {
		before[c.Name] = c.Value
	}
	if status, _ := s.Post("/login", "username", "root", "password", admintest.Password); status != http.StatusOK {
		t.Fatalf("signing in got %d", status)
	}
	var planted []*http.Cookie
	for _, c := range s.Client.Jar.Cookies(base) {
		if strings.Contains(c.Name, "session") && before[c.Name] == c.Value {
			t.Errorf("the cookie %s was not replaced", c.Name)
		}
	}
	for name, value := range before {
		planted = append(planted, &http.Cookie{Name: name, Value: value, Path: "/"})
	}
	s.Client = admintest.NewClient()
	s.Client.Jar, _ = cookiejar.New(nil)
	s.Client.Jar.SetCookies(base, planted)
	if _, body := s.Get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("the cookie from before the sign-in is signed in")
	}
}
