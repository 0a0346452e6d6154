package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted answers every request of a connection with the same bytes, closes it afterwards if configured, and records
// the requests.
type scripted struct {
	url   string
	close bool

	mu       sync.Mutex
	answer   string
	sent     []string
	accepted int
}

func script(t testing.TB) *scripted {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{url: "http://" + l.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.accepted++
			s.mu.Unlock()
			wg.Go(func() { defer func() { _ = c.Close() }(); s.serve(c) })
		}
	})
	return s
}

func (s *scripted) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

func (s *scripted) serve(c net.Conn) {
	var sent bytes.Buffer
	in := bufio.NewReader(io.TeeReader(c, &sent))
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		s.sent = append(s.sent, sent.String())
		answer, last := s.answer, s.close
		s.mu.Unlock()
		sent.Reset()
		_, _ = io.WriteString(c, answer)
		if last {
			return
		}
	}
}

// result is what the caller gets from an exchange.
type result struct {
	status  int
	header  string
	body    string
	failed  bool
	timeout bool
}

func (r result) String() string {
	return fmt.Sprintf("%d %s %.200q failed %v timeout %v", r.status, r.header, r.body, r.failed, r.timeout)
}

func exchange(p *Pools, r *http.Request, indirect bool, ttr time.Duration) (got result) {
	ctx, cancel := context.WithTimeout(r.Context(), ttr)
	defer cancel()
	x := p.Exchange(nil, cancel)
	x.indirect = indirect
	resp, err := x.RoundTrip(r.WithContext(ctx))
	defer func() { x.End(got.timeout) }()
	if err != nil {
		return result{failed: true, timeout: ctx.Err() != nil}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	var h bytes.Buffer
	_ = resp.Header.Write(&h)
	return result{resp.StatusCode, h.String(), string(body), err != nil, err != nil && ctx.Err() != nil}
}

func request(t testing.TB, url string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBothWaysSendTheSameBytes: a direct request has the same bytes as one of net/http's Transport.
func TestBothWaysSendTheSameBytes(t *testing.T) {
	s := script(t)
	s.answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	p := New(&net.Dialer{}, nil)
	defer p.Close()
	headers := map[string]string{
		"X-Own": " spaced\t", "Host": "other", "Content-Length": "3", "Transfer-Encoding": "chunked", "Trailer": "X-T",
		"Content-Type": "text/own", "User-Agent": "me", "Connection": "close", "Expect": "100-continue",
		"Te":    "trailers",
		"Empty": "", "Accept-Encoding": "gzip",
	}
	for _, method := range []string{"POST", "PUT", "GET"} {
		for _, path := range []string{"", "/", "/a b/ü?q=%20&q=ü", "//x?", "/%2F;v=1#fragment"} {
			for _, body := range []string{"", "é \r\n", strings.Repeat("x", 16000)} {
				for _, h := range []map[string]string{nil, headers} {
					s.sent = nil
					for _, indirect := range []bool{false, true} {
						r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
						if err != nil {
							t.Fatal(err)
						}
						if body == "" || method == "GET" {
							r.Body, r.ContentLength = nil, 0
						}
						for k, v := range h {
							r.Header.Set(k, v)
						}
						if !indirect && !mayGoDirectly(r) {
							t.Fatalf("%s %s is not sent directly", method, path)
						}
						if got := exchange(p, r, indirect, 5*time.Second); got.status != 200 {
							t.Fatalf("%s %s: %v", method, path, got)
						}
					}
					s.mu.Lock()
					if len(s.sent) != 2 || s.sent[0] != s.sent[1] {
						t.Fatalf("%s %s: %.2000q", method, path, s.sent)
					}
					s.mu.Unlock()
				}
			}
		}
	}
}

var answers = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: " +
		"0\r\n\r\n",
	"HTTP/1.0 200 OK\r\n\r\nuntil the end",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n",
	"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nfine",
	"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
	"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX-A : b\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n",
	"HTTP/2.0 200 OK\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70000) + "\r\n\r\n",
	"SSH-2.0-OpenSSH\r\n\r\n", "", "\r\n\r\n", "HTTP/1.1",
}

// compare makes the same exchange both ways, with an endpoint that closes the connection after its answer.
func compare(t testing.TB, answer string) {
	s := script(t)
	s.answer, s.close = answer, true
	p := New(&net.Dialer{}, nil)
	defer p.Close()
	direct := exchange(p, request(t, s.url), false, 5*time.Second)
	other := exchange(p, request(t, s.url), true, 5*time.Second)
	if direct != other {
		t.Fatalf("%.300q is read\ndirectly as %v\nby net/http as %v", answer, direct, other)
	}
}

func TestBothWaysReadTheSame(t *testing.T) {
	for _, a := range answers {
		compare(t, a)
	}
}

func FuzzBothWaysReadTheSame(f *testing.F) {
	for _, a := range answers {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		if strings.Contains(answer, "101") { // net/http hands over the connection
			return
		}
		compare(t, answer)
	})
}

