package callback

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func caller(t testing.TB, o Options) *Caller {
	t.Helper()
	o.Version = "1.2.3"
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func endpoint(t testing.TB, s EndpointSpec) *Endpoint {
	t.Helper()
	e, err := CompileEndpoint(s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func job() *Request {
	return &Request{
		Topic: "shop.close", ID: "o 4.2é%", Body: []byte(`{"a":1, "b":"x y"}`), Priority: "high", Attempt: 2, MaxAttempts: 10,
		DueAt: time.UnixMilli(1700000000123), CreatedAt: time.UnixMilli(1700000000000), Timeout: 5 * time.Second,
	}
}

func serve(t testing.TB, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestTheRequestIsAsPromised(t *testing.T) {
	var got *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r; body, _ = io.ReadAll(r.Body) })
	c := caller(t, Options{})
	o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: url + "/hook?x=1", Method: "POST", Headers: map[string]string{"x-own": "v"}}), job())
	if o.Class != Success || o.Status != 200 || o.Reason != "ok" {
		t.Fatalf("outcome = %+v", o)
	}
	for k, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Wakecall/1.2.3", "Wakecall-Topic": "shop.close", "Wakecall-Id": "o 4.2%C3%A9%25",
		"Wakecall-Priority": "high", "Wakecall-Attempt": "2", "Wakecall-Max-Attempts": "10", "Wakecall-Due-At": "2023-11-14T22:13:20.123Z",
		"X-Own": "v", "Accept-Encoding": "",
	} {
		if v := got.Header.Get(k); v != want {
			t.Errorf("%s: %q; want %q", k, v, want)
		}
	}
	if string(body) != string(job().Body) || got.URL.RawQuery != "x=1" || got.Method != "POST" {
		t.Errorf("%s %s: %s", got.Method, got.URL, body)
	}
}

func TestGetAndFormSendMembers(t *testing.T) {
	var got *http.Request
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { _ = r.ParseForm(); got = r })
	c := caller(t, Options{})
	r := job()
	r.Body = []byte(`{"id":12345678901234567890,"s":"a&b","n":null,"o":{ "x": [1] },"t":true}`)
	for _, s := range []EndpointSpec{{URL: url + "/?k=v", Method: "GET"}, {URL: url + "/?k=v", Method: "POST", ContentType: "form"}} {
		if o := c.Do(t.Context(), endpoint(t, s), r); o.Class != Success {
			t.Fatalf("outcome = %+v", o)
		}
		for k, want := range map[string]string{"id": "12345678901234567890", "s": "a&b", "n": "", "o": `{"x":[1]}`, "t": "true", "k": "v"} {
			if v := got.Form.Get(k); v != want {
				t.Errorf("%s: %s = %q; want %q", s.Method, k, v, want)
			}
		}
		bad := job()
		bad.Body = []byte(`[1]`)
		if o := c.Do(t.Context(), endpoint(t, s), bad); o.Class != Failure || o.Reason != "bad_body" {
			t.Errorf("%s of an array: %+v", s.Method, o)
		}
	}
}

