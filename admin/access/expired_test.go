package access_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/account"
)

// TestAFormSurvivesItsSession: a form that is sent after the session has expired is available again after the login.
func TestAFormSurvivesItsSession(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	store := account.NewSessions(s.Registry.DB())
	sessions, err := store.All(t.Context())
	admintest.Must(t, err)
	for token := range sessions {
		_, err := store.Delete(t.Context(), token)
		admintest.Must(t, err)
	}
	typed := admintest.TopicForm("name", "shop.mail", "title", "Typed for ten minutes",
		"headers", "Authorization: Bearer hunter2")
	status, body := s.Post("/topics/-/new", append(typed, "password", "do not keep me")...)
	if status != http.StatusUnauthorized || !strings.Contains(body, "Your session expired") ||
		strings.Contains(body, "hunter2") || strings.Contains(body, "do not keep me") {
		t.Fatalf("%d\n%s", status, body)
	}
	kept := []string{"username", "root", "password", admintest.Password}
	for _, field := range regexp.MustCompile(`name="(kept[^"]*)" value="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		kept = append(kept, field[1], html.UnescapeString(field[2]))
	}
	if status, body = s.Post("/login", kept...); status != http.StatusOK ||
		!strings.Contains(body, `action="/topics/-/new"`) || strings.Contains(body, "do not keep me") ||
		!strings.Contains(body, `name="headers" value="Authorization: Bearer hunter2"`) ||
		!strings.Contains(body, `name="title" value="Typed for ten minutes"`) {
		t.Errorf("after the login: %d\n%s", status, body)
	}
}

// TestAPageOutlivesItsSession: a part that a page requests after the session has ended does not replace the page, in
// which something may be typed, but says so at its top. So does an error in what a form of the page sends.
func TestAPageOutlivesItsSession(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	for _, role := range []string{"", "look"} {
		want, says := http.StatusUnauthorized, `href="/login"`
		if role != "" {
			s.As(role)
			want, says = http.StatusForbidden, "Requires the role admin."
		}
		res, body := s.Part("/alerts/mail", "mail.host", "h")
		if h := res.Header; res.StatusCode != want || h.Get("HX-Redirect") != "" ||
			h.Get("HX-Retarget") != "#wk-flash" ||
			h.Get("HX-Reselect") == "" || !strings.Contains(body, says) {
			t.Errorf("as %q: %d %v\n%s", role, res.StatusCode, h, body)
		}
	}
}
