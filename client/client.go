package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DefaultTimeout bounds each request when Options.HTTPClient is not set.
const DefaultTimeout = 30 * time.Second

// answerLimit is the maximum number of bytes read of an answer. A full page of the largest jobs fits.
const answerLimit = 1 << 30

// Options of a Client.
type Options struct {
	URL        string        // of the server, as http://127.0.0.1:6789; a path in it is kept as a prefix
	Token      string        // sent as the bearer token
	HTTPClient *http.Client  // default: a new one that keeps up to 64 connections open
	UserAgent  string        // default: wakecall-client
	RetryFor   time.Duration // how long to repeat requests that are safe to repeat; 0: never repeat
}

// Client talks to one Wakecall server. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	token     string
	userAgent string
	retryFor  time.Duration
	http      *http.Client
}

// New returns a client. It does not connect yet; the only error is an invalid URL.
func New(opts Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(opts.URL, "/"))
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		shown := opts.URL[strings.LastIndexByte(opts.URL, '@')+1:] // before it may be a password
		return nil, fmt.Errorf("server URL %q must be http://HOST:PORT or https://HOST", shown)
	}
	c := &Client{base: base, token: opts.Token, retryFor: opts.RetryFor}
	c.userAgent = cmp.Or(opts.UserAgent, "wakecall-client")
	if opts.HTTPClient == nil {
		opts.HTTPClient = newHTTPClient()
	}
	c.http = keepingMethods(*opts.HTTPClient)
	return c, nil
}

// keepingMethods returns a client that does not follow redirects that would turn a write into a GET (301, 302 and 303):
// the success of the GET would look like that of the write.
func keepingMethods(h http.Client) *http.Client {
	next := h.CheckRedirect
	h.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		switch {
		case r.Method != via[0].Method:
			return http.ErrUseLastResponse
		case next != nil:
			return next(r, via)
		case len(via) == maxRedirects:
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}
	return &h
}

const maxRedirects = 10

func newHTTPClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return &http.Client{Transport: t, Timeout: DefaultTimeout}
}

// URL returns the server's URL, with its password hidden.
func (c *Client) URL() string { return c.base.Redacted() }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Ready returns nil when the server can accept a push. It needs no token.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, request{method: http.MethodGet, path: "/readyz", repeatable: true}, nil)
}

// request is one call of the API.
type request struct {
	method      string
	path        string // escaped
	query       url.Values
	body        []byte // nil: none
	contentType string // default: application/json
	repeatable  bool   // idempotent
	status      *int   // if set, receives the answer's status
	match       string // If-Match
	key         string // Idempotency-Key
	traceparent string
	waits       time.Duration // how long the server may hold it
	etag        *string
}

// do sends a request and decodes the answer into out, unless out is nil.
func (c *Client) do(ctx context.Context, r request, out any) error {
	deadline := time.Now().Add(c.retryFor)
	for try := 0; ; try++ {
		err := c.once(ctx, r, out)
		wait, again := r.pause(err, try)
		if !again || time.Now().Add(wait).After(deadline) {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// pause reports whether a request that ended with err may be repeated, and how long to wait before.
func (r request) pause(err error, try int) (time.Duration, bool) {
	backOff := 50 * time.Millisecond << min(try, 5)
	if errors.Is(err, ErrUnreachable) {
		return backOff, r.repeatable || isRefused(err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable || !r.repeatable {
		return 0, false
	}
	return max(backOff, e.RetryAfter), true
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (c *Client) once(ctx context.Context, r request, out any) error {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return err
	}
	h := c.http
	if r.waits > 0 && h.Timeout > 0 {
		patient := *h
		patient.Timeout += r.waits
		h = &patient
	}
	resp, err := h.Do(req)
	if err != nil {
		return c.transportError(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return c.transportError(ctx, err)
	}
	if r.status != nil {
		*r.status = resp.StatusCode
	}
	if r.etag != nil {
		*r.etag = resp.Header.Get("ETag")
	}
	if resp.StatusCode/100 != 2 {
		return newError(resp, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s %s answered %d with an unexpected body: %w", r.method, r.path,
			resp.StatusCode, err)
	}
	return nil
}

// Do sends a request for which this package has no method, and decodes the answer into out, unless out is nil. The path
// begins with /v1/, is escaped, and may have a query; a body is JSON. It is never repeated.
func (c *Client) Do(ctx context.Context, method, path string, body []byte, out any) error {
	return c.once(ctx, request{method: method, path: path, body: body}, out)
}

// get is do with a new T for the answer.
func get[T any](ctx context.Context, c *Client, r request) (*T, error) {
	var out T
	if err := c.do(ctx, r, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	target := c.base.String() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", cmp.Or(r.contentType, "application/json"))
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if r.traceparent != "" {
		req.Header.Set("Traceparent", r.traceparent)
	}
	if r.match != "" {
		req.Header.Set("If-Match", r.match)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept", "application/json, application/problem+json")
	return req, nil
}

// queryOf makes a query of the values that are not empty.
func queryOf(values map[string]string) url.Values {
	q := url.Values{}
	for name, value := range values {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// unlessZero formats a number for a query; 0 becomes "".
func unlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// encode is json.Marshal without escaping <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// timeText formats a time for a query; the zero time becomes "".
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
