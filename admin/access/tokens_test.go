package access_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry"
)

func TestATokenIsShownOnce(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	status, body := s.Post("/access/tokens", "name", `<script>alert(1)</script>`, "rights", "push", "rights", "read",
		"topics", "shop.*, demo")
	found := regexp.MustCompile(`wk_[A-Za-z0-9_-]{43}`).FindString(body)
	if status != http.StatusOK || found == "" {
		t.Fatalf("got %d\n%s", status, body)
	}
	if strings.Contains(body, "<script>alert") {
		t.Error("the name is not escaped")
	}
	if token, ok := s.Registry.Snapshot().Token(found); !ok || !token.Allows(registry.RightPush, "shop.close") ||
		token.Allows(registry.RightManage, "demo") {
		t.Errorf("the token is %+v", token)
	}
	_, body = s.Get("/access")
	if strings.Contains(body, found) || strings.Contains(body, "<script>alert") {
		t.Error("the access page shows the token, or unescaped text")
	}
	id := regexp.MustCompile(`/access/tokens/(\d+)/revoke`).FindStringSubmatch(body)
	s.Post("/access/tokens/" + id[1] + "/revoke")
	if _, ok := s.Registry.Snapshot().Token(found); ok {
		t.Error("the token is not revoked")
	}
	if status, body := s.Post("/access/tokens", "name", "x", "topics", "*"); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "one or more of push") {
		t.Errorf("a token without rights got %d\n%s", status, body)
	}
}

func TestQuotasAreSetWithATokenAndLater(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) {
		o.TokenUses = func(_ context.Context, list []*registry.Token) map[uint64]*registry.Quotas {
			uses := map[uint64]*registry.Quotas{}
			for _, t := range list {
				uses[t.ID] = &registry.Quotas{PushesPerSecond: 3, WaitingJobs: 1234}
			}
			return uses
		}
	}).As("root")
	form := []string{"name", "shop", "rights", "push", "topics", "*", "waiting_jobs", "5000", "pushes_per_second"}
	if status, body := s.Post("/access/tokens", append(form, "-1")...); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "must be between 0 and") || !strings.Contains(body, `value="5000"`) {
		t.Errorf("a wrong quota: %d\n%s", status, body)
	}
	s.Post("/access/tokens", append(form, "200")...)
	s.Shows("/access", "200 pushes/s", "5,000 waiting jobs", "now: 3 pushes/s, 1,234 waiting")
	to := fmt.Sprintf("/access/tokens/%d/quotas", s.Registry.ListTokens()[0].ID)
	for quota, says := range map[string]string{"many": "is not a number", "-1": "must be between 0 and"} {
		if status, body := s.Post(to, "pushes_per_second", quota); status != http.StatusOK || !strings.Contains(body, says) {
			t.Errorf("%s: %d\n%s", quota, status, body)
		}
	}
	s.Post(to, "pushes_per_second", "", "waiting_jobs", "7")
	if q := s.Registry.ListTokens()[0].Quotas; q == nil || *q != (registry.Quotas{WaitingJobs: 7}) {
		t.Errorf("changed to %+v", q)
	}
}

func TestExpiryAndLastUseOfTokensAreShown(t *testing.T) {
	t.Parallel()
	// Later than now: a session from before the creation of its user is invalid.
	now := time.Now().UTC().Truncate(time.Second).Add(time.Minute)
	s := admintest.Open(t, func(o *admin.Options) { o.Now = func() time.Time { return now } }).As("root")
	form := []string{"name", "shop", "rights", "push", "topics", "*", "expires_at"}
	for expires, word := range map[string]string{"soon": "must be a duration", "-1h": "not in the future"} {
		status, body := s.Post("/access/tokens", append(form, expires)...)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, word) ||
			!strings.Contains(body, `value="`+expires+`"`) {
			t.Errorf("%s got %d\n%s", expires, status, body)
		}
	}
	at := now.Add(2 * time.Hour).Format("2006-01-02 15:04:05")
	if status, body := s.Post("/access/tokens", append(form, " 2h ")...); status != http.StatusOK ||
		!strings.Contains(body, at) {
		t.Fatalf("got %d\n%s", status, body)
	}
	s.Post("/access/tokens", append(form, "")...)
	row := func(language string, n int) string {
		_, body := s.Post("/language", "choice", language, "back", "/access")
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
	admintest.Must(t, s.Registry.NoteTokenUses(t.Context(), []uint64{s.Registry.ListTokens()[0].ID}, now))
	used := now.Truncate(time.Minute).Format(time.RFC3339)
	now = now.Add(2 * time.Hour)
	for language, word := range map[string]string{"en": "expired", "zh-Hans": "已过期"} {
		if mine := row(language, 1); !strings.Contains(mine, word) || !strings.Contains(mine, `datetime="`+used) {
			t.Errorf("%s: the row is\n%s", language, mine)
		}
	}
}

// TestANewTokenIsMadeOnceAndShownOnce: the page that shows it can be reloaded without creating another token, and the
// database never contains it.
func TestANewTokenIsMadeOnceAndShownOnce(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	s.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, body := s.Post("/access/tokens", "name", "shop", "rights", "push", "topics", "*"); status !=
		http.StatusSeeOther {
		t.Fatalf("status %d, so a reload would send the form again\n%s", status, body)
	}
	id := fmt.Sprint(s.Registry.ListTokens()[0].ID)
	sessions, err := account.NewSessions(s.Registry.DB()).All(t.Context())
	admintest.Must(t, err)
	_, body := s.Get("/access/tokens/" + id)
	secret := regexp.MustCompile(`value="(wk_[^"]+)"`).FindStringSubmatch(body)
	if len(secret) == 0 {
		t.Fatalf("the token is not shown\n%s", body)
	}
	for _, session := range sessions {
		if strings.Contains(string(session), secret[1]) {
			t.Error("a session in the database has the token")
		}
	}
	if status, body := s.Get("/access/tokens/" + id); status != http.StatusSeeOther || strings.Contains(body,
		secret[1]) {
		t.Errorf("the second time it is %d\n%s", status, body)
	}
	if n := len(s.Registry.ListTokens()); n != 1 {
		t.Errorf("there are %d tokens", n)
	}
}
