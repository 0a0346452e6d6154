package callback

import (
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func marks(r *Report) map[string]Mark {
	m := map[string]Mark{}
	for _, c := range r.Checks {
		m[c.Name] = c.Mark
	}
	return m
}

func TestAProbeTellsGoodEndpointsFromBadOnes(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	var calls atomic.Int32
	signed := func(r *http.Request) bool { return r.Header.Get("Webhook-Signature") != "" }
	cases := map[string]struct {
		handler http.HandlerFunc
		want    map[string]Mark
	}{
		"careless": {func(http.ResponseWriter, *http.Request) {},
			map[string]Mark{"reachable": Good, "answer": Good, "signature": Bad, "twice": Good, "tls": Good}},
		"broken": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			map[string]Mark{"answer": Bad, "signature": Doubt, "twice": Skipped}},
		"moved": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) },
			map[string]Mark{"redirect": Bad}},
		"talkative": {func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = w.Write([]byte(strings.Repeat("x", 20<<10)))
		},
			map[string]Mark{"answer": Good, "size": Doubt}},
		"once": {func(w http.ResponseWriter, r *http.Request) {
			if !signed(r) || calls.Add(1) > 1 {
				w.WriteHeader(http.StatusConflict)
			}
		}, map[string]Mark{"answer": Good, "twice": Bad}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewTLSServer(test.handler)
			defer s.Close()
			roots := x509.NewCertPool()
			roots.AddCert(s.Certificate())
			c, e := caller(t, Options{RootCAs: roots}), endpoint(t, EndpointSpec{URL: s.URL, Secrets: []string{secret}})
			got := c.Probe(t.Context(), e, job())
			for check, want := range test.want {
				if m := marks(got); m[check] != want {
					t.Errorf("%s is %s, want %s: %+v", check, m[check], want, got.Checks)
				}
			}
			if !strings.Contains(got.Sent.Curl(), s.URL) ||
				!strings.Contains(got.Sent.Curl(), "Webhook-Signature: v1,") {
				t.Errorf("the line to copy is\n%s", got.Sent.Curl())
			}
		})
	}
}

// TestAProbeShowsATLSFailureInRed: the connection was made, but nothing can be sent over it.
func TestAProbeShowsATLSFailureInRed(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	c, e := caller(t, Options{}), endpoint(t, EndpointSpec{URL: s.URL}) // does not know the certificate
	r := c.Probe(t.Context(), e, job())
	if m := marks(r); m["reachable"] != Good || m["tls"] != Bad || !r.Bad() {
		t.Errorf("%+v", r.Checks)
	}
	for _, check := range r.Checks {
		if check.Name == "tls" && !strings.Contains(check.Detail.Error(), "certificate") {
			t.Errorf("the check says %q", check.Detail.Error())
		}
	}
}

func TestAProbeOfASilentEndpointEnds(t *testing.T) {
	c, e := caller(t, Options{}), endpoint(t, EndpointSpec{URL: "http://127.0.0.1:1/"})
	if r := c.Probe(t.Context(), e, job()); marks(r)["reachable"] != Bad || !r.Bad() || len(r.Checks) != 1 {
		t.Errorf("%+v", r.Checks)
	}
}