func TestAnswersAreJudged(t *testing.T) {
	cases := []struct {
		name, retryIf string
		answer        http.HandlerFunc
		class         Class
		reason        string
		down          bool
		after         time.Duration
	}{
		{"plain", "", status(204), Success, "ok", false, 0},
		{"202", "", status(202), Success, "ok", false, 0},
		{"snooze", "", status(202, "Retry-After", "120"), Snooze, "snooze", false, 2 * time.Minute},
		{"snooze bounded", "", status(202, "Retry-After", "99999999999"), Snooze, "snooze", false, 24 * time.Hour},
		{"redirect", "", status(302, "Location", "http://169.254.169.254/"), Failure, "status", false, 0},
		{"404", "", status(404), Failure, "status", false, 0},
		{"410", "", status(410), Gone, "status", false, 0},
		{"429", "", status(429, "Retry-After", "7"), Failure, "status", true, 7 * time.Second},
		{"503", "", status(503, "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), Failure, "status", true, time.Hour},
		{"500", "", status(500, "Retry-After", "7"), Failure, "status", true, 0},
		{"repeated", "res.code != 200", text(`{"code":500}`), Failure, "retry_if", false, 0},
		{"not repeated", "{res.code}!=200", text(`{"code":200}`), Success, "ok", false, 0},
		{"cannot judge", "res.code > 3", text(`{"code":"x"}`), Failure, "retry_if", false, 0},
	}
	c := caller(t, Options{})
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: serve(t, x.answer), RetryIf: x.retryIf}), job())
			if o.Class != x.class || o.Reason != x.reason || o.EndpointDown != x.down || o.RetryAfter.Round(time.Minute/4) != x.after.Round(time.Minute/4) {
				t.Fatalf("outcome = %+v", o)
			}
			if (o.Class == Failure || o.Class == Gone) != (o.Err != "") {
				t.Fatalf("error = %q", o.Err)
			}
		})
	}
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

func TestRetryIf(t *testing.T) {
	cases := []struct {
		src, body string
		want      bool
	}{
		{`res.code != 200 && res.data.status != 2`, `{"code":1,"data":{"status":1}}`, true},
		{`res.code != 200 && res.data.status != 2`, `{"code":1,"data":{"status":2}}`, false},
		{`res.code != 200 && res.data.status != 2`, `not json`, true},
		{`{res.code}!=200 && {res.data.status} != 2`, `{"code":200}`, false},
		{`body == ""`, ``, true},
		{`status == 201`, ``, true},
		{`headers["x-a"] == "1" and headers["nothing"] == ""`, ``, true},
		{`res.id == 9007199254740993`, `{"id":9007199254740993}`, true},
		{`res.v == 1`, `{"v":1.0}`, true},
		{`body contains "{res.code}"`, `{res.code}`, true},
		{`res.list[3].x == nil`, `{"list":[1]}`, true},
	}
	for _, x := range cases {
		p, err := CompileRetryIf(x.src)
		if err != nil {
			t.Errorf("%s: %v", x.src, err)
			continue
		}
		if got, err := p.run(201, http.Header{"X-A": {"1"}}, []byte(x.body)); got != x.want || err != nil {
			t.Errorf("%s on %s: %v, %v", x.src, x.body, got, err)
		}
	}
	for src, position := range map[string]string{
		"res.code !": "line 1", "status ==\n  nothing": "line 2, column 3", "status": "", "1 + ": "line 1", "nothing(": "line 1",
	} {
		if _, err := CompileRetryIf(src); err == nil || !strings.Contains(err.Error(), position) {
			t.Errorf("%q: %v", src, err)
		}
	}
}

func FuzzRetryIf(f *testing.F) {
	f.Add(`{res.code}!=200`, `{"code":1}`)
	f.Add(`res.a[0].b in ["x"]`, `{"a":[{"b":"x"}]}`)
	f.Fuzz(func(t *testing.T, src, body string) {
		if len(src) > 200 {
			return
		}
		if p, err := CompileRetryIf(src); err == nil {
			_, _ = p.run(200, http.Header{}, []byte(body))
		}
	})
}

