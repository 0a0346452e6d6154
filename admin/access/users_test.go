package access_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/account"
)

func TestOnlyAdminsSeeAccess(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	for user, want := range map[string]int{"root": http.StatusOK, "ops": http.StatusForbidden,
		"look": http.StatusForbidden} {
		s.As(user)
		if status, _ := s.Get("/access"); status != want {
			t.Errorf("%s got %d, want %d", user, status, want)
		}
		if user == "root" {
			continue
		}
		if status, _ := s.Post("/access/users", "name", "evil", "password", admintest.Password, "role",
			"admin"); status != http.StatusForbidden {
			t.Errorf("%s created a user: %d", user, status)
		}
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	if status, body := s.Post("/access/users", "name", "new", "password", "short", "role",
		"viewer"); status != http.StatusUnprocessableEntity || !strings.Contains(body, "10 to 72") {
		t.Errorf("a short password got %d\n%s", status, body)
	}
	if status, body := s.Post("/access/users", "name", "ops", "password", admintest.Password, "role",
		"viewer"); status != http.StatusUnprocessableEntity || !strings.Contains(body, "already exists") {
		t.Errorf("a name that is in use got %d\n%s", status, body)
	}
	if status, body := s.Post("/access/users", "name", "new", "password", admintest.Password, "role",
		"viewer"); status != http.StatusOK || !strings.Contains(body, "alert-success") {
		t.Fatalf("a new user got %d\n%s", status, body)
	}
	s.As("new").As("root")
	s.Post("/access/users/new/role", "role", "operator")
	if got := role(s, "new"); got != account.RoleOperator {
		t.Errorf("the role is %s", got)
	}
	s.Post("/access/users/root/role", "role", "viewer")
	if got := role(s, "root"); got != account.RoleAdmin {
		t.Error("the last admin lost the role")
	}
	s.Post("/access/users/root/delete")
	if role(s, "root") == "" {
		t.Error("a user could delete themselves")
	}
	s.Post("/access/users/new/delete")
	if role(s, "new") != "" {
		t.Error("the user still exists")
	}
	if _, body := s.Get("/audit?object=user/new"); !strings.Contains(body, "user/root") ||
		!strings.Contains(body, "set role") {
		t.Errorf("the audit trail is\n%s", body)
	}
}

func role(s *admintest.Site, name string) account.Role {
	s.Helper()
	list, err := s.Registry.ListUsers(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, u := range list {
		if u.Name == name {
			return u.Role
		}
	}
	return ""
}

func TestADeletedUserIsOut(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("ops")
	ops := s.Client
	s.As("root").Post("/access/users/ops/delete")
	s.Client = ops
	if _, body := s.Get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("the session is still valid")
	}
}

// TestADisabledUserIsOut at once, including open sessions, until the user is enabled again.
func TestADisabledUserIsOut(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("ops")
	ops := s.Client
	s.As("root")
	root := s.Client
	if _, body := s.Post("/access/users/ops/disable"); !strings.Contains(body, "alert-success") ||
		!strings.Contains(body, "disabled") {
		t.Fatalf("disabling got\n%s", body)
	}
	s.Client = ops
	if _, body := s.Get("/topics"); !strings.Contains(body, `name="password"`) {
		t.Error("the session of a disabled user is still valid")
	}
	if status, _ := s.Post("/login", "username", "ops", "password",
		admintest.Password); status != http.StatusUnauthorized {
		t.Errorf("a disabled user signed in: %d", status)
	}
	s.Client = root
	s.Post("/access/users/root/disable")
	if status, _ := s.Get("/access"); status != http.StatusOK {
		t.Error("a user could disable themselves")
	}
	s.Post("/access/users/ops/enable")
	s.As("ops").As("root")
	if _, body := s.Get("/access"); !regexp.MustCompile(`(?s)>ops<.*?127\.0\.0\.1`).MatchString(body) {
		t.Errorf("the page does not show the address from which ops signed in\n%s", body)
	}
}

// TestARoleChangesWithItsButton, after a confirmation, and not when its select changes.
func TestARoleChangesWithItsButton(t *testing.T) {
	t.Parallel()
	body := admintest.Open(t, nil).As("root").Shows("/access")
	_, form, _ := strings.Cut(body, `action="/access/users/ops/role"`)
	form, _, _ = strings.Cut(form, "</form>")
	if !strings.Contains(form, `data-confirm="`) || !strings.Contains(form, "<button") ||
		strings.Contains(form, "data-submit") {
		t.Errorf("the form of a role is\n%s", form)
	}
}