// TestOnlyUndeliveredRequestsAreRepeated checks that only requests that did not reach the endpoint are repeated.
func TestOnlyUndeliveredRequestsAreRepeated(t *testing.T) {
	closed, late := errors.New("http: server closed idle connection"),
		&net.OpError{Op: "read", Err: context.DeadlineExceeded}
	cases := []struct {
		name                           string
		reused, wrote, answered, http2 bool
		err                            error
		want                           bool
	}{
		{"refused", false, false, false, false, syscall.ECONNREFUSED, true},
		{"reset before", false, false, false, false, syscall.ECONNRESET, true},
		{"reset after", false, true, false, false, syscall.ECONNRESET, false},
		{"end before", false, false, false, false, io.EOF, true},
		{"end after", false, true, false, false, io.EOF, false},
		{"a reused one closed before", true, false, false, false, closed, true},
		{"a reused one closed after", true, true, false, false, closed, false},
		{"a reused one closed in its answer", true, true, true, false, io.ErrUnexpectedEOF, false},
		{"a reused one late", true, false, false, false, late, false},
		{"another error on a new one", false, false, false, false, closed, false},
		{"HTTP/2", true, true, false, true, io.EOF, false},
		{"unasked before", true, false, true, false, errUnasked, true},
		{"unasked after", true, true, true, false, errUnasked, false},
		{"no error", true, true, true, false, nil, false},
	}
	p := New(&net.Dialer{}, nil)
	for _, c := range cases {
		x := p.Exchange(nil, func() {})
		x.pool = p.of(origin{})
		x.used, x.conn = x.pool.current(), &conn{}
		x.reused.Store(c.reused)
		x.wrote.Store(c.wrote)
		x.answered.Store(c.answered)
		x.http2.Store(c.http2)
		if got := x.MayRepeat(t.Context(), c.err); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestARequestThatMissesTheEndOfItsConnectionIsRepeated: the endpoint has closed an idle connection while the request was
// on its way. It is not repeated when the endpoint has read all or a part of it, or may have.
func TestARequestThatMissesTheEndOfItsConnectionIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		meets func(net.Conn) // what the endpoint does before it closes; nil: it closes before the request is written
		want  bool
	}{
		"closed":      {nil, true},
		"read":        {func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 7)) }, false},
		"partly read": {func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 3)) }, false},
		"not read": {func(c net.Conn) {
			raw, _ := c.(syscall.Conn).SyscallConn()
			_ = raw.Read(func(fd uintptr) bool { n, _ := peek(int(fd)); return n > 0 })
		}, false},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p := New(&net.Dialer{}, nil)
		mine, err := p.dial(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if c.meets == nil {
			_ = theirs.Close()
		}
		x := p.Exchange(nil, func() {})
		x.pool = p.of(origin{})
		x.used = x.pool.current()
		x.use(mine, true)
		if _, err := x.write(mine, []byte("request")); err != nil {
			t.Fatal(err)
		}
		if c.meets != nil {
			c.meets(theirs)
			_ = theirs.Close()
		}
		_, err = mine.Read(make([]byte, 1))
		_ = mine.Close()
		if got := x.MayRepeat(t.Context(), err); got != c.want {
			t.Errorf("%s: repeated %t after %v", name, got, err)
		}
		_ = l.Close()
	}
}

// TestIdleConnectionsEnd at their timeout, when their pool is removed, when they are old, and at shutdown; those in use
// stay.
func TestIdleConnectionsEnd(t *testing.T) {
	for _, indirect := range []bool{false, true} {
		a, b := script(t), script(t)
		a.answer, b.answer = answers[0], answers[0]
		p := New(&net.Dialer{}, nil)
		defer p.Close()
		count := func(want int64) {
			t.Helper()
			for end := time.Now().Add(time.Minute); p.open.Load() != want; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d connections are open, want %d", p.open.Load(), want)
				}
			}
		}
		call := func(s *scripted) {
			t.Helper()
			if got := exchange(p, request(t, s.url), indirect, 5*time.Second); got.body != "fine" {
				t.Fatal(got)
			}
		}
		poolOf := func(s *scripted) *Pool { return p.of(origin{"http", strings.TrimPrefix(s.url, "http://")}) }
		for _, s := range []*scripted{a, a, b} {
			call(s)
		}
		count(2)
		for i := range maxPools - 1 { // b stays open
			p.of(origin{host: fmt.Sprint(i)})
		}
		count(1)
		poolOf(b).current().until = time.Now()
		call(b) // over a new connection
		count(1)
		p.Close()
		count(0)
		poolOf(a).limit(poolOf(a).current(), "timeout=0")
		call(a)
		count(0)
		if n := a.connections() + b.connections(); n != 4 {
			t.Errorf("five exchanges took %d connections, want 4", n)
		}
	}
}

// TestIdleConnectionsLeaveDescriptorsForOthers: with a low limit they would use up all, and no other endpoint could be
// called.
func TestIdleConnectionsLeaveDescriptorsForOthers(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	low := was
	low.Cur = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	p := New(&net.Dialer{}, nil)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, indirect := range []bool{false, true} {
		for range 60 {
			s := script(t) // another origin
			s.answer = answers[0]
			if got := exchange(p, request(t, s.url), indirect, 5*time.Second); got.body != "fine" {
				t.Fatal(got)
			}
		}
		if n := p.open.Load(); n > 34 {
			t.Errorf("%d connections are open with 64 descriptors", n)
		}
	}
}

// TestARefusedDialLeavesNothing behind, in particular no open connection.
func TestARefusedDialLeavesNothing(t *testing.T) {
	var dials atomic.Int32
	p := New(&net.Dialer{ControlContext: func(context.Context, string, string, syscall.RawConn) error {
		dials.Add(1)
		return syscall.ECONNREFUSED
	}}, nil)
	for _, indirect := range []bool{false, true} {
		if got := exchange(p, request(t, "http://127.0.0.1:1/"), indirect, time.Second); !got.failed ||
			got.timeout {
			t.Fatal(got)
		}
	}
	if dials.Load() != 2 || p.open.Load() != 0 {
		t.Fatalf("%d dials, %d open", dials.Load(), p.open.Load())
	}
}
