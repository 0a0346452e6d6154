package admin

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry"
)

func TestOnlyAdminsSeeAccess(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for user, want := range map[string]int{"root": http.StatusOK, "ops": http.StatusForbidden,
		"look": http.StatusForbidden} {
		s.as(user)
		if status, _ := s.get("/access"); status != want {
			t.Errorf("%s got %d, want %d", user, status, want)
		}
		if user == "root" {
			continue
		}
		if status, _ := s.post("/access/users", "name", "evil", "password", password, "role",
			"admin"); status != http.StatusForbidden {
			t.Errorf("%s created a user: %d", user, status)
		}
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	if status, body := s.post("/access/users", "name", "new", "password", "short", "role",
		"viewer"); status != http.StatusUnprocessableEntity || !strings.Contains(body, "10 to 72") {
		t.Errorf("a short password got %d\n%s", status, body)
	}
	if status, body := s.post("/access/users", "name", "ops", "password", password, "role",
		"viewer"); status != http.StatusUnprocessableEntity || !strings.Contains(body, "already exists") {
		t.Errorf("a name that is in use got %d\n%s", status, body)
	}
	if status, body := s.post("/access/users", "name", "new", "password", password, "role",
		"viewer"); status != http.StatusOK || !strings.Contains(body, "alert-success") {
		t.Fatalf("a new user got %d\n%s", status, body)
	}
	s.as("new").as("root")
	s.post("/access/users/new/role", "role", "operator")
	if got := s.role("new"); got != account.RoleOperator {
		t.Errorf("the role is %s", got)
	}
	s.post("/access/users/root/role", "role", "viewer")
	if got := s.role("root"); got != account.RoleAdmin {
		t.Error("the last admin lost the role")
	}
	s.post("/access/users/root/delete")
	if s.role("root") == "" {
		t.Error("a user could delete themselves")
	}
	s.post("/access/users/new/delete")
	if s.role("new") != "" {
		t.Error("the user still exists")
	}
	if _, body := s.get("/audit?object=user/new"); !strings.Contains(body, "user/root") ||
		!strings.Contains(body, "set role") {
		t.Errorf("the audit trail is\n%s", body)
	}
}

func (s *site) role(name string) account.Role {
	s.Helper()
	list, err := s.registry.ListUsers(s.Context())
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
	s := open(t, nil).as("ops")
	ops := s.client
	s.as("root").post("/access/users/ops/delete")
	s.client = ops
	if _, body := s.get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("the session is still valid")
	}
}

func TestATokenIsShownOnce(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	status, body := s.post("/access/tokens", "name", `<script>alert(1)</script>`, "rights", "push", "rights", "read",
		"topics", "shop.*, demo")
	found := regexp.MustCompile(`wk_[A-Za-z0-9_-]{43}`).FindString(body)
	if status != http.StatusOK || found == "" {
		t.Fatalf("got %d\n%s", status, body)
	}
	if strings.Contains(body, "<script>alert") {
		t.Error("the name is not escaped")
	}
	if token, ok := s.registry.Snapshot().Token(found); !ok || !token.Allows(registry.RightPush, "shop.close") ||
		token.Allows(registry.RightManage, "demo") {
		t.Errorf("the token is %+v", token)
	}
	_, body = s.get("/access")
	if strings.Contains(body, found) || strings.Contains(body, "<script>alert") {
		t.Error("the access page shows the token, or unescaped text")
	}
	id := regexp.MustCompile(`/access/tokens/(\d+)/revoke`).FindStringSubmatch(body)
	s.post("/access/tokens/" + id[1] + "/revoke")
	if _, ok := s.registry.Snapshot().Token(found); ok {
		t.Error("the token is not revoked")
	}
	if status, body := s.post("/access/tokens", "name", "x", "topics", "*"); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "one or more of push") {
		t.Errorf("a token without rights got %d\n%s", status, body)
	}
}

