package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/openapitest"
)

// TestRoutesAreDescribed compares the routes with openapi.yaml, both ways.
func TestRoutesAreDescribed(t *testing.T) {
	a := newAPI(t)
	doc, err := openapitest.Document()
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	described = append(described, "GET /docs/{file}") // loaded by the page /docs
	routes := a.server.Routes()
	slices.Sort(described)
	slices.Sort(routes)
	if !slices.Equal(described, routes) {
		t.Errorf("described\n%s\nserved\n%s", strings.Join(described, "\n"), strings.Join(routes, "\n"))
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		if path == "/docs/{file}" {
			continue
		}
		op := doc.Paths.Find(path).GetOperation(method)
		if op.Summary == "" || len(op.Tags) != 1 || op.OperationID == "" {
			t.Errorf("%s is not described correctly", route)
		}
	}
}

func TestTokens(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		header string
		words  string
	}{
		{"", "missing token"}, {"Bearer", "Bearer TOKEN"}, {"Bearer ", "Bearer TOKEN"}, {"Basic " + a.token, "Bearer TOKEN"},
		{a.token, "Bearer TOKEN"},
		{"Bearer wrong", "unknown or was revoked"}, {"Bearer " + a.token + "x", "unknown"}, {"Bearer  x y", "unknown"},
	} {
		for _, path := range []string{orders, "/v1/jobs", "/nowhere"} {
			r := a.do("POST", path, `{"body":1}`, "Authorization", tt.header).problem(401, "", tt.words)
			if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("WWW-Authenticate %q", r.header.Get("WWW-Authenticate"))
			}
		}
	}
	a.do("POST", orders, `{"body":1}`, "Authorization", "bearer "+a.token).want(201)
	a.registry.revoke(a.token)
	a.do("POST", orders, `{"body":1}`).problem(401, "", "revoked")
	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml", "/docs"} {
		a.do("GET", path, "", "Authorization", "").want(200)
	}
}

func TestRights(t *testing.T) {
	routes := []struct {
		method, path, body string
		right              registry.Right
	}{
		{"POST", orders, `{"id":"x","body":1,"delay":60}`, "push"}, {"PUT", orders + "/x", "1", "push"},
		{"PATCH", orders + "/x", `{"delay":1}`, "push"},
		{"POST", orders + "/x/run", "", "push"}, {"GET", orders + "/x", "", "read"},
		{"GET", orders + "?state=ready", "", "read"},
		{"GET", "/v1/topics/shop.orders/stats", "", "read"}, {"DELETE", orders + "/x", "", "push"},
		{"POST", "/v1/topics/shop.orders/dead/retry", `{"limit":1}`, "manage"},
		{"DELETE", "/v1/topics/shop.orders/dead", `{"limit":1}`, "manage"},
		{"GET", "/v1/topics/shop.orders", "", "manage"},
		{"PUT", "/v1/topics/shop.orders", `{"callback_url":"http://x/"}`, "manage"},
		{"DELETE", "/v1/topics/shop.orders", "", "manage"},
	}
	all := []registry.Right{"push", "read", "manage"}
	a := newAPI(t)
	for _, tt := range routes {
		others := slices.DeleteFunc(slices.Clone(all), func(r registry.Right) bool { return r == tt.right })
		for _, token := range []string{a.registry.grant("others", "*", others...),
			a.registry.grant("elsewhere", "shop.mail bank.*", all...)} {
			before := len(a.jobs.changes())
			a.do(tt.method, tt.path, tt.body, "Authorization", "Bearer "+token).problem(403, "", string(tt.right), "shop.orders")
			// Unknown objects look the same.
			nowhere := strings.Replace(tt.path, "shop.orders", "shop.none", 1)
			a.do(tt.method, nowhere, tt.body, "Authorization", "Bearer "+token).problem(403, "", string(tt.right), "shop.none")
			if len(a.jobs.changes()) != before {
				t.Errorf("%s %s changed something", tt.method, tt.path)
			}
		}
		right := a.registry.grant("right", "shop.*", tt.right)
		if r := a.do(tt.method, tt.path, tt.body, "Authorization", "Bearer "+right); r.status >= 300 {
			t.Errorf("%s %s with the right: %d %s", tt.method, tt.path, r.status, r.body)
		}
	}
	nothing := a.registry.grant("nothing", "*")
	for _, req := range [][2]string{{"POST", "/v1/jobs"}, {"GET", "/v1/topics"}, {"GET", "/v1/shards"}} {
		a.do(req[0], req[1], "", "Authorization", "Bearer "+nothing).problem(403, "", "no right")
	}
}

