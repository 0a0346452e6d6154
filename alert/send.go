package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/mail"
	"strings"
	"time"

	gomail "github.com/go-mail/mail/v2"
	"github.com/hashicorp/go-retryablehttp"
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
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("webhook %s answered %s: %s", w.Name, resp.Status, bytes.TrimSpace(answer[:min(len(answer), 500)]))
	}
	if err := refused(w.Preset, answer); err != nil {
		return fmt.Errorf("webhook %s answered %s, but %w", w.Name, resp.Status, err)
	}
	return nil
}

// refused reads the answer of a service that says 200 whatever happens: the code in its JSON tells whether it took the message.
func refused(preset string, answer []byte) error {
	names := map[string][2]string{"dingtalk": {"errcode", "errmsg"}, "wecom": {"errcode", "errmsg"}, "feishu": {"code", "msg"}}[preset]
	var fields map[string]any
	if names[0] == "" || json.Unmarshal(answer, &fields) != nil {
		return nil
	}
	if fields[names[0]] == nil { // Feishu's older bots
		names = [2]string{"StatusCode", "StatusMessage"}
	}
	if code, ok := fields[names[0]].(float64); ok && code != 0 {
		return fmt.Errorf("%s %.0f: %v", names[0], code, fields[names[1]])
	}
	return nil
}
