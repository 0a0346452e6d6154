package page_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
)

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	res, err := http.Get(s.URL + "/login")
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
	s := admintest.Open(t, func(o *admin.Options) { o.BasePath = "/wakecall" }).As("look")
	if res, err := http.Get(strings.TrimSuffix(s.URL, "/wakecall") + "/topics"); err != nil ||
		res.StatusCode != http.StatusNotFound {
		t.Errorf("outside of the base path: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	if status, body := s.Get("/topics"); status != http.StatusOK || strings.Contains(body, `href="/topics"`) ||
		!strings.Contains(body, `href="/wakecall/topics"`) {
		t.Errorf("got %d\n%s", status, body)
	}
}
