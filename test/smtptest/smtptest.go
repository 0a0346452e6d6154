// Package smtptest is an SMTP server for tests: it accepts mails, or misbehaves.
package smtptest

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/mail"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Mail is a received mail.
type Mail struct {
	Client   string // the name that the client gave in EHLO
	From, To string
	Subject  string
	Header   mail.Header
	Raw      string
}

// Server is a running SMTP server.
type Server struct {
	Host string
	Port int

	mu       sync.Mutex
	mails    []Mail
	refuse   error
	user, pw string
	hangFor  string
	ended    chan struct{}
}

// Start runs a server on a free port until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	s := &Server{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, ended: ended}
	srv := smtp.NewServer(s)
	srv.Domain, srv.AllowInsecureAuth = "test.example", true
	srv.ReadTimeout, srv.WriteTimeout = 30*time.Second, 30*time.Second
	go func() {
		defer close(ended)
		_ = srv.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return s
}

// Hanging accepts connections and never sends anything.
func Hanging(t testing.TB) (host string, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "127.0.0.1", l.Addr().(*net.TCPAddr).Port
}

// Refuse makes the server answer every recipient with a code and a text; code 0 ends that.
func (s *Server) Refuse(code int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = nil
	if code != 0 {
		s.refuse = &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCodeNotSet, Message: text}
	}
}

// HangFor makes the server never answer a mail to one recipient.
func (s *Server) HangFor(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangFor = to
}

// WantLogin makes the server accept mails of one user only.
func (s *Server) WantLogin(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.pw = user, password
}

// Mails returns the received mails, oldest first.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

// NewSession implements smtp.Backend.
func (s *Server) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{s: s, client: c.Hostname()}, nil
}

type session struct {
	s      *Server
	client string
	mail   Mail
	known  bool
}

// AuthMechanisms implements smtp.AuthSession.
func (c *session) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements smtp.AuthSession.
func (c *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		c.known = c.s.user == "" || user == c.s.user && password == c.s.pw
		if !c.known {
			return errors.New("authentication credentials invalid")
		}
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (c *session) Mail(from string, _ *smtp.MailOptions) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.user != "" && !c.known {
		return smtp.ErrAuthRequired
	}
	c.mail = Mail{Client: c.client, From: from}
	return nil
}

// Rcpt implements smtp.Session.
func (c *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	c.s.mu.Lock()
	hangs, refuse := to == c.s.hangFor, c.s.refuse
	c.s.mu.Unlock()
	if hangs {
		<-c.s.ended
	}
	c.mail.To = to
	return refuse
}

// Data implements smtp.Session.
func (c *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	c.mail.Header, c.mail.Raw = m.Header, string(raw)
	if c.mail.Subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.mails = append(c.s.mails, c.mail)
	return nil
}

// Reset implements smtp.Session.
func (c *session) Reset() {}

// Logout implements smtp.Session.
func (c *session) Logout() error { return nil }
