package callback

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// EndpointSpec describes where and how a topic is called.
type EndpointSpec struct {
	URL         string
	Method      string // POST, PUT or GET
	ContentType string // json; form (the members of a JSON object); or the media type of jobs without one
	Headers     map[string]string
	Fixed       func(header string) bool // the headers that a job does not replace; nil: none
	RetryIf     string                   // in the topic's dialect
	Dialect     string                   // empty: Wakecall's own
	CloudEvents bool                     // calls are CloudEvents in binary mode
	Secrets     []string                 // whsec_…
}

// Endpoint is a compiled EndpointSpec. It is immutable and may be used by many calls at once.
type Endpoint struct {
	url     *url.URL
	own     url.Values // for GET: the URL's parameters, which jobs cannot replace
	method  string
	asForm  bool
	typ     string      // content type of jobs without one
	headers http.Header // by canonical name
	spelled []string    // names of headers that are not canonical
	fixed   func(string) bool
	retryIf *Program
	keys    [][]byte
	form    Form // nil: Wakecall's own
	events  bool
}

// DialectOwn is the name of Wakecall's own dialect.
const DialectOwn = "wakecall"

// isOwn reports whether a dialect, which may be empty, is Wakecall's own.
func isOwn(dialect string) bool { return dialect == "" || dialect == DialectOwn }

// CompileEndpoint validates a spec and prepares everything that does not depend on the job.
func CompileEndpoint(s EndpointSpec) (*Endpoint, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("callback_url must be an http or https URL") // not quoted: its query may hold secrets
	}
	e := &Endpoint{
		url: u, method: cmp.Or(s.Method, http.MethodPost), asForm: s.ContentType == "form", typ: "application/json",
		headers: http.Header{}, fixed: s.Fixed, events: s.CloudEvents,
	}
	if e.method != http.MethodPost && e.method != http.MethodPut && e.method != http.MethodGet {
		return nil, fmt.Errorf("method must be POST, PUT or GET, not %q", s.Method)
	}
	if e.method == http.MethodGet {
		e.own = u.Query()
	}
	if strings.Contains(s.ContentType, "/") {
		e.typ = s.ContentType
	}
	for k, v := range s.Headers {
		if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
			return nil, fmt.Errorf("header %q cannot be sent", k) // net/http would reject every call
		}
		e.headers.Set(k, v)
		if k != http.CanonicalHeaderKey(k) {
			e.spelled = append(e.spelled, k)
		}
	}
	switch {
	case !isOwn(s.Dialect):
		e.form, err = compileDialect(s.Dialect, s.RetryIf)
	case s.RetryIf != "":
		e.retryIf, err = CompileRetryIf(s.RetryIf)
	}
	if err != nil {
		return nil, fmt.Errorf("retry_if: %w", err)
	}
	for _, secret := range s.Secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			return nil, errors.New("secrets must be whsec_ followed by base64")
		}
		e.keys = append(e.keys, key)
	}
	return e, nil
}
