package alert

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/smtptest"
	"github.com/wakecall/wakecall/test/wait"
	"github.com/wakecall/wakecall/web"
)

var eventually = wait.For

// stage is a host that runs alerts, in a world that the test can break.
type stage struct {
	mu       sync.Mutex
	findings []Finding
	blind    bool // it cannot tell what has ended
	looks    int
	settings Settings
	store    Storage
	limit    time.Duration // of a store call; 0: long
	a        *Alerts
	stop     func()
}

func (s *stage) wrong(list ...Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings = list
}

// cannotTell removes all findings, on a host that cannot see everything (blind) or can again.
func (s *stage) cannotTell(blind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings, s.blind = nil, blind
}

func newStore(t *testing.T) *Store { return NewStore(dbtest.Open(t, dbtest.SQLite(t))) }

func play(t *testing.T, host string, store Storage, settings Settings) *stage {
	t.Helper()
	return playFrom(t, host, store, &stage{settings: settings, store: store})
}

// playBlind is a host that cannot yet tell what has ended.
func playBlind(t *testing.T, host string, store Storage, settings Settings) *stage {
	t.Helper()
	return playFrom(t, host, store, &stage{settings: settings, store: store, blind: true})
}

func playFrom(t *testing.T, host string, store Storage, s *stage) *stage {
	t.Helper()
	s.a = New(Options{
		Store: store, Host: host, Every: 20 * time.Millisecond, AdminURL: "http://admin.example/", Web: http.DefaultClient,
		Say: english(t),
		Settings: func() (Settings, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.settings, nil
		},
		Find: func(context.Context, Rules) ([]Finding, Judge) {
			s.mu.Lock()
			defer s.mu.Unlock()
			blind := s.blind
			s.looks++
			return append([]Finding(nil), s.findings...), func(Finding) bool { return !blind }
		},
	})
	s.a.outbox.waits = []time.Duration{20 * time.Millisecond, 20 * time.Millisecond}
	s.a.storeLimit = cmp.Or(s.limit, wait.Limit)
	s.a.outbox.limit = s.a.storeLimit
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.a.Run(ctx) })
	s.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(s.stop)
	return s
}

func mailTo(s *smtptest.Server, to ...string) Settings {
	x := Defaults()
	x.Mail = Mail{Host: s.Host, Port: s.Port, TLS: TLSOpportunistic, From: "Wakecall <wakecall@test.example>"}
	x.GroupWait, x.DigestAfter, x.Rules.OverAfter = 0, 0, 0
	for _, address := range to {
		x.Recipients = append(x.Recipients, Recipient{Address: address})
	}
	return x
}

// english are the English texts of messages.
func english(t testing.TB) func(string) Say {
	t.Helper()
	texts, err := web.LoadTexts()
	if err != nil {
		t.Fatal(err)
	}
	return func(language string) Say { return texts[language].T }
}

func testMessage(t testing.TB) *Message { return TestMessage("h1", "", english(t)("en")) }

var down = Finding{Shard: "a", Cause: Cause{
	Kind: "shard_down", Severity: Critical, Text: message.Plain("connection <refused>"),
}}

var (
	slowShard = Finding{Shard: "a", Cause: Cause{Kind: "shard_slow", Severity: Warning, Text: message.Plain("p99 1s")}}
	restarted = Finding{Shard: "a", Cause: Cause{
		Kind: "shard_restarted", Severity: Info, Text: message.Plain("it lost nothing"),
	}}
)

func subjects(s *smtptest.Server) (list []string) {
	for _, m := range s.Mails() {
		list = append(list, m.To+" "+m.Subject)
	}
	return list
}

