package alert

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/mail"
	"net/smtp"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	gomail "github.com/go-mail/mail/v2"
	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/net/idna"

	"github.com/wakecall/wakecall/internal/callback"
)

// sendTimeout limits each step of sending. A whole conversation may take at most three times as long. Tests shorten it.
var sendTimeout = 10 * time.Second

// SendMail sends a message to one recipient. Its error contains the server's reply.
func SendMail(ctx context.Context, s Mail, to string, m *Message) error {
	if s.Host == "" {
		return errors.New("no SMTP server set")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*sendTimeout)
	defer cancel()
	err := s.connect(ctx, func(conn net.Conn) error { return s.converse(conn, addressOf(to), letter(s, to, m)) })
	if err != nil {
		return fmt.Errorf("SMTP server %s:%d: %w", s.Host, s.Port, cmp.Or(ctx.Err(), err))
	}
	return nil
}

// connect calls use with a connection to the server, which it closes when ctx ends.
func (m *Mail) connect(ctx context.Context, use func(net.Conn) error) error {
	d := net.Dialer{Timeout: sendTimeout, ControlContext: callback.Control}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(m.Host, strconv.Itoa(m.Port)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	return use(timeoutConn{conn})
}

// converse is like go-mail's Dialer, which has no context and would leave the connection open after an error.
func (m *Mail) converse(conn net.Conn, to string, l *gomail.Message) error {
	name, local := ownName(conn.LocalAddr()), isLocal(conn)
	if m.TLS == TLSDirect {
		conn = tls.Client(conn, &tls.Config{ServerName: m.Host})
	}
	c, err := smtp.NewClient(conn, m.Host)
	if err != nil {
		return err
	}
	if err := c.Hello(name); err != nil {
		return err
	}
	if err := m.secure(c); err != nil {
		return err
	}
	if err := m.login(c, local); err != nil {
		return err
	}
	from := addressOf(m.From)
	if international, _ := c.Extension("SMTPUTF8"); !international {
		from, to = asciiDomain(from), asciiDomain(to)
	}
	if err := transmit(c, from, to, l); err != nil {
		return err
	}
	_ = c.Quit() // the server has already accepted the mail
	return nil
}

// ownName returns the name of this host for EHLO: its fully qualified name or, as RFC 5321 has it, its address.
// Servers may refuse any other name.
func ownName(a net.Addr) string {
	if name, err := os.Hostname(); err == nil && strings.Contains(strings.Trim(name, "."), ".") {
		return name
	}
	host, _, _ := net.SplitHostPort(a.String())
	if strings.Contains(host, ":") {
		host, _, _ = strings.Cut(host, "%")
		host = "IPv6:" + host
	}
	return "[" + host + "]"
}

// isLocal reports whether the server runs on this machine. Its name does not tell: DNS may give any address for it.
func isLocal(conn net.Conn) bool {
	here, ok := conn.LocalAddr().(*net.TCPAddr)
	there, okToo := conn.RemoteAddr().(*net.TCPAddr)
	return ok && okToo && (there.IP.IsLoopback() || there.IP.Equal(here.IP))
}

// timeoutConn limits each read and write.
type timeoutConn struct{ net.Conn }

func (c timeoutConn) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(sendTimeout))
	return c.Conn.Read(b)
}

func (c timeoutConn) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(sendTimeout))
	return c.Conn.Write(b)
}

func (m *Mail) secure(c *smtp.Client) error {
	if m.TLS == TLSDirect || m.TLS == TLSNone {
		return nil
	}
	if offered, _ := c.Extension("STARTTLS"); offered {
		return c.StartTLS(&tls.Config{ServerName: m.Host})
	}
	if m.TLS == TLSStart {
		return errors.New("the server does not offer STARTTLS")
	}
	return nil
}

// errClear is returned instead of sending the password as it is. An attacker in between may have removed STARTTLS from
// the server's extensions to get it.
var errClear = errors.New("the connection is not encrypted, so the password is not sent: set TLS to starttls or tls, " +
	"or remove the username if the server needs no login")

// login uses a mechanism that the server offers. All but CRAM-MD5 reveal the password, so they need TLS or a server on
// this machine.
func (m *Mail) login(c *smtp.Client, local bool) error {
	offered, ways := c.Extension("AUTH")
	if m.Username == "" || !offered {
		return nil
	}
	if strings.Contains(ways, "CRAM-MD5") {
		return c.Auth(smtp.CRAMMD5Auth(m.Username, string(m.Password)))
	}
	if _, encrypted := c.TLSConnectionState(); !encrypted && !local {
		return errClear
	}
	if strings.Contains(ways, "LOGIN") && !strings.Contains(ways, "PLAIN") {
		return c.Auth(passwordAuth{m, "LOGIN"})
	}
	return c.Auth(passwordAuth{m, "PLAIN"})
}

