package callback

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answering serves connections with fixed answers, one for each request; then it calls then and closes the connection.
func answering(t *testing.T, answers []string, then func(n int, c net.Conn)) (url string, accepted func() int32) {
	url, n := raw(t, func(n int, c net.Conn) {
		in := bufio.NewReader(c)
		for _, a := range answers {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, a)
		}
		if then != nil {
			then(n, c)
		}
	})
	return url, n.Load
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"

// TestAConnectionIsReusedAfterACompleteAnswer: after every complete answer with a known end, unless either side wants
// it closed.
func TestAConnectionIsReusedAfterACompleteAnswer(t *testing.T) {
	for answer, connections := range map[string]int32{
		fine:                              1,
		"HTTP/1.1 204 No Content\r\n\r\n": 1,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n":     1,
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + fine: 1,
		"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n":                 1,
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n":                                    3,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n":               3,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n":   3,
		// it is not read completely
		"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000): 3,
		fine + fine: 3, // and an unsolicited one
	} {
		url, accepted := answering(t, []string{answer, answer, answer}, nil)
		c, e := caller(t, Options{}), endpoint(t, EndpointSpec{URL: url})
		for range 3 {
			if o := c.Do(t.Context(), e, job()); o.Status == 0 {
				t.Fatalf("%.60q: %+v", answer, o)
			}
		}
		if n := accepted(); n != connections {
			t.Errorf("%.60q: three calls took %d connections, want %d", answer, n, connections)
		}
	}
}

// TestAConnectionThatEndedWhileItWasIdleCostsNothing, nor does one with unsolicited data, which is not taken for the
// answer to the next call.
func TestAConnectionThatEndedWhileItWasIdleCostsNothing(t *testing.T) {
	for name, last := range map[string]string{"closed": "",
		"told why":       "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n",
		"another answer": strings.Replace(fine, "200", "500", 1)} {
		said, over := make(chan struct{}), make(chan struct{})
		url, accepted := answering(t, []string{fine}, func(n int, c net.Conn) {
			if n > 1 {
				return
			}
			_, _ = io.WriteString(c, last)
			if last == "" {
				_ = c.Close()
			}
			close(said)
			<-over
		})
		c, e := caller(t, Options{}), endpoint(t, EndpointSpec{URL: url})
		for call := range 2 {
			if o := c.Do(t.Context(), e, job()); o.Class != Success || string(o.Answer) != "fine" {
				t.Errorf("%s: call %d: %+v", name, call, o)
			}
			<-said
		}
		close(over)
		if n := accepted(); n != 2 {
			t.Errorf("%s: %d connections, want 2", name, n)
		}
	}
}

// TestACanceledCallClosesItsConnection: what the endpoint sends later is no call's answer.
func TestACanceledCallClosesItsConnection(t *testing.T) {
	for name, head := range map[string]string{"headers": "", "body": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfi"} {
		read, closed := make(chan struct{}, 1), make(chan struct{}, 1)
		url, _ := raw(t, func(_ int, c net.Conn) {
			_ = readRequest(c)
			_, _ = io.WriteString(c, head)
			read <- struct{}{}
			untilClosed(c)
			closed <- struct{}{}
		})
		c, e := caller(t, Options{}), endpoint(t, EndpointSpec{URL: url})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-read; cancel() }()
		r := job()
		r.Timeout = time.Minute
		if o := c.Do(ctx, e, r); o.Reason != "canceled" || o.EndpointDown {
			t.Errorf("%s: %+v", name, o)
		}
		<-closed
		r.Timeout = 50 * time.Millisecond
		if o := c.Do(t.Context(), e, r); o.Reason != "timeout" || !o.EndpointDown {
			t.Errorf("%s: %+v", name, o)
		}
		<-read
		<-closed
	}
}

// TestAnAddressWithAUserIsCalledAsThatUser: net/http sends the user as a header.
func TestAnAddressWithAUserIsCalledAsThatUser(t *testing.T) {
	var name, password string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { name, password, _ = r.BasicAuth() })
	url = strings.Replace(url, "//", "//shop:s3cret@", 1)
	if o := caller(t, Options{}).Do(t.Context(), endpoint(t, EndpointSpec{URL: url}), job()); o.Class != Success ||
		name != "shop" || password != "s3cret" {
		t.Fatalf("%q with %q: %+v", name, password, o)
	}
}

// TestACanceledCallDoesNotBegin, not even over a kept connection, which needs no wait; the connection stays open.
func TestACanceledCallDoesNotBegin(t *testing.T) {
	url, accepted := answering(t, []string{fine, fine}, nil)
	c, e := caller(t, Options{}), endpoint(t, EndpointSpec{URL: url})
	if o := c.Do(t.Context(), e, job()); o.Class != Success {
		t.Fatalf("%+v", o)
	}
	for name, reason := range map[string]string{"canceled": "canceled", "canceled while it begins": "canceled",
		"too late": "timeout"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := job()
		begun := false
		r.Begin = func() error { begun = true; return nil }
		switch name {
		case "canceled":
			cancel()
		case "too late":
			r.Timeout = 0
		default:
			r.Begin = func() error { cancel(); return nil }
		}
		if o := c.Do(ctx, e, r); o.Reason != reason || begun {
			t.Errorf("%s: begun %v, %+v", name, begun, o)
		}
	}
	if o := c.Do(t.Context(), e, job()); o.Class != Success || accepted() > 2 {
		t.Fatalf("%+v over connection %d", o, accepted())
	}
}

// TestALongQueryIsAnsweredEarly: like a long body, it is not written completely before the answer is read.
func TestALongQueryIsAnsweredEarly(t *testing.T) {
	url, _ := raw(t, func(_ int, c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1000))
		_, _ = io.WriteString(c, "HTTP/1.1 414 URI Too Long\r\nContent-Length: 0\r\n\r\n")
		<-t.Context().Done()
	})
	r := job()
	r.Timeout = time.Minute
	r.Body = []byte(`{"a":"` + strings.Repeat("x", 16<<20) + `"}`)
	if o := caller(t, Options{}).Do(t.Context(), endpoint(t, EndpointSpec{URL: url, Method: "GET"}),
		r); o.Status != http.StatusRequestURITooLong {
		t.Fatalf("%+v", o)
	}
}
