package admin

import (
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry"
)

// withFactor signs in and sets up a second factor.
func (s *site) withFactor(name string) *site {
	s.Helper()
	_, body := s.as(name).post("/account/totp/begin")
	found := regexp.MustCompile(`id="totp-secret">([A-Z2-7]+)<`).FindStringSubmatch(body)
	if found == nil {
		s.Fatalf("there is no secret to scan:\n%s", body)
	}
	code, err := totp.GenerateCode(found[1], time.Now())
	must(s.T, err)
	if status, body := s.post("/account/totp/finish", "code", code); status != http.StatusOK || !s.asksForCode(name) {
		s.Fatalf("got %d\n%s", status, body)
	}
	return s
}

// asksForCode reports whether the password alone is not enough to sign in.
func (s *site) asksForCode(name string) bool {
	s.Helper()
	secret, err := s.registry.TOTPSecret(s.Context(), name)
	must(s.T, err)
	return secret != ""
}

// TestASecondFactorIsRemovedByThePassword, or by an admin: access to an open browser is not enough.
func TestASecondFactorIsRemovedByThePassword(t *testing.T) {
	t.Parallel()
	s := open(t, nil).withFactor("ops")
	for _, current := range []string{"", "wrong password"} {
		status, body := s.post("/account/totp/clear", "current", current)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, "invalid-feedback") ||
			!s.asksForCode("ops") {
			t.Errorf("the password %q: %d", current, status)
		}
	}
	if status, body := s.post("/account/totp/clear", "current", password); status != http.StatusOK ||
		!strings.Contains(body, "alert-success") || s.asksForCode("ops") {
		t.Errorf("the password: %d", status)
	}
	must(t, s.registry.SetTOTP(t.Context(), "test", "ops", "JBSWY3DPEHPK3PXP"))
	s.as("root")
	if status, body := s.post("/access/users/ops/totp"); status != http.StatusOK ||
		!strings.Contains(body, "alert-success") || s.asksForCode("ops") {
		t.Errorf("an admin: %d", status)
	}
	must(t, s.registry.SetTOTP(t.Context(), "test", "root", "JBSWY3DPEHPK3PXP"))
	for _, own := range []string{"totp", "password"} { // without the current password
		_, body := s.post("/access/users/root/"+own, "password", "another horse")
		if !strings.Contains(body, "alert-danger") || !s.asksForCode("root") {
			t.Errorf("an admin's own %s is changed without the current password", own)
		}
	}
	if _, body := s.post("/access/users/none/totp"); !strings.Contains(body, "alert-danger") {
		t.Errorf("of an unknown user:\n%s", body)
	}
}

// TestNobodyEndsSessionsOfOthers by their ids, and users end their own only one at a time.
func TestNobodyEndsSessionsOfOthers(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	s.get("/")
	root := s.client
	s.as("ops").get("/")
	first := s.client
	s.as("ops").get("/")
	ends := regexp.MustCompile(`action="(/account/sessions/[0-9a-f]+/end)"`)
	ids := regexp.MustCompile(`action="/access(/sessions/[0-9a-f]+/end)"`)
	second := s.client
	s.client = root
	_, access := s.get("/access")
	var all []string
	for _, found := range ids.FindAllStringSubmatch(access, -1) {
		all = append(all, "/account"+found[1])
	}
	s.client = second
	_, account := s.get("/account")
	mine := ends.FindAllStringSubmatch(account, -1)
	if len(mine) != 1 || len(all) != 2 {
		t.Fatalf("%d sessions can be ended here, %d by the admin", len(mine), len(all))
	}
	s.as("look")
	for _, path := range all {
		s.post(path)
	}
	signedIn := func(c *http.Client) bool {
		s.client = c
		_, body := s.get("/")
		return !strings.Contains(body, `name="password"`)
	}
	if !signedIn(first) || !signedIn(second) || !signedIn(root) {
		t.Error("a viewer ended sessions of others")
	}
	s.client = second
	s.post(mine[0][1])
	if signedIn(first) || !signedIn(second) {
		t.Errorf("the other session is valid: %t, this one: %t", signedIn(first), signedIn(second))
	}
}

// TestAWebhookIsTried with a test message, and its error is shown without its address.
func TestAWebhookIsTried(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	bodies := make(chan string, 2)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "invalid_token")
	}))
	defer hook.Close()
	s := open(t, nil).as("root")
	s.post("/alerts/webhooks", "webhooks.name", "chat", "preset", "slack", "webhooks.url", hook.URL+"/hush")
	for code, want := range map[int32]string{200: "chat", 403: "403 Forbidden: invalid_token"} {
		status.Store(code)
		got, body := s.post("/alerts/webhooks/test", "name", "chat")
		if got != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, "hush") {
			t.Errorf("it answers %d: %d %s", code, got, body)
		}
		if text := <-bodies; !strings.Contains(text, `"text"`) {
			t.Errorf("it got %s", text)
		}
	}
	if got, _ := s.post("/alerts/webhooks/test", "name", "none"); got != http.StatusNotFound {
		t.Errorf("an unknown webhook: %d", got)
	}
}

