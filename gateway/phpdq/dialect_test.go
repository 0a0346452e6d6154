package phpdq_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
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

func (p *php) call(t *testing.T, method, mark string, adjust ...func(*callback.Request)) callback.Outcome {
	t.Helper()
	return call(t, p, method, mark, adjust...)
}

// call calls an endpoint with an attempt of a job, which was due at 03:04:05 UTC.
func call(
	t *testing.T, h http.Handler, method, mark string, adjust ...func(*callback.Request),
) callback.Outcome {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	due := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	r := &callback.Request{
		Topic: "order_close", ID: "42", Body: []byte(`{"a":1,"b":"x y"}`), Attempt: 1, MaxAttempts: 12, DueAt: due,
		CreatedAt: due.Add(-time.Hour), Timeout: 10 * time.Second,
	}
	for _, f := range adjust {
		f(r)
	}
	e, err := callback.CompileEndpoint(callback.EndpointSpec{
		URL: server.URL + "/h.php?a=old&key=1", Method: method, RetryIf: mark, Dialect: "phpdq",
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := callback.New(callback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.Do(t.Context(), e, r)
}

func TestAnEndpointOfPHPDelayqueueIsCalledAsBefore(t *testing.T) {
	const times = "notify_time=2026-01-02%2004%3A04%3A05&dq_set_time=2026-01-02%2003%3A04%3A05"
	for method, want := range map[string]string{
		"GET":  "GET /h.php?a=1&key=1&b=x%20y&" + times + " ",
		"POST": "POST /h.php?a=old&key=1 a=1&b=x%20y&" + times,
	} {
		p := &php{status: 200, answers: []string{"OK"}}
		if o := p.call(t, method, ""); o.Class != callback.Success || len(p.calls) != 1 || p.calls[0] != want {
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
	p.call(t, "POST", "", func(r *callback.Request) { r.Attempt = 4 })
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
		class        callback.Class
		reason       string
		calls        int
	}{
		{200, "OK", "", callback.Success, "ok", 1},
		{500, "Fatal error", "", callback.Success, "ok", 1}, {302, "moved", "", callback.Success, "ok", 1},
		{410, "gone", "", callback.Success, "ok", 1},
		{200, "", "", callback.Failure, "empty", 3}, {200, "0", "", callback.Failure, "empty", 3},
		{503, "", "", callback.Failure, "empty", 3},
		{200, `{"code":"200"}`, "{res.code}!=200", callback.Success, "ok", 1},
		{200, `{"code":1}`, "{res.code}!=200", callback.Failure, "retry_if", 1},
		{200, "not JSON", "{res.code}!=200", callback.Success, "ok", 1},
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
	if o := p.call(t, "GET", ""); o.Class != callback.Success || len(p.calls) != 2 {
		t.Errorf("%+v after %d calls", o, len(p.calls))
	}
}

func TestAnEndpointThatDoesNotAnswerIsNotCalledBeyondTheTTR(t *testing.T) {
	hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	o := call(t, hangs, "GET", "", func(r *callback.Request) { r.Timeout = 50 * time.Millisecond })
	if o.Class != callback.Failure || o.Reason != "timeout" {
		t.Errorf("%+v", o)
	}
}

// TestARetryMarkIsTriedOnAnExample, as the admin does.
func TestARetryMarkIsTriedOnAnExample(t *testing.T) {
	for answer, want := range map[string]bool{`{"code":200}`: false, `{"code":1}`: true, "": false} {
		if got, err := callback.TryRetryIf("phpdq", "{res.code}!=200", 200, nil, []byte(answer)); err != nil ||
			got != want {
			t.Errorf("%q: %v, %v", answer, got, err)
		}
	}
	if err := callback.CheckRetryIf("phpdq", "{res.code"); err == nil {
		t.Error("a wrong mark is accepted")
	}
}
