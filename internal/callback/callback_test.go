package callback

import (
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
		Topic: "shop.close", ID: "o 4.2é%", Body: []byte(`{"a":1, "b":"x y"}`), Priority: "high", Attempt: 2,
		MaxAttempts: 10,
		DueAt:       time.UnixMilli(1700000000123), CreatedAt: time.UnixMilli(1700000000000), Timeout: 5 * time.Second,
	}
}

func serve(t testing.TB, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestTheRequestHasThePromisedHeaders(t *testing.T) {
	var got *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r; body, _ = io.ReadAll(r.Body) })
	c := caller(t, Options{})
	o := c.Do(t.Context(),
		endpoint(t, EndpointSpec{URL: url + "/hook?x=1", Method: "POST", Headers: map[string]string{"x-own": "v"}}),
		job())
	if o.Class != Success || o.Status != 200 || o.Reason != "ok" {
		t.Fatalf("outcome = %+v", o)
	}
	for k, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Wakecall/1.2.3", "Wakecall-Topic": "shop.close",
		"Wakecall-Id": "o 4.2%C3%A9%25", "Wakecall-Priority": "high", "Wakecall-Attempt": "2",
		"Wakecall-Max-Attempts": "10",
		"Wakecall-Due-At":       "2023-11-14T22:13:20.123Z",
		"X-Own":                 "v", "Accept-Encoding": "identity",
	} {
		if v := got.Header.Get(k); v != want {
			t.Errorf("%s: %q; want %q", k, v, want)
		}
	}
	if string(body) != string(job().Body) || got.URL.RawQuery != "x=1" || got.Method != http.MethodPost {
		t.Errorf("%s %s: %s", got.Method, got.URL, body)
	}
}

// TestAJobsHeadersReplaceTheEndpoints in every form of a callback, but not Wakecall's own.
func TestAJobsHeadersReplaceTheEndpoints(t *testing.T) {
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	c := caller(t, Options{})
	for _, dialect := range []string{"", DialectOwn, "other"} {
		e := endpoint(t, EndpointSpec{URL: url, Dialect: dialect,
			Headers: map[string]string{"X-A": "topic", "X-B": "topic"}})
		r := job()
		r.Headers = map[string]string{"x-a": "job", "X-C": "job", "wakecall-id": "forged"}
		c.Do(t.Context(), e, r)
		if got.Get("X-A") != "job" || got.Get("X-B") != "topic" || got.Get("X-C") != "job" ||
			got.Get("Wakecall-Id") == "forged" {
			t.Errorf("dialect %q: %v", dialect, got)
		}
		r.Headers = map[string]string{"X-A": "b\r\nX-D: c"}
		if o := c.Do(t.Context(), e, r); o.Class != Failure || o.Reason != "protocol" {
			t.Errorf("dialect %q: a line break: %+v", dialect, o)
		}
	}
}

func TestGetAndFormSendMembers(t *testing.T) {
	var got *http.Request
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { _ = r.ParseForm(); got = r })
	c := caller(t, Options{})
	r := job()
	r.Body = []byte(`{"id":12345678901234567890,"s":"a&b","n":null,"o":{ "x": [1] },"t":true}`)
	for _, s := range []EndpointSpec{{URL: url + "/?k=v", Method: "GET"},
		{URL: url + "/?k=v", Method: "POST", ContentType: "form"}} {
		if o := c.Do(t.Context(), endpoint(t, s), r); o.Class != Success {
			t.Fatalf("outcome = %+v", o)
		}
		for k, want := range map[string]string{"id": "12345678901234567890", "s": "a&b", "n": "", "o": `{"x":[1]}`,
			"t": "true", "k": "v"} {
			if v := got.Form.Get(k); v != want {
				t.Errorf("%s: %s = %q; want %q", s.Method, k, v, want)
			}
		}
		for _, body := range []string{``, `[1]`, `{"a":1`, `{"a":1} x`, `{"a":1}{}`, `null`} {
			bad := job()
			bad.Body = []byte(body)
			if o := c.Do(t.Context(), endpoint(t, s), bad); o.Class != Failure || o.Reason != "bad_body" ||
				o.EndpointDown {
				t.Errorf("%s of %q: %+v", s.Method, body, o)
			}
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
		{"503", "", status(503, "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), Failure,
			"status",
			true, time.Hour},
		{"500", "", status(500, "Retry-After", "7"), Failure, "status", true, 0},
		{"repeated", "res.code != 200", text(`{"code":500}`), Failure, "retry_if", false, 0},
		{"not repeated", "{res.code}!=200", text(`{"code":200}`), Success, "ok", false, 0},
		{"cannot judge", "res.code > 3", text(`{"code":"x"}`), Failure, "retry_if", false, 0},
	}
	c := caller(t, Options{})
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: serve(t, x.answer), RetryIf: x.retryIf}), job())
			if o.Class != x.class || o.Reason != x.reason || o.EndpointDown != x.down ||
				o.RetryAfter.Round(time.Minute/4) != x.after.Round(time.Minute/4) {
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

// raw serves connections with handle, each in a goroutine that ends with the test.
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
		t.Fatalf("an untrusted certificate: %+v", o)
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
	if o := caller(t, Options{}).Do(ctx, endpoint(t, EndpointSpec{URL: "http://127.0.0.1:1/"}),
		r); o.Reason != "canceled" || o.EndpointDown {
		t.Fatalf("a canceled call: %+v", o)
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
