package smtptest

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Steps are the steps of a conversation at which a Stalled server can stop, in their order.
var Steps = []string{
	"greeting", "EHLO", "STARTTLS", "handshake", "AUTH", "MAIL", "RCPT", "DATA", "body", "QUIT",
}

// Stalled is a server that never completes its answer at one step.
type Stalled struct {
	Host    string
	Port    int
	Reached chan struct{} // closed when a client is at that step
	Left    chan struct{} // closed when that client has closed its connection
}

// Stall runs a server that hangs at a step or, with a pause, sends a byte of an endless answer after each pause.
func Stall(t testing.TB, step string, pause time.Duration) *Stalled {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Stalled{
		Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Reached: make(chan struct{}), Left: make(chan struct{}),
	}
	reached := sync.OnceFunc(func() { close(s.Reached) })
	left := sync.OnceFunc(func() { close(s.Left) })
	go func() { // ends with the test
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go converse(c, step, func() {
				reached()
				endless(c, step, pause)
				left()
			})
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return s
}

// converse answers as a server does, until stall at one step.
func converse(c net.Conn, step string, stall func()) {
	defer c.Close()
	in := bufio.NewScanner(c)
	answer := func(at, text string) bool {
		if at == step {
			stall()
			return false
		}
		_, err := c.Write([]byte(text + "\r\n"))
		return err == nil
	}
	for goes := answer("greeting", "220 test.example"); goes && in.Scan(); {
		switch verb, _, _ := strings.Cut(in.Text(), " "); verb {
		case "EHLO":
			offers := "250-AUTH PLAIN\r\n250 8BITMIME"
			if step == "STARTTLS" || step == "handshake" {
				offers = "250-STARTTLS\r\n" + offers
			}
			goes = answer(verb, "250-test.example\r\n"+offers)
		case "STARTTLS":
			if goes = answer(verb, "220 go on"); goes && step == "handshake" {
				stall()
				return
			}
		case "AUTH":
			goes = answer(verb, "235 welcome")
		case "DATA":
			goes = answer(verb, "354 go on")
		case ".":
			goes = answer("body", "250 accepted")
		case "QUIT":
			goes = answer(verb, "221 bye")
		case "MAIL", "RCPT":
			goes = answer(verb, "250 fine")
		default: // a line of the body
		}
	}
}

// endless sends an answer without an end, until the client closes the connection.
func endless(c net.Conn, step string, pause time.Duration) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for b := make([]byte, 512); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	}()
	next := "250-"
	if step == "handshake" {
		next = "\x16\x03\x03\x40\x00\x02\x00\x3f\xfc" // a record of 16 KiB with a ServerHello
	}
	for {
		var tick <-chan time.Time
		if pause > 0 {
			tick = time.After(pause)
		}
		select {
		case <-gone:
			return
		case <-tick:
			if next == "" {
				next = "x"
			}
			_, _ = c.Write([]byte(next[:1]))
			next = next[1:]
		}
	}
}
