package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/server"
)

const orders = "/v1/topics/shop.orders/jobs"

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

// TestPushKeepsBytes: the body is stored unchanged, except for white space around the value.
func TestPushKeepsBytes(t *testing.T) {
	for _, body := range []string{
		`{"b" : 1.0e+2,  "a":"\u00e9\/é","a":2}`, "[ 1,\n\t2 ]", `"text"`, "null", "0", "-0.0", "true", `{}`, `[]`, `""`,
		"123456789012345678901234567890", `"\ud800"`, `{"":{"":[[],{}]}}`,
	} {
		a := newAPI(t)
		r := a.do("POST", orders, "{\n \"id\":\"x\", \"body\" : \t"+body+" \r\n}").want(201)
		if got := string(a.jobs.last.Body); got != body {
			t.Errorf("stored %q, want %q", got, body)
		}
		if r = a.do("GET", orders+"/x", ""); !strings.Contains(r.want(200).body, `"body":`+body+`}`) {
			t.Errorf("GET does not show %s: %s", body, r.body)
		}
	}
}

func TestPushDefaults(t *testing.T) {
	a := newAPI(t)
	id, _ := a.do("POST", "/v1/topics/shop.mail/jobs", `{"body":null}`).want(201).json()["id"].(string)
	got := a.jobs.last
	if got.Priority != queue.Low || got.Delay != time.Hour || got.ID != id || !got.Fresh || len(id) < 16 {
		t.Errorf("pushed %+v", got)
	}
	a.do("POST", "/v1/topics/shop.mail/jobs", `{"body":null,"priority":"normal","delay":0}`).want(201)
	if got := a.jobs.last; got.Priority != queue.Normal || got.Delay != 0 {
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
		{`"delay":"87600h"`, queue.MaxDelay, time.Time{}},
		{`"due_at":"` + soon.Format(time.RFC3339Nano) + `"`, 0, soon},
		{fmt.Sprintf(`"due_at":%d`, soon.UnixMilli()), 0, soon},
		{fmt.Sprintf(`"due_at":%d.0`, soon.UnixMilli()), 0, soon},
		{`"due_at":"2030-01-31T08:00:00.0001+02:00"`, 0, time.Date(2030, 1, 31, 6, 0, 0, 1e6, time.UTC)},
		{`"due_at":"2001-01-01T00:00:00Z"`, 0, time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)},
		{`"due_at":0`, 0, time.Unix(0, 0)},
		{`"due_at":-1`, 0, time.UnixMilli(-1)},
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
	if r := a.do("POST", orders, `{"id":"x","body":3,"on_duplicate":"replace"}`).want(200); r.json()["state"] != "ready" {
		t.Errorf("replace: %s", r.body)
	}
	a.do("POST", orders, `{"id":"x","body":4,"on_duplicate":"error"}`).problem(409, "id", "x", "shop.orders", "replace")
	if got := string(a.jobs.jobs["shop.orders/x"].Body); got != "3" {
		t.Errorf("body %s", got)
	}
}

