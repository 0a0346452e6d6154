package alerts_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
)

func TestAlertMailSettings(t *testing.T) {
	t.Parallel()
	var sent alert.Mail
	s := admintest.Open(t, func(o *admin.Options) {
		o.SendMail = func(_ context.Context, m alert.Mail, to string, _ *alert.Message) error {
			sent = m
			if to == "ops@example.com" {
				return errors.New("535 5.7.8 <script>wrong password")
			}
			return nil
		}
	}).As("root")
	form := []string{
		"mail.host", "smtp.example.com", "mail.port", "587", "mail.tls", "starttls", "mail.username", "u",
		"mail.password",
		"hush",
		"mail.from", "w@example.com",
	}
	if status, body := s.Post("/alerts/mail", form...); status != http.StatusOK || strings.Contains(body, "hush") {
		t.Fatalf("got %d\n%s", status, body)
	}
	form[9] = "" // the stored password is used
	if _, body := s.Post("/alerts/mail/test", append(form, "to", "ops@example.com")...); !strings.Contains(body,
		"535 5.7.8 &lt;script&gt;wrong password") {
		t.Errorf("got\n%s", body)
	}
	if sent.Password != "hush" {
		t.Error("the test did not use the stored password")
	}
	if _, body := s.Post("/alerts/mail/test", append(form, "to", "else@example.com")...); !strings.Contains(body,
		"Sent to else@example.com") {
		t.Errorf("got\n%s", body)
	}
	form[1] = "elsewhere.example.com"
	if status, _ := s.Post("/alerts/mail", form...); status != http.StatusUnprocessableEntity {
		t.Errorf("the stored password for another server got %d", status)
	}
	if status, body := s.Post("/alerts/mail", "mail.host", "a b", "mail.port", "0", "mail.tls", "x", "mail.from",
		"y"); status != http.StatusUnprocessableEntity ||
		strings.Count(body, "invalid-feedback") < 4 {
		t.Errorf("got %d\n%s", status, body)
	}
}

func TestAlertRecipientsRulesAndWebhooks(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	if status, body := s.Post("/alerts/recipients", "recipients",
		"a@example.com"); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "the recipients need an SMTP server") {
		t.Errorf("recipients without a server got %d", status)
	}
	s.Post("/alerts/mail", "mail.host", "h", "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com")
	if status, _ := s.Post("/alerts/recipients", "recipients",
		"a@example.com critical\n\nb@example.com shop.* owner=shop\n"); status != http.StatusOK {
		t.Errorf("recipients got %d", status)
	}
	rules := []string{
		"ledger", "on", "no_consumer", "7m30s", "no_worker", "4m", "no_worker_jobs", "50", "lateness", "0",
		"failing_share",
		"25", "failing_least",
		"20", "dead_jobs", "3",
		"remind_after", "1h", "over_after", "2m", "group_wait", "30s", "digest_after", "10m", "max_per_hour", "12",
		"language", "zh-Hans",
	}
	if status, body := s.Post("/alerts/rules", rules...); status != http.StatusOK ||
		!strings.Contains(body, `value="7m30s"`) || !strings.Contains(body, `value="1h"`) {
		t.Errorf("rules got %d", status)
	}
	now, err := alert.Read(s.Registry.Snapshot())
	if err != nil || len(now.Recipients) != 2 || now.Recipients[1].Owners[0] != "shop" || now.MaxPerHour != 12 ||
		now.Language != "zh-Hans" || now.Rules.Shards || !now.Rules.Ledger ||
		now.Rules.NoWorkerJobs != 50 || now.Rules.FailingShare != 0.25 || now.Rules.Lateness != 0 {
		t.Errorf("the settings are %+v, %v", now, err)
	}
	late := append(slices.Clone(rules), "objectives", "shop.* 30s\norders 500ms\n")
	if status, body := s.Post("/alerts/rules", late...); status != http.StatusOK ||
		!strings.Contains(body, ">orders 500ms\nshop.* 30s\n</textarea>") {
		t.Errorf("objectives got %d", status)
	}
	for typed, want := range map[string]string{
		"shop.* soon": "&#34;soon&#34; of &#34;shop.*&#34; is not a duration",
		"a*b 30s":     "&#34;a*b&#34; is not a pattern", "shop.*": "and a duration, such as",
	} {
		late[len(late)-1] = typed
		if status, body := s.Post("/alerts/rules", late...); status != http.StatusUnprocessableEntity ||
			!strings.Contains(body, want) || !strings.Contains(body, ">"+typed+"</textarea>") {
			t.Errorf("%q got %d", typed, status)
		}
	}
	rules[3] = "soon"
	if status, body := s.Post("/alerts/rules", rules...); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "is not a duration") {
		t.Errorf("a wrong duration got %d", status)
	}
	hook := []string{"webhooks.name", "chat", "preset", "slack", "webhooks.url",
		"https://hooks.example.com/services/hush"}
	if status, body := s.Post("/alerts/webhooks", hook...); status != http.StatusOK ||
		!strings.Contains(body, "https://hooks.example.com/…") || strings.Contains(body, "hush") {
		t.Errorf("a webhook got %d", status)
	}
	if status, _ := s.Post("/alerts/webhooks", hook...); status != http.StatusUnprocessableEntity {
		t.Errorf("the same name again got %d", status)
	}
	s.Post("/alerts/webhooks/delete", "name", "chat")
	if now, _ := alert.Read(s.Registry.Snapshot()); len(now.Webhooks) != 0 || now.Mail.Host != "h" {
		t.Errorf("the settings are %+v", now)
	}
}

