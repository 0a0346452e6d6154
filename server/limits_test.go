package server_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/wait"
)

// begin sends the header of a push and returns its connection.
func (r *running) begin(t *testing.T, length int) net.Conn {
	t.Helper()
	c := dial(t, r.addr)
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n",
		orders, r.token, length)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func status(t *testing.T, c net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

const largePush = 200 << 10

func large() string { return `{"body":"` + strings.Repeat("x", largePush-11) + `"}` }

// TestLimitOfSlowBodies: a body may take long only as long as it arrives at a minimum rate.
func TestLimitOfSlowBodies(t *testing.T) {
	r := start(t, listen(t), func(o *server.Options) { o.Limits.BodyGrace = 200 * time.Millisecond })
	drip, steady := r.begin(t, largePush), r.begin(t, largePush)
	began, body := time.Now(), large()
	go func() {
		for range 100 {
			if _, err := io.WriteString(drip, "{"); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond) // 50 bytes a second
		}
	}()
	for len(body) > 0 {
		n := min(len(body), 10<<10)
		if _, err := io.WriteString(steady, body[:n]); err != nil {
			t.Fatal(err)
		}
		body = body[n:]
		time.Sleep(20 * time.Millisecond)
	}
	if got := status(t, steady); got != http.StatusCreated {
		t.Errorf("a steady client was answered %d", got)
	}
	if got := status(t, drip); got != http.StatusRequestTimeout || time.Since(began) > 10*time.Second {
		t.Errorf("a dripping client was answered %d after %s", got, time.Since(began))
	}
}

// Kinds and flags of HTTP/2 frames.
const (
	h2Headers, h2Reset, h2Settings, h2Ping, h2Window, h2Continuation = 1, 3, 4, 6, 8, 9
	h2EndStream, h2EndHeaders                                        = 1, 4
)

func h2Frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

// h2Get is the header block of a GET.
func h2Get(path string) []byte {
	block := append([]byte{0x82, 0x87, 0x04, byte(len(path))}, path...) // GET, https, :path
	return append(block, 0x41, 1, 'x')                                  // :authority
}

// dialHTTP2 starts a server and connects to it with a setting of the client's.
func dialHTTP2(t *testing.T, change func(*server.Limits), setting []byte) net.Conn {
	t.Helper()
	site := httptest.NewUnstartedServer(nil)
	site.StartTLS() // only for its certificate
	cert := site.TLS.Certificates[0]
	site.Close()
	r := start(t, listen(t), func(o *server.Options) {
		change(&o.Limits)
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	})
	c, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	out := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), h2Frame(h2Settings, 0, 0, setting)...)
	if _, err := c.Write(out); err != nil {
		t.Fatal(err)
	}
	return c
}

// h2InitialWindow sets the flow-control window of each stream.
func h2InitialWindow(size uint32) []byte { return binary.BigEndian.AppendUint32([]byte{0, 4}, size) }

// TestLimitOfHTTP2ClientsThatDoNotRead: it requests a lot, opens all flow-control windows, and reads nothing.
func TestLimitOfHTTP2ClientsThatDoNotRead(t *testing.T) {
	c := dialHTTP2(t, func(l *server.Limits) { l.StallTimeout = 200 * time.Millisecond }, h2InitialWindow(0x7fffffff))
	out := h2Frame(h2Window, 0, 0, []byte{0x7f, 0, 0, 0})
	for n := range uint32(100) {
		out = append(out, h2Frame(h2Headers, h2EndStream|h2EndHeaders, 2*n+1, h2Get("/openapi.yaml"))...)
	}
	if _, err := c.Write(out); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the server to close the connection", func() bool {
		_, err := c.Write(h2Frame(h2Ping, 0, 0, make([]byte, 8)))
		return err != nil
	})
}

// TestLimitOfHTTP2WindowsOfZero: a client that lets no byte of the answer through loses the request, and then, without
// another one, the connection.
func TestLimitOfHTTP2WindowsOfZero(t *testing.T) {
	c := dialHTTP2(t, func(l *server.Limits) {
		l.WriteTimeout, l.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond
	}, h2InitialWindow(0))
	if _, err := c.Write(h2Frame(h2Headers, h2EndStream|h2EndHeaders, 1, h2Get("/openapi.yaml"))); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(wait.Limit))
	got, err := io.ReadAll(c) // returns when the server closes the connection
	if err != nil || !bytes.Contains(got, h2Frame(h2Reset, 0, 1, nil)[3:9]) {
		t.Errorf("the server sent %x, %v; want a reset of stream 1 and the end", got, err)
	}
}

// TestLimitOfEmptyContinuations: frames that add nothing to the headers of a request do not keep its connection.
func TestLimitOfEmptyContinuations(t *testing.T) {
	c := dialHTTP2(t, func(l *server.Limits) { l.IdleTimeout = 200 * time.Millisecond }, nil)
	if _, err := c.Write(h2Frame(h2Headers, h2EndStream, 1, h2Get("/healthz"))); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the server to close the connection", func() bool {
		_, err := c.Write(h2Frame(h2Continuation, 0, 1, nil))
		return err != nil
	})
}

// TestASmallLimitHoldsForAnyLength: a body without Content-Length has the same limit.
func TestASmallLimitHoldsForAnyLength(t *testing.T) {
	a := newAPI(t, func(o *server.Options) { o.Limits.MaxBody = 100 })
	for length, want := range map[int]int{10: http.StatusCreated, 100: http.StatusCreated,
		101: http.StatusRequestEntityTooLarge} {
		req, err := http.NewRequest(http.MethodPut, fmt.Sprintf("%s%s/%d", a.url, orders, length),
			io.NopCloser(strings.NewReader(strings.Repeat("1", length))))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+a.token)
		if got := a.send(req); got.status != want {
			t.Errorf("%d bytes were answered %d: %s", length, got.status, got.body)
		}
	}
}

// TestLimitOfReadTimeIsTheClients: it does not limit how long Redis takes.
func TestLimitOfReadTimeIsTheClients(t *testing.T) {
	r := start(t, listen(t), func(o *server.Options) { o.Limits.ReadTimeout = 100 * time.Millisecond })
	r.jobs.hold, r.jobs.holding = make(chan struct{}), make(chan struct{}, 2)
	for _, length := range []int{11, 100 << 10} {
		c := r.begin(t, length)
		if _, err := fmt.Fprintf(c, `{"body":"%s"}`, strings.Repeat("x", length-11)); err != nil {
			t.Fatal(err)
		}
		<-r.jobs.holding
		select {
		case <-r.jobs.holding:
			t.Errorf("a push of %d bytes was canceled", length)
		case <-time.After(300 * time.Millisecond):
			r.jobs.hold <- struct{}{}
		}
	}
}