func TestSeveralHostsSendOneMailEach(t *testing.T) {
	t.Parallel()
	smtp, store := smtptest.Start(t), newStore(t)
	settings := mailTo(smtp, "ops@test.example")
	settings.Rules.OverAfter = registry.Duration(5 * time.Second) // the hosts find the end one after the other
	settings.MaxPerHour = 0                                       // a busy machine may send any number of reminders
	hosts := []*stage{play(t, "h1", store, settings), play(t, "h2", store, settings), play(t, "h3", store, settings)}
	for _, h := range hosts {
		h.wrong(down)
	}
	eventually(t, "the mail of its beginning", func() bool { return len(smtp.Mails()) > 0 })
	remind := func(after time.Duration) {
		settings.RemindAfter = registry.Duration(after)
		for _, h := range hosts {
			h.mu.Lock()
			h.settings = settings
			h.mu.Unlock()
		}
	}
	remind(300 * time.Millisecond)
	eventually(t, "a reminder", func() bool { return len(smtp.Mails()) > 1 })
	remind(time.Hour)
	for _, h := range hosts {
		h.wrong()
	}
	last := func() string {
		list := subjects(smtp)
		return list[len(list)-1]
	}
	eventually(t, "the mail of its end", func() bool { return strings.Contains(last(), "resolved") })
	var begins, ends int
	for _, m := range smtp.Mails() {
		switch {
		case strings.Contains(m.Subject, "resolved"):
			ends++
		case !strings.Contains(m.Subject, "ongoing"):
			begins++
			if m.Header.Get("Message-Id") == "" || !strings.Contains(m.Raw, "http://admin.example/shards") ||
				!strings.Contains(m.Raw, "multipart/alternative") {
				t.Errorf("the first mail is\n%s", m.Raw)
			}
			continue
		}
		if first := smtp.Mails()[0].Header.Get("Message-Id"); m.Header.Get("References") != first {
			t.Errorf("%q refers to %q, not to %q", m.Subject, m.Header.Get("References"), first)
		}
	}
	if begins != 1 || ends != 1 {
		t.Errorf("%d mails of its beginning, %d of its end: %v", begins, ends, subjects(smtp))
	}
	eventually(t, "all are in the history", func() bool {
		list, err := store.ListDeliveries(t.Context(), 100)
		return err == nil && len(list) == len(smtp.Mails()) && list[0].State == "sent"
	})
}

// away is a store that cannot be reached while it is set.
type away struct {
	Storage
	hangs bool // instead of returning an error
	mu    sync.Mutex
	set   bool
	hung  int // calls
}

func (a *away) is(set bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set = set
}

func (a *away) err(ctx context.Context) error {
	a.mu.Lock()
	set := a.set
	if set {
		a.hung++
	}
	a.mu.Unlock()
	switch {
	case set && a.hangs:
		<-ctx.Done()
		return ctx.Err()
	case set:
		return registry.ErrUnavailable
	}
	return nil
}

func (a *away) QueueDelivery(ctx context.Context, holder string, d QueuedDelivery) (uint64, error) {
	if err := a.err(ctx); err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.hung-- // not a call of a round
		return 0, err
	}
	return a.Storage.QueueDelivery(ctx, holder, d)
}

func (a *away) RaiseAlert(ctx context.Context, x Alert) (Alert, error) {
	if err := a.err(ctx); err != nil {
		return x, err
	}
	return a.Storage.RaiseAlert(ctx, x)
}

func (a *away) ListTold(ctx context.Context) (map[string]*Told, error) {
	if err := a.err(ctx); err != nil {
		return nil, err
	}
	return a.Storage.ListTold(ctx)
}

func (a *away) SaveTold(ctx context.Context, person string, t *Told) (bool, error) {
	if err := a.err(ctx); err != nil {
		return false, err
	}
	return a.Storage.SaveTold(ctx, person, t)
}

func (a *away) EndAlert(ctx context.Context, key, host string, at time.Time) (bool, error) {
	if err := a.err(ctx); err != nil {
		return false, err
	}
	return a.Storage.EndAlert(ctx, key, host, at)
}

func (a *away) ListAlerts(ctx context.Context, f Filter) ([]Alert, error) {
	if err := a.err(ctx); err != nil {
		return nil, err
	}
	return a.Storage.ListAlerts(ctx, f)
}

// TestAlertsAreSentWhileTheRegistryIsDown, once, and are in the history when the registry is back.
func TestAlertsAreSentWhileTheRegistryIsDown(t *testing.T) {
	t.Parallel()
	smtp, store := smtptest.Start(t), &away{Storage: newStore(t)}
	store.is(true)
	h := play(t, "h1", store, mailTo(smtp, "ops@test.example"))
	h.wrong(down)
	eventually(t, "the mail", func() bool { return len(smtp.Mails()) == 1 })
	store.is(false)
	open := true
	eventually(t, "the alert is stored", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		list, err := store.ListAlerts(t.Context(), Filter{Open: &open})
		return err == nil && len(list) == 1
	})
	h.wrong()
	eventually(t, "the mail of its end", func() bool { return len(smtp.Mails()) == 2 })
	if list := subjects(smtp); !strings.Contains(list[1], "resolved") {
		t.Errorf("mails %v", list)
	}
}

