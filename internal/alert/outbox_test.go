package alert

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/smtptest"
	"github.com/wakecall/wakecall/test/wait"
)

// TestAFloodOfMessagesBlocksNothing: messages that do not fit in the queue are recorded as failed.
func TestAFloodOfMessagesBlocksNothing(t *testing.T) {
	t.Parallel()
	o, m := New(Options{Store: newStore(t)}).outbox, testMessage(t)
	for i := range queueLength + 7 {
		o.add(newOutgoing(mailChannel, fmt.Sprint(i), m))
	}
	failed := 0
	for _, d := range o.pending {
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
			for _, d := range h.a.outbox.pending {
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
