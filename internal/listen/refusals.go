package listen

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// Refusal returns the answer to a request that net/http rejects before it reaches a handler, such as one with a
// malformed header. detail describes the error.
type Refusal func(status int, detail string) (h http.Header, body []byte)

// net/http has no hook for these answers. It writes a fixed text to the connection in one write, and no handler's
// answer begins with that text. So connections with HTTP/1.1 inspect what is written to them. (In HTTP/2, a malformed
// request is a stream error, and net/http answers a header that is too large with its own page.)
type refusals struct {
	net.Listener
	refuse Refusal
}

func (l refusals) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return refusingConn{HalfConn{c}, l.refuse}, nil
}

type refusingConn struct {
	HalfConn
	refuse Refusal
}

func (c refusingConn) Write(b []byte) (int, error) { return c.refuse.write(c.Conn, b) }

// refusingTLS does the same inside TLS.
type refusingTLS struct {
	*tls.Conn
	refuse Refusal
}

func (c refusingTLS) Write(b []byte) (int, error) { return c.refuse.write(c.Conn, b) }

const (
	refusalHead = "HTTP/1.1 "
	statusAt    = len(refusalHead)
	detailsAt   = statusAt + len("400 ")
)

var (
	textRefusal        = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	expectationRefusal = []byte("HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\n")
	noTLSRefusal       = []byte("HTTP/1.0 400 Bad Request\r\n\r\n")
)

// write compares only one byte of an answer, unless it begins like a 4xx or 5xx.
func (refuse Refusal) write(c net.Conn, b []byte) (int, error) {
	if len(b) <= detailsAt || b[statusAt] < '4' {
		return c.Write(b)
	}
	status, detail := refused(b)
	if status == 0 {
		return c.Write(b)
	}
	if _, err := c.Write(refuse.answer(status, detail)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// refused returns the status of an answer written by net/http itself, and the error. It returns 0 if a handler wrote
// the answer.
func refused(b []byte) (status int, detail string) {
	line, text, fixed := bytes.Cut(b, textRefusal)
	switch {
	case bytes.HasPrefix(b, noTLSRefusal):
		text = bytes.TrimSpace(b[len(noTLSRefusal):])
	case bytes.HasPrefix(b, expectationRefusal):
		text = []byte("Expect: only 100-continue is supported")
	case !fixed || !bytes.HasPrefix(line, []byte(refusalHead)) || bytes.Contains(line, []byte("\r\n")):
		return 0, ""
	}
	status, err := strconv.Atoi(string(b[statusAt : detailsAt-1]))
	if err != nil {
		return 0, ""
	}
	return status, string(text)
}

// answer returns a complete answer.
func (refuse Refusal) answer(status int, detail string) []byte {
	h, body := refuse(status, detail)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Connection", "close")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = h.Write(&b) // writes to memory
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}