// passwordAuth is the mechanism PLAIN, as smtp.PlainAuth knows a server on this machine by three names only, or LOGIN,
// the only one that some servers offer.
type passwordAuth struct {
	m   *Mail
	way string
}

func (a passwordAuth) Start(*smtp.ServerInfo) (string, []byte, error) {
	if a.way == "LOGIN" {
		return a.way, nil, nil
	}
	return a.way, []byte("\x00" + a.m.Username + "\x00" + string(a.m.Password)), nil
}

func (a passwordAuth) Next(question []byte, more bool) ([]byte, error) {
	switch {
	case !more:
		return nil, nil
	case a.way == "PLAIN":
		return nil, errors.New("unexpected question of the server")
	case strings.HasPrefix(strings.ToLower(string(question)), "user"):
		return []byte(a.m.Username), nil
	}
	return []byte(a.m.Password), nil
}

// addressOf returns the address without the display name.
func addressOf(text string) string {
	if a, err := mail.ParseAddress(text); err == nil {
		return a.Address
	}
	return text
}

// asciiDomain returns an address with its domain as DNS has it, which every server and header accepts.
func asciiDomain(address string) string {
	at := strings.LastIndexByte(address, '@') + 1
	domain, err := idna.Lookup.ToASCII(address[at:])
	if err != nil {
		return address
	}
	return address[:at] + domain
}

func transmit(c *smtp.Client, from, to string, text io.WriterTo) error {
	if err := c.Mail(from); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := text.WriteTo(w); err != nil {
		return err
	}
	return w.Close()
}

// id returns the Message-ID of a mail to one recipient, which is the same whenever it is sent again. Some servers
// refuse a mail without one.
func (m *Message) id(to string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", to, m.At.UnixNano(), m.Text()))
	return "<" + hex.EncodeToString(sum[:16]) + "@wakecall>"
}

func letter(s Mail, to string, m *Message) *gomail.Message {
	l := gomail.NewMessage()
	if from, err := mail.ParseAddress(s.From); err == nil {
		l.SetAddressHeader("From", asciiDomain(from.Address), from.Name)
	}
	l.SetHeader("To", asciiDomain(addressOf(to)))
	l.SetHeader("Subject", strings.Join(strings.Fields(m.Subject()), " ")) // a header must be one line
	l.SetDateHeader("Date", m.At)
	l.SetHeader("Auto-Submitted", "auto-generated")
	id, thread := m.id(to), "<alert-"+m.Thread+"@wakecall>"
	switch {
	case m.Thread == "":
	case m.First:
		id = thread
	default: // mail programs show it with the first
		l.SetHeader("In-Reply-To", thread)
		l.SetHeader("References", thread)
	}
	l.SetHeader("Message-ID", id)
	l.SetBody("text/plain", m.Text()+"\n")
	l.AddAlternative("text/html", m.HTML())
	return l
}

// SendWebhook posts to a webhook. web restricts the addresses it may reach. A response other than 2xx is an error that
// contains the beginning of the response.
func SendWebhook(ctx context.Context, web *http.Client, w Webhook, m *Message) error {
	if web == nil {
		return fmt.Errorf("webhook %s: no HTTP client", w.Name)
	}
	body, err := w.body(m)
	if err != nil {
		return fmt.Errorf("webhook %s: %w", w.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*sendTimeout)
	defer cancel()
	r, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, string(w.URL), body)
	if err != nil {
		return fmt.Errorf("webhook %s: invalid URL", w.Name)
	}
	r.Header.Set("Content-Type", "application/json")
	c := retryablehttp.NewClient()
	limited := *web
	limited.Timeout = sendTimeout
	c.Logger, c.RetryMax, c.HTTPClient, c.ErrorHandler = nil, 1, &limited, retryablehttp.PassthroughErrorHandler
	resp, err := c.Do(r)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if err != nil {
		return fmt.Errorf("webhook %s: %w", w.Name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("webhook %s answered %s: %s", w.Name, resp.Status,
			bytes.TrimSpace(answer[:min(len(answer), 500)]))
	}
	if err := refused(w.Preset, answer); err != nil {
		return fmt.Errorf("webhook %s answered %s, but %w", w.Name, resp.Status, err)
	}
	return nil
}

// refused reads the error code in the JSON of services that always answer 200.
func refused(preset string, answer []byte) error {
	names := map[string][2]string{
		"dingtalk": {"errcode", "errmsg"}, "wecom": {"errcode", "errmsg"}, "feishu": {"code", "msg"},
	}[preset]
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
