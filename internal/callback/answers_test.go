package callback

import (
	"bufio"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// A retry_if that reads res works on what endpoints take for JSON; on anything else, the attempt says where it is not.
func TestAnswersThatAreAlmostJSON(t *testing.T) {
	tests := map[string]string{
		"\ufeff{\"code\":200}":       "",
		" {\"code\":200}\r\n":        "",
		"\ufeff\ufeff{\"code\":200}": "at byte 4",
		`{"code":NaN}`:               "invalid character 'N' looking for beginning of value at byte 9",
		"Notice: x\n{\"code\":200}":  "at byte 1",
		`{"code":200}<!-- 3 ms -->`:  "invalid character '<' after top-level value at byte 13",
		`{"code":200`:                "unexpected end of JSON input at byte 11",
		"\x1f\x8b\x08":               "at byte 1",
		"":                           "at byte 0",
	}
	c := caller(t, Options{})
	for answer, where := range tests {
		o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: serve(t, text(answer)), RetryIf: "res.code != 200"}), job())
		if where == "" && o.Class == Success {
			continue
		}
		if where == "" || o.Class != Failure || o.Reason != ReasonRetryIf ||
			!strings.HasPrefix(o.Err, "the answer is not JSON: ") || !strings.Contains(o.Err, where) {
			t.Errorf("%q: %+v", answer, o)
		}
	}
	e := endpoint(t, EndpointSpec{URL: serve(t, text("no")), RetryIf: `body == "no"`})
	if o := c.Do(t.Context(), e, job()); strings.Contains(o.Err, "JSON") {
		t.Errorf("an expression that does not read res: %+v", o)
	}
}

// No endpoint is invited to compress its answers, whatever the topic says.
func TestAnswersAreNotCompressed(t *testing.T) {
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	for _, s := range []EndpointSpec{{}, {Method: "GET"}, {Headers: map[string]string{"accept-encoding": "gzip"}}} {
		s.URL = url
		r := job()
		r.Body = []byte(`{}`)
		if o := caller(t, Options{}).Do(t.Context(), endpoint(t, s), r); o.Class != Success ||
			!slices.Equal(got["Accept-Encoding"], []string{"identity"}) {
			t.Errorf("%+v: sent %q; %+v", s, got["Accept-Encoding"], o)
		}
	}
}

func TestRetryAfterOfASnooze(t *testing.T) {
	tests := map[string]time.Duration{ // negative: a plain 202
		"120": 2 * time.Minute, "120.5": 121 * time.Second, " 7 ": 7 * time.Second, "0": 0, "0.001": time.Second,
		"999999": 24 * time.Hour, "99999999999999999999": 24 * time.Hour, strings.Repeat("9", 400): 24 * time.Hour,
		time.Now().Add(48 * time.Hour).UTC().Format(http.TimeFormat):  24 * time.Hour,
		time.Now().Add(-48 * time.Hour).UTC().Format(http.TimeFormat): 0,
		"soon": -1, "-5": -1, "": -1, "1.2.3": -1, "Inf": -1, "NaN": -1, "1e3": -1, "0x10": -1, "120 s": -1, ".": -1,
	}
	for value, wait := range tests {
		o := Outcome{Status: http.StatusAccepted}
		o.judge(&Endpoint{}, &http.Response{Header: http.Header{"Retry-After": {value}}})
		if wait < 0 && o.Class == Success && o.Reason == "ok" {
			continue
		}
		if wait < 0 || o.Class != Snooze || o.RetryAfter != wait {
			t.Errorf("%q: %+v", value, o)
		}
	}
}

// Headers are sent as they are written, since some endpoints compare their names byte by byte. HTTP/2 has only lower
// case.
func TestHeaderNamesAreSentAsWritten(t *testing.T) {
	s := EndpointSpec{Headers: map[string]string{"SOAPAction": "close", "x-order-id": "7", "X-Plain": "1"}}
	for _, size := range []int{10, 40 << 10} { // written by the calling goroutine, and by net/http
		heads := make(chan string, 1)
		url := serveRaw(t, heads)
		s.URL = url
		r := job()
		r.Headers = map[string]string{"soapaction": "refund", "X-TRACE-id": "t"}
		r.Body = []byte(`"` + strings.Repeat("x", size) + `"`)
		if o := caller(t, Options{}).Do(t.Context(), endpoint(t, s), r); o.Class != Success {
			t.Fatalf("%d bytes: %+v", size, o)
		}
		head := <-heads
		for _, line := range []string{"SOAPAction: refund", "x-order-id: 7", "X-Plain: 1", "X-TRACE-id: t"} {
			if strings.Count(head, "\r\n"+line+"\r\n") != 1 {
				t.Errorf("%d bytes: no %q in %s", size, line, head)
			}
		}
		if n := strings.Count(strings.ToLower(head), "soapaction"); n != 1 {
			t.Errorf("SOAPAction is there %d times: %s", n, head)
		}
	}

	var got http.Header
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	s.URL = web.URL
	o := caller(t, Options{RootCAs: roots}).Do(t.Context(), endpoint(t, s), job())
	if o.Class != Success || got.Get("SOAPAction") != "close" || got.Get("X-Order-Id") != "7" {
		t.Errorf("HTTP/2: %+v, sent %v", o, got)
	}
}

// serveRaw answers 200 and passes on the head of each request, byte by byte.
func serveRaw(t *testing.T, heads chan<- string) (url string) {
	t.Helper()
	url, _ = raw(t, func(_ int, c net.Conn) {
		b := bufio.NewReader(c)
		var head strings.Builder
		length := 0
		for {
			line, err := b.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
			_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
			if line == "\r\n" {
				break
			}
		}
		_, _ = io.CopyN(io.Discard, b, int64(length))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		heads <- head.String()
	})
	return url
}

// Whoever pushes a job cannot act with another identity than the topic's.
func TestJobsKeepTheTopicsCredentials(t *testing.T) {
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	e := endpoint(t, EndpointSpec{
		URL: url, Headers: map[string]string{"Authorization": "Bearer topic", "X-Shop": "topic"},
		Fixed: func(header string) bool { return strings.EqualFold(header, "authorization") },
	})
	r := job()
	r.Headers = map[string]string{"AUTHORIZATION": "Bearer job", "x-shop": "job"}
	if o := caller(t, Options{}).Do(t.Context(), e, r); o.Class != Success ||
		!slices.Equal(got["Authorization"], []string{"Bearer topic"}) || !slices.Equal(got["X-Shop"], []string{"job"}) {
		t.Errorf("%+v, sent %v", o, got)
	}
}
