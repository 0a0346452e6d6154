package server_test

import (
	"bufio"
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

// TestLimitOfHTTP2ClientsThatDoNotRead: it requests a lot, opens all flow-control windows, and reads nothing.
func TestLimitOfHTTP2ClientsThatDoNotRead(t *testing.T) {
	site := httptest.NewUnstartedServer(nil)
	site.StartTLS() // only for its certificate
	cert := site.TLS.Certificates[0]
	site.Close()
	r := start(t, listen(t), func(o *server.Options) {
		o.Limits.StallTimeout = 200 * time.Millisecond
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	})
	c, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
		return append(binary.BigEndian.AppendUint32(head, stream), payload...)
	}
	const settings, headers, ping, window = 4, 1, 6, 8
	const path = "/openapi.yaml"
	out := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	out = append(out, frame(settings, 0, 0, []byte{0, 4, 0x7f, 0xff, 0xff, 0xff})...)
	out = append(out, frame(window, 0, 0, []byte{0x7f, 0, 0, 0})...)
	for n := range uint32(100) {
		block := append([]byte{0x82, 0x87, 0x04, byte(len(path))}, path...) // GET, https, :path
		block = append(block, 0x41, 1, 'x')                                 // :authority
		out = append(out, frame(headers, 5, 2*n+1, block)...)
	}
	if _, err := c.Write(out); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the server to close the connection", func() bool {
		_, err := c.Write(frame(ping, 0, 0, make([]byte, 8)))
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
