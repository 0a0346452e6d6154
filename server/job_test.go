package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/server"
)

func TestGetJob(t *testing.T) {
	a := newAPI(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678912345, time.FixedZone("", 3600))
	a.jobs.jobs["shop.orders/x"] = &store.Job{
		Topic: "shop.orders", ID: "x", State: store.Dead, Body: []byte(`{"a":1}`), CreatedAt: at, DueAt: at, DeadAt: at,
		DeadReason: "attempts",
		Attempts:   2, History: []store.Attempt{
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
	if job["schedule"] != nil || job["scheduled_for"] != nil {
		t.Errorf("no schedule's: %v", job)
	}
	of := *a.jobs.jobs["shop.orders/x"]
	of.Schedule, of.For = "nightly", at
	a.jobs.jobs["shop.orders/x"] = &of
	job = a.do("GET", orders+"/x", "").want(200).json()
	if job["schedule"] != "nightly" || job["scheduled_for"] != "2026-01-02T02:04:05.678Z" {
		t.Errorf("of a schedule: %v", job)
	}
	a.do("GET", orders+"/none", "").problem(404, "", "none", "shop.orders")
	a.do("GET", "/v1/topics/nowhere/jobs/x", "").problem(404, "", "nowhere")
	a.do("GET", orders+"/x?full=1", "").problem(400, "full")
}

// TestGetJobSaysWhyItWaits: each reason with its details, and the shard that does not answer.
func TestGetJobSaysWhyItWaits(t *testing.T) {
	a := newAPI(t)
	probe := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	job := &store.Job{Topic: "shop.orders", ID: "x", State: store.Ready, Shard: "one"}
	a.jobs.jobs["shop.orders/x"] = job
	a.jobs.standing = observe.Standing{Before: 7, Window: 32, BreakerOpen: probe, Failures: 12}
	got := fmt.Sprint(a.do("GET", orders+"/x", "").want(200).json()["waits"])
	if want := "[map[failures:12 reason:breaker_open until:2026-01-02T03:04:05.000Z] map[jobs:7 reason:behind]]"; got != want {
		t.Errorf("it waits for %s, want %s", got, want)
	}
	job.State = store.Running
	if waits := a.do("GET", orders+"/x", "").want(200).json()["waits"]; waits != nil {
		t.Errorf("a running job waits for %v", waits)
	}
	a.jobs.fail, a.jobs.down = &store.UnavailableError{Reason: "down", Err: errors.New("refused")}, []string{"redis-2"}
	a.do("GET", orders+"/x", "").problem(503, "", "redis-2", "it waits until the shard answers")
}

func TestJobSituations(t *testing.T) {
	a := newAPI(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for state, want := range map[store.State]string{store.Delayed: "next_attempt_at", store.Running: "leased_until",
		store.Dead: "dead_at"} {
		a.jobs.jobs["shop.orders/x"] = &store.Job{
			Topic: "shop.orders", ID: "x", State: state, CreatedAt: at, DueAt: at, NextAt: at.Add(time.Minute),
			LeaseUntil: at,
			DeadAt:     at, Attempts: 1,
		}
		job := a.do("GET", orders+"/x", "").want(200).json()
		for _, name := range []string{"next_attempt_at", "leased_until", "dead_at"} {
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
	if c.DueAt != nil || *c.Delay != 2*time.Hour || *c.Priority != store.High || string(*c.Body) != `{"b": 2}` {
		t.Errorf("%+v", c)
	}
	a.do("PATCH", orders+"/x", `{"due_at":1893456000000}`).want(200)
	if c := a.jobs.change; c.Delay != nil || c.Priority != nil || c.Body != nil ||
		c.DueAt.UnixMilli() != 1893456000000 {
		t.Errorf("%+v", c)
	}
	before := len(a.jobs.changes())
	for body, field := range map[string]string{
		`{}`: "", ``: "", `{"id":"y"}`: "id", `{"ttr":"1s"}`: "ttr", `{"delay":1,"due_at":1893456000000}`: "due_at",
		`{"priority":"x"}`: "priority", `{"delay":null}`: "delay",
	} {
		a.do("PATCH", orders+"/x", body).problem(400, field)
	}
	a.do("PATCH", orders+"/x", `{"delay":-1}`).problem(422, "delay")
	a.do("PATCH", orders+"/x", `{"body":"`+strings.Repeat("x", 256<<10)+`"}`).problem(413, "body")
	a.do("PATCH", orders+"/none", `{"delay":1}`).problem(404, "")
	a.jobs.jobs["shop.orders/x"].State = store.Running
	a.do("PATCH", orders+"/x", `{"delay":1}`).problem(409, "", "running")
	a.jobs.jobs["shop.orders/x"].State = store.Dead
	a.do("PATCH", orders+"/x", `{"delay":1}`).problem(409, "", "dead")
	if got := len(a.jobs.changes()); got != before {
		t.Errorf("refused changes changed something: %v", a.jobs.changes())
	}
}

func TestJobDeleteAndRun(t *testing.T) {
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
		"": "state", "?state=": "state", "?state=gone": "state", "?state=ready&prefix=x": "prefix",
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

func TestFinishedJobs(t *testing.T) {
	a := newAPI(t)
	due := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for id, gone := range map[string]bool{"order-42": false, "order-long": true, "other": false} {
		a.jobs.jobs["shop.orders/"+id] = &store.Job{
			Topic: "shop.orders", ID: id, State: store.Finished, Body: []byte("1"), BodyGone: gone, DueAt: due,
			Attempts:   1,
			FinishedAt: due.Add(16 * time.Millisecond),
			History:    []store.Attempt{{N: 1, StartedAt: due.UnixMilli() + 4, TookMS: 12, Status: 200, Answer: "ok"}},
		}
	}
	v := a.do("GET", orders+"/order-42", "").want(200).json()
	if v["state"] != "done" || v["finished_at"] != "2026-01-02T03:04:05.016Z" || v["late_ms"] != 4.0 ||
		v["body"] != 1.0 {
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

func TestDeadJobs(t *testing.T) {
	a := newAPI(t)
	for i := range 6 {
		id := fmt.Sprintf("d%d", i)
		a.jobs.jobs["shop.orders/"+id] = &store.Job{Topic: "shop.orders", ID: id, State: store.Dead}
	}
	const dead = "/v1/topics/shop.orders/dead"
	for _, tt := range []struct{ path, body, want string }{
		{"/retry", `{"ids":["d0","d1","none"]}`, `{"count":2}`}, {"/retry", `{"limit":1}`, `{"count":1}`},
		{"/delete", `{"ids":["d0","d4"]}`, `{"count":1}`}, {"/delete", `{"limit":100}`, `{"count":2}`},
		{"/delete", `{"limit":1}`, `{"count":0}`},
	} {
		if r := a.do("POST", dead+tt.path, tt.body).want(200); r.body != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.path, tt.body, r.body, tt.want)
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
		a.do("POST", dead+"/delete", tt.body).problem(tt.status, tt.field)
	}
	if got := len(a.jobs.changes()); got != before {
		t.Errorf("refused requests changed something")
	}
}

// TestDeadJobsOfAFilter: the list, a dry run and a re-drive of a filter select the same jobs.
func TestDeadJobsOfAFilter(t *testing.T) {
	a := newAPI(t)
	died := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	for n, j := range []store.Job{
		{ID: "order-1", History: []store.Attempt{{Status: 500, Error: "the endpoint answered 500"}}},
		{ID: "order-500", History: []store.Attempt{{Status: 404, Error: "the endpoint answered 404"}}},
		{ID: "mail-1", History: []store.Attempt{{Error: "connection refused after 500 ms"}}},
		{ID: "mail-2", DeadReason: "expired"},
	} {
		j.Topic, j.State, j.DeadAt = "shop.orders", store.Dead, died.Add(time.Duration(n)*time.Hour)
		a.jobs.jobs["shop.orders/"+j.ID] = &j
	}
	const topic = "/v1/topics/shop.orders"
	for _, tt := range []struct{ query, filter, want string }{
		{"status=500", `{"status":500}`, "order-1"}, {"error=500", `{"error":"500"}`, "mail-1 order-1"},
		{"prefix=order-", `{"prefix":"order-"}`, "order-1 order-500"}, {"reason=expired", `{"reason":"expired"}`, "mail-2"},
		{"since=2026-11-26T09:00:00Z&until=2026-11-26T10:00:00Z", `{"since":"2026-11-26T09:00:00Z",
			"until":1795687200000}`, "order-500"},
		{"status=404&prefix=mail", `{"status":404,"prefix":"mail"}`, ""},
	} {
		var page struct{ Jobs []struct{ ID string } }
		answer := a.do("GET", topic+"/jobs?state=dead&"+tt.query, "").want(200)
		if err := json.Unmarshal([]byte(answer.body), &page); err != nil {
			t.Fatal(err)
		}
		ids := []string{}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if got := strings.Join(ids, " "); got != tt.want {
			t.Errorf("%s lists %q, want %q", tt.query, got, tt.want)
		}
		before := len(a.jobs.changes())
		count := fmt.Sprintf(`{"count":%d}`, len(ids))
		body := `{"limit":100,"filter":` + tt.filter
		if r := a.do("POST", topic+"/dead/retry", body+`,"dry_run":true}`).want(200); r.body != count ||
			len(a.jobs.changes()) != before {
			t.Errorf("a dry run of %s: %s, want %s, and %v", tt.filter, r.body, count, a.jobs.changes()[before:])
		}
		if r := a.do("POST", topic+"/dead/retry", body+"}").want(200); r.body != count {
			t.Errorf("a re-drive of %s: %s, want %s", tt.filter, r.body, count)
		}
		for _, id := range ids {
			if j := a.jobs.jobs["shop.orders/"+id]; j.State != store.Ready {
				t.Errorf("%s: %s is %s", tt.filter, id, j.State)
			}
			a.jobs.jobs["shop.orders/"+id].State = store.Dead
		}
	}
	for _, tt := range []struct {
		body, field string
		status      int
	}{
		{`{"limit":1,"filter":{"error":""}}`, "error", 400}, {`{"limit":1,"filter":{"status":99}}`, "status", 422},
		{`{"limit":1,"filter":{"topic":"x"}}`, "filter", 400}, {`{"ids":["a"],"filter":{}}`, "filter", 400},
		{`{"filter":{"status":500}}`, "ids", 400}, {`{"ids":["a"],"dry_run":true}`, "filter", 400},
	} {
		a.do("POST", topic+"/dead/delete", tt.body).problem(tt.status, tt.field)
	}
	for _, query := range []string{"state=ready&status=500", "state=dead&status=five", "state=dead&since=then",
		"state=dead&prefix="} {
		a.do("GET", topic+"/jobs?"+query, "").want(400)
	}
}

// TestJobIDsInPaths: an id may contain any printable character, and can be encoded in a path.
func TestJobIDsInPaths(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{
		"a/b", "a%2Fb", "a%b", "100%", "a b", "é€😀", "a?b#c", "a+b", "..a", ".", "..", "run", "a/run", `"'<>&`, "{}",
		"%",
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

// TestTopicForecast: an unknown end of a backlog is null, with the reason.
func TestTopicForecast(t *testing.T) {
	var answer forecast.Answer
	a := newAPI(t, func(o *server.Options) {
		o.Forecast = func(context.Context, *registry.Topic) (forecast.Answer, error) { return answer, nil }
	})
	for want, is := range map[string]forecast.Answer{
		`{"waiting":0,"cleared_in_ms":0}`: {},
		`{"waiting":20,"cleared_in_ms":4000,"cleared_in_most_ms":5000,"rate":5}`: {
			Waiting: 20, Clear: 4 * time.Second, Most: 5 * time.Second, Rate: 5,
		},
		`{"waiting":9,"cleared_in_ms":null,"reason":"grows","growth":45}`: {Waiting: 9, Reason: forecast.Grows, Growth: 45},
		`{"waiting":9,"cleared_in_ms":null,"reason":"paused","paused_by":"ann"}`: {
			Waiting: 9, Reason: forecast.Paused, By: "ann",
		},
	} {
		answer = is
		if r := a.do("GET", "/v1/topics/shop.orders/forecast", "").want(200); r.body != want {
			t.Errorf("%s, want %s", r.body, want)
		}
	}
}

func TestTopicStats(t *testing.T) {
	a := newAPI(t)
	a.do("POST", orders, `{"id":"a","body":1,"delay":"1h"}`).want(201)
	a.do("POST", orders, `{"id":"b","body":1}`).want(201)
	want := `{"delayed":1,"ready":1,"running":0,"dead":0,"oldest_ready_ms":1500}`
	if r := a.do("GET", "/v1/topics/shop.orders/stats", "").want(200); r.body != want {
		t.Errorf("%s", r.body)
	}
}
