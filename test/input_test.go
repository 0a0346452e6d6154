package test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// TestInput: malformed requests are refused with the name of the field, and change nothing.
func TestInput(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	t.Run("malformed pushes", i.malformedPushes)
	t.Run("bodies too large", i.tooLarge)
	t.Run("tokens", i.tokens)
	t.Run("open addresses need no token", i.openAddresses)
	t.Run("unknown addresses and methods are problems too", i.unknownAddresses)
	t.Run("half-open clients do not keep others out", i.slowloris)
}

func (i *installation) malformedPushes(t *testing.T) {
	topic := i.topic(t, nil, nil)
	for name, c := range map[string]struct {
		body   string
		status string // one of
		field  string
	}{
		"no JSON":               {`{"body":`, "400", ""},
		"nothing":               {``, "400", ""},
		"array":                 {`[]`, "400", ""},
		"two values":            {`{"body":1}{"body":2}`, "400", ""},
		"unknown field":         {`{"body":1,"colour":"red"}`, "400", "colour"},
		"wrong type":            {`{"body":1,"priority":3}`, "400", "priority"},
		"unknown priority":      {`{"body":1,"priority":"urgent"}`, "400 422", "priority"},
		"negative delay":        {`{"body":1,"delay":"-1s"}`, "422", "delay"},
		"negative number":       {`{"body":1,"delay":-1}`, "422", "delay"},
		"bad delay":             {`{"body":1,"delay":"soon"}`, "400", "delay"},
		"NaN":                   {`{"body":1,"delay":"NaN"}`, "400", "delay"},
		"NaN literal":           {`{"body":1,"delay":NaN}`, "400", ""},
		"1e400":                 {`{"body":1,"delay":1e400}`, "400 422", "delay"},
		"far ahead":             {`{"body":1,"delay":1e15}`, "400 422", "delay"},
		"due far ahead":         {`{"body":1,"due_at":"9999-01-01T00:00:00Z"}`, "400 422", "due_at"},
		"bad due_at":            {`{"body":1,"due_at":"tomorrow"}`, "400", "due_at"},
		"delay and due_at":      {`{"body":1,"delay":"1s","due_at":"2030-01-31T08:00:00Z"}`, "400", ""},
		"id too long":           {`{"body":1,"id":"` + strings.Repeat("x", 129) + `"}`, "400 422", "id"},
		"empty id":              {`{"body":1,"id":""}`, "400 422", "id"},
		"id with control":       {`{"body":1,"id":"a\u0000b"}`, "400", "id"},
		"id with newline":       {`{"body":1,"id":"a\r\nX-Evil: 1"}`, "400", "id"},
		"id with outer spaces":  {`{"body":1,"id":" a"}`, "400", "id"},
		"id not UTF-8":          {"{\"body\":1,\"id\":\"a\xff\"}", "400", ""},
		"id a lone surrogate":   {`{"body":1,"id":"a\ud800"}`, "400", ""},
		"max_attempts negative": {`{"body":1,"max_attempts":-1}`, "400 422", "max_attempts"},
		"ttr negative":          {`{"body":1,"ttr":"-1s"}`, "400 422", "ttr"},
		"on_duplicate unknown":  {`{"body":1,"on_duplicate":"explode"}`, "400", "on_duplicate"},
		"the same key twice":    {`{"body":1,"id":"a","id":"b"}`, "400", "id"},
		"no body":               {`{"id":"a"}`, "400", "body"},
		"a case of its own":     {`{"Body":1}`, "400", "Body"},
		"deeply nested": {`{"body":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
			"400", ""},
		"a body that is no JSON": {`{"body":tru}`, "400", ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer := i.Do(ctx, http.MethodPost, "/v1/topics/"+topic+"/jobs", c.body)
			p := problem(t, answer)
			if !strings.Contains(c.status, fmt.Sprint(answer.Status)) {
				t.Errorf("%s, want status %s", answer, c.status)
			}
			if c.field != "" && p.Field != c.field {
				t.Errorf("field is %q (%s), want %q", p.Field, p.Detail, c.field)
			}
		})
	}
	if s := i.MustStats(t, topic); s != (harness.Stats{}) {
		t.Errorf("the refused pushes stored %+v", s)
	}
	if calls := i.endpoint.Calls(topic); len(calls) > 0 {
		t.Errorf("a refused push was called: %+v", calls[0])
	}
}

// problem checks that an answer is an RFC 9457 problem with a status, title and detail, and returns it.
func problem(t *testing.T, answer harness.Answer) harness.Problem {
	t.Helper()
	var p harness.Problem
	if err := answer.JSON(&p); err != nil {
		t.Fatal(err)
	}
	if got := answer.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/problem+json") {
		t.Errorf("Content-Type is %q", got)
	}
	if p.Status != answer.Status || p.Title == "" || p.Detail == "" {
		t.Errorf("problem is %+v of status %d: want status, title and detail", p, answer.Status)
	}
	if answer.Header.Get("X-Request-Id") == "" {
		t.Error("there is no X-Request-Id")
	}
	return p
}

func (i *installation) tooLarge(t *testing.T) {
	topic := i.topic(t, nil, nil)
	largest := strings.Repeat("x", 256<<10)
	answer := i.Do(ctx, http.MethodPut, harness.JobPath(topic, "fits")+"?delay=1h", largest)
	if answer.Status != http.StatusCreated {
		t.Errorf("256 KiB: %s", answer)
	}
	answer = i.Do(ctx, http.MethodPut, harness.JobPath(topic, "raw")+"?delay=1h", largest+"x")
	if problem(t, answer); answer.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("256 KiB and a byte, raw: %s", answer)
	}
	answer = i.Push(ctx, topic, M{"id": "json", "body": largest, "delay": "1h"}) // two bytes more, for the quotes
	if problem(t, answer); answer.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("256 KiB and a byte, JSON: %s", answer)
	}
	if s := i.MustStats(t, topic); s.Delayed != 1 {
		t.Errorf("stats are %+v, want the body that fits", s)
	}
}

func (i *installation) tokens(t *testing.T) {
	topic := i.topic(t, nil, nil)
	for name, header := range map[string]string{
		"missing": "", "wrong": "Bearer not-a-token", "of another scheme": "Basic " + i.Token, "empty": "Bearer ",
		"cut": "Bearer " + i.Token[:10],
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []struct{ method, path string }{
				{"POST", "/v1/topics/" + topic + "/jobs"}, {"GET", "/v1/topics"}, {"PUT", "/v1/topics/" + topic},
				{"GET", "/v1/shards"}, {"POST", "/v1/jobs"}, {"GET", "/v1/topics/" + topic + "/stats"},
			} {
				answer := i.DoHeader(ctx, r.method, r.path, `{"body":1}`, http.Header{"Authorization": {header}})
				if p := problem(t, answer); answer.Status != http.StatusUnauthorized {
					t.Errorf("%s %s: %d %s, want 401", r.method, r.path, answer.Status, p.Detail)
				}
			}
		})
	}
	if s := i.MustStats(t, topic); s != (harness.Stats{}) {
		t.Errorf("stats are %+v", s)
	}
}

func (i *installation) openAddresses(t *testing.T) {
	stranger := harness.NewAPI(i.Base, "")
	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml", "/docs"} {
		stranger.MustDo(t, http.StatusOK, http.MethodGet, path, nil)
	}
}

func (i *installation) unknownAddresses(t *testing.T) {
	for path, status := range map[string]int{"/v1/nothing": 404, "/": 404, "/v1/topics/UPPER/jobs": 0,
		"/v1/topics/a%2Fb/stats": 0} {
		answer := i.Do(ctx, http.MethodGet, path, nil)
		if problem(t, answer); status != 0 && answer.Status != status {
			t.Errorf("GET %s: %s, want %d", path, answer, status)
		}
	}
	if answer := i.Do(ctx, http.MethodPatch, "/v1/topics", nil); answer.Status != http.StatusMethodNotAllowed {
		t.Errorf("PATCH /v1/topics: %s", answer)
	}
}

func (i *installation) slowloris(t *testing.T) {
	topic := i.topic(t, nil, nil)
	for range 500 {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(i.Base, "http://"), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() // all of them stay open during the test
		if _, err := fmt.Fprintf(conn, "POST /v1/topics/%s/jobs HTTP/1.1\r\nHost: x\r\nX-Slow: ", topic); err != nil {
			t.Fatal(err)
		}
	}
	harness.Quickly(t, 2*time.Second, "a push beside half-open clients", func() {
		i.MustPush(t, topic, M{"body": 1})
	})
	i.endpoint.WaitCalls(t, topic, 1)
}