// TestAlertSettingsAreSavedCardByCard: the answer replaces only its card, and shows errors of other cards above the
// page.
func TestAlertSettingsAreSavedCardByCard(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	for _, card := range []string{"wk-mail", "wk-recipients", "wk-webhooks", "wk-rules"} {
		sent := regexp.MustCompile(`hx-target="(this|#` + card + `)" hx-select="#` + card + `"`)
		if !sent.MatchString(s.Shows("/alerts/settings")) {
			t.Errorf("%s is not sent alone", card)
		}
	}
	res, body := s.Part("/alerts/recipients", "recipients", "ops@example.com")
	_, flash, _ := strings.Cut(body, `id="wk-flash"`)
	flash, _, _ = strings.Cut(flash, `class="page-header"`)
	if res.StatusCode != http.StatusUnprocessableEntity ||
		!strings.Contains(flash, "mail.host: required: the recipients need an SMTP server") {
		t.Errorf("%d, above the page: %s", res.StatusCode, flash)
	}
	mail := []string{"mail.host", "h", "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com"}
	if res, body := s.Part("/alerts/mail", mail...); res.StatusCode != http.StatusOK ||
		res.Header.Get("HX-Redirect") != "" ||
		!strings.Contains(body, "alert-success") || !strings.Contains(body, `name="mail.host" type="text" value="h"`) {
		t.Errorf("saved: %d %v\n%s", res.StatusCode, res.Header, body)
	}
}

// TestAlertSettingsChangedMeanwhileAreNotOverwritten: two people edit the same card of the alert settings. The
// second one sees a message, keeps the input, and may then save it. Other cards are saved side by side.
func TestAlertSettingsChangedMeanwhileAreNotOverwritten(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	seen := func(card, body string) string {
		t.Helper()
		_, form, _ := strings.Cut(body, `id="wk-`+card+`"`)
		found := regexp.MustCompile(`name="seen" value="([^"]+)"`).FindStringSubmatch(form)
		if found == nil {
			t.Fatalf("the card %s does not say what it shows", card)
		}
		return found[1]
	}
	const conflict = "Somebody else changed these settings"
	mail := func(host, seen string) []string {
		return []string{"mail.host", host, "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com", "seen",
			seen}
	}
	stored := func() alert.Settings {
		t.Helper()
		now, err := alert.Read(s.Registry.Snapshot())
		admintest.Must(t, err)
		return now
	}
	opened := s.Shows("/alerts/settings")
	if status, body := s.Post("/alerts/mail", mail("theirs", seen("mail", opened))...); status != http.StatusOK {
		t.Fatalf("the first: %d\n%s", status, body)
	}
	if status, _ := s.Post("/alerts/recipients", "recipients", "a@example.com", "seen", seen("recipients",
		opened)); status !=
		http.StatusOK || len(stored().Recipients) != 1 {
		t.Errorf("another card: %d", status)
	}
	res, body := s.Part("/alerts/mail", mail("mine", seen("mail", opened))...)
	if res.StatusCode != http.StatusConflict || strings.Count(body, conflict) != 1 || stored().Mail.Host != "theirs" ||
		!strings.Contains(body, `name="mail.host" type="text" value="mine"`) {
		t.Fatalf("the second: %d, the server is now %s\n%s", res.StatusCode, stored().Mail.Host, body)
	}
	if status, _ := s.Post("/alerts/mail", mail("mine", seen("mail", body))...); status != http.StatusOK ||
		stored().Mail.Host != "mine" || len(stored().Recipients) != 1 {
		t.Errorf("saving again: %d, the server is now %s", status, stored().Mail.Host)
	}
	if status, _ := s.Post("/alerts/recipients", "recipients", "", "seen", seen("recipients", opened)); status !=
		http.StatusConflict || len(stored().Recipients) != 1 {
		t.Errorf("outdated recipients: %d", status)
	}
}