func TestExpiryAndLastUseOfTokensAreShown(t *testing.T) {
	t.Parallel()
	// Later than now: a session from before the creation of its user is invalid.
	now := time.Now().UTC().Truncate(time.Second).Add(time.Minute)
	s := open(t, func(o *Options) { o.Now = func() time.Time { return now } }).as("root")
	form := []string{"name", "shop", "rights", "push", "topics", "*", "expires"}
	for expires, word := range map[string]string{"soon": "must be a duration", "-1h": "not in the future"} {
		status, body := s.post("/access/tokens", append(form, expires)...)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, word) ||
			!strings.Contains(body, `value="`+expires+`"`) {
			t.Errorf("%s got %d\n%s", expires, status, body)
		}
	}
	at := now.Add(2 * time.Hour).Format("2006-01-02 15:04:05")
	if status, body := s.post("/access/tokens", append(form, " 2h ")...); status != http.StatusOK ||
		!strings.Contains(body, at) {
		t.Fatalf("got %d\n%s", status, body)
	}
	s.post("/access/tokens", append(form, "")...)
	row := func(language string, n int) string {
		_, body := s.post("/language", "choice", language, "back", "/access")
		_, tokens, _ := strings.Cut(body, `id="h-tokens"`)
		return strings.Split(tokens, "<tr>")[n+1]
	}
	for language, words := range map[string][4]string{
		"en": {"never", "expired", ">Expires<", ">Last used<"}, "zh-Hans": {"永不过期", "已过期", ">过期时间<", ">上次使用<"},
	} {
		if head := row(language, 0); !strings.Contains(head, words[2]) || !strings.Contains(head, words[3]) {
			t.Errorf("%s: the head is\n%s", language, head)
		}
		mine, other := row(language, 1), row(language, 2)
		if !strings.Contains(mine, at) || strings.Contains(mine, words[1]) || !strings.Contains(other, words[0]) {
			t.Errorf("%s: the rows are\n%s\n%s", language, mine, other)
		}
	}
	must(t, s.registry.NoteTokenUses(t.Context(), []uint64{s.registry.ListTokens()[0].ID}, now))
	used := now.Truncate(time.Minute).Format(time.RFC3339)
	now = now.Add(2 * time.Hour)
	for language, word := range map[string]string{"en": "expired", "zh-Hans": "已过期"} {
		if mine := row(language, 1); !strings.Contains(mine, word) || !strings.Contains(mine, `datetime="`+used) {
			t.Errorf("%s: the row is\n%s", language, mine)
		}
	}
}

func TestSessionsAreSeenAndEnded(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("look")
	s.get("/")
	look := s.client
	s.as("root").get("/")
	_, body := s.get("/access")
	if strings.Count(body, "/end\"") != 1 {
		t.Fatalf("every session except one's own should have a button:\n%s", body)
	}
	path := regexp.MustCompile(`action="(/access/sessions/[0-9a-f]+/end)"`).FindStringSubmatch(body)
	s.post(path[1])
	s.client = look
	if _, body := s.get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("the session is still valid")
	}
}

func TestChangingThePasswordEndsOtherSessions(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("ops")
	s.get("/")
	other := s.client
	s.as("ops")
	if status, body := s.post("/account/password", "current", "wrong password", "password", "another horse", "again",
		"another horse"); status != http.StatusUnprocessableEntity {
		t.Errorf("a wrong password got %d\n%s", status, body)
	}
	if status, body := s.post("/account/password", "current", password, "password", "another horse", "again",
		"another horse"); status != http.StatusOK || !strings.Contains(body, "alert-success") {
		t.Fatalf("got %d\n%s", status, body)
	}
	s.client = other
	if _, body := s.get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("the other session is still valid")
	}
}

// TestADisabledUserIsOut at once, including open sessions, until the user is enabled again.
func TestADisabledUserIsOut(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("ops")
	ops := s.client
	s.as("root")
	root := s.client
	if _, body := s.post("/access/users/ops/disable"); !strings.Contains(body, "alert-success") ||
		!strings.Contains(body, "disabled") {
		t.Fatalf("disabling got\n%s", body)
	}
	s.client = ops
	if _, body := s.get("/topics"); !strings.Contains(body, `name="password"`) {
		t.Error("the session of a disabled user is still valid")
	}
	if status, _ := s.post("/login", "username", "ops", "password", password); status != http.StatusUnauthorized {
		t.Errorf("a disabled user signed in: %d", status)
	}
	s.client = root
	s.post("/access/users/root/disable")
	if status, _ := s.get("/access"); status != http.StatusOK {
		t.Error("a user could disable themselves")
	}
	s.post("/access/users/ops/enable")
	s.as("ops").as("root")
	if _, body := s.get("/access"); !regexp.MustCompile(`(?s)>ops<.*?127\.0\.0\.1`).MatchString(body) {
		t.Errorf("the page does not show the address from which ops signed in\n%s", body)
	}
}
