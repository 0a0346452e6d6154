package callback

import (
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// A Dialect is the form of callbacks that the endpoints of another system expect. Topics choose one by its name.
type Dialect interface {
	// Compile returns the form of an endpoint's calls, with its retry_if expression, which may be empty.
	Compile(retryIf string) (Form, error)
}

// A Form makes the calls of an endpoint and judges the responses. It may be used by many calls at once.
type Form interface {
	Message(method string, u *url.URL, r *Request, now time.Time) Message
	// Judge sets the meaning of a complete response: Class, Reason, Err and EndpointDown.
	Judge(o *Outcome)
	// Repeat reports, after a number of calls with the same message, whether the attempt makes another one, and after
	// which pause.
	Repeat(calls int, o *Outcome) (pause time.Duration, repeat bool)
}

var dialects atomic.Pointer[map[string]Dialect]

// SetDialects sets the dialects other than Wakecall's own, by name. It must be called before any endpoint is compiled.
func SetDialects(list map[string]Dialect) { dialects.Store(&list) }

// compileDialect compiles a retry_if expression, which may be empty, in a dialect other than Wakecall's own.
func compileDialect(name, retryIf string) (Form, error) {
	if list := dialects.Load(); list != nil {
		if d := (*list)[name]; d != nil {
			return d.Compile(retryIf)
		}
	}
	return nil, fmt.Errorf("unknown dialect %q", name)
}

// CheckRetryIf compiles a retry_if expression in a dialect.
func CheckRetryIf(dialect, expression string) (err error) {
	if isOwn(dialect) {
		_, err = CompileRetryIf(expression)
	} else {
		_, err = compileDialect(dialect, expression)
	}
	return err
}

// TryRetryIf evaluates a retry_if expression on a sample response.
func TryRetryIf(dialect, expression string, status int, h http.Header, answer []byte) (retry bool, err error) {
	if isOwn(dialect) {
		p, err := CompileRetryIf(expression)
		if err != nil {
			return false, err
		}
		return p.run(status, h, answer)
	}
	form, err := compileDialect(dialect, expression)
	if err != nil {
		return false, err
	}
	o := Outcome{Status: status, Answer: answer}
	form.Judge(&o)
	return o.Reason == ReasonRetryIf, nil
}
