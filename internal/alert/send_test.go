package alert

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/smtptest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestTheServersErrorIsShown(t *testing.T) {
	t.Parallel()
	smtp := smtptest.Start(t)
	m := testMessage(t)
	s := mailTo(smtp).Mail
	smtp.Refuse(550, "no such user here")
	if err := SendMail(t.Context(), s, "ops@test.example", m); err == nil || !strings.Contains(err.Error(), "550") ||
		!strings.Contains(err.Error(), "no such user here") || strings.Contains(err.Error(), "gomail") {
		t.Errorf("a refusal: %v", err)
	}
	smtp.Refuse(0, "")
	smtp.WantLogin("ann", "right")
	if err := SendMail(t.Context(), s, "ops@test.example", m); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("without a login: %v", err)
	}
	s.Username, s.Password = "ann", "wrong"
	if err := SendMail(t.Context(), s, "ops@test.example", m); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with a wrong password: %v", err)
	}
	s.Password = "right"
	if err := SendMail(t.Context(), s, "Ops <ops@test.example>", m); err != nil || len(smtp.Mails()) != 1 {
		t.Errorf("with the right one: %v, %d mails", err, len(smtp.Mails()))
	}
	s.TLS = TLSStart
	if err := SendMail(t.Context(), s, "ops@test.example", m); err == nil {
		t.Error("a server without STARTTLS got the mail")
	}
	s.Host, s.Port = smtptest.Hanging(t)
	began := time.Now()
	if err := SendMail(t.Context(), s, "ops@test.example", m); err == nil ||
		time.Since(began) > 3*sendTimeout {
		t.Errorf("a server that hangs: %v after %s", err, time.Since(began))
	}
}

// TestAMailCanBeCanceled while the server does not answer; its connection is closed.
func TestAMailCanBeCanceled(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, greeting := range []string{"", "220 here\r\n"} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		s := Mail{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, From: "a@b.example"}
		go func() { ended <- SendMail(ctx, s, "ops@test.example", testMessage(t)) }()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, greeting)
		cancel()
		began := time.Now()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) > sendTimeout/2 {
			t.Errorf("after %q: it ended with %v after %s", greeting, err, time.Since(began))
		}
		_ = c.SetReadDeadline(time.Now().Add(wait.Limit))
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %q: the connection is still open", greeting)
		}
		_ = c.Close()
	}
}

func TestWebhooksGetTheirBodies(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		bodies = append(bodies, string(b))
		mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "secret-token") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "invalid token")
		}
	}))
	defer srv.Close()
	m := TestMessage("h1", "http://admin.example", english(t)("en"))
	m.Title, m.Alert.Subject = `a "quoted" <subject>`, `a "quoted" <subject>`
	for preset := range Presets {
		w := Webhook{Name: preset, URL: seal.Text(srv.URL), Preset: preset}
		if err := errors.Join(w.Validate(), SendWebhook(t.Context(), http.DefaultClient, w, m)); err != nil {
			t.Errorf("%s: %v", preset, err)
		}
	}
	for _, b := range bodies {
		if !json.Valid([]byte(b)) || !strings.Contains(b, `\"quoted\"`) {
			t.Errorf("a body is %s", b)
		}
	}
	err := SendWebhook(
		t.Context(),
		http.DefaultClient,
		Webhook{Name: "x", URL: seal.Text(srv.URL + "/secret-token"), Preset: "slack"},
		m,
	)
	if err == nil || !strings.Contains(err.Error(), "invalid token") || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("a refusal: %v", err)
	}
	srv.Close()
	err = SendWebhook(
		t.Context(),
		http.DefaultClient,
		Webhook{Name: "x", URL: seal.Text(srv.URL + "/secret-token"), Preset: "slack"},
		m,
	)
	if err == nil || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("connection refused: %v", err)
	}
	for _, template := range []string{`{"text": "{{.Text}}"}`, `{"text": "{{.Alert.Detail}} {{.Alert.Detail}}"}`,
		`{"text": "{{.Text}}"`, `{{.Nothing}}`, `{{`, `plain`} {
		w := Webhook{Name: "x", URL: "http://h", Template: template}
		if w.Validate() == nil {
			t.Errorf("the template %q is accepted", template)
		}
	}
}

