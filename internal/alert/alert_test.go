package alert

import (
	"encoding/json"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/smtptest"
)

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

// TestAlertsAreSentWhileTheRegistryIsDown, once, and are in the history when the registry is back.
func TestAlertsAreSentWhileTheRegistryIsDown(t *testing.T) {
	t.Parallel()
	smtp, stored := smtptest.Start(t), newStore(t)
	store := &away{Storage: stored}
	store.is(true)
	h := play(t, "h1", store, mailTo(smtp, "ops@test.example"))
	h.wrong(down)
	eventually(t, "the mail", func() bool { return len(smtp.Mails()) == 1 })
	store.is(false)
	eventually(t, "the alert is stored", func() bool {
		list, err := stored.ListAlerts(t.Context(), Filter{})
		return err == nil && len(list) == 1
	})
	h.wrong()
	eventually(t, "the mail of its end", func() bool { return len(smtp.Mails()) == 2 })
	if list := subjects(smtp); !strings.Contains(list[1], "resolved") {
		t.Errorf("mails %v", list)
	}
}

// storeOpen stores an open alert of which a person was notified.
func storeOpen(t *testing.T, store Storage, f Finding, host, name string) {
	t.Helper()
	began := time.Now().Add(-time.Minute).UTC().Truncate(time.Microsecond)
	err := store.Save(t.Context(), &Changes{
		Alerts: []*Alert{{
			Key: f.Key(), Kind: f.Kind, Severity: f.Severity, Shard: f.Shard, Causes: []Cause{f.Cause}, Host: host,
			BeganAt: began, LastSeenAt: began,
		}},
		Receivers: map[string]*Notified{name: {Stage: 1, Last: time.Now(), Alerts: map[string]NotifiedAlert{
			f.Key(): {Title: "shard a is down", Severity: f.Severity, BeganAt: began},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnAlertOfAnEarlierRunEnds(t *testing.T) {
	t.Parallel()
	smtp, store := smtptest.Start(t), newStore(t)
	storeOpen(t, store, down, "h1", "mail ops@test.example")
	play(t, "h1", store, mailTo(smtp, "ops@test.example"))
	eventually(t, "the mail of its end", func() bool {
		return len(smtp.Mails()) == 1 && strings.Contains(smtp.Mails()[0].Subject, "resolved")
	})
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
	eventually(t, "alerts that begin again", func() bool {
		return len(smtp.Mails()) > before && told(smtp, "New", 0, 1)
	})
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

// TestAnAlertLastsWhileOneHostFindsIt, whichever of the hosts evaluates alerts.
func TestAnAlertLastsWhileOneHostFindsIt(t *testing.T) {
	t.Parallel()
	smtp, store := smtptest.Start(t), newStore(t)
	settings := mailTo(smtp, "ops@test.example")
	hosts := []*stage{play(t, "h1", store, settings), play(t, "h2", store, settings)}
	for _, finder := range []int{0, 1, 0} {
		hosts[finder].wrong(down)
		hosts[finder].rounds(t, 2)
		hosts[1-finder].wrong()
		hosts[1-finder].rounds(t, 5)
		eventually(t, "the mail", func() bool { return len(smtp.Mails()) > 0 })
		if list := subjects(smtp); len(list) != 1 {
			t.Fatalf("while host %d finds it, the mails are %v", finder+1, list)
		}
	}
	hosts[0].wrong()
	eventually(t, "the mail of its end", func() bool { return len(smtp.Mails()) == 2 })
}

// TestAHostsDeathNeitherEndsNorRepeatsAnAlert: after a crash another host takes over the lease when it expires. What
// the dead host found no longer counts then.
func TestAHostsDeathNeitherEndsNorRepeatsAnAlert(t *testing.T) {
	t.Parallel()
	smtp, store := smtptest.Start(t), newStore(t)
	settings := mailTo(smtp, "ops@test.example")
	connection := &away{Storage: store}
	h1 := play(t, "h1", connection, settings)
	h1.rounds(t, 2) // it leads
	h2 := playBlind(t, "h2", store, settings)
	h1.wrong(down)
	eventually(t, "the mail is stored as sent", func() bool {
		list, err := store.ListDeliveries(t.Context(), 1)
		return err == nil && len(list) == 1 && list[0].State == Sent
	})
	connection.is(true)
	h1.stop()
	age := func(statement string) {
		t.Helper()
		if err := dbtest.Run(store.db, statement); err != nil {
			t.Fatal(err)
		}
	}
	age("UPDATE leads SET until_at = 0")
	h2.rounds(t, 5)
	age("UPDATE alert_reports SET reported_at = reported_at - 21000")
	h2.rounds(t, 5)
	if list := subjects(smtp); len(list) != 1 {
		t.Errorf("after the host's death the mails are %v", list)
	}
	h2.cannotTell(false)
	eventually(t, "the mail of its end", func() bool { return len(smtp.Mails()) == 2 })
	if list := subjects(smtp); !strings.Contains(list[1], "resolved") {
		t.Errorf("the mails are %v", list)
	}
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

// TestAMailNamesItsSeverityInstallationAndLinks: its subject has both, and each alert is a line with a link to its
// page. A webhook gets each alert with its times.
func TestAMailNamesItsSeverityInstallationAndLinks(t *testing.T) {
	t.Parallel()
	smtp := smtptest.Start(t)
	bodies := make(chan []byte, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
	}))
	defer hook.Close()
	settings := mailTo(smtp, "ops@test.example")
	settings.Webhooks = []Webhook{{Name: "hook", URL: seal.Text(hook.URL), Preset: "generic"}}
	h := play(t, "h1", newStore(t), settings)
	h.wrong(down, isLate("shop.orders"))
	eventually(t, "the mail", func() bool { return len(smtp.Mails()) == 1 })
	m := smtp.Mails()[0]
	if !strings.HasPrefix(m.Subject, "[Wakecall admin.example: critical] shard a is down, and 1 more") {
		t.Errorf("the subject is %q", m.Subject)
	}
	html, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(m.Raw)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<a href="http://admin.example/shards">shard a is down: `, `critical</td></tr>`,
		`<a href="http://admin.example/topics/shop.orders">topic shop.orders is late: `,
		`10 jobs</td>`, `warning</td></tr>`,
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the mail lacks %s:\n%s", want, html)
		}
	}
	h.wrong()
	var last struct {
		Phase        Phase
		Installation string
		Alerts       []Alert
	}
	eventually(t, "the end", func() bool {
		return json.Unmarshal(<-bodies, &last) == nil && last.Phase == Ends
	})
	if len(last.Alerts) != 2 || last.Installation != "admin.example" {
		t.Fatalf("the webhook gets %+v", last)
	}
	for _, a := range last.Alerts {
		if a.EndedAt == nil || a.EndedAt.Before(a.BeganAt) || len(a.Causes) != 1 || a.Causes[0].EndedAt.IsZero() ||
			a.Subject == "" {
			t.Errorf("the webhook gets %+v", a)
		}
	}
}
