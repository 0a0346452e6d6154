package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"testing"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/openapitest"
)

// API calls a server over plain net/http, so that the tests see what any client would.
type API struct {
	Base  string
	Token string
	http  *http.Client
}

// NewAPI returns an API at a base address such as http://127.0.0.1:6789.
func NewAPI(base, token string) *API {
	return &API{Base: base, Token: token, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		Timeout:   Patience,
	}}
}

// checked checks every later exchange against the server's OpenAPI document.
func (a *API) checked(t testing.TB) *API {
	a.http.Transport = openapitest.Transport(t, a.http.Transport)
	return a
}

// Quick returns the API without that check, for loads.
func (a *API) Quick() *API { return NewAPI(a.Base, a.Token) }

// WithoutKeepAlive is Quick with a new connection for each request.
func (a *API) WithoutKeepAlive() *API {
	c := a.Quick()
	c.http.Transport.(*http.Transport).DisableKeepAlives = true
	return c
}

// Answer is the result of a request: a status, or Err when there was none.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error
}

// Code returns the code of a problem.
func (a Answer) Code() string {
	var p struct{ Code string }
	_ = json.Unmarshal(a.Body, &p)
	return p.Code
}

func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("%d %s", a.Status, bytes.TrimSpace(a.Body))
}

// JSON decodes the body into v.
func (a Answer) JSON(v any) error {
	if a.Err != nil {
		return a.Err
	}
	if err := json.Unmarshal(a.Body, v); err != nil {
		return fmt.Errorf("answer %s: %w", a, err)
	}
	return nil
}

// Do makes a request. A []byte or string is sent as it is, anything else but nil as JSON.
func (a *API) Do(ctx context.Context, method, path string, body any) Answer {
	return a.DoHeader(ctx, method, path, body, nil)
}

// DoHeader is Do with additional headers.
func (a *API) DoHeader(ctx context.Context, method, path string, body any, header http.Header) Answer {
	payload, isJSON, err := encode(body)
	if err != nil {
		return Answer{Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.Base+path, payload)
	if err != nil {
		return Answer{Err: err}
	}
	if isJSON {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	maps.Copy(req.Header, header)
	res, err := a.http.Do(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return Answer{Status: res.StatusCode, Header: res.Header, Body: b, Err: err}
}

func encode(body any) (payload io.Reader, isJSON bool, err error) {
	switch b := body.(type) {
	case nil:
		return http.NoBody, false, nil
	case []byte:
		return bytes.NewReader(b), true, nil
	case string:
		return bytes.NewReader([]byte(b)), true, nil
	}
	b, err := json.Marshal(body)
	return bytes.NewReader(b), true, err
}

// M is a JSON object in a test.
type M = map[string]any

// Job is a job as the API shows it.
type Job = client.Job

// Result is one in the answer to a request about several jobs.
type Result struct {
	Job
	Error *Problem `json:"error"`
}

// Problem is an error as the API returns it.
type Problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Field  string `json:"field"`
}

// Stats are the counts of a topic.
type Stats struct {
	Delayed, Ready, Running, Dead int
	OldestReadyMS                 float64 `json:"oldest_ready_ms"`
}

// JobPath returns the path of a job.
func JobPath(topic, id string) string {
	return "/v1/topics/" + topic + "/jobs/" + url.PathEscape(id)
}

// Push pushes one job with the fields given.
func (a *API) Push(ctx context.Context, topic string, fields M) Answer {
	return a.Do(ctx, http.MethodPost, "/v1/topics/"+topic+"/jobs", fields)
}

// Stats returns the counts of a topic.
func (a *API) Stats(ctx context.Context, topic string) (Stats, error) {
	var s Stats
	answer := a.Do(ctx, http.MethodGet, "/v1/topics/"+topic+"/stats", nil)
	if answer.Err == nil && answer.Status != http.StatusOK {
		return s, fmt.Errorf("stats of %s: %s", topic, answer)
	}
	return s, answer.JSON(&s)
}

// Drained returns nil when no job of the topics is delayed, ready or running.
func (a *API) Drained(ctx context.Context, topics ...string) error {
	var errs []error
	for _, topic := range topics {
		s, err := a.Stats(ctx, topic)
		if err == nil && s.Delayed+s.Ready+s.Running > 0 {
			err = fmt.Errorf("%s has %+v", topic, s)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// List returns all pages of a topic's jobs in a state.
func (a *API) List(ctx context.Context, topic, state string) ([]Job, error) {
	var all []Job
	cursor := ""
	for {
		q := url.Values{"state": {state}, "limit": {"100"}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		answer := a.Do(ctx, http.MethodGet, "/v1/topics/"+topic+"/jobs?"+q.Encode(), nil)
		if answer.Err == nil && answer.Status != http.StatusOK {
			return nil, fmt.Errorf("listing %s jobs of %s: %s", state, topic, answer)
		}
		var page client.Page
		if err := answer.JSON(&page); err != nil {
			return nil, err
		}
		all = append(all, page.Jobs...)
		cursor = page.Next
		if cursor == "" {
			return all, nil
		}
	}
}
