package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/mail"
	"strings"
	"sync"
	"time"

	gomail "github.com/go-mail/mail/v2"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/wakecall/wakecall/registry"
)

const sendTimeout = 10 * time.Second // of each step of a conversation

// A server that accepts a connection and says nothing would otherwise hold a sender for ever: the library sets its first deadline after
// the greeting.
func init() {
	gomail.NetDialTimeout = func(network, address string, limit time.Duration) (net.Conn, error) {
		c, err := net.DialTimeout(network, address, limit)
		if err != nil {
			return nil, err
		}
		return c, c.SetDeadline(time.Now().Add(limit))
	}
}

// SendMail tells one recipient. The error holds the server's words as they are.
func SendMail(s Mail, to string, m *Message) error {
	if s.Host == "" {
		return errors.New("no SMTP server is set")
	}
	d := gomail.NewDialer(s.Host, s.Port, s.Username, string(s.Password))
	d.Timeout, d.RetryFailure = sendTimeout, false
	d.SSL = s.TLS == TLSDirect
	d.StartTLSPolicy = map[string]gomail.StartTLSPolicy{
		TLSNone: gomail.NoStartTLS, TLSStart: gomail.MandatoryStartTLS,
	}[s.TLS] // else opportunistic
	conn, err := d.Dial()
	if err != nil {
		return fmt.Errorf("SMTP server %s:%d: %w", s.Host, s.Port, err)
	}
	err = gomail.Send(conn, letter(s, to, m))
	if closeErr := conn.Close(); err == nil && closeErr != nil {
		return nil // the mail was taken
	}
	if err != nil {
		return fmt.Errorf("SMTP server %s:%d: %w", s.Host, s.Port, err)
	}
	return nil
}

func letter(s Mail, to string, m *Message) *gomail.Message {
	l := gomail.NewMessage()
	if from, err := mail.ParseAddress(s.From); err == nil {
		l.SetAddressHeader("From", from.Address, from.Name)
	}
	if address, err := mail.ParseAddress(to); err == nil {
		to = address.Address
	}
	l.SetHeader("To", to)
	l.SetHeader("Subject", strings.Join(strings.Fields(m.Subject()), " ")) // a header has one line
	l.SetDateHeader("Date", m.At)
	l.SetHeader("Auto-Submitted", "auto-generated")
	switch m.Phase {
	case Begins:
		l.SetHeader("Message-ID", m.thread())
	case Lasts, Ends:
		l.SetHeader("In-Reply-To", m.thread())
		l.SetHeader("References", m.thread())
	}
	l.SetBody("text/plain", m.Text()+"\n")
	l.AddAlternative("text/html", m.HTML())
	return l
}

// SendWebhook posts to a webhook; an answer other than 2xx is an error that shows its beginning.
func SendWebhook(ctx context.Context, w Webhook, m *Message) error {
	body, err := w.body(m)
	if err != nil {
		return fmt.Errorf("webhook %s: %w", w.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*sendTimeout)
	defer cancel()
	r, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, string(w.URL), body)
	if err != nil {
		return fmt.Errorf("webhook %s: its address cannot be used", w.Name)
	}
	r.Header.Set("Content-Type", "application/json")
	c := retryablehttp.NewClient()
	c.Logger, c.RetryMax, c.HTTPClient.Timeout = nil, 1, sendTimeout
	resp, err := c.Do(r)
	if err != nil {
		return fmt.Errorf("webhook %s: %s", w.Name, strings.ReplaceAll(err.Error(), string(w.URL), "its address"))
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("webhook %s answered %s: %s", w.Name, resp.Status, bytes.TrimSpace(answer))
	}
	return nil
}

// delivery is one message on its way to one recipient.
type delivery struct {
	message   *Message
	channel   string // mail, or the webhook's name
	recipient string
	send      func(ctx context.Context) error
}

const (
	queueLength = 500
	senders     = 4
)

// waits are those before each further try.
var waits = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 8 * time.Minute}

// outbox sends in the background. Its queue is bounded: what does not fit is noted as failed.
type outbox struct {
	queue chan delivery
	waits []time.Duration
	note  func(context.Context, registry.AlertDelivery)
}

func newOutbox(note func(context.Context, registry.AlertDelivery)) *outbox {
	return &outbox{queue: make(chan delivery, queueLength), waits: waits, note: note}
}

func (o *outbox) put(ctx context.Context, d delivery) {
	select {
	case o.queue <- d:
	default:
		o.note(ctx, d.result(1, errors.New("too many messages wait to be sent")))
	}
}

func (d *delivery) result(tries int, err error) registry.AlertDelivery {
	r := registry.AlertDelivery{
		AlertID: d.message.Alert.ID, At: time.Now().UTC(), Channel: d.channel, Recipient: d.recipient, Subject: d.message.Subject(),
		State: "sent", Tries: tries,
	}
	if err != nil {
		r.State, r.Error = "failed", err.Error()
	}
	return r
}

// run sends until ctx is done. A recipient that does not answer keeps one sender busy, and waits for its next try without one.
func (o *outbox) run(ctx context.Context) {
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case d := <-o.queue:
					o.try(ctx, &wg, d, 1)
				}
			}
		})
	}
	wg.Wait()
}

func (o *outbox) try(ctx context.Context, wg *sync.WaitGroup, d delivery, n int) {
	err := d.send(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil || n > len(o.waits) {
		o.note(ctx, d.result(n, err))
		return
	}
	if n == 1 {
		o.note(ctx, d.waiting(err))
	}
	wg.Go(func() {
		t := time.NewTimer(o.waits[n-1])
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
			o.try(ctx, wg, d, n+1)
		}
	})
}

// waiting is the first failure of a delivery that is tried again.
func (d *delivery) waiting(err error) registry.AlertDelivery {
	r := d.result(1, err)
	r.State = "retrying"
	return r
}