func TestRouting(t *testing.T) {
	a := newAPI(t)
	a.do("GET", "/nowhere", "").problem(404, "", "/nowhere", "/docs")
	a.do("GET", "/v1/topics/x/jobs/y/z", "").problem(404, "")
	r := a.do("PUT", orders, "").problem(405, "", "GET", "POST")
	if got := r.header.Get("Allow"); got != "OPTIONS, GET, HEAD, POST" {
		t.Errorf("Allow %q", got)
	}
	r = a.do("OPTIONS", orders+"/x", "").want(204)
	if got := r.header.Get("Allow"); got != "OPTIONS, DELETE, GET, HEAD, PATCH, PUT" {
		t.Errorf("Allow %q", got)
	}
	a.do("OPTIONS", "/nowhere", "").problem(404, "")
	a.do("OPTIONS", orders, "", "Authorization", "").problem(401, "")
	a.do("POST", "/healthz", "", "Authorization", "").problem(405, "")
	for _, path := range []string{"/healthz", "/docs", "/v1/topics"} {
		if r := a.do("HEAD", path, "").want(200); r.body != "" || r.header.Get("Content-Type") == "" {
			t.Errorf("HEAD %s: %q %v", path, r.body, r.header)
		}
	}
	a.do("BREW", orders, "").problem(405, "")
}

