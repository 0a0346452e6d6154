package server_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/server"
)

// TestWhatIsRefusedBeforeAHandlerIsAProblem: a malformed request of any kind is refused like any other: with a problem
// and a request id, and without a reset of the connection.
func TestWhatIsRefusedBeforeAHandlerIsAProblem(t *testing.T) {
	t.Parallel()
	plain := start(t, listen(t))
	site := httptest.NewUnstartedServer(nil)
	site.StartTLS() // only for its certificate
	cert := site.TLS.Certificates[0]
	site.Close()
	secured := start(t, listen(t), func(o *server.Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	})
	overTLS := func(protocols ...string) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			return tls.Dial("tcp", secured.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
		}
	}
	for way, dial := range map[string]func() (net.Conn, error){
		"plain": func() (net.Conn, error) { return net.Dial("tcp", plain.addr) },
		"TLS":   overTLS(), "TLS with ALPN": overTLS("http/1.1"),
	} {
		t.Run(way, func(t *testing.T) { refusedAsProblems(t, dial) })
	}
	t.Run("plain to TLS", func(t *testing.T) {
		refusedAsProblem(t, func() (net.Conn, error) { return net.Dial("tcp", secured.addr) },
			"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400)
	})
}

func refusedAsProblems(t *testing.T, dial func() (net.Conn, error)) {
	for what, c := range map[string]struct {
		request string
		status  int
	}{
		"percent":  {"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		"no host":  {"GET /healthz HTTP/1.1\r\n\r\n", 400},
		"bad host": {"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		"header":   {"GET /healthz HTTP/1.1\r\nHost: h\r\nbad header: x\r\n\r\n", 400},
		"line":     {"nonsense\r\n\r\n", 400},
		"lengths":  {"POST /v1/jobs HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		"expect":   {"POST /v1/jobs HTTP/1.1\r\nHost: h\r\nExpect: cake\r\nContent-Length: 0\r\n\r\n", 417},
		"encoding": {"POST /v1/jobs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		"version":  {"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505},
		"too much": {"GET /healthz HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", 431},
	} {
		t.Run(what, func(t *testing.T) { refusedAsProblem(t, dial, c.request, c.status) })
	}
}

func refusedAsProblem(t *testing.T, dial func() (net.Conn, error), request string, status int) {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = io.WriteString(conn, request) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct {
		Status        int
		Title, Detail string
		RequestID     string `json:"request_id"`
	}
	id := resp.Header.Get("X-Request-Id")
	if err := json.Unmarshal(body, &problem); err != nil || resp.StatusCode != status ||
		problem.Status != status || problem.Detail == "" || problem.Title == "" || id == "" ||
		problem.RequestID != id || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v\n%s\n%v", resp.StatusCode, resp.Header, body, err)
	}
}
