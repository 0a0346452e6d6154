package server_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

const orders = "/v1/topics/shop.orders/jobs"

// TestThePushHasTheETag of the job that it stored, or found.
func TestThePushHasTheETag(t *testing.T) {
	a := newAPI(t)
	for _, r := range []reply{
		a.do("POST", orders, `{"id":"x","body":1,"delay":"1h"}`).want(201), a.do("POST", orders, `{"id":"x","body":1}`).want(200),
		a.do("PUT", orders+"/raw?delay=1h", `1`).want(201),
	} {
		path := orders + "/" + r.json()["id"].(string)
		if etag := r.header.Get("ETag"); etag == "" || etag != a.do("GET", path, "").want(200).header.Get("ETag") {
			t.Errorf("ETag %q of %s", etag, r.body)
		}
	}
	etag := a.do("POST", orders, `{"body":1,"delay":"1h"}`).want(201)
	path := orders + "/" + etag.json()["id"].(string)
	a.do("PATCH", path, `{"delay":"2h"}`, "If-Match", etag.header.Get("ETag")).want(200)
	a.do("PATCH", path, `{"delay":"3h"}`, "If-Match", etag.header.Get("ETag")).problem(412, "")
}

func TestPush(t *testing.T) {
	a := newAPI(t)
	r := a.do("POST", orders,
		`{"id":"order-42","body":{"a": 1},"delay":"30m","priority":"high","ttr":"1m30s","max_attempts":3}`).want(201)
	if got := r.header.Get("Location"); got != orders+"/order-42" {
		t.Errorf("Location %q", got)
	}
	job := r.json()
	for name, want := range map[string]any{
		"topic": "shop.orders", "id": "order-42", "state": "delayed", "priority": "high", "attempts": 0.0,
		"max_attempts": 3.0, "ttr": "1m30s",
	} {
		if job[name] != want {
			t.Errorf("%s is %v, want %v", name, job[name], want)
		}
	}
	if got := a.jobs.last; got.Delay != 30*time.Minute || got.TTR != 90*time.Second || got.Fresh {
		t.Errorf("pushed %+v", got)
	}
}

// TestPushKeepsBytes: the body is stored and shown unchanged, except for white space around the value. See
// TestNoBodyHidesOtherJobs for bodies that are shown in base64.
func TestPushKeepsBytes(t *testing.T) {
	for _, body := range []string{
		`{"b" : 1.0e+2,  "a":"\u00e9\/é","a":2}`, "[ 1,\n\t2 ]", `"text"`, "null", "0", "-0.0", "true", `{}`, `[]`,
		`""`,
		"123456789012345678901234567890", `"\ud800"`, `{"":{"":[[],{}]}}`,
	} {
		a := newAPI(t)
		r := a.do("POST", orders, "{\n \"id\":\"x\", \"body\" : \t"+body+" \r\n}").want(201)
		if got := string(a.jobs.last.Body); got != body {
			t.Errorf("stored %q, want %q", got, body)
		}
		r = a.do("GET", orders+"/x", "").want(200)
		encoded := base64.StdEncoding.EncodeToString([]byte(body))
		if !strings.Contains(r.body, `"body":`+body+`}`) && r.json()["body_base64"] != encoded {
			t.Errorf("GET does not show %s: %s", body, r.body)
		}
	}
}

func TestPushDefaults(t *testing.T) {
	a := newAPI(t)
	id, _ := a.do("POST", "/v1/topics/shop.mail/jobs", `{"body":null}`).want(201).json()["id"].(string)
	got := a.jobs.last
	if got.Priority != store.Low || got.Delay != time.Hour || got.ID != id || !got.Fresh || len(id) < 16 {
		t.Errorf("pushed %+v", got)
	}
	a.do("POST", "/v1/topics/shop.mail/jobs", `{"body":null,"priority":"normal","delay":0}`).want(201)
	if got := a.jobs.last; got.Priority != store.Normal || got.Delay != 0 {
		t.Errorf("pushed %+v", got)
	}
	// A due time overrides the topic's delay.
	a.do("POST", "/v1/topics/shop.mail/jobs", `{"body":null,"due_at":"2030-01-31T08:00:00Z"}`).want(201)
	if got := a.jobs.last; got.Delay != 0 || got.DueAt.Year() != 2030 {
		t.Errorf("pushed %+v", got)
	}
}