// TestAWebhooksRefusalIsAFailure: these services always answer 200.
func TestAWebhooksRefusalIsAFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ preset, answer, want string }{
		{"dingtalk", `{"errcode":310000,"errmsg":"keywords not in content"}`,
			"errcode 310000: keywords not in content"},
		{"dingtalk", `{"errcode":0,"errmsg":"ok"}`, ""},
		{"wecom", `{"errcode":93000,"errmsg":"invalid webhook url"}`, "errcode 93000: invalid webhook url"},
		{"wecom", `{"errcode":0,"errmsg":"ok"}`, ""},
		{"feishu", `{"code":19024,"msg":"Key Words Not Found","data":{}}`, "code 19024: Key Words Not Found"},
		{"feishu", `{"StatusCode":9499,"StatusMessage":"Bad Request"}`, "StatusCode 9499: Bad Request"},
		{"feishu", `{"StatusCode":0,"StatusMessage":"success","code":0,"msg":"success","data":{}}`, ""},
		{"feishu", `gone`, ""},
		{"generic", `{"code":200}`, ""},
		{"slack", `ok`, ""},
	} {
		srv := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.answer) }),
		)
		hook := Webhook{Name: "x", URL: seal.Text(srv.URL), Preset: c.preset}
		err := SendWebhook(t.Context(), http.DefaultClient, hook, testMessage(t))
		srv.Close()
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s answers %s: %v", c.preset, c.answer, err)
		}
	}
}

func TestMessagesHaveLinks(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]Alert{
		"https://h/w/topics/orders":     {Kind: "topic_failing", Topic: "orders"},
		"https://h/w/dead?topic=orders": {Kind: "dead", Topic: "orders"},
		"https://h/w/shards":            {Kind: "shard_down", Shard: "r1"},
		"https://h/w/processes":         {Kind: "journal"},
		"https://h/w/alerts/settings":   testMessage(t).Alert,
	} {
		if got := link("https://h/w/", &a); got != want {
			t.Errorf("%s links to %s, want %s", a.Kind, got, want)
		}
	}
	if m := TestMessage("h1", "https://h/", english(t)("en")); m.Link == "" || !strings.Contains(m.Text(), m.Link) ||
		!strings.Contains(m.HTML(), m.Link) {
		t.Errorf("a test message is %s", m.Text())
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	good := Defaults()
	if err := good.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for field, damage := range map[string]func(*Settings){
		"recipients":          func(s *Settings) { s.Recipients = []Recipient{{Address: "nobody"}} },
		"mail.host":           func(s *Settings) { s.Recipients = []Recipient{{Address: "a@b.example"}} },
		"mail.port":           func(s *Settings) { s.Mail.Host, s.Mail.Port, s.Mail.From = "h", 70000, "a@b.example" },
		"mail.from":           func(s *Settings) { s.Mail.Host = "h" },
		"mail.tls":            func(s *Settings) { s.Mail.Host, s.Mail.From, s.Mail.TLS = "h", "a@b.example", "x" },
		"remind_after":        func(s *Settings) { s.RemindAfter = 0 },
		"rules.failing_share": func(s *Settings) { s.Rules.FailingShare = 2 },
		"rules.objectives": func(s *Settings) {
			s.Rules.Objectives = map[string]registry.Duration{"a b": registry.Duration(time.Second)}
		},
		"webhooks.url": func(s *Settings) { s.Webhooks = []Webhook{{Name: "x", URL: "ftp://h", Preset: "slack"}} },
		"webhooks.template": func(
			s *Settings) {
			s.Webhooks = []Webhook{{Name: "x", URL: "http://h", Preset: "pigeon"}}
		},
	} {
		s := Defaults()
		damage(&s)
		var f *registry.FieldError
		if err := s.Validate(); !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