func TestHeaders(t *testing.T) {
	a := newAPI(t)
	for _, path := range []string{"/healthz", "/nowhere", orders + "?state=dead", "/v1/topics"} {
		h := a.do("GET", path, "").header
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" ||
			h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
	if got := a.do("GET", "/healthz", "", "X-Request-Id",
		"abc-1.2_3:/+=").header.Get("X-Request-Id"); got != "abc-1.2_3:/+=" {
		t.Errorf("a harmless id became %q", got)
	}
	seen := map[string]bool{}
	for _, id := range []string{"", "a b", "a\tb", "<x>", strings.Repeat("x", 129), "é", `"`} {
		got := a.do("GET", "/healthz", "", "X-Request-Id", id).header.Get("X-Request-Id")
		if got == id || got == "" || seen[got] {
			t.Errorf("id %q became %q", id, got)
		}
		seen[got] = true
	}
	r := a.do("GET", "/nowhere", "")
	if r.json()["request_id"] != r.header.Get("X-Request-Id") {
		t.Errorf("%s", r.body)
	}
}

func TestGetJob(t *testing.T) {
	a := newAPI(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678912345, time.FixedZone("", 3600))
	a.jobs.jobs["shop.orders/x"] = &queue.Job{
		Topic: "shop.orders", ID: "x", State: queue.Dead, Body: []byte(`{"a":1}`), CreatedAt: at, DueAt: at, DeadAt: at,
		DeadReason: "attempts",
		Attempts:   2, History: []queue.Attempt{
			{N: 1, StartedAt: at.UnixMilli(), TookMS: 12.5, Status: 500, Error: "status 500",
				Answer: "broken \"\x00\xff\n</script>"},
			{N: 2, StartedAt: at.UnixMilli(), TookMS: 3, Error: "connection refused"},
		},
	}
	job := a.do("GET", orders+"/x", "").want(200).json()
	history, _ := job["history"].([]any)
	if job["dead_reason"] != "attempts" || job["dead_at"] != "2026-01-02T02:04:05.678Z" || len(history) != 2 {
		t.Fatalf("%v", job)
	}
	if first := history[0].(map[string]any); first["answer"] != "broken \"\x00\ufffd\n</script>" ||
		first["started_at"] != "2026-01-02T02:04:05.678Z" {
		t.Errorf("%v", first)
	}
	if second := history[1].(map[string]any); second["n"] != 2.0 || second["status"] != 0.0 ||
		second["error"] != "connection refused" {
		t.Errorf("%v", second)
	}
	a.do("GET", orders+"/none", "").problem(404, "", "none", "shop.orders")
	a.do("GET", "/v1/topics/nowhere/jobs/x", "").problem(404, "", "nowhere")
	a.do("GET", orders+"/x?full=1", "").problem(400, "full")
}

func TestJobSituations(t *testing.T) {
	a := newAPI(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for state, want := range map[queue.State]string{queue.Delayed: "next_attempt_at", queue.Running: "lease_until",
		queue.Dead: "dead_at"} {
		a.jobs.jobs["shop.orders/x"] = &queue.Job{
			Topic: "shop.orders", ID: "x", State: state, CreatedAt: at, DueAt: at, NextAt: at.Add(time.Minute), LeaseUntil: at,
			DeadAt: at, Attempts: 1,
		}
		job := a.do("GET", orders+"/x", "").want(200).json()
		for _, name := range []string{"next_attempt_at", "lease_until", "dead_at"} {
			if (job[name] != nil) != (name == want) {
				t.Errorf("%s: %s is %v", state, name, job[name])
			}
		}
	}
}

func TestChangeJob(t *testing.T) {
	a := newAPI(t)
	a.do("POST", orders, `{"id":"x","body":1,"delay":"1h"}`).want(201)
	a.do("PATCH", orders+"/x", `{"delay":"2h","priority":"high","body":{"b": 2}}`).want(200)
	c := a.jobs.change
	if c.DueAt != nil || *c.Delay != 2*time.Hour || *c.Priority != queue.High || string(*c.Body) != `{"b": 2}` {
		t.Errorf("%+v", c)
	}
	a.do("PATCH", orders+"/x", `{"due_at":1893456000000}`).want(200)
	if c := a.jobs.change; c.Delay != nil || c.Priority != nil || c.Body != nil || c.DueAt.UnixMilli() != 1893456000000 {
		t.Errorf("%+v", c)
	}
	before := len(a.jobs.changes())
	for body, field := range map[string]string{
		`{}`: "", ``: "", `{"id":"y"}`: "id", `{"ttr":"1s"}`: "ttr", `{"delay":1,"due_at":1}`: "due_at",
		`{"priority":"x"}`: "priority", `{"delay":null}`: "delay",
	} {
		a.do("PATCH", orders+"/x", body).problem(400, field)
	}
	a.do("PATCH", orders+"/x", `{"delay":-1}`).problem(422, "delay")
	a.do("PATCH", orders+"/x", `{"body":"`+strings.Repeat("x", 256<<10)+`"}`).problem(413, "body")
	a.do("PATCH", orders+"/none", `{"delay":1}`).problem(404, "")
	a.jobs.jobs["shop.orders/x"].State = queue.Running
	a.do("PATCH", orders+"/x", `{"delay":1}`).problem(409, "", "running")
	a.jobs.jobs["shop.orders/x"].State = queue.Dead
	a.do("PATCH", orders+"/x", `{"delay":1}`).problem(409, "", "dead")
	if got := len(a.jobs.changes()); got != before {
		t.Errorf("refused changes changed something: %v", a.jobs.changes())
	}
}

func TestDeleteAndRun(t *testing.T) {
	a := newAPI(t)
	a.do("POST", orders, `{"id":"x","body":1,"delay":"1h"}`).want(201)
	if r := a.do("POST", orders+"/x/run", "").want(202); r.json()["state"] != "ready" {
		t.Errorf("%s", r.body)
	}
	if r := a.do("DELETE", orders+"/x", "").want(204); r.body != "" {
		t.Errorf("204 with %q", r.body)
	}
	a.do("DELETE", orders+"/x", "").problem(404, "", "was deleted or has ended")
	a.do("POST", orders+"/x/run", "").problem(404, "")
}

func TestListJobs(t *testing.T) {
	a := newAPI(t)
	for i := range 5 {
		a.do("POST", orders, fmt.Sprintf(`{"id":"job-%d","body":1,"delay":"1h"}`, i)).want(201)
	}
	var ids []string
	cursor, pages := "", 0
	for {
		v := a.do("GET", orders+"?state=delayed&limit=2&cursor="+cursor, "").want(200).json()
		for _, j := range v["jobs"].([]any) {
			ids = append(ids, j.(map[string]any)["id"].(string))
		}
		pages++
		if cursor = v["next"].(string); cursor == "" {
			break
		}
	}
	if len(ids) != 5 || pages != 3 {
		t.Errorf("%d pages: %v", pages, ids)
	}
	if r := a.do("GET", orders+"?state=dead", "").want(200); r.body != `{"jobs":[],"next":""}` {
		t.Errorf("%s", r.body)
	}
	for query, field := range map[string]string{
		"": "state", "?state=": "state", "?state=gone": "state", "?state=dead&prefix=x": "prefix",
		"?state=done&prefix=": "prefix", "?state=dead&limit=x": "limit", "?state=dead&limit=": "limit",
		"?state=dead&cursor=bad": "cursor", "?state=dead&page=2": "page", "?state=dead&state=ready": "state",
	} {
		a.do("GET", orders+query, "").problem(400, field)
	}
	if r := a.do("GET", orders+"?state=done&prefix=", ""); strings.Contains(r.body, "leave it out to have one made") {
		t.Errorf("an empty prefix is taken for the id of a push: %s", r.body)
	}
	a.do("GET", orders+"?state=dead&limit=0", "").problem(422, "limit")
	a.do("GET", orders+"?state=dead&limit=1001", "").problem(422, "limit")
}

// TestATopicIsSentBackAsItWasRead, in the form of openapi.yaml, which the client of these tests checks.
func TestATopicIsSentBackAsItWasRead(t *testing.T) {
	a := newAPI(t)
	put := a.do("PUT", "/v1/topics/shop.plain", `{"callback_url":"http://h/","content_type":"text/plain"}`).want(201)
	got := a.do("GET", "/v1/topics/shop.plain", "").want(200)
	if put.body != got.body || got.json()["content_type"] != "text/plain" {
		t.Errorf("read %s, stored %s", got.body, put.body)
	}
	a.do("PUT", "/v1/topics/shop.plain", got.body).want(200)
}

func TestFinishedJobs(t *testing.T) {
	a := newAPI(t)
	due := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for id, gone := range map[string]bool{"order-42": false, "order-long": true, "other": false} {
		a.jobs.jobs["shop.orders/"+id] = &queue.Job{
			Topic: "shop.orders", ID: id, State: queue.Finished, Body: []byte("1"), BodyGone: gone, DueAt: due, Attempts: 1,
			FinishedAt: due.Add(16 * time.Millisecond),
			History:    []queue.Attempt{{N: 1, StartedAt: due.UnixMilli() + 4, TookMS: 12, Status: 200, Answer: "ok"}},
		}
	}
	v := a.do("GET", orders+"/order-42", "").want(200).json()
	if v["state"] != "done" || v["finished_at"] != "2026-01-02T03:04:05.016Z" || v["late_ms"] != 4.0 || v["body"] != 1.0 {
		t.Errorf("%v", v)
	}
	v = a.do("GET", orders+"/order-long", "").want(200).json()
	if _, has := v["body"]; has || v["body_gone"] != true {
		t.Errorf("%v", v)
	}
	if jobs := a.do("GET", orders+"?state=done&prefix=order-", "").want(200).json()["jobs"].([]any); len(jobs) != 2 {
		t.Errorf("%v", jobs)
	}
	a.do("POST", orders+"/order-long/resend", "").problem(409, "", "too long")
	a.do("POST", orders+"/nobody/resend", "").problem(404, "")
	if v := a.do("POST", orders+"/order-42/resend", "").want(201).json(); v["state"] != "ready" {
		t.Errorf("%v", v)
	}
	a.do("POST", orders+"/order-42/resend", "").problem(409, "", "not ended")
}

func TestDead(t *testing.T) {
	a := newAPI(t)
	for i := range 6 {
		id := fmt.Sprintf("d%d", i)
		a.jobs.jobs["shop.orders/"+id] = &queue.Job{Topic: "shop.orders", ID: id, State: queue.Dead}
	}
	const dead = "/v1/topics/shop.orders/dead"
	for _, tt := range []struct{ method, path, body, want string }{
		{"POST", dead + "/retry", `{"ids":["d0","d1","none"]}`, `{"count":2}`},
		{"POST", dead + "/retry", `{"limit":1}`, `{"count":1}`},
		{"DELETE", dead, `{"ids":["d0","d4"]}`, `{"count":1}`}, {"DELETE", dead, `{"limit":100}`, `{"count":2}`},
		{"DELETE", dead, `{"limit":1}`, `{"count":0}`},
	} {
		if r := a.do(tt.method, tt.path, tt.body).want(200); r.body != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.body, r.body, tt.want)
		}
	}
	before := len(a.jobs.changes())
	many, err := json.Marshal(make([]int, 1001))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		body, field string
		status      int
	}{
		{``, "", 400}, {`{}`, "ids", 400}, {`{"ids":["a"],"limit":1}`, "ids", 400}, {`{"limit":0}`, "limit", 422},
		{`{"limit":-1}`, "limit", 422},
		{`{"limit":"1"}`, "limit", 400}, {`{"limit":1.5}`, "limit", 400}, {`{"limit":100001}`, "limit", 422},
		{`{"ids":[]}`, "ids", 422},
		{`{"ids":"a"}`, "ids", 400}, {`{"ids":[1]}`, "ids", 400}, {`{"ids":[""]}`, "ids", 400},
		{`{"ids":["a"],"ids":["b"]}`, "ids", 400},
		{`{"all":true}`, "all", 400}, {`{"limit":1} x`, "", 400}, {`[]`, "", 400},
		{`{"ids":` + strings.ReplaceAll(string(many), "0", `"a"`) + `}`, "ids", 422},
	} {
		a.do("POST", dead+"/retry", tt.body).problem(tt.status, tt.field)
		a.do("DELETE", dead, tt.body).problem(tt.status, tt.field)
	}
	if got := len(a.jobs.changes()); got != before {
		t.Errorf("refused requests changed something")
	}
}