func TestTheOfficialVectorAndVerifierAgree(t *testing.T) {
	key := endpoint(t, EndpointSpec{URL: "http://h", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}).keys
	h := http.Header{}
	sign(h, key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got := h.Get("webhook-signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Fatalf("signature = %s", got)
	}

	old, next := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	var ids []string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		ids = append(ids, r.Header.Get("webhook-id"))
		for _, secret := range []string{old, next} {
			wh, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Error(err)
				return
			}
			if err := wh.Verify(body, r.Header); err != nil {
				t.Errorf("the verifier refuses it: %v", err)
			}
			flipped := append([]byte{body[0] ^ 1}, body[1:]...)
			if wh.Verify(flipped, r.Header) == nil {
				t.Error("the verifier accepts a flipped bit")
			}
		}
	})
	c := caller(t, Options{})
	e := endpoint(t, EndpointSpec{URL: url, Secrets: []string{old, next}})
	for attempt := range 2 {
		r := job()
		r.Attempt = attempt + 1
		c.Do(t.Context(), e, r)
	}
	other := job()
	other.CreatedAt = other.CreatedAt.Add(time.Second)
	c.Do(t.Context(), e, other)
	if len(ids) != 3 || ids[0] != ids[1] || ids[0] == ids[2] || strings.Contains(ids[0], ".") {
		t.Fatalf("ids = %q", ids)
	}
}

// raw serves connections with handle, each in a goroutine of its own that ends with the test.
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

func readRequest(c net.Conn) {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

func untilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func TestABadEndpointFreesItsPlaceInTime(t *testing.T) {
	reply := func(s string) func(int, net.Conn) {
		return func(_ int, c net.Conn) { readRequest(c); _, _ = io.WriteString(c, s); untilClosed(c) }
	}
	flood := func(head, chunk string) func(int, net.Conn) {
		return func(_ int, c net.Conn) {
			readRequest(c)
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
			readRequest(c)
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			for tick := time.NewTicker(20 * time.Millisecond); err == nil; <-tick.C {
				_, err = io.WriteString(c, "x")
			}
		}, "timeout", true},
		{"endless 1xx", flood("", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), "", false},
		{"endless headers", flood("HTTP/1.1 200 OK\r\n", "X-A: "+strings.Repeat("b", 1000)+"\r\n"), "protocol", false},
		{"garbage", reply("SSH-2.0-OpenSSH\r\n\r\n"), "protocol", false},
		{"resets", func(_ int, c net.Conn) {
			readRequest(c)
			_ = c.(*net.TCPConn).SetLinger(0)
		}, "reset", false},
		{"ends early", func(_ int, c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
		}, "reset", false},
	}
	c := caller(t, Options{})
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			url, _ := raw(t, x.handle)
			r := job()
			r.Timeout = 300 * time.Millisecond
			start := time.Now()
			o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: url}), r)
			took := time.Since(start)
			if o.Class != Failure || !o.EndpointDown || (x.reason != "" && o.Reason != x.reason) {
				t.Fatalf("outcome = %+v", o)
			}
			if took > r.Timeout+200*time.Millisecond || (x.whole && took < r.Timeout) {
				t.Fatalf("it took %v with a TTR of %v", took, r.Timeout)
			}
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
		t.Fatalf("%v with %d bytes kept", o.Class, len(o.Answer))
	}
	if n := written.Load(); n > 64<<20 {
		t.Fatalf("%d MiB were taken", n>>20)
	}
}

func TestASecondTryOnlyWhereTheFirstReachedNobody(t *testing.T) {
	c := caller(t, Options{})
	url, accepted := raw(t, func(_ int, c net.Conn) { readRequest(c) })
	if o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: url}), job()); o.Reason != "reset" {
		t.Fatalf("outcome = %+v", o)
	}
	if n := accepted.Load(); n != 1 {
		t.Fatalf("an endpoint that read the request was called %d times", n)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	if o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: "http://" + address}), job()); o.Reason != "refused" || !o.EndpointDown {
		t.Fatalf("outcome = %+v", o)
	}
	tries := 0
	refused := fmt.Errorf("dial: %w", &net.OpError{Err: syscall.ECONNREFUSED})
	if again, _ := unwritten(trace(t.Context()), nil, refused); again {
		tries++
	}
	if tries != 1 {
		t.Fatal("a refused connection is not tried again")
	}
}

