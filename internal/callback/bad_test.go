package callback

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func raw(t *testing.T, handle func(n int, c net.Conn)) (url string, accepted *atomic.Int32) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	accepted = &atomic.Int32{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(accepted.Add(1))
			go func() { defer func() { _ = c.Close() }(); handle(n, c) }()
		}
	}()
	return "http://" + l.Addr().String(), accepted
}

func readRequest(c net.Conn) error {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return err
}

func untilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func TestABadEndpointFreesItsPlaceInTime(t *testing.T) {
	reply := func(s string) func(int, net.Conn) {
		return func(_ int, c net.Conn) { _ = readRequest(c); _, _ = io.WriteString(c, s); untilClosed(c) }
	}
	flood := func(head, chunk string) func(int, net.Conn) {
		return func(_ int, c net.Conn) {
			_ = readRequest(c)
			_, err := io.WriteString(c, head)
			for err == nil {
				_, err = io.WriteString(c, chunk)
			}
		}
	}
	cases := []struct {
		name   string
		handle func(int, net.Conn)
		reason string
		whole  bool // takes the whole TTR
	}{
		{"hangs", func(_ int, c net.Conn) { untilClosed(c) }, "timeout", true},
		{"never reads", func(_ int, c net.Conn) { <-t.Context().Done() }, "timeout", true},
		{"drips", func(_ int, c net.Conn) {
			_ = readRequest(c)
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			for tick := time.NewTicker(20 * time.Millisecond); err == nil; <-tick.C {
				_, err = io.WriteString(c, "x")
			}
		}, "timeout", true},
		{"drips headers", func(_ int, c net.Conn) {
			_ = readRequest(c)
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Long: ")
			for tick := time.NewTicker(20 * time.Millisecond); err == nil; <-tick.C {
				_, err = io.WriteString(c, "x")
			}
		}, "timeout", true},
		{"drips a name", func(_ int, c net.Conn) {
			_ = readRequest(c)
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Lo")
			for tick := time.NewTicker(20 * time.Millisecond); err == nil; <-tick.C {
				_, err = io.WriteString(c, "x")
			}
		}, "timeout", true},
		{"drips whole headers", func(_ int, c net.Conn) {
			_ = readRequest(c)
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for tick := time.NewTicker(20 * time.Millisecond); err == nil; <-tick.C {
				_, err = io.WriteString(c, "X-A: b\r\n")
			}
		}, "timeout", true},
		{"drips a status", func(_ int, c net.Conn) {
			_ = readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 2")
			untilClosed(c)
		}, "timeout", true},
		{"endless 1xx", flood("", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), "", false},
		{"endless headers", flood("HTTP/1.1 200 OK\r\n", "X-A: "+strings.Repeat("b", 1000)+"\r\n"), "protocol", false},
		{"garbage", reply("SSH-2.0-OpenSSH\r\n\r\n"), "protocol", false},
		{"resets", func(_ int, c net.Conn) {
			_ = readRequest(c)
			_ = c.(*net.TCPConn).SetLinger(0)
		}, "reset", false},
		{"ends early", func(_ int, c net.Conn) {
			_ = readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
		}, "reset", false},
	}
	c := caller(t, Options{})
	for i := range 2 * len(cases) {
		x, long := cases[i/2], i%2 == 1
		t.Run(fmt.Sprint(x.name, ", long body: ", long), func(t *testing.T) {
			url, _ := raw(t, x.handle)
			r := job()
			if long { // it is sent by net/http
				r.Body = fmt.Appendf(nil, "%q", strings.Repeat("x", 32<<10))
			}
			r.Timeout = 300 * time.Millisecond
			e := endpoint(t, EndpointSpec{URL: url})
			wrong := ""
			for range 25 { // a busy machine may be late
				start := time.Now()
				o := c.Do(t.Context(), e, r)
				took := time.Since(start)
				switch {
				case o.Class != Failure || !o.EndpointDown || x.whole && took < r.Timeout:
					t.Fatalf("outcome after %v = %+v", took, o)
				case x.reason != "" && o.Reason != x.reason:
					wrong = fmt.Sprintf("outcome = %+v", o)
				case o.Reason == "timeout" && !strings.HasPrefix(o.Err, "timed out: "):
					wrong = fmt.Sprintf("the error is %q", o.Err)
				case took > r.Timeout+100*time.Millisecond:
					wrong = fmt.Sprintf("it took %v with a TTR of %v", took, r.Timeout)
				default:
					return
				}
			}
			t.Fatal(wrong)
		})
	}
}

func TestAHugeAnswerIsCutAndItsConnectionClosed(t *testing.T) {
	var written atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 1024 {
			n, err := w.Write(chunk)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := caller(t, Options{}).Do(t.Context(), endpoint(t, EndpointSpec{URL: url}), job())
	runtime.ReadMemStats(&after)
	if o.Class != Success || len(o.Answer) != maxAnswer {
		t.Fatalf("%v with %d bytes stored", o.Class, len(o.Answer))
	}
	if n := written.Load(); n > 64<<20 {
		t.Fatalf("%d MiB were allocated", n>>20)
	}
}

func TestACallIsRepeatedOnlyIfItReachedNoEndpoint(t *testing.T) {
	c := caller(t, Options{})
	address, accepted := raw(t, func(_ int, c net.Conn) { _ = readRequest(c) })
	if o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: address}), job()); o.Reason != "reset" {
		t.Fatalf("outcome = %+v", o)
	}
	if n := accepted.Load(); n != 1 {
		t.Fatalf("an endpoint that read the request was called %d times", n)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_ = l.Close()
	if o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: "http://" + address}), job()); o.Reason != "refused" ||
		!o.EndpointDown {
		t.Fatalf("outcome = %+v", o)
	}
}