// TestAlertWebhookThatIsWrongStays: its fields keep the input, and it is not shown as added.
func TestAlertWebhookThatIsWrongStays(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	status, body := s.Post("/alerts/webhooks", "webhooks.name", "on-call", "preset", "feishu", "webhooks.url",
		"ftp://bot.example/hook", "webhooks.template", `{"a": 1}`)
	for _, want := range []string{`value="on-call"`, `value="ftp://bot.example/hook"`,
		`<option value="feishu" selected>`,
		"No webhooks yet.", "must start with http:// or https://"} {
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, want) {
			t.Errorf("%d, without %s", status, want)
		}
	}
	if _, body := s.Post("/alerts/rules", "lateness", "soon", "backlog_age", "never"); strings.Count(body,
		"is not a duration such as") < 2 {
		t.Error("not every wrong limit has its message")
	}
}

// TestAlertWebhookIsTested with a test message, and its error is shown without its address.
func TestAlertWebhookIsTested(t *testing.T) {
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
	s := admintest.Open(t, nil).As("root")
	s.Post("/alerts/webhooks", "webhooks.name", "chat", "preset", "slack", "webhooks.url", hook.URL+"/hush")
	for code, want := range map[int32]string{200: "chat", 403: "403 Forbidden: invalid_token"} {
		status.Store(code)
		got, body := s.Post("/alerts/webhooks/test", "name", "chat")
		if got != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, "hush") {
			t.Errorf("it answers %d: %d %s", code, got, body)
		}
		if text := <-bodies; !strings.Contains(text, `"text"`) {
			t.Errorf("it got %s", text)
		}
	}
	if got, _ := s.Post("/alerts/webhooks/test", "name", "none"); got != http.StatusNotFound {
		t.Errorf("an unknown webhook: %d", got)
	}
}

// TestAlertSettingsThatAreInvalidChangeNothing: all errors are shown at once, and the mail server in use stays.
func TestAlertSettingsThatAreInvalidChangeNothing(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	s.Post("/alerts/mail", "mail.host", "h", "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com")
	s.Post("/alerts/recipients", "recipients", "a@example.com")
	before, err := alert.Read(s.Registry.Snapshot())
	admintest.Must(t, err)
	for path, form := range map[string][]string{
		"/alerts/mail":       {"mail.host", "", "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com"},
		"/alerts/recipients": {"recipients", "not an address\nb@example.com nosuchword="},
		"/alerts/webhooks":   {"webhooks.name", "", "preset", "slack", "webhooks.url", "ftp://h"},
	} {
		if status, body := s.Post(path, form...); status != http.StatusUnprocessableEntity ||
			!strings.Contains(body, "invalid-feedback") {
			t.Errorf("%s: %d", path, status)
		}
	}
	after, err := alert.Read(s.Registry.Snapshot())
	admintest.Must(t, err)
	if after.Mail != before.Mail || len(after.Recipients) != 1 || len(after.Webhooks) != 0 {
		t.Errorf("the settings are %+v", after)
	}
}