func TestStats(t *testing.T) {
	a := newAPI(t)
	a.do("POST", orders, `{"id":"a","body":1,"delay":"1h"}`).want(201)
	a.do("POST", orders, `{"id":"b","body":1}`).want(201)
	want := `{"delayed":1,"ready":1,"running":0,"dead":0,"oldest_ready_ms":1500}`
	if r := a.do("GET", "/v1/topics/shop.orders/stats", "").want(200); r.body != want {
		t.Errorf("%s", r.body)
	}
}

func TestTopics(t *testing.T) {
	a := newAPI(t)
	r := a.do("PUT", "/v1/topics/new.topic", `{"callback_url":"https://shop.example/x","ttr":"5s"}`).want(201)
	topic := r.json()
	if topic["name"] != "new.topic" || topic["ttr"] != "5s" || topic["max_attempts"] != 10.0 ||
		r.header.Get("Location") != "/v1/topics/new.topic" {
		t.Errorf("%s", r.body)
	}
	if a.registry.actor != "token:all" {
		t.Errorf("actor %q", a.registry.actor)
	}
	a.do("PUT", "/v1/topics/new.topic", `{"callback_url":"https://shop.example/y"}`).want(200)
	if got := a.do("GET", "/v1/topics/new.topic", "").want(200).json(); got["callback_url"] != "https://shop.example/y" ||
		got["ttr"] != "10s" {
		t.Errorf("%v", got)
	}
	for _, tt := range []struct {
		name, body, field string
		status            int
	}{
		{"new.topic", ``, "", 400}, {"new.topic", `{`, "", 400}, {"new.topic", `{}`, "callback_url", 400},
		{"new.topic", `[]`, "", 400},
		{"Upper", `{"callback_url":"http://x/"}`, "topic", 400}, {"a%2Fb", `{"callback_url":"http://x/"}`, "topic", 400},
		{"new.topic", `{"callback_url":"http://x/","max_attempts":5000}`, "max_attempts", 422},
		{"new.topic", `{"title":"` + strings.Repeat("x", 300<<10) + `"}`, "", 413},
	} {
		a.do("PUT", "/v1/topics/"+tt.name, tt.body).problem(tt.status, tt.field)
	}
	a.do("GET", "/v1/topics/nowhere", "").problem(404, "", "nowhere")
	a.do("DELETE", "/v1/topics/nowhere", "").problem(404, "")
}