func TestPushTimes(t *testing.T) {
	soon := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	tests := []struct {
		fields string
		delay  time.Duration
		due    time.Time
	}{
		{`"delay":"1h30m"`, 90 * time.Minute, time.Time{}},
		{`"delay":90`, 90 * time.Second, time.Time{}},
		{`"delay":0.25`, 250 * time.Millisecond, time.Time{}},
		{`"delay":1e2`, 100 * time.Second, time.Time{}},
		{`"delay":-0`, 0, time.Time{}},
		{`"delay":"1.0001s"`, 1001 * time.Millisecond, time.Time{}}, // never early
		{`"delay":0.0000001`, time.Millisecond, time.Time{}},
		{`"delay":"87600h"`, store.MaxDelay, time.Time{}},
		{`"due_at":"` + soon.Format(time.RFC3339Nano) + `"`, 0, soon},
		{fmt.Sprintf(`"due_at":%d`, soon.UnixMilli()), 0, soon},
		{fmt.Sprintf(`"due_at":%d.0`, soon.UnixMilli()), 0, soon},
		{`"due_at":"2030-01-31T08:00:00.0001+02:00"`, 0, time.Date(2030, 1, 31, 6, 0, 0, 1e6, time.UTC)},
		{`"due_at":"2001-01-01T00:00:00Z"`, 0, time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	for _, tt := range tests {
		a := newAPI(t)
		r := a.do("POST", orders, `{"body":1,`+tt.fields+`}`).want(201)
		if got := a.jobs.last; got.Delay != tt.delay || !got.DueAt.Equal(tt.due) {
			t.Errorf("%s: pushed %v %v, want %v %v", tt.fields, got.Delay, got.DueAt, tt.delay, tt.due)
		}
		if past := !tt.due.IsZero() && tt.due.Before(time.Now()); past && r.json()["state"] != "ready" {
			t.Errorf("%s: %s", tt.fields, r.body)
		}
	}
}

func TestPushDuplicate(t *testing.T) {
	a := newAPI(t)
	a.do("POST", orders, `{"id":"x","body":1,"delay":60}`).want(201)
	if r := a.do("POST", orders, `{"id":"x","body":2}`).want(200); r.json()["duplicate"] != true ||
		r.header.Get("Location") != "" {
		t.Errorf("keep: %s", r.body)
	}
	r := a.do("POST", orders, `{"id":"x","body":3,"on_duplicate":"replace"}`).want(200)
	if r.json()["state"] != "ready" {
		t.Errorf("replace: %s", r.body)
	}
	a.do("POST", orders, `{"id":"x","body":4,"on_duplicate":"error"}`).problem(409, "id", "x", "shop.orders", "replace")
	if got := string(a.jobs.jobs["shop.orders/x"].Body); got != "3" {
		t.Errorf("body %s", got)
	}
}

func TestPushTopics(t *testing.T) {
	a := newAPI(t)
	a.do("POST", "/v1/topics/nowhere/jobs", `{"body":1}`).problem(404, "", "nowhere")
	a.do("POST", "/v1/topics/UPPER/jobs", `{"body":1}`).problem(404, "", "UPPER")
	a.do("POST", "/v1/topics/shop.offline/jobs", `{"body":1}`).problem(409, "", "offline")
	a.do("PUT", "/v1/topics/shop.offline/jobs/x", `1`).problem(409, "", "offline")
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("refused pushes changed something: %v", got)
	}
	a.do("POST", "/v1/topics/shop.paused/jobs", `{"body":1}`).want(201)
}

func TestPushLimits(t *testing.T) {
	a := newAPI(t)
	largest := `"` + strings.Repeat("x", 256<<10-2) + `"`
	a.do("POST", orders, `{"id":"a","body":`+largest+`}`).want(201)
	if len(a.jobs.last.Body) != 256<<10 {
		t.Errorf("stored %d bytes", len(a.jobs.last.Body))
	}
	a.do("PUT", orders+"/b", strings.Repeat("x", 256<<10)).want(201)
	a.do("PUT", orders+"/c", strings.Repeat("x", 256<<10+1)).problem(413, "", "262144")
	a.do("POST", orders, "\x1f\x8b", "Content-Encoding", "gzip").problem(415, "", "gzip")
	a.do("POST", orders, `{"body":1}`, "Content-Encoding", "identity").want(201)
	a.do("POST", orders+"?delay=5s", `{"body":1}`).problem(400, "delay", "has none")
	// httptest's own limit; see TestLimitOfHeaders
	a.do("POST", orders, `{"body":1}`, "X-Big", strings.Repeat("x", 32<<10)).want(201)
	// Without Content-Length.
	req, err := http.NewRequest(http.MethodPost, a.url+orders,
		struct{ *strings.Reader }{strings.NewReader(`{"body":` + largest + `}`)})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = -1
	req.Header.Set("Authorization", "Bearer "+a.token)
	a.send(req).want(201)
	req.Body = http.NoBody
}

func TestPushRaw(t *testing.T) {
	a := newAPI(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	a.do("PUT", orders+"/raw?delay=90&priority=low&ttr=5s&max_attempts=2", string(every), "Content-Type",
		"application/octet-stream").want(201)
	got := a.jobs.last
	if string(got.Body) != string(every) || got.ContentType != "application/octet-stream" {
		t.Errorf("stored %q as %q", got.Body, got.ContentType)
	}
	if got.Delay != 90*time.Second || got.Priority != store.Low || got.TTR != 5*time.Second || got.MaxAttempts != 2 {
		t.Errorf("stored %+v", got)
	}
	job := a.do("GET", orders+"/raw", "").want(200).json()
	if job["body_base64"] == nil || job["body"] != nil || job["content_type"] != "application/octet-stream" {
		t.Errorf("GET shows %v", job)
	}
	// Text is shown as text, even if it looks like JSON.
	a.do("PUT", orders+"/text", "\"quoted\"\n", "Content-Type", "text/plain; charset=utf-8").want(201)
	if got := a.do("GET", orders+"/text", "").want(200).json()["body"]; got != "\"quoted\"\n" {
		t.Errorf("GET shows %q", got)
	}
	// JSON by default; a body that only claims to be JSON is shown as text.
	a.do("PUT", orders+"/json", ` {"a":1} `).want(201)
	if got := a.jobs.last; got.ContentType != "" || string(got.Body) != ` {"a":1} ` {
		t.Errorf("stored %q as %q", got.Body, got.ContentType)
	}
	a.do("GET", orders+"/json", "").want(200)
	a.do("PUT", orders+"/broken", `{"a":`, "Content-Type", "application/json").want(201)
	if got := a.do("GET", orders+"/broken", "").want(200).json()["body"]; got != `{"a":` {
		t.Errorf("GET shows %q", got)
	}
	a.do("PUT", orders+"/empty", "").want(201)
	if got := a.do("GET", orders+"/empty", "").want(200).json()["body"]; got != "" {
		t.Errorf("GET shows %q", got)
	}
	a.do("PUT", orders+"/empty", "x").want(200)
	a.do("PUT", orders+"/empty?on_duplicate=error", "x").problem(409, "id")
	a.do("PUT", orders+"/empty?on_duplicate=replace", "x").want(200)
}

// TestPushRawHeaders: an object and a list in the query.
func TestPushRawHeaders(t *testing.T) {
	a := newAPI(t)
	r := a.do("PUT", orders+"/x?headers[X-Team]=shop&headers%5BX-No%5D=2&retry=10s,60,1h", `1`).want(201)
	got := r.json()
	if headers, _ := got["headers"].(map[string]any); headers["X-Team"] != "shop" || headers["X-No"] != "2" ||
		fmt.Sprint(got["retry"]) != "[10s 1m0s 1h0m0s]" {
		t.Errorf("%s", r.body)
	}
	for query, want := range map[string]struct {
		status int
		field  string
	}{
		"headers[]=x": {400, "headers"}, "headers[a%20b]=x": {400, "headers"}, "headers=x": {400, "headers"},
		"headers[A=x": {400, "headers[A"}, "headers[Content-Length]=1": {400, "headers"}, "retry=": {400, "retry"},
		"retry=soon": {400, "retry"}, "retry=1s,": {400, "retry"}, "retry=10000h": {422, "retry"},
		"headers[A]=1&headers[A]=2": {400, "headers[NAME]"}, "retry=" + strings.Repeat("1,", 50) + "1": {422, "retry"},
	} {
		a.do("PUT", orders+"/y?"+query, `1`).problem(want.status, want.field)
	}
	a.do("GET", orders+"?state=dead&headers[A]=1", "").problem(400, "headers[NAME]")
}

func TestPushRawOptions(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		query, field string
		status       int
	}{
		{"delay=soon", "delay", 400}, {"delay=-1s", "delay", 422}, {"delay=NaN", "delay", 400},
		{"delay=Inf", "delay", 400},
		{"delay=0x10", "delay", 400}, {"delay=", "delay", 400}, {"delay=1s&delay=2s", "delay", 400},
		{"delay=1e999", "delay", 422},
		{"delay=1s&due_at=2030-01-01T00:00:00Z", "due_at", 400}, {"due_at=tomorrow", "due_at", 400},
		{"due_at=99999999999999", "due_at", 422},
		{"priority=top", "priority", 400}, {"ttr=2h", "ttr", 422}, {"on_duplicate=x", "on_duplicate", 400},
		{"max_attempts=0", "max_attempts", 422},
		{"max_attempts=many", "max_attempts", 400}, {"dealy=1s", "dealy", 400}, {"id=x", "id", 400},
		{"body=x", "body", 400},
		{"a=%zz", "", 400}, {"a;b", "", 400},
	} {
		t.Run(tt.query, func(t *testing.T) {
			a.t = t
			a.do("PUT", orders+"/x?"+tt.query, "1").problem(tt.status, tt.field)
		})
	}
	a.t = t
	for _, ct := range []string{"text", "text/", strings.Repeat("x", 64) + "/" + strings.Repeat("x", 64),
		"text/plain; a\x80b", "a/b/c"} {
		a.do("PUT", orders+"/x", "1", "Content-Type", ct).problem(400, "Content-Type")
	}
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("refused pushes changed something: %v", got)
	}
	a.do("PUT", orders+"/brief?ttl=1m&max_attempts=1000", "1").want(201)
	a.do("PUT", orders+"/until?expires_at=2030-01-01T00:00:00Z", "1").want(201)
	if got := a.jobs.last.ExpiresAt.UnixMilli(); got != 1893456000000 {
		t.Errorf("expires at %d", got)
	}
	for _, q := range []string{"due_at=1893456000000", "due_at=2030-01-01T00:00:00Z",
		"due_at=2030-01-01T02:00:00%2B02:00",
		"due_at=2030-01-01T02:00:00+02:00"} {
		a.do("PUT", orders+"/due?on_duplicate=replace&"+q, "1")
		if got := a.jobs.last.DueAt; got.UnixMilli() != 1893456000000 {
			t.Errorf("%s: due at %v", q, got)
		}
	}
}
