package admin

import (
	"net/http"
	"strings"
	"testing"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	if status, body := s.get("/topics"); status != http.StatusOK || !strings.Contains(body, `name="password"`) {
		t.Fatalf("without a session: %d\n%s", status, body)
	}
	if status, body := s.post("/login", "username", "root", "password",
		"wrong password"); status != http.StatusUnauthorized ||
		!strings.Contains(body, "Wrong user name or password.") {
		t.Errorf("a wrong password got %d\n%s", status, body)
	}
	s.as("root")
	if status, body := s.get("/"); status != http.StatusOK || !strings.Contains(body, "/logout") {
		t.Fatalf("root got %d\n%s", status, body)
	}
	if status, body := s.get("/nowhere"); status != http.StatusNotFound || !strings.Contains(body, "/logout") {
		t.Errorf("a page that does not exist got %d\n%s", status, body)
	}
	s.post("/logout")
	if _, body := s.get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("signing out did not end the session")
	}
}

func TestChangesFromOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	r, _ := http.NewRequest(http.MethodPost, s.url+"/logout", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	res, err := http.Get(s.url + "/login")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Cache-Control": "no-store"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if csp := res.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") ||
		strings.Contains(csp, "unsafe") {
		t.Errorf("the policy is %q", csp)
	}
}

func TestBasePath(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.BasePath = "/wakecall" }).as("look")
	if res, err := http.Get(strings.TrimSuffix(s.url, "/wakecall") + "/topics"); err != nil ||
		res.StatusCode != http.StatusNotFound {
		t.Errorf("outside of the base path: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	if status, body := s.get("/topics"); status != http.StatusOK || strings.Contains(body, `href="/topics"`) ||
		!strings.Contains(body, `href="/wakecall/topics"`) {
		t.Errorf("got %d\n%s", status, body)
	}
}

func TestLanguageAndTheme(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("look")
	s.post("/language", "choice", "zh-Hans", "back", "/topics")
	s.post("/theme", "choice", "dark", "back", "/topics")
	if _, body := s.get("/topics"); !strings.Contains(body, `lang="zh-Hans"`) ||
		!strings.Contains(body, `data-bs-theme="dark"`) {
		t.Errorf("got\n%.400s", body)
	}
}
