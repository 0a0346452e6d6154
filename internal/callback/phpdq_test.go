package callback

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// php is an endpoint that was written for php-delayqueue. It records its requests.
type php struct {
	status  int
	answers []string // the last one repeats
	calls   []string // method, request URI, body
	headers http.Header
}

func (p *php) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.calls = append(p.calls, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	p.headers = r.Header
	w.WriteHeader(p.status)
	_, _ = io.WriteString(w, p.answers[min(len(p.calls), len(p.answers))-1])
}

func (p *php) call(t *testing.T, method, mark string, adjust ...func(*Request)) Outcome {
	t.Helper()
	url := serve(t, p.ServeHTTP)
	r := job()
	r.Attempt, r.DueAt = 1, time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	r.CreatedAt = r.DueAt.Add(-time.Hour)
	for _, f := range adjust {
		f(r)
	}
	c := caller(t, Options{PHPZone: time.FixedZone("there", 3600)})
	return c.Do(t.Context(),
		endpoint(t, EndpointSpec{URL: url + "/h.php?a=old&key=1", Method: method, RetryIf: mark, Dialect: DialectPHPDQ}), r)
}

func TestAnEndpointOfPHPDelayqueueIsCalledAsBefore(t *testing.T) {
	const times = "notify_time=2026-01-02%2004%3A04%3A05&dq_set_time=2026-01-02%2003%3A04%3A05"
	for method, want := range map[string]string{
		"GET":  "GET /h.php?a=1&key=1&b=x%20y&" + times + " ",
		"POST": "POST /h.php?a=old&key=1 a=1&b=x%20y&" + times,
	} {
		p := &php{status: 200, answers: []string{"OK"}}
		if o := p.call(t, method, ""); o.Class != Success || len(p.calls) != 1 || p.calls[0] != want {
			t.Errorf("%s: %+v, called as\n%q, want\n%q", method, o, p.calls, want)
		}
		if got := p.headers.Get("User-Agent"); got != "Swift framework HttpRequest class" {
			t.Errorf("%s: User-Agent %q", method, got)
		}
		if typ := p.headers.Get("Content-Type"); (method == "POST") != (typ == "application/x-www-form-urlencoded") {
			t.Errorf("%s: Content-Type %q", method, typ)
		}
	}
}

func TestARetrySaysHowManyCallsFailed(t *testing.T) {
	p := &php{status: 200, answers: []string{"OK"}}
	now := time.Now().In(time.FixedZone("there", 3600))
	p.call(t, "POST", "", func(r *Request) { r.Attempt = 4 })
	if !strings.Contains(p.calls[0], "&exp_notify_nums=3&") {
		t.Errorf("called as %q", p.calls)
	}
	if !strings.Contains(p.calls[0], "notify_time="+now.Format("2006-01-02")) {
		t.Errorf("%q does not say when this attempt was due", p.calls)
	}
}

func TestTheAnswerIsJudgedAsByPHPDelayqueue(t *testing.T) {
	for _, c := range []struct {
		status       int
		answer, mark string
		class        Class
		reason       string
		calls        int
	}{
		{200, "OK", "", Success, "ok", 1},
		{500, "Fatal error", "", Success, "ok", 1}, {302, "moved", "", Success, "ok", 1}, {410, "gone", "", Success, "ok", 1},
		{200, "", "", Failure, "empty", 3}, {200, "0", "", Failure, "empty", 3}, {503, "", "", Failure, "empty", 3},
		{200, `{"code":"200"}`, "{res.code}!=200", Success, "ok", 1},
		{200, `{"code":1}`, "{res.code}!=200", Failure, "retry_if", 1},
		{200, "not JSON", "{res.code}!=200", Success, "ok", 1},
	} {
		t.Run(fmt.Sprint(c.status, c.answer, c.mark), func(t *testing.T) {
			p := &php{status: c.status, answers: []string{c.answer}}
			o := p.call(t, "GET", c.mark)
			if o.Class != c.class || o.Reason != c.reason || len(p.calls) != c.calls {
				t.Errorf("%+v after %d calls", o, len(p.calls))
			}
		})
	}
}

func TestAnEmptyAnswerIsAskedForAgainAtOnce(t *testing.T) {
	p := &php{status: 200, answers: []string{"", "OK"}}
	if o := p.call(t, "GET", ""); o.Class != Success || len(p.calls) != 2 {
		t.Errorf("%+v after %d calls", o, len(p.calls))
	}
}

func TestAnEndpointThatDoesNotAnswerIsNotCalledBeyondTheTTR(t *testing.T) {
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	r := job()
	r.Timeout = 50 * time.Millisecond
	o := caller(t, Options{}).Do(t.Context(), endpoint(t, EndpointSpec{URL: url, Method: "GET", Dialect: DialectPHPDQ}), r)
	if o.Class != Failure || o.Reason != "timeout" {
		t.Errorf("%+v", o)
	}
}
