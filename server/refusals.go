package server

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// refusals is a listener whose connections answer what net/http refuses before a handler sees it, such as a malformed
// header, as problems with a request id. net/http has no hook for that: it writes a fixed text to the connection, at
// once, which no answer of a handler begins like. (Over TLS and HTTP/2 net/http's text stays: it is encrypted here.)
type refusals struct{ net.Listener }

func (l refusals) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return refusingConn{c}, nil
}

type refusingConn struct{ net.Conn }

// CloseWrite is for net/http; see package connlimit, which calls it.
func (c refusingConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

const (
	refusalHead = "HTTP/1.1 "
	statusAt    = len(refusalHead)
	detailsAt   = statusAt + len("400 ")
)

var (
	textRefusal        = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	expectationRefusal = []byte("HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\n")
)

// Write costs an answer one comparison of a byte, unless it begins like one of the class 4xx or 5xx.
func (c refusingConn) Write(b []byte) (int, error) {
	if len(b) <= detailsAt || b[statusAt] < '4' {
		return c.Conn.Write(b)
	}
	status, detail := refused(b)
	if status == 0 {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(refusal(status, detail)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// refused is the status of an answer that net/http made itself, and what is wrong; 0: it is a handler's.
func refused(b []byte) (status int, detail string) {
	line, text, fixed := bytes.Cut(b, textRefusal)
	switch {
	case bytes.HasPrefix(b, expectationRefusal):
		text = []byte("Expect: only 100-continue is known")
	case !fixed || !bytes.HasPrefix(line, []byte(refusalHead)) || bytes.Contains(line, []byte("\r\n")):
		return 0, ""
	}
	status, err := strconv.Atoi(string(b[statusAt : detailsAt-1]))
	if err != nil {
		return 0, ""
	}
	return status, string(text)
}

// refusal is a whole answer.
func refusal(status int, detail string) []byte {
	id := rand.Text()
	p := &Problem{Status: status, Detail: detail}
	view := p.view()
	view.Type, view.RequestID = "about:blank", id
	body, err := json.Marshal(view)
	if err != nil {
		body = []byte("{}")
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s: %s\r\nX-Content-Type-Options: nosniff\r\n"+
		"Cache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), problemType[0], headerRequestID, id, len(body), body)
}