// TestAWrongOverlapMakesNoSecret, because the page with a new secret is shown only once.
func TestAWrongOverlapMakesNoSecret(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1/"
	_, err := s.registry.PutTopic(t.Context(), "test", topic)
	must(t, err)
	secrets := func() []string { return s.registry.Snapshot().Topics.Get("shop.close").Secrets }
	for _, overlap := range []string{"soon", "-1h", "0s", "24"} {
		for _, path := range []string{"/secret", "/secret/overlap"} {
			if status, body := s.post("/topics/shop.close"+path, "overlap", overlap); status != http.StatusBadRequest ||
				!strings.Contains(body, overlap) {
				t.Errorf("%s with %q: %d", path, overlap, status)
			}
		}
	}
	if got := secrets(); len(got) != 0 {
		t.Errorf("there are %d secrets", len(got))
	}
	s.post("/topics/shop.close/secret")
	first := secrets()
	_, body := s.post("/topics/shop.close/secret", "overlap", "1h")
	both := secrets()
	if len(first) != 1 || len(both) != 2 || both[1] != first[0] ||
		!strings.Contains(html.UnescapeString(body), both[0]) {
		t.Fatalf("the secrets are %d, then %d", len(first), len(both))
	}
	_, body = s.get("/topics/shop.close")
	if body = html.UnescapeString(body); strings.Contains(body, both[0]) || strings.Contains(body, both[1]) {
		t.Error("a secret is shown twice")
	}
	etag := s.registry.Snapshot().Topics.Get("shop.close").ETag()
	if _, body := s.post("/topics/shop.close/secret/drop", "etag", "another"); !strings.Contains(body, "alert-danger") ||
		len(secrets()) != 2 {
		t.Error("the old secret was dropped from an outdated page")
	}
	s.post("/topics/shop.close/secret/drop", "etag", etag)
	if left := secrets(); len(left) != 1 || left[0] != both[0] {
		t.Errorf("%d secrets are left", len(left))
	}
}

// TestAPauseWithAReasonThatIsTooLongIsAPause: an operator who stops callbacks in a hurry must not get the form back.
func TestAPauseWithAReasonThatIsTooLongIsAPause(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("ops")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1/"
	_, err := s.registry.PutTopic(t.Context(), "test", topic)
	must(t, err)
	status, body := s.post("/topics/shop.close/pause", "reason", strings.Repeat("x", 10_000))
	if status != http.StatusOK || !strings.Contains(body, "alert-warning") ||
		s.registry.Snapshot().Topics.Get("shop.close").State != registry.TopicPaused {
		t.Errorf("%d\n%s", status, body)
	}
	s.post("/topics/shop.close/pause", "reason", "  a deploy\t")
	if note := s.registry.Snapshot().Notes.Get("shop.close"); note.PauseReason != "a deploy" || note.PausedBy != "user/ops" {
		t.Errorf("the note is %+v", note)
	}
	if status, _ := s.post("/topics/none/pause"); status != http.StatusNotFound {
		t.Errorf("an unknown topic: %d", status)
	}
}

// clearing is an activity whose errors can be cleared, or not.
type clearing struct {
	noActivity
	cleared *atomic.Value // the topic
	err     error
}

func (c clearing) ClearErrors(_ context.Context, topic string) error {
	c.cleared.Store(topic)
	return c.err
}

func TestErrorsOfATopicAreCleared(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{http.StatusOK: nil, http.StatusInternalServerError: errors.New("no shard")} {
		var cleared atomic.Value
		s := open(t, func(o *Options) { o.Activity = clearing{cleared: &cleared, err: err} }).as("ops")
		topic := registry.NewTopic("shop.close")
		topic.CallbackURL = "http://127.0.0.1/"
		_, put := s.registry.PutTopic(t.Context(), "test", topic)
		must(t, put)
		if status, _ := s.post("/topics/shop.close/errors/clear"); status != want || cleared.Load() != "shop.close" {
			t.Errorf("with %v: %d, cleared %q", err, status, cleared.Load())
		}
	}
}

// TestInvalidSettingsChangeNothing: all errors are shown at once, and the mail server in use stays.
func TestInvalidSettingsChangeNothing(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	s.post("/alerts/mail", "mail.host", "h", "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com")
	s.post("/alerts/recipients", "recipients", "a@example.com")
	before, err := alert.Read(s.registry.Snapshot())
	must(t, err)
	for path, form := range map[string][]string{
		"/alerts/mail":       {"mail.host", "", "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com"},
		"/alerts/recipients": {"recipients", "not an address\nb@example.com nosuchword="},
		"/alerts/webhooks":   {"webhooks.name", "", "preset", "slack", "webhooks.url", "ftp://h"},
	} {
		if status, body := s.post(path, form...); status != http.StatusUnprocessableEntity ||
			!strings.Contains(body, "invalid-feedback") {
			t.Errorf("%s: %d", path, status)
		}
	}
	after, err := alert.Read(s.registry.Snapshot())
	must(t, err)
	if after.Mail != before.Mail || len(after.Recipients) != 1 || len(after.Webhooks) != 0 {
		t.Errorf("the settings are %+v", after)
	}
}
