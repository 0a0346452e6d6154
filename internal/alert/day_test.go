package alert

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/message"
)

// day is a host whose rounds get findings from a function, on a clock that the test moves.
type day struct {
	*Alerts
	store    *memory
	began    time.Time
	settings Settings
	happens  func(at time.Duration) []Finding
	dead     func(at time.Duration) []DeadTopic

	mu   sync.Mutex
	sent []outgoing
}

func newDay(t *testing.T, to ...string) *day {
	d := &day{began: time.Now(), settings: Defaults(), store: newMemory()}
	d.settings.Mail.Host = "mail.example"
	for _, line := range to {
		var r Recipient
		if err := r.UnmarshalText([]byte(line)); err != nil {
			t.Fatal(err)
		}
		d.settings.Recipients = append(d.settings.Recipients, r)
	}
	d.Alerts = New(Options{
		Store: d.store, Host: "h1", Say: english(t), Settings: func() (Settings, error) { return d.settings, nil },
		Owner: func(topic string) string { return strings.SplitN(topic, ".", 2)[0] },
		Find: func(context.Context, Rules) ([]Finding, Judge) {
			return d.happens(time.Since(d.began)), func(Finding) bool { return true }
		},
		Dead: func(context.Context) []DeadTopic {
			if d.dead == nil {
				return nil
			}
			return d.dead(time.Since(d.began))
		},
	})
	d.outbox.send = func(_ context.Context, x *outgoing) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.sent = append(d.sent, outgoing{Delivery: x.Delivery, message: x.message})
		return nil
	}
	return d
}

func (d *day) pass(t *testing.T, span time.Duration) {
	t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(defaultEvery) {
		d.round(t.Context())
	}
}

// mails returns the mails to a recipient in order.
func (d *day) mails(to string) (list []*Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.sent {
		if x.Recipient == to {
			list = append(list, x.message)
		}
	}
	slices.SortFunc(list, func(a, b *Message) int { return a.At.Compare(b.At) })
	return list
}

// told returns when the first mail to a recipient with a text was sent; an hour more than the day has if none was.
func (d *day) told(to, text string) time.Duration {
	for _, m := range d.mails(to) {
		if strings.Contains(m.Text(), text) {
			return m.At.Sub(d.began)
		}
	}
	return time.Since(d.began) + time.Hour
}

// toldNew returns when the first mail to a recipient with a new critical alert was sent; see told.
func (d *day) toldNew(to, title string) time.Duration {
	for _, m := range d.mails(to) {
		for line := range strings.Lines(m.Text()) {
			if strings.HasPrefix(line, title+": ") && strings.HasSuffix(strings.TrimSpace(line), " | critical") {
				return m.At.Sub(d.began)
			}
		}
	}
	return time.Since(d.began) + time.Hour
}

// log returns the mails of a recipient, for failure messages.
func (d *day) log(to string) string {
	var b strings.Builder
	for _, m := range d.mails(to) {
		fmt.Fprintf(&b, "\n--- after %s\n%s", m.At.Sub(d.began), m.Text())
	}
	return b.String()
}

func fails(topic string) Finding {
	return Finding{Topic: topic, Cause: Cause{Kind: "breaker", Severity: Critical, N: 10, Answer: "429"}}
}

var restarted = Finding{
	Shard: "a", Cause: Cause{Kind: "shard_restarted", Severity: Info, Text: message.Plain("it lost nothing")},
}

func isLate(topic string) Finding {
	return Finding{Topic: topic,
		Cause: Cause{Kind: "late", Severity: Warning, N: 10, For: time.Minute, Limit: time.Second}}
}