// malformed are pushes that must be refused and change nothing.
var malformed = []struct {
	name, body string
	status     int
	field      string
	words      []string
}{
	{"nothing", ``, 400, "", []string{"no body"}},
	{"white space", " \n", 400, "", []string{"no body"}},
	{"no JSON", `hello`, 400, "", []string{"expected an object"}},
	{"cut off", `{"body":{"a":1}`, 400, "", []string{"unexpected end", "at byte 15"}},
	{"cut off in a string", `{"body":"abc`, 400, "", []string{"unexpected end", "at byte 12"}},
	{"byte order mark", "\ufeff{\"body\":1}", 400, "", []string{"expected an object"}},
	{"single quotes", `{'body':1}`, 400, "", []string{`invalid character '\''`, "at byte 1"}},
	{"comma at the end", `{"body":1,}`, 400, "", []string{"invalid character ','", "at byte 9"}},
	{"comma at the end of a body", `{"body":[1,]}`, 400, "", []string{"invalid character ','", "at byte 10"}},
	{"comment", `{"body":1 /* x */}`, 400, "", nil},
	{"text behind", `{"body":1} x`, 400, "", []string{"after the JSON value"}},
	{"two values", `{"body":1}{"body":2}`, 400, "", []string{"after the JSON value"}},
	{"array", `[{"body":1}]`, 400, "", []string{"expected an object", "an array"}},
	{"null", `null`, 400, "", []string{"expected an object"}},
	{"wrong bracket", `{"body":[1}}`, 400, "", nil},
	{"mixed brackets", `{"body":{"a":[1}]}`, 400, "", nil},
	{"leading zero", `{"body":01}`, 400, "", nil},
	{"plus", `{"body":+1}`, 400, "", nil},
	{"bare point", `{"body":.5}`, 400, "", nil},
	{"point without digits", `{"body":1.}`, 400, "", []string{"digit"}},
	{"exponent without digits", `{"body":1e}`, 400, "", []string{"digit"}},
	{"NaN", `{"body":NaN}`, 400, "", nil},
	{"control character", "{\"body\":\"a\nb\"}", 400, "", []string{`'\n' in string`, "control character"}},
	{"NUL", "{\"body\":1\x00}", 400, "", nil},
	{"unknown escape", `{"body":"\x41"}`, 400, "", []string{"escape"}},
	{"short escape", `{"body":"\u12"}`, 400, "", []string{"invalid escape", "at byte 9"}},
	{"bad literal", `{"body":nul}`, 400, "", nil},
	{"invalid UTF-8 in the body", "{\"body\":\"\xff\"}", 400, "", []string{"UTF-8"}},
	{"invalid UTF-8 in a name", "{\"bo\xffdy\":1}", 400, "", []string{"UTF-8"}},
	{"overlong UTF-8", "{\"body\":\"\xc0\xaf\"}", 400, "", []string{"UTF-8"}},
	{"nested too deep", `{"body":` + strings.Repeat("[", 129) + strings.Repeat("]", 129) + `}`, 400, "", []string{"128"}},
	{"nested absurdly deep", `{"body":` + strings.Repeat(`{"a":`, 40000), 400, "", []string{"128"}},

	{"no body", `{"id":"x"}`, 400, "body", []string{"missing"}},
	{"no body in an empty object", `{}`, 400, "body", []string{"missing"}},
	{"unknown field", `{"body":1,"dealy":"1m"}`, 400, "dealy",
		[]string{"dealy", "unknown", "known are id, body, delay, due_at, "}},
	{"a long unknown field, cut between characters", `{"a` + strings.Repeat("é", 60) + `":1}`, 400,
		"a" + strings.Repeat("é", 39) + "…", []string{"unknown"}},
	{"field in capitals", `{"Body":1}`, 400, "Body", []string{"unknown"}},
	{"topic stands in the path", `{"body":1,"topic":"shop.orders"}`, 400, "topic", []string{"unknown"}},
	{"field twice", `{"body":1,"body":2}`, 400, "body", []string{"duplicate field"}},
	{"field twice, escaped", `{"body":1,"b\u006fdy":2}`, 400, "body", []string{"duplicate field"}},

	{"id of a wrong type", `{"body":1,"id":42}`, 400, "id", []string{"expected a string, got a number"}},
	{"id null", `{"body":1,"id":null}`, 400, "id", []string{"expected a string, got null"}},
	{"empty id", `{"body":1,"id":""}`, 400, "id", []string{"empty"}},
	{"id too long", `{"body":1,"id":"` + strings.Repeat("x", 129) + `"}`, 400, "id", []string{"129", "128"}},
	{"id too long in bytes", `{"body":1,"id":"` + strings.Repeat("é", 65) + `"}`, 400, "id", []string{"130"}},
	{"id with a space at its end", `{"body":1,"id":"x "}`, 400, "id", []string{"a space"}},
	{"id with a space at its start", `{"body":1,"id":" x"}`, 400, "id", []string{"a space"}},
	{"id with a line break", `{"body":1,"id":"a\nb"}`, 400, "id", []string{`\n`, "printable"}},
	{"id with CR LF", `{"body":1,"id":"a\r\nX: y"}`, 400, "id", []string{"printable"}},
	{"id with NUL", `{"body":1,"id":"a\u0000"}`, 400, "id", []string{"printable"}},
	{"id with DEL", "{\"body\":1,\"id\":\"a\x7f\"}", 400, "id", []string{"printable"}},
	{"id that turns around", `{"body":1,"id":"a\u202eb"}`, 400, "id", []string{"printable"}},
	{"id with half a character", `{"body":1,"id":"a\ud83d"}`, 400, "id", []string{"surrogate"}},
	{"id with invalid UTF-8", "{\"body\":1,\"id\":\"\xff\"}", 400, "", []string{"UTF-8"}},

	{"delay of a wrong type", `{"body":1,"delay":true}`, 400, "delay", []string{"duration", "a boolean"}},
	{"delay null", `{"body":1,"delay":null}`, 400, "delay", []string{"null"}},
	{"delay without unit", `{"body":1,"delay":"30"}`, 400, "delay", []string{"30m"}},
	{"delay in words", `{"body":1,"delay":"soon"}`, 400, "delay", []string{"soon"}},
	{"delay empty", `{"body":1,"delay":""}`, 400, "delay", nil},
	{"delay NaN", `{"body":1,"delay":"NaN"}`, 400, "delay", []string{"NaN"}},
	{"delay NaN, bare", `{"body":1,"delay":NaN}`, 400, "", nil},
	{"delay Infinity", `{"body":1,"delay":"Infinity"}`, 400, "delay", nil},
	{"delay beyond numbers", `{"body":1,"delay":1e999}`, 422, "delay", nil},
	{"delay negative", `{"body":1,"delay":-1}`, 422, "delay", []string{"negative"}},
	{"delay negative, text", `{"body":1,"delay":"-5m"}`, 422, "delay", []string{"negative"}},
	{"delay absurdly far", `{"body":1,"delay":315360001}`, 422, "delay", []string{"10 years"}},
	{"delay absurdly far, text", `{"body":1,"delay":"87601h"}`, 422, "delay", []string{"10 years"}},
	{"delay beyond Go's durations", `{"body":1,"delay":"9999999999h"}`, 422, "delay", nil},
	{"delay of 1e300 seconds", `{"body":1,"delay":1e300}`, 422, "delay", nil},

	{"due_at of a wrong type", `{"body":1,"due_at":[]}`, 400, "due_at", []string{"RFC 3339", "an array"}},
	{"due_at without zone", `{"body":1,"due_at":"2030-01-31T08:00:00"}`, 400, "due_at", []string{"2030-01-31T08:00:00Z"}},
	{"due_at that is no day", `{"body":1,"due_at":"2030-02-30T08:00:00Z"}`, 400, "due_at", nil},
	{"due_at with a fraction of a millisecond", `{"body":1,"due_at":1893456000000.5}`, 400, "due_at", []string{"integer"}},
	{"due_at absurdly far", `{"body":1,"due_at":"2099-01-01T00:00:00Z"}`, 422, "due_at", []string{"10 years"}},
	{"due_at absurdly far, number", `{"body":1,"due_at":99999999999999}`, 422, "due_at", []string{"10 years"}},
	{"due_at beyond integers", `{"body":1,"due_at":1e30}`, 422, "due_at", nil},
	{"delay and due_at", `{"body":1,"delay":"1m","due_at":"2030-01-31T08:00:00Z"}`, 400, "due_at", []string{"delay"}},

	{"priority of a wrong type", `{"body":1,"priority":1}`, 400, "priority", []string{"expected a string"}},
	{"unknown priority", `{"body":1,"priority":"urgent"}`, 400, "priority", []string{"urgent", "high, normal or low"}},
	{"ttr too short", `{"body":1,"ttr":"99ms"}`, 422, "ttr", []string{"100ms"}},
	{"ttr too long", `{"body":1,"ttr":"1h1s"}`, 422, "ttr", []string{"1h"}},
	{"ttr zero", `{"body":1,"ttr":0}`, 422, "ttr", nil},
	{"max_attempts zero", `{"body":1,"max_attempts":0}`, 422, "max_attempts", []string{"1 and 1000"}},
	{"max_attempts too many", `{"body":1,"max_attempts":1001}`, 422, "max_attempts", nil},
	{"max_attempts in parts", `{"body":1,"max_attempts":1.5}`, 400, "max_attempts", []string{"integer"}},
	{"max_attempts as text", `{"body":1,"max_attempts":"3"}`, 400, "max_attempts",
		[]string{"expected a number, got a string"}},
	{"headers null", `{"body":1,"headers":null}`, 400, "headers", []string{"object of texts, got null"}},
	{"headers in a list", `{"body":1,"headers":["a"]}`, 400, "headers", []string{"got an array"}},
	{"a header twice", `{"body":1,"headers":{"a":"1","a":"2"}}`, 400, "headers", []string{"duplicate"}},
	{"unknown on_duplicate", `{"body":1,"on_duplicate":"ignore"}`, 400, "on_duplicate",
		[]string{"keep, replace or error"}},

	{"body too large", `{"body":"` + strings.Repeat("x", 256<<10) + `"}`, 413, "body", []string{"262144"}},
	{"request too large", `{"body":"` + strings.Repeat("x", 300<<10) + `"}`, 413, "", nil},
}