func namesOf(r reply) (names []string, next string) {
	answer := r.want(200).json()
	for _, t := range answer["topics"].([]any) {
		names = append(names, t.(map[string]any)["name"].(string))
	}
	next, _ = answer["next"].(string)
	return names, next
}

func TestTopicsAreListedInPages(t *testing.T) {
	a := newAPI(t)
	var all []string
	for cursor, pages := "", 1; ; pages++ {
		names, next := namesOf(a.do("GET", "/v1/topics?limit=2&cursor="+cursor, ""))
		all = append(all, names...)
		if next == "" {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		cursor = next
	}
	if want := []string{"bank.loans", "shop.mail", "shop.offline", "shop.orders", "shop.paused"}; !slices.Equal(all,
		want) {
		t.Errorf("%v", all)
	}
	a.do("PUT", "/v1/topics/shop.owned", `{"callback_url":"http://x/","owner":"ann"}`).want(201)
	for query, want := range map[string][]string{
		"prefix=shop.o": {"shop.offline", "shop.orders", "shop.owned"}, "prefix=shop.o&limit=1": {"shop.offline"},
		"prefix=shop.o&cursor=a": {"shop.offline", "shop.orders", "shop.owned"}, "prefix=zzz": nil,
		"state=paused": {"shop.paused"}, "owner=ann": {"shop.owned"}, "prefix=bank&owner=ann": nil,
		"cursor=shop.paused":         {"shop.paused"},
		"state=active&prefix=shop.m": {"shop.mail"},
	} {
		if names, _ := namesOf(a.do("GET", "/v1/topics?"+query, "")); !slices.Equal(names, want) {
			t.Errorf("%s: %v", query, names)
		}
	}
	for query, field := range map[string]string{"state=on": "state", "limit=0": "limit", "limit=1001": "limit",
		"x=1": "x"} {
		if r := a.do("GET", "/v1/topics?"+query, ""); r.status != 400 && r.status != 422 || r.json()["field"] != field {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
}

// TestTwoWhoEditOneJob do not overwrite each other's changes.
func TestTwoWhoEditOneJob(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/topics/shop.orders/jobs/42"
	a.do("PUT", path+"?delay=1h", `{}`).want(201)
	etag := a.do("GET", path, "").want(200).header.Get("ETag")
	after := a.do("PATCH", path, `{"delay":"2h"}`, "If-Match", etag).want(200).header.Get("ETag")
	if etag == "" || after == "" || after == etag {
		t.Fatalf("ETags %q, %q", etag, after)
	}
	a.do("PATCH", path, `{"delay":"3h"}`, "If-Match", etag).problem(412, "", "read it again")
	a.do("POST", path+"/run", "", "If-Match", etag).problem(412, "")
	a.do("DELETE", path, "", "If-Match", "W/"+after).problem(412, "")
	a.do("DELETE", path, "", "If-Match", ",").problem(412, "")
	a.do("DELETE", path, "", "If-Match", " ").problem(412, "") // sent without a value
	a.do("POST", path+"/run", "", "If-Match", `"other", `+after).want(202)
	a.do("DELETE", path, "", "If-Match", "*").want(204)
	a.do("DELETE", path, "", "If-Match", "*").want(404)
}

// TestTwoWhoEditOneTopic do not overwrite each other's changes.
func TestTwoWhoEditOneTopic(t *testing.T) {
	a := newAPI(t)
	const path, changed = "/v1/topics/shop.mail", `{"callback_url":"http://x/2"}`
	etag := a.do("GET", path, "").want(200).header.Get("ETag")
	if etag == "" || etag != a.do("GET", path, "").header.Get("ETag") {
		t.Fatalf("ETag %q", etag)
	}
	after := a.do("PUT", path, changed, "If-Match", etag).want(200).header.Get("ETag")
	if after == etag || after != a.do("GET", path, "").header.Get("ETag") {
		t.Errorf("after a change %q, before %q", after, etag)
	}
	a.do("PUT", path, `{"callback_url":"http://x/3"}`, "If-Match", etag).problem(412, "", "read it again")
	a.do("DELETE", path, "", "If-Match", etag).problem(412, "")
	a.do("DELETE", path+"?drop=true", "", "If-Match", "W/"+after).problem(412, "")
	a.do("DELETE", path+"?drop=true", "", "If-Match", " ").problem(412, "") // sent without a value
	a.do("PUT", path, changed, "If-None-Match", "*").problem(412, "")
	a.do("PUT", "/v1/topics/shop.none", changed, "If-Match", "*").problem(412, "")
	if got := a.do("GET", path, "").want(200).json()["callback_url"]; got != "http://x/2" {
		t.Errorf("it was overwritten: %v", got)
	}
	a.do("PUT", path, changed, "If-Match", `"other", `+after).want(200)
	a.do("PUT", "/v1/topics/shop.none", changed, "If-None-Match", "*").want(201)
	a.do("DELETE", path, "", "If-Match", "*").want(204)
}

// TestTopicsArePutTogether: all of them or none.
func TestTopicsArePutTogether(t *testing.T) {
	a := newAPI(t)
	r := a.do("PUT", "/v1/topics", `{"topics":[{"name":"a.one","callback_url":"http://x/"},
		{"name":"shop.mail","callback_url":"http://x/"}]}`).want(200)
	const want = `{"topics":[{"name":"a.one","done":"created"},{"name":"shop.mail","done":"changed"}]}`
	if strings.TrimSpace(r.body) != want {
		t.Errorf("%s", r.body)
	}
	before := a.registry.Snapshot().Topics.Len()
	const good = `{"name":"b.good","callback_url":"http://x/"}`
	for body, status := range map[string]int{
		``: 400, `{}`: 400, `[]`: 400, `{"topics":[]}`: 400, `{"topics":1}`: 400, `{"topics":[1]}`: 400, `{"jobs":[]}`: 400,
		`{"topics":[` + good + `],"topics":[]}`:                                                     400,
		`{"topics":[` + good + `,` + good + `]}`:                                                    400,
		`{"topics":[` + good + `,{"callback_url":"http://x/"}]}`:                                    400,
		`{"topics":[` + good + `,{"name":"Upper","callback_url":"http://x/"}]}`:                     400,
		`{"topics":[` + good + `,{"name":"b.bad"}]}`:                                                400,
		`{"topics":[` + good + `,{"name":"b.bad","callback_url":"http://x/","x":1}]}`:               400,
		`{"topics":[` + good + `,{"name":"b.bad","callback_url":"http://x/","max_attempts":5000}]}`: 422,
		`{"topics":[` + strings.Repeat(good+",", 1000) + good + `]}`:                                400,
	} {
		if r := a.do("PUT", "/v1/topics", body); r.status != status {
			t.Errorf("%.200s: %d %s", body, r.status, r.body)
		}
	}
	token := a.registry.grant("b", "b.*", "manage")
	a.do("PUT", "/v1/topics", `{"topics":[`+good+`,{"name":"shop.mail","callback_url":"http://x/"}]}`,
		"Authorization", "Bearer "+token).problem(403, "", "shop.mail")
	if a.registry.Snapshot().Topics.Len() != before {
		t.Error("a part of a refused request was stored")
	}
}

func TestTopicsOfAToken(t *testing.T) {
	a := newAPI(t)
	token := a.registry.grant("bank", "bank.*", "manage")
	topics, _ := a.do("GET", "/v1/topics", "", "Authorization", "Bearer "+token).want(200).json()["topics"].([]any)
	if len(topics) != 1 || topics[0].(map[string]any)["name"] != "bank.loans" {
		t.Errorf("%v", topics)
	}
	all, _ := a.do("GET", "/v1/topics", "").want(200).json()["topics"].([]any)
	if len(all) != 5 || all[0].(map[string]any)["name"] != "bank.loans" {
		t.Errorf("%v", all)
	}
}

// TestSecrets: secrets are accepted, never shown, and kept unless a request replaces them.
func TestSecrets(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/topics/shop.mail"
	secrets := func() []string { return a.registry.Snapshot().Topics.Get("shop.mail").Secrets }
	for _, r := range []reply{
		a.do("GET", path, "").want(200), a.do("GET", "/v1/topics", "").want(200),
		a.do("PUT", path, `{"callback_url":"http://x/"}`).want(200),
	} {
		if strings.Contains(r.body, "whsec") || strings.Contains(r.body, "secrets") {
			t.Errorf("shown: %s", r.body)
		}
	}
	if len(secrets()) != 1 {
		t.Errorf("a change without secrets made them %v", secrets())
	}
	a.do("PUT", path, `{"callback_url":"http://x/","secrets":[]}`).want(200)
	if len(secrets()) != 0 {
		t.Errorf("an empty list made the secrets %v", secrets())
	}
}

func TestDeleteTopic(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/topics/shop.orders"
	a.do("POST", orders, `{"body":1,"delay":"1h"}`).want(201)
	a.do("DELETE", path, "").problem(409, "", "still has jobs (1)", "drop=true")
	a.do("DELETE", path+"?drop=maybe", "").problem(400, "drop")
	a.do("DELETE", path+"?force=true", "").problem(400, "force")
	a.do("DELETE", path+"?drop=true", "").want(204)
	if len(a.jobs.jobs) != 0 || a.registry.Snapshot().Topics.Get("shop.orders") != nil {
		t.Error("something remains")
	}
	a.do("DELETE", path, "").problem(404, "")
	a.do("DELETE", "/v1/topics/bank.loans", "").want(204)
}

func TestRegistryAway(t *testing.T) {
	a := newAPI(t)
	a.registry.fail = fmt.Errorf("put topic: %w", registry.ErrUnavailable)
	for _, req := range [][3]string{{"PUT", "/v1/topics/bank.loans", `{"callback_url":"http://x/"}`},
		{"DELETE", "/v1/topics/bank.loans?drop=true", ""}} {
		r := a.do(req[0], req[1], req[2]).problem(503, "", "database", "pushes")
		if r.header.Get("Retry-After") != "5" {
			t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
		}
	}
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("changed %v", got)
	}
	a.do("POST", orders, `{"body":1}`).want(201)
	a.do("GET", "/readyz", "").want(200)
}

func TestShards(t *testing.T) {
	a := newAPI(t)
	shards, _ := a.do("GET", "/v1/shards", "").want(200).json()["shards"].([]any)
	if len(shards) != 3 {
		t.Fatalf("%v", shards)
	}
	one, two, old := shards[0].(map[string]any), shards[1].(map[string]any), shards[2].(map[string]any)
	if one["up"] != true || one["latency"] != 0.0004 || one["jobs"] != 7.0 || one["memory"] != float64(1<<20) {
		t.Errorf("%v", one)
	}
	if two["up"] != false || two["state"] != "draining" || two["error"] != "connection refused" ||
		old["state"] != "offline" {
		t.Errorf("%v %v", two, old)
	}
}

// panicking panics on Recall.
type panicking struct{ *fakeJobs }

func TestPanic(t *testing.T) {
	var log syncBuffer
	a := newAPI(t, func(o *server.Options) {
		o.Jobs = panicking{newFakeJobs()}
		o.Logger = log.logger()
	})
	r := a.do("GET", orders+"/x", "").problem(500, "", "request id")
	if strings.Contains(r.body, "secret") {
		t.Errorf("%s", r.body)
	}
	if got := log.String(); !strings.Contains(got, "a secret reason") ||
		!strings.Contains(got, r.header.Get("X-Request-Id")) {
		t.Errorf("logged %q", got)
	}
	a.do("GET", "/healthz", "").want(200)
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	a := newAPI(t, func(o *server.Options) { o.Registerer = reg })
	a.do("POST", orders, `{"id":"x","body":1}`).want(201)
	a.do("POST", orders, `{"id":"x","body":1}`).want(200)
	a.do("POST", orders, `{"id":"x","body":1,"on_duplicate":"replace"}`).want(200)
	a.do("POST", orders, `{"id":"x"}`).want(400)
	for i := range 20 {
		a.do("POST", fmt.Sprintf("/v1/topics/made.up%d/jobs", i), `{"body":1}`).want(404)
		a.do("GET", fmt.Sprintf("/made/up/%d", i), "").want(404)
		a.do(fmt.Sprintf("MADE%d", i), "/v1/jobs", "").want(405)
	}
	a.do("POST", "/v1/jobs",
		`{"jobs":[{"topic":"shop.mail","body":1},{"topic":"shop.mail"},{"topic":"made.up","body":1}]}`).want(200)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			counts[f.GetName()+" "+strings.Join(labels, " ")] = m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount()) + m.GetGauge().GetValue()
		}
	}
	for key, want := range map[string]float64{
		"wakecall_pushes_total created|shop.orders": 1, "wakecall_pushes_total duplicate|shop.orders": 1,
		"wakecall_pushes_total replaced|shop.orders": 1, "wakecall_pushes_total refused|shop.orders": 1,
		"wakecall_pushes_total created|shop.mail": 1, "wakecall_pushes_total refused|shop.mail": 1,
		"wakecall_http_request_duration_seconds 404|GET|(none)":                  20,
		"wakecall_http_request_duration_seconds 405|other|/v1/jobs":              20,
		"wakecall_http_request_duration_seconds 404|POST|/v1/topics/:topic/jobs": 20, "wakecall_http_requests_in_flight ": 0,
	} {
		if got, ok := counts[strings.ReplaceAll(key, "|", " ")]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if len(counts) > 14 {
		t.Errorf("%d series: %v", len(counts), counts)
	}
}

