package callback

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/log/printable"
)

// forged would add a line and clear the screen wherever it was printed unescaped.
const forged = "a\nlevel=ERROR msg=forged\r\x1b[2J"

// TestAnErrorIsOneLine even if the endpoint controls a part of it: an invalid header, the names in its certificate, the
// answer that retry_if reads.
func TestAnErrorIsOneLine(t *testing.T) {
	raw := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 4096))
				_, _ = c.Write([]byte(answer))
				_ = c.Close()
			}
		}()
		return "http://" + l.Addr().String()
	}
	named := httptest.NewUnstartedServer(http.NotFoundHandler())
	named.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t, forged)}}
	named.StartTLS()
	defer named.Close()
	answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"code":"x"}`))
	}))
	defer answering.Close()
	for name, spec := range map[string]EndpointSpec{
		"header":  {URL: raw("HTTP/1.1 200 OK\r\n\x1b[2Jbad\u2028 \u202eheader\x00: x\r\n\r\n")},
		"status":  {URL: raw("HTTP/1.1 20\x1b[2J OK\r\n\r\n")},
		"version": {URL: raw("\x1b[2J\u0085nonsense\r\n\r\n")},
		"names":   {URL: named.URL},
		"judging": {URL: answering.URL, RetryIf: "res.code\n.none\n.further > 1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := caller(t, Options{})
			o := c.Do(t.Context(), endpoint(t, spec), job())
			if o.Class == Success || o.Err == "" {
				t.Fatalf("the outcome is %+v", o)
			}
			if strings.ContainsFunc(o.Err, printable.Steers) {
				t.Errorf("the error is %q", o.Err)
			}
		})
	}
}

// certificate is for another name than the endpoint's.
func certificate(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestACopiedCommandIsInert: whatever a job contains, its command line is printable, is one command, and makes curl
// send exactly the request.
func TestACopiedCommandIsInert(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	for name, sent := range map[string]Sent{
		"plain":    {URL: "http://h/?a=[1-9]&b={x,y}", Body: []byte(`{"a":"it's"}`)},
		"file":     {URL: "http://h/", Body: []byte("@/etc/passwd")},
		"commands": {URL: "http://h/$(id)`id`", Body: []byte("'; id; echo '\"$(id)`id`!!\\")},
		"paste":    {URL: "http://h/", Body: []byte("a\x1b[201~\nid\r\nid\n\u009b2J\u202e\u2028\x7f'\\é😀")},
		"binary":   {URL: "http://h/", Body: []byte("a\x00b\xff\xfe\n\x1b'")},
		"empty":    {URL: "http://h/"},
	} {
		t.Run(name, func(t *testing.T) {
			sent.Method, sent.Header = http.MethodPost, http.Header{"X-A": {"it's $(id) \\ `id`", "@file"}}
			line := sent.Curl()
			if strings.ContainsFunc(strings.ReplaceAll(line, " \\\n", " "), printable.Steers) {
				t.Errorf("the terminal would interpret %q", line)
			}
			out, err := exec.Command("bash", "-c",
				`curl() { for a in "$@"; do if [ "$a" = "@-" ]; then cat; else printf '%s' "$a"; fi; printf '\0END\0'; done; }; `+line).Output()
			if err != nil {
				t.Fatal(err, line)
			}
			got := strings.Split(strings.TrimSuffix(string(out), "\x00END\x00"), "\x00END\x00")
			want := []string{"-i", "-g", "-X", "POST", sent.URL, "-H", "X-A: it's $(id) \\ `id`", "-H", "X-A: @file"}
			if len(sent.Body) > 0 {
				want = append(want, "--data-raw", string(sent.Body))
			}
			if name == "binary" {
				want[len(want)-2] = "--data-binary"
			}
			if !slices.Equal(got, want) {
				t.Errorf("curl got\n%q, want\n%q", got, want)
			}
		})
	}
}

// TestAJobDoesNotReplaceTheTopicsQuery: pushers choose the members of a body, managers of the topic choose its address,
// and the address wins, whichever of two parameters with the same name an endpoint reads. PHP reads the last, and
// treats k[] and "k " as k.
func TestAJobDoesNotReplaceTheTopicsQuery(t *testing.T) {
	var got *http.Request
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	c, r := caller(t, Options{}), job()
	r.Body = []byte(`{"action":"delete","key":"guess","action[]":"delete","action ":"delete","id":"7"}`)
	if o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: address + "/?action=close&key=s3cret", Method: "GET"}),
		r); o.Class != Success {
		t.Fatalf("outcome = %+v", o)
	}
	q := got.URL.Query()
	if !slices.Equal(q["action"], []string{"close"}) || !slices.Equal(q["key"], []string{"s3cret"}) ||
		q.Get("id") != "7" {
		t.Errorf("the query is %q", got.URL.RawQuery)
	}
	if !strings.HasSuffix(got.URL.RawQuery, "&action=close&key=s3cret") {
		t.Errorf("the topic's parameters are not the last: %q", got.URL.RawQuery)
	}
}