func TestAnAlertOfAnEarlierRunEnds(t *testing.T) {
	t.Parallel()
	smtp, store := smtptest.Start(t), newStore(t)
	const told = `{"alerts":{"shard/a":{"title":"shard a is down"}}}`
	for _, host := range []string{"h1"} {
		a := Alert{Key: down.Key(), Kind: down.Kind, Causes: []Cause{down.Cause}, Host: host}
		if _, err := store.RaiseAlert(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if err := dbtest.Run(store.db, "INSERT INTO alert_told VALUES ('mail ops@test.example', '"+told+"', 1)"); err != nil {
		t.Fatal(err)
	}
	play(t, "h1", store, mailTo(smtp, "ops@test.example"))
	eventually(
		t,
		"the mail of its end",
		func() bool { return len(smtp.Mails()) == 1 && strings.Contains(smtp.Mails()[0].Subject, "resolved") },
	)
}

// TestAStoreThatHangsHoldsUpNothing: every beginning and end is sent, and a round waits for at most one call.
func TestAStoreThatHangsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	smtp, store := smtptest.Start(t), &away{Storage: newStore(t), hangs: true}
	h := playFrom(t, "h1", store, &stage{settings: mailTo(smtp, "ops@test.example"), store: store, limit: time.Second})
	var list []Finding
	for i := range 5 {
		list = append(list, Finding{Shard: fmt.Sprint(i), Cause: Cause{Kind: "shard_down", Severity: Critical}})
	}
	h.wrong(list[:2]...)
	eventually(t, "the alerts before the outage", func() bool { return told(smtp, "New", 0, 1) })
	h.mu.Lock()
	rounds := -h.looks
	h.mu.Unlock()
	store.is(true)
	h.wrong(list[2:]...)
	eventually(t, "the alerts that begin and end meanwhile", func() bool {
		return told(smtp, "New", 2, 3, 4) && told(smtp, "Resolved", 0, 1)
	})
	before := len(smtp.Mails())
	h.wrong(list...)
	eventually(t, "alerts that begin again", func() bool { return len(smtp.Mails()) > before && told(smtp, "New", 0, 1) })
	store.mu.Lock()
	defer store.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if rounds += h.looks; store.hung > rounds+2 { // including those under way
		t.Errorf("%d rounds waited for %d calls", rounds, store.hung)
	}
}

// told reports whether the mails of a section name these shards.
func told(s *smtptest.Server, part string, shards ...int) bool {
	named := map[string]bool{}
	for _, m := range s.Mails() {
		text, _, _ := strings.Cut(m.Raw, "text/html")
		_, lines, _ := strings.Cut(text, "\r\n"+part+"\r\n")
		lines, _, _ = strings.Cut(lines, "\r\n\r\n")
		for i := range 10 {
			name := fmt.Sprintf("shard %d is down", i)
			named[name] = named[name] || strings.Contains(lines, name)
		}
	}
	for _, i := range shards {
		if !named[fmt.Sprintf("shard %d is down", i)] {
			return false
		}
	}
	return true
}

// rounds waits until a host has completed this many more rounds.
func (s *stage) rounds(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	end := s.looks + n
	s.mu.Unlock()
	eventually(t, "more rounds", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.looks > end
	})
}

func TestAnAlertLastsWhileOneHostFindsIt(t *testing.T) {
	t.Parallel()
	smtp, store := smtptest.Start(t), newStore(t)
	settings := mailTo(smtp, "ops@test.example")
	h1, h2 := play(t, "h1", store, settings), play(t, "h2", store, settings)
	h1.wrong(down)
	h2.wrong(down)
	finds := func(host string) bool {
		var n int64
		err := store.db.Do(t.Context(), func(tx *gorm.DB) error {
			return tx.Table("alert_finders").Where("host = ?", host).Count(&n).Error
		})
		return err == nil && n == 1
	}
	eventually(t, "both hosts find it", func() bool { return finds("h1") && finds("h2") })
	eventually(t, "the mail", func() bool { return len(smtp.Mails()) == 1 })
	h1.wrong()
	eventually(t, "the first host to stop finding it", func() bool { return !finds("h1") })
	h1.rounds(t, 5)
	h1.wrong(down)
	eventually(t, "the first host to find it again", func() bool { return finds("h1") })
	h2.wrong()
	eventually(t, "the second host to stop finding it", func() bool { return !finds("h2") })
	h2.rounds(t, 5)
	if list := subjects(smtp); len(list) != 1 {
		t.Errorf("mails %v", list)
	}
	h1.wrong()
	eventually(t, "the mail of its end", func() bool { return len(smtp.Mails()) == 2 })
}

