package callback

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

func init() { SetDialects(map[string]Dialect{"other": otherDialect{}}) }

// otherDialect sends a fixed body, takes only "yes" for a success, and makes two calls at once.
type otherDialect struct{}

func (otherDialect) Compile(string) (Form, error) { return otherDialect{}, nil }

func (otherDialect) Message(_ string, u *url.URL, _ *Request, _ time.Time) Message {
	return Message{URL: u, Body: []byte("fixed"), ContentType: "text/plain", UserAgent: "other"}
}

func (otherDialect) Judge(o *Outcome) {
	o.Class, o.Reason = Success, "ok"
	if string(o.Answer) != "yes" {
		o.Class, o.Reason = Failure, ReasonRetryIf
	}
}

func (otherDialect) Repeat(calls int, o *Outcome) (time.Duration, bool) {
	return time.Millisecond, calls < 2 && o.Class == Failure
}

// TestATopicsDialectMakesItsCalls and judges their answers; all calls of an attempt send the same.
func TestATopicsDialectMakesItsCalls(t *testing.T) {
	for answers, want := range map[[2]string]Outcome{
		{"yes"}: {Class: Success, Reason: "ok"}, {"no", "yes"}: {Class: Success, Reason: "ok"},
		{"no", "no"}: {Class: Failure, Reason: ReasonRetryIf},
	} {
		calls := 0
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body := make([]byte, 5)
			_, _ = r.Body.Read(body)
			if string(body) != "fixed" || r.Header.Get("User-Agent") != "other" || r.Header.Get("Wakecall-Id") == "" {
				t.Errorf("call %d: %q %v", calls, body, r.Header)
			}
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(answers[calls]))
			calls++
		})
		o := caller(t, Options{}).Do(t.Context(), endpoint(t, EndpointSpec{URL: url, Dialect: "other"}), job())
		if o.Class != want.Class || o.Reason != want.Reason {
			t.Errorf("%q: %+v", answers, o)
		}
	}
}

// TestATopicOfAnUnknownDialectIsNotCalled in another form: its gateway may have been taken out of the program.
func TestATopicOfAnUnknownDialectIsNotCalled(t *testing.T) {
	if _, err := CompileEndpoint(EndpointSpec{URL: "http://h/", Dialect: "none"}); err == nil {
		t.Error("an unknown dialect is compiled")
	}
	if err := CheckRetryIf("none", "true"); err == nil {
		t.Error("an expression of an unknown dialect is accepted")
	}
}