func TestMalformedPush(t *testing.T) {
	a := newAPI(t)
	for _, tt := range malformed {
		t.Run(tt.name, func(t *testing.T) {
			a.t = t
			a.do("POST", orders, tt.body).problem(tt.status, tt.field, tt.words...)
		})
	}
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("refused pushes changed something: %v", got)
	}
}

// TestMalformedBatch: what is wrong in a push is wrong in a member of a batch, and the other members are stored.
func TestMalformedBatch(t *testing.T) {
	a := newAPI(t)
	for _, tt := range malformed {
		if !strings.HasPrefix(tt.body, "{") || tt.field == "" || tt.name == "topic stands in the path" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			a.t = t
			bad := strings.Replace(tt.body, "{", `{"topic":"shop.orders",`, 1)
			bad = strings.Replace(bad, ",}", "}", 1)
			good := `{"topic":"shop.orders","id":"good","on_duplicate":"replace","body":1}`
			results, _ := a.do("POST", "/v1/jobs", `{"jobs":[`+good+","+bad+","+good+`]}`).want(200).json()["results"].([]any)
			if len(results) != 3 {
				t.Fatalf("%d results", len(results))
			}
			for _, i := range []int{0, 2} {
				if got := results[i].(map[string]any); got["id"] != "good" {
					t.Errorf("neighbour: %v", got)
				}
			}
			problem, _ := results[1].(map[string]any)["error"].(map[string]any)
			if problem["status"] != float64(tt.status) || problem["field"] != tt.field {
				t.Errorf("%v, want %d %s", problem, tt.status, tt.field)
			}
		})
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
	a.do("POST", orders+"?delay=5s", `{"body":1}`).problem(400, "delay", "takes none")
	// httptest's own limit; see TestHeaderTooLarge
	a.do("POST", orders, `{"body":1}`, "X-Big", strings.Repeat("x", 32<<10)).want(201)
	// Without Content-Length.
	req, err := http.NewRequest("POST", a.url+orders,
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
	if got.Delay != 90*time.Second || got.Priority != queue.Low || got.TTR != 5*time.Second || got.MaxAttempts != 2 {
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

func TestPushRawOptions(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		query, field string
		status       int
	}{
		{"delay=soon", "delay", 400}, {"delay=-1s", "delay", 422}, {"delay=NaN", "delay", 400}, {"delay=Inf", "delay", 400},
		{"delay=0x10", "delay", 400}, {"delay=", "delay", 400}, {"delay=1s&delay=2s", "delay", 400},
		{"delay=1e999", "delay", 422},
		{"delay=1s&due_at=2030-01-01T00:00:00Z", "due_at", 400}, {"due_at=tomorrow", "due_at", 400},
		{"due_at=99999999999999", "due_at", 422},
		{"priority=top", "priority", 400}, {"ttr=2h", "ttr", 422}, {"on_duplicate=x", "on_duplicate", 400},
		{"max_attempts=0", "max_attempts", 422},
		{"max_attempts=many", "max_attempts", 400}, {"dealy=1s", "dealy", 400}, {"id=x", "id", 400}, {"body=x", "body", 400},
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
	for _, q := range []string{"due_at=1893456000000", "due_at=2030-01-01T00:00:00Z", "due_at=2030-01-01T02:00:00%2B02:00",
		"due_at=2030-01-01T02:00:00+02:00"} {
		a.do("PUT", orders+"/due?on_duplicate=replace&"+q, "1")
		if got := a.jobs.last.DueAt; got.UnixMilli() != 1893456000000 {
			t.Errorf("%s: due at %v", q, got)
		}
	}
}

// TestIDsInPaths: an id may contain any printable character, and can be encoded in a path.
func TestIDsInPaths(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{
		"a/b", "a%2Fb", "a%b", "100%", "a b", "é€😀", "a?b#c", "a+b", "..a", ".", "..", "run", "a/run", `"'<>&`, "{}", "%",
		"a;b", "a:b@c", "jobs", "~", "a//b", strings.Repeat("x", 128),
	} {
		body, err := json.Marshal(map[string]any{"id": id, "body": 1})
		if err != nil {
			t.Fatal(err)
		}
		r := a.do("POST", orders, string(body)).want(201)
		path := r.header.Get("Location")
		if got := a.do("GET", path, "").want(200).json()["id"]; got != id {
			t.Errorf("%s shows %q, want %q", path, got, id)
		}
		a.do("POST", path+"/run", "").want(202)
		a.do("DELETE", path, "").want(204)
		a.do("PUT", path, "1").want(201)
		if got := a.jobs.last.ID; got != id {
			t.Errorf("PUT %s stored %q, want %q", path, got, id)
		}
	}
	for _, path := range []string{"/a%0ab", "/a%00", "/%20a", "/a%20", "/%ff", "/" + strings.Repeat("x", 129)} {
		a.do("PUT", orders+path, "1").problem(400, "id")
		a.do("GET", orders+path, "").problem(400, "id")
	}
	a.do("PUT", orders+"/a/b", "1").problem(404, "", "no route")
	a.do("PUT", orders+"/", "1").problem(404, "")
}

func TestBatch(t *testing.T) {
	a := newAPI(t)
	shop := a.registry.grant("shop", "shop.*", "push")
	r := a.do("POST", "/v1/jobs", `{"jobs":[
		{"topic":"shop.orders","id":"a","body":{"n": 1}},
		{"topic":"shop.nowhere","body":1},
		{"topic":"bank.loans","body":1},
		{"topic":"shop.offline","body":1},
		{"body":1},
		{"topic":5,"body":1},
		17,
		null,
		{"topic":"shop.orders","id":"a","body":2},
		{"topic":"shop.orders","id":"a","body":2,"on_duplicate":"error"},
		{"topic":"shop.orders","body":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`},
		{"topic":"shop.orders","body":"`+"\xff"+`"},
		{"topic":"shop.orders","body":"`+strings.Repeat("x", 256<<10)+`"},
		{"topic":"shop.mail","body":  [ 1 ] }
	]}`, "Authorization", "Bearer "+shop).want(200)
	results, _ := r.json()["results"].([]any)
	want := []int{0, 404, 403, 409, 400, 400, 400, 400, 0, 409, 400, 400, 413, 0}
	if len(results) != len(want) {
		t.Fatalf("%d results: %s", len(results), r.body)
	}
	for i, status := range want {
		problem, _ := results[i].(map[string]any)["error"].(map[string]any)
		if got, _ := problem["status"].(float64); int(got) != status {
			t.Errorf("result %d is %v, want %d", i, results[i], status)
		}
	}
	if results[8].(map[string]any)["duplicate"] != true {
		t.Errorf("%v", results[8])
	}
	if got := a.jobs.changes(); len(got) != 2 || string(a.jobs.last.Body) != "[ 1 ]" {
		t.Errorf("changed %v, body %q", got, a.jobs.last.Body)
	}
}

func TestBatchRefused(t *testing.T) {
	a := newAPI(t)
	member := `{"topic":"shop.orders","body":1}`
	for _, tt := range []struct {
		body, field string
		status      int
	}{
		{``, "", 400}, {`[]`, "", 400}, {`{}`, "jobs", 400}, {`{"jobs":null}`, "jobs", 400}, {`{"jobs":{}}`, "jobs", 400},
		{`{"jobs":[]}`, "jobs", 422},
		{`{"jobs":[` + member + `],"jobs":[]}`, "jobs", 400}, {`{"job":[]}`, "job", 400},
		{`{"jobs":[` + member + `]} x`, "", 400},
		{`{"jobs":[` + member, "", 400}, {`{"jobs":[` + member + `,]}`, "", 400},
		{`{"jobs":[` + member + ` ` + member + `]}`, "", 400},
		{`{"jobs":[` + strings.Repeat(member+",", 1000) + member + `]}`, "jobs", 422},
		{`{"jobs":[` + strings.Repeat("[", 2000), "", 400},
	} {
		a.do("POST", "/v1/jobs", tt.body).problem(tt.status, tt.field)
	}
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("refused batches changed something: %v", got)
	}
	a.do("POST", "/v1/jobs", `{"jobs":[`+strings.Repeat(member+",", 999)+member+`]}`).want(200)
	if got := a.jobs.changes(); len(got) != 1000 {
		t.Errorf("%d jobs", len(got))
	}
}

// TestUnavailable: if shards are down or full, the answer is 503 with Retry-After in whole seconds.
func TestUnavailable(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		reason string
		after  time.Duration
		want   string
	}{{"down", 1500 * time.Millisecond, "2"}, {"full", 5 * time.Second, "5"}, {"readonly", 0, "1"}, {"journal",
		time.Millisecond, "1"}} {
		a.jobs.fail = &queue.UnavailableError{Reason: tt.reason, RetryAfter: tt.after,
			Err: fmt.Errorf("OOM command not allowed")}
		for _, req := range [][3]string{
			{"POST", orders, `{"body":1}`}, {"PUT", orders + "/x", "1"}, {"GET", orders + "/x", ""},
			{"DELETE", orders + "/x", ""},
			{"PATCH", orders + "/x", `{"delay":1}`}, {"POST", orders + "/x/run", ""}, {"GET", orders + "?state=dead", ""},
			{"POST", "/v1/topics/shop.orders/dead/retry", `{"limit":1}`},
			{"DELETE", "/v1/topics/shop.orders/dead", `{"limit":1}`},
			{"GET", "/v1/topics/shop.orders/stats", ""}, {"DELETE", "/v1/topics/shop.orders", ""}, {"GET", "/readyz", ""},
			{"POST", "/v1/jobs", `{"jobs":[{"topic":"shop.orders","body":1},{"nonsense":1}]}`},
		} {
			r := a.do(req[0], req[1], req[2]).problem(503, "")
			if got := r.header.Get("Retry-After"); got != tt.want && req[1] != "/readyz" {
				t.Errorf("%s %s: Retry-After %q, want %q", req[0], req[1], got, tt.want)
			}
		}
	}
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("changed %v", got)
	}
	// A member that could not be stored does not fail the others.
	a.jobs.failID = "b"
	r := a.do("POST", "/v1/jobs",
		`{"jobs":[{"topic":"shop.orders","id":"a","body":1},{"topic":"shop.orders","id":"b","body":1}]}`).want(200)
	if !strings.Contains(r.body, `"status":503`) || !strings.Contains(r.body, `"id":"a"`) {
		t.Errorf("%s", r.body)
	}
}

// TestStoredButNotSafe: a job that is stored without its topic's durability is answered 503 with its id, also as a
// member of a batch.
func TestStoredButNotSafe(t *testing.T) {
	a := newAPI(t)
	a.jobs.fail = &queue.UnavailableError{Reason: "replica", RetryAfter: time.Second, Stored: true,
		Err: errors.New("push x/y: no replica has confirmed it")}
	r := a.do("POST", orders, `{"body":1}`).problem(503, "")
	if r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, "no replica has confirmed") ||
		!regexp.MustCompile(`"id":"[0-9a-z]{26}"`).MatchString(r.body) {
		t.Errorf("%s", r.body)
	}
	r = a.do("POST", "/v1/jobs",
		`{"jobs":[{"topic":"shop.orders","id":"a","body":1},{"topic":"shop.orders","body":1}]}`).want(200)
	if strings.Count(r.body, `"status":503`) != 2 || !strings.Contains(r.body, `"id":"a"`) {
		t.Errorf("%s", r.body)
	}
}

func TestQueueErrors(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		err    error
		status int
		field  string
	}{{queue.ErrTooFar, 422, "delay"}, {queue.ErrCollision, 409, "id"}, {fmt.Errorf("secret detail"), 500, ""}} {
		a.jobs.fail = fmt.Errorf("push: %w", tt.err)
		r := a.do("POST", orders, `{"body":1}`).problem(tt.status, tt.field)
		if strings.Contains(r.body, "secret") {
			t.Errorf("the answer shows an internal error: %s", r.body)
		}
	}
}

func TestJournalBroken(t *testing.T) {
	broken := fmt.Errorf("the journal: %w", syscall.ENOSPC)
	a := newAPI(t, func(o *server.Options) { o.Healthy = func() error { return broken } })
	a.jobs.jobs["shop.orders/x"] = &queue.Job{Topic: "shop.orders", ID: "x", State: queue.Delayed}
	for _, req := range [][3]string{
		{"POST", orders, `{"body":1}`}, {"PUT", orders + "/y", "1"}, {"DELETE", orders + "/x", ""},
		{"PATCH", orders + "/x", `{"delay":1}`},
		{"POST", orders + "/x/run", ""}, {"POST", "/v1/jobs", `{"jobs":[{"topic":"shop.orders","body":1}]}`},
		{"GET", "/readyz", ""},
		{"POST", "/v1/topics/shop.orders/dead/retry", `{"limit":1}`}, {"DELETE", "/v1/topics/shop.orders?drop=true", ""},
	} {
		a.do(req[0], req[1], req[2]).problem(503, "", "journal", "no space")
	}
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("changed %v", got)
	}
	a.do("GET", orders+"/x", "").want(200)
}

// TestABatchLooksOnceForUnknownTopics: the registry is read at most every 20 ms, so 1,000 reads would take 20 s.
func TestABatchLooksOnceForUnknownTopics(t *testing.T) {
	a := newAPI(t)
	a.do("POST", "/v1/jobs", `{"jobs":[`+strings.Repeat(`{"topic":"shop.unknown","body":1},`, 99)+
		`{"topic":"shop.orders","body":1}]}`).want(http.StatusOK)
	if n := a.registry.refreshes.Load(); n != 1 {
		t.Errorf("the registry was read %d times", n)
	}
}