func TestThePolicyJudgesTheDialledAddress(t *testing.T) {
	cases := map[string][2]bool{ // allowed under any, under public
		"8.8.8.8": {true, true}, "127.0.0.1": {true, false}, "10.1.2.3": {true, false}, "192.168.1.1": {true, false}, "100.64.1.1": {true, false},
		"::1": {true, false}, "fd12::1": {true, false}, "2606:4700::1111": {true, true}, "::ffff:8.8.8.8": {true, true}, "::ffff:10.0.0.1": {true, false},
		"169.254.169.254": {}, "::ffff:169.254.169.254": {}, "64:ff9b::a9fe:a9fe": {}, "2002:a9fe:a9fe::1": {}, "2001:0:1::5601:5601": {},
		"fd00:ec2::254": {}, "fe80::1": {}, "fe80::1%eth0": {}, "0.0.0.0": {}, "::": {}, "224.0.0.1": {}, "ff02::1": {}, "255.255.255.255": {}, "100.100.100.200": {},
		"64:ff9b::a00:1": {true, false}, "::169.254.169.254": {}, "0.1.2.3": {},
	}
	for text, want := range cases {
		a := netip.MustParseAddr(text)
		for i, networks := range []string{"any", "public"} {
			p, err := parseNetworks(networks)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.check(a) == nil; got != want[i] {
				t.Errorf("%s under %s: allowed = %v", text, networks, got)
			}
		}
	}
	p, err := parseNetworks("10.1.0.0/16, 127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"10.1.9.9": true, "10.2.0.1": false, "127.0.0.1": true, "8.8.8.8": true, "169.254.169.254": false} {
		if got := p.check(netip.MustParseAddr(text)) == nil; got != want {
			t.Errorf("%s under a list: allowed = %v", text, got)
		}
	}
	if _, err := parseNetworks("everything"); err == nil {
		t.Error("networks of nonsense were accepted")
	}
}

func TestBlockedAddressesAreNeverReached(t *testing.T) {
	var reached atomic.Int32
	url := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	port := url[strings.LastIndex(url, ":"):]
	c := caller(t, Options{Networks: "public"})
	for _, host := range []string{"127.0.0.1", "localhost", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]"} {
		r := job()
		r.Timeout = time.Second
		o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: "http://" + host + port}), r)
		if o.Class != Failure || (o.Reason != "blocked" && o.Reason != "dns") {
			t.Errorf("%s: %+v", host, o)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Fatalf("a forbidden address was reached %d times", n)
	}
}

func TestTLSAndHTTP2(t *testing.T) {
	var proto string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proto = r.Proto }))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	e := endpoint(t, EndpointSpec{URL: s.URL})
	if o := caller(t, Options{RootCAs: pool}).Do(t.Context(), e, job()); o.Class != Success || proto != "HTTP/2.0" {
		t.Fatalf("over %s: %+v", proto, o)
	}
	if o := caller(t, Options{}).Do(t.Context(), e, job()); o.Reason != "tls" || !o.EndpointDown {
		t.Fatalf("an unknown certificate: %+v", o)
	}
}

func TestErrorsHideTheQuery(t *testing.T) {
	r := job()
	r.Timeout = time.Second
	o := caller(t, Options{}).Do(t.Context(), endpoint(t, EndpointSpec{URL: "http://127.0.0.1:1/?token=hush"}), r)
	if o.Class != Failure || strings.Contains(o.Err, "hush") {
		t.Fatalf("outcome = %+v", o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := caller(t, Options{}).Do(ctx, endpoint(t, EndpointSpec{URL: "http://127.0.0.1:1/"}), r); o.Reason != "canceled" || o.EndpointDown {
		t.Fatalf("a call cut off: %+v", o)
	}
}

func BenchmarkDo(b *testing.B) {
	url := serve(b, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	c := caller(b, Options{})
	e := endpoint(b, EndpointSpec{URL: url})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if o := c.Do(b.Context(), e, job()); o.Class != Success {
				b.Fatal(o)
			}
		}
	})
}