func TestAnAlertLastsWhileNobodyCanTell(t *testing.T) {
	t.Parallel()
	smtp := smtptest.Start(t)
	h := play(t, "h1", newStore(t), mailTo(smtp, "ops@test.example"))
	h.wrong(down)
	eventually(t, "the mail", func() bool { return len(smtp.Mails()) == 1 })
	h.cannotTell(true)
	h.rounds(t, 5)
	if list := subjects(smtp); len(list) != 1 {
		t.Errorf("mails %v", list)
	}
	h.cannotTell(false)
	eventually(t, "the mail of its end", func() bool { return len(smtp.Mails()) == 2 })
}

func TestAFailingMailServerIsRetriedAndShown(t *testing.T) {
	t.Parallel()
	smtp, store := smtptest.Start(t), newStore(t)
	smtp.Refuse(450, "mailbox busy")
	h := play(t, "h1", store, mailTo(smtp, "ops@test.example"))
	h.wrong(down)
	eventually(t, "the failure is shown", func() bool {
		list, err := store.ListDeliveries(t.Context(), 10)
		return err == nil && len(list) > 0 && strings.Contains(list[0].Error, "mailbox busy")
	})
	smtp.Refuse(0, "")
	h.wrong(down, Finding{Topic: "t", Cause: Cause{Kind: "breaker", Severity: Critical}})
	eventually(t, "a mail arrives", func() bool { return len(smtp.Mails()) > 0 })
}

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
		{"dingtalk", `{"errcode":310000,"errmsg":"keywords not in content"}`, "errcode 310000: keywords not in content"},
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
		"webhooks.url":      func(s *Settings) { s.Webhooks = []Webhook{{Name: "x", URL: "ftp://h", Preset: "slack"}} },
		"webhooks.template": func(s *Settings) { s.Webhooks = []Webhook{{Name: "x", URL: "http://h", Preset: "pigeon"}} },
	} {
		s := Defaults()
		damage(&s)
		var f *registry.FieldError
		if err := s.Validate(); !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestAFloodOfMessagesBlocksNothing: messages that do not fit in the queue are recorded as failed.
func TestAFloodOfMessagesBlocksNothing(t *testing.T) {
	t.Parallel()
	o, m := New(Options{Store: newStore(t)}).outbox, testMessage(t)
	for i := range queueLength + 7 {
		o.put(&outgoing{Delivery: Delivery{Channel: "mail", Recipient: fmt.Sprint(i)}, message: m})
	}
	failed := 0
	for d := range o.pending {
		if d.State == "failed" {
			failed++
		}
	}
	if failed != 7 {
		t.Errorf("%d were recorded as failed, want 7", failed)
	}
}

func TestAMailServerThatHangsHoldsUpNoWebhook(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called <- struct{}{} }))
	defer srv.Close()
	s := Defaults()
	s.Mail = Mail{From: "wakecall@test.example"}
	s.Mail.Host, s.Mail.Port = smtptest.Hanging(t)
	for i := range 20 {
		s.Recipients = append(s.Recipients, Recipient{Address: fmt.Sprintf("ops%d@test.example", i)})
	}
	s.Webhooks, s.GroupWait = []Webhook{{Name: "chat", URL: seal.Text(srv.URL), Preset: "slack"}}, 0
	play(t, "h1", newStore(t), s).wrong(down)
	select {
	case <-called:
	case <-time.After(wait.Limit):
		t.Error("the webhook waits for the mail server")
	}
}

// TestQueuedMessagesAreSentAfterARestart, by one host, even if a store that was unavailable stored it only at shutdown.
func TestQueuedMessagesAreSentAfterARestart(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		smtp, store := smtptest.Start(t), &away{Storage: newStore(t)}
		settings := mailTo(smtp, "ops@test.example")
		smtp.Refuse(450, "mailbox busy")
		store.is(lost)
		h := play(t, "h1", store, settings)
		h.a.outbox.mu.Lock()
		h.a.outbox.waits = []time.Duration{time.Hour}
		h.a.outbox.mu.Unlock()
		h.wrong(down)
		eventually(t, "the first attempt", func() bool {
			h.a.outbox.mu.Lock()
			defer h.a.outbox.mu.Unlock()
			for d := range h.a.outbox.pending {
				return d.Tries == 1
			}
			return false
		})
		store.is(false)
		h.stop()
		smtp.Refuse(0, "")
		for _, host := range []string{"h1", "h2", "h3"} {
			playBlind(t, host, store, settings)
		}
		eventually(t, "it is in the history as sent", func() bool {
			list, err := store.Storage.(*Store).ListDeliveries(t.Context(), 10)
			return err == nil && len(list) == 1 && list[0].State == "sent" && list[0].Tries == 2
		})
		if list := subjects(smtp); len(list) != 1 {
			t.Errorf("mails %v", list)
		}
	}
}
