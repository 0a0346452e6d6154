package callback

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

func TestABrokenEndpointCostsOthersNoConnection(t *testing.T) {
	address, accepted := answering(t, slices.Repeat([]string{fine}, 5), nil)
	c := caller(t, Options{})
	good, bad := endpoint(t, EndpointSpec{URL: address}), endpoint(t, EndpointSpec{URL: "http://127.0.0.1:1/"})
	for range 5 {
		if o := c.Do(t.Context(), good, job()); o.Class != Success {
			t.Fatalf("outcome = %+v", o)
		}
		other := job()
		other.Topic = "broken"
		if o := c.Do(t.Context(), bad, other); o.Reason != "refused" {
			t.Fatalf("outcome = %+v", o)
		}
	}
	if n := accepted(); n != 1 {
		t.Fatalf("five calls took %d connections", n)
	}
}

func TestTheCallerIsToldBeforeRetryIfIsEvaluated(t *testing.T) {
	c := caller(t, Options{})
	address := serve(t, text(`{"code":200}`))
	for retryIf, want := range map[string]int{"": 0, "res.code != 200": 1} {
		told, r := 0, job()
		r.Judging = func() { told++ }
		if o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: address, RetryIf: retryIf}), r); o.Class != Success {
			t.Fatalf("outcome = %+v", o)
		}
		if told != want {
			t.Errorf("with retry_if %q the caller was told %d times, want %d", retryIf, told, want)
		}
	}
}

func TestWhatCannotBeSentIsRefused(t *testing.T) {
	for name, s := range map[string]EndpointSpec{
		"scheme": {URL: "ftp://h/"}, "relative": {URL: "/hook"}, "method": {URL: "http://h", Method: "TRACE"},
		"header value": {URL: "http://h", Headers: map[string]string{"x": "a\r\nb: c"}},
		"header name":  {URL: "http://h", Headers: map[string]string{"x y": "a"}},
		"secret":       {URL: "http://h", Secrets: []string{"whsec_!"}},
		"empty secret": {URL: "http://h", Secrets: []string{"whsec_"}},
		"retry_if":     {URL: "http://h", RetryIf: "res.code !"},
	} {
		if _, err := CompileEndpoint(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	r := job()
	r.ContentType = "text/plain\r\nX-Evil: 1"
	o := caller(t, Options{}).Do(t.Context(), endpoint(t, EndpointSpec{URL: "http://127.0.0.1:1/"}), r)
	if o.Class != Failure || o.Reason != "protocol" || o.EndpointDown {
		t.Fatalf("a content type with a line break: %+v", o)
	}
}

// longBody is longer than the bodies that are written directly.
func longBody() []byte { return []byte(`{"a":"` + strings.Repeat("x", 16<<10) + `"}`) }

// TestNothingIsSentThatMustNotBegin: over a new and over a kept connection, in clear text, with a body that net/http
// sends, with TLS and with HTTP/2.
func TestNothingIsSentThatMustNotBegin(t *testing.T) {
	for _, kind := range []string{"plain", "long", "tls", "h2"} {
		t.Run(kind, func(t *testing.T) {
			var requests atomic.Int32
			s := httptest.NewUnstartedServer(
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
			o := Options{}
			if kind == "plain" || kind == "long" {
				s.Start()
			} else {
				s.EnableHTTP2 = kind == "h2"
				s.StartTLS()
				o.RootCAs = x509.NewCertPool()
				o.RootCAs.AddCert(s.Certificate())
			}
			defer s.Close()
			c, e := caller(t, o), endpoint(t, EndpointSpec{URL: s.URL})
			over, in := job(), job()
			if kind == "long" {
				over.Body = longBody()
				in.Body = over.Body
			}
			asked := 0
			over.Begin = func() error { asked++; return errors.New("its lease has expired") }
			in.Begin = func() error { asked++; return nil }
			for range 2 {
				asked = 0
				if out := c.Do(t.Context(), e, over); out.Class != Held || asked != 1 {
					t.Errorf("a call that must not begin: %+v, asked %d times", out, asked)
				}
				asked = 0
				if out := c.Do(t.Context(), e, in); out.Class != Success || asked != 1 {
					t.Errorf("a call that may begin: %+v, asked %d times", out, asked)
				}
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("%d requests arrived, want 2", n)
			}
		})
	}
}