func TestOptionsNeeded(t *testing.T) {
	if _, err := server.New(server.Options{}); err == nil {
		t.Error("created a server without options")
	}
	reg := prometheus.NewRegistry()
	opts := server.Options{Jobs: newFakeJobs(), Workers: &fakeWorkers{}, Registry: newFakeRegistry(), Registerer: reg}
	if _, err := server.New(opts); err != nil {
		t.Fatal(err)
	}
	if _, err := server.New(opts); err == nil {
		t.Error("registered its metrics twice")
	}
}

// TestMemoryBudget: large requests that wait do not fill the memory, and small ones continue.
func TestMemoryBudget(t *testing.T) {
	a := newAPI(t, func(o *server.Options) { o.Limits.MaxBuffered = 300 << 10 })
	a.jobs.hold, a.jobs.holding = make(chan struct{}), make(chan struct{}, 2)
	large := `{"body":"` + strings.Repeat("x", 200<<10) + `"}`
	first := make(chan int)
	go func() {
		req, err := http.NewRequest("POST", a.url+orders, strings.NewReader(large))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer "+a.token)
		first <- a.send(req).status
	}()
	<-a.jobs.holding
	a.do("POST", orders, large).problem(503, "", "large")
	a.do("GET", "/healthz", "").want(200)
	close(a.jobs.hold)
	if got := <-first; got != 201 {
		t.Errorf("the first request: %d", got)
	}
	a.do("POST", orders, large).want(201)
}

// TestANameThatCannotBeATopics: the answer says so, instead of suggesting a PUT that would be refused.
func TestANameThatCannotBeATopics(t *testing.T) {
	a := newAPI(t)
	r := a.do("POST", "/v1/topics/Shop%20Orders/jobs", `{"body":1}`).problem(404, "", "is not a valid name")
	if strings.Contains(r.body, "PUT") {
		t.Error(r.body)
	}
}
