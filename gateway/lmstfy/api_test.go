package lmstfy

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

// Checks are made in the order names, pool, token, rate, handler.
func TestChecksComeInTheirOrder(t *testing.T) {
	c := newClient(t)
	long := strings.Repeat("n", 256)
	const (
		tooLong = `{"error":"namespace or queue name too long"}`
		badNS   = `{"error":"namespace name contains forbidden characters"}`
		badName = `{"error":"queue name contains forbidden characters"}`
		noToken = `{"error":"token not found"}`
	)
	c.wants(c.api, [][4]string{
		{"PUT /api/" + long + "/_?token=p:t", "", "400", tooLong}, {"PUT /api/ns/" + long, "", "400", tooLong},
		{"PUT /api/n.s/_?token=p:t", "", "400", badNS}, {"GET /api/n.s/q", "", "400", badNS},
		{"PUT /api/ns/_q?token=p:t", "", "400", badName}, {"PUT /api/ns/q,r", "", "400", badName},
		{"GET /api/ns/q;r", "", "400", badName},
		{"PUT /api/ns/q?token=p:t", "", "404", `{"error":"pool not found"}`},
		{"PUT /api/ns/q?delay=x", "", "401", noToken},
		{"PUT /api/ns/q?token=big:", "", "401", noToken},
		{"PUT /api/ns/q?token=none", "", "401", `{"error":"invalid token"}`},
		{"PUT /api/ns/q?token=big:" + clientToken, "", "401", `{"error":"invalid token"}`},
		{"GET /api/ns/_q?token=" + clientToken, "", "404", `{"msg":"no job available"}`},
		{"GET /api/ns/q/size?token=p:t", "", "404", `{"error":"pool not found"}`},
		{"GET /api/ns/q/size", "", "200", `{"namespace":"ns","queue":"q","size":0}`},
		{"GET /api/ns/q/deadletter/size", "", "200", `{"namespace":"ns","queue":"q","size":0}`},
		{"GET /api/ns/q/deadletter", "", "401", noToken}, {"GET /api/ns/q/peek", "", "401", noToken},
		{"DELETE /api/ns/q", "", "401", noToken}, {"PUT /api/ns/q/deadletter", "", "401", noToken},
		{"GET /api/ns", "", "404", `{"error":"api not found"}`},
		{"GET /api/ns/q/", "", "404", `{"error":"api not found"}`},
		{"POST /api/ns/q", "", "404", `{"error":"api not found"}`},
		{"HEAD /api/ns/q", "", "404", `{"error":"api not found"}`}, {"GET /", "", "404", `{"error":"api not found"}`},
	})
	if w := c.ask(c.api, "PUT", "/api/ns/q?token=none", "", "X-Token", clientToken); w.Code != 201 {
		t.Errorf("the header takes precedence over the query: %d %s", w.Code, w.Body)
	}
}

func TestParametersAreChecked(t *testing.T) {
	c := newClient(t)
	var cases [][4]string
	for _, path := range []string{"q", "q/bulk", "q/job/1"} {
		for query, text := range map[string]string{
			"delay=x": "invalid delay", "delay=": "invalid delay", "delay=-1": "invalid delay",
			"delay=4294967296": "invalid delay", "ttl=x": "invalid ttl", "ttl=4294967296": "invalid ttl",
			"ttl=5&delay=6": "ttl is shorter than delay", "tries=x": "invalid tries", "tries=65536": "invalid tries",
			"tries=0": "tries shouldn't be zero",
		} {
			cases = append(cases, [4]string{"PUT /api/ns/" + path + "?" + query, "[1]", "400",
				`{"error":"` + text + `"}`})
		}
	}
	for query, text := range map[string]string{
		"ttr=x": "invalid ttr", "ttr=4294967296": "invalid ttr", "timeout=x": "invalid timeout",
		"timeout=4294967296": "invalid timeout", "count=0": "invalid count", "count=101": "invalid count",
		"count=x": "invalid count", "ttr=": "invalid ttr",
	} {
		cases = append(cases, [4]string{"GET /api/ns/q?" + query, "", "400", `{"error":"` + text + `"}`})
	}
	big := strings.Repeat("x", 1<<20)
	cases = append(cases, [][4]string{
		{"GET /api/ns/,", "", "400", `{"error":"invalid queue name(s)"}`},
		{"PUT /api/ns/q", big + "x", "413", `{"error":"body too large"}`},
		{"PUT /api/ns/q/bulk", `["` + big + `"]`, "413", `{"error":"job too large"}`},
		{"PUT /api/ns/q/bulk", `{}`, "400", `{"error":"request body should be an array of objects"}`},
		{"PUT /api/ns/q/bulk", `[]`, "400", `{"error":"no jobs"}`},
		{"PUT /api/ns/q/bulk", "[" + strings.Repeat("1,", 64) + "1]", "400", `{"error":"too many jobs"}`},
		{"PUT /api/ns/q/deadletter?limit=0", "", "400", `{"error":"invalid limit"}`},
		{"PUT /api/ns/q/deadletter?limit=x", "", "400", `{"error":"invalid limit"}`},
		{"PUT /api/ns/q/deadletter?ttl=-1", "", "400", `{"error":"invalid ttl"}`},
		{"DELETE /api/ns/q/deadletter?limit=-1", "", "400", `{"error":"invalid limit"}`},
		{"PUT /api/ns/q/deadletter?ttl=0", "", "200", `{"count":0,"msg":"respawned"}`},
		{"GET /api/ns/q/deadletter", "", "200",
			`{"deadletter_head":"","deadletter_size":0,"namespace":"ns","queue":"q"}`},
		{"GET /api/ns/q/peek", "", "404", `{"error":"the queue is empty"}`},
		{"GET /api/ns/q/job/1", "", "404", `{"error":"job not found"}`},
		{"DELETE /api/ns/q/job/1", "", "204", ""}, {"DELETE /api/ns/q", "", "204", ""},
		{"DELETE /api/ns/q/deadletter", "", "204", ""},
	}...)
	c.wants(c.api, cases, "X-Token", clientToken, "Content-Type", "application/x-www-form-urlencoded")
}

func TestJobsAreConsumedAsTheyWerePublished(t *testing.T) {
	c := newClient(t)
	first := c.publish("q?tries=3&ttl=10&freeze_tries=true", "\x00\xff<&>")
	c.publish("q?ttl=0&delay=0", "")
	if id := c.publish("far?delay=4294967295&ttl=0", "x"); c.do("GET", "far/job/"+id, "").Code != 200 {
		t.Error("a job of the longest delay is lost")
	}
	w := c.do("GET", "q?ttr=60", "")
	var one described
	if err := json.Unmarshal(w.Body.Bytes(), &one); err != nil ||
		w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		t.Fatalf("%s %s %v", w.Header(), w.Body, err)
	}
	want := fmt.Sprintf(
		`{"attributes":null,"data":"%s","elapsed_ms":%d,"job_id":"%s","msg":"new job","namespace":"ns","queue":"q",`+
			`"remain_tries":2,"ttl":10}`, base64.StdEncoding.EncodeToString([]byte("\x00\xff<&>")), one.ElapsedMS, first)
	if w.Body.String() != want {
		t.Errorf("consumed %s, want %s", w.Body, want)
	}
	var shown described
	if w := c.do("GET", "q/job/"+first, ""); json.Unmarshal(w.Body.Bytes(), &shown) != nil ||
		strings.Contains(w.Body.String(), "msg") ||
		shown.RemainTries != 0 || shown.JobID != first || string(shown.Data) != string(one.Data) {
		t.Errorf("peeked %s", w.Body)
	}
	if jobs := c.consume("q?count=2"); len(jobs) != 1 || jobs[0].Data == nil || len(jobs[0].Data) != 0 ||
		jobs[0].TTL != 0 || jobs[0].RemainTries != 0 {
		t.Errorf("then %+v, want an array with the job without its body", jobs)
	}
	if w := c.do("PUT", "q/bulk?tries=2", `[1, {"a": "<"}, "x"]`); w.Code != 201 ||
		strings.Count(w.Body.String(), `","`) != 2 {
		t.Errorf("bulk: %d %s", w.Code, w.Body)
	}
	jobs := c.consume("none,,q?count=100&ttr=0")
	if len(jobs) != 3 || string(jobs[0].Data) != "1" || string(jobs[1].Data) != `{"a": "<"}` ||
		string(jobs[2].Data) != `"x"` {
		t.Errorf("of a bulk: %+v", jobs)
	}
	wait.For(t, "a ttr of 0 is over at once",
		func() bool { return strings.Contains(c.do("GET", "q/size", "").Body.String(), `"size":3`) })
	again := c.publish("q/job/"+jobs[0].JobID, "again")
	if w := c.do("GET", "q/job/"+jobs[0].JobID, ""); w.Code != 404 || again == jobs[0].JobID {
		t.Errorf("a republished job: %d, now %s", w.Code, again)
	}
	if w := c.do("PUT", "q/job/"+jobs[1].JobID+"?tries=0", ""); w.Code != 400 ||
		c.do("GET", "q/job/"+jobs[1].JobID, "").Code != 404 {
		t.Errorf("a republish with wrong parameters deletes before it checks them: %d", w.Code)
	}
	for range 2 {
		if w := c.do("DELETE", "q/job/"+again, "with a body"); w.Code != 204 || w.Body.Len() > 0 {
			t.Errorf("ack: %d %s", w.Code, w.Body)
		}
	}
}

func TestAttributesAreCut(t *testing.T) {
	c := newClient(t)
	name := strings.Repeat("A", 40)
	id := c.publish("q", "x", "Enable-Job-Version", "yEs", "Job-Attr-"+name, strings.Repeat("v", 200), "Job-Attr-Empty",
		"", "Other", "x")
	if len(id) != 27 || id[0] != '1' {
		t.Errorf("the id is %s", id)
	}
	job := c.consume("q")[0]
	if got := job.Attributes; len(got) != 1 || got[strings.Repeat("a", 32)] != strings.Repeat("v", 128) ||
		job.ElapsedMS > 60_000 {
		t.Errorf("%+v", job)
	}
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf("Job-Attr-N%d", i), "x")
	}
	if w := c.do("PUT", "q", "x", append(many, "Enable-Job-Version", "YES")...); w.Code != 400 ||
		w.Body.String() != `{"error":"too many attributes, cannot exceed 16"}` {
		t.Errorf("17 attributes: %d %s", w.Code, w.Body)
	}
	if id := c.publish("q", "x", many...); len(id) != 26 || c.consume("q")[0].Attributes != nil {
		t.Errorf("attributes of a client that does not know them: %s", id)
	}
}

func TestTokensOfTheAdminAPI(t *testing.T) {
	c := newClient(t)
	for _, target := range []string{
		"GET /token/ns", "POST /token/ns", "DELETE /token/ns/t", "POST /token/ns/t/limit", "PUT /token/ns/t/limit",
		"GET /token/ns/t/limit", "DELETE /token/ns/t/limit", "GET /limits", "POST /accesslog?status=enable",
	} {
		method, path, _ := strings.Cut(target, " ")
		if w := c.ask(c.admin, method, path, ""); w.Code != 401 ||
			!strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s needs no login: %d", target, w.Code)
		}
	}
	const own = "another-token-of-mine"
	c.wants(c.admin, [][4]string{
		{"POST /token/ns", "", "400", `{"error":"invalid description"}`},
		{"POST /token/ns?description=d&token=short", "", "400", `{"error":"the user token was too short"}`},
		{"POST /token/" + strings.Repeat("n", 256) + "?description=d", "", "400",
			`{"error":"the namespace name was too long"}`},
		{"POST /token/n.s?description=d", "", "400", `{"error":"namespace name contains forbidden characters"}`},
		{"POST /token/ns?description=d&pool=none", "", "400", `{"error":"the pool was not exists"}`},
		{"POST /token/ns?description=d&token=" + clientToken, "", "400", `{"error":"the token has already existed"}`},
		{"POST /token/ns?description=d&token=big:" + own, "", "201", "{\n    \"token\": \"big:" + own + "\"\n}"},
		{"GET /token/ns", "", "200", "{\n    \"tokens\": {\n        \"" + clientToken + "\": \"d\"\n    }\n}"},
		{"GET /token/ns?pool=big", "", "200", "{\n    \"tokens\": {\n        \"big:" + own + "\": \"d\"\n    }\n}"},
		{"GET /token/ns?pool=none", "", "400", `{"error":"the pool was not exists"}`},
		{"DELETE /token/ns/none:x", "", "400", `{"error":"the pool was not exists"}`},
		{"DELETE /token/ns/big:" + own, "", "204", ""}, {"DELETE /token/ns/big:" + own, "", "204", ""},
		{"GET /token/ns?pool=big", "", "200", "{\n    \"tokens\": {}\n}"},
		{"GET /pools", "", "200", "[\n    \"default\",\n    \"big\"\n]"},
		{"GET /accesslog", "", "200", `{"status":"disabled"}`},
		{"POST /accesslog?status=enable", "", "200", `{"status":"enabled"}`},
		{"POST /accesslog?status=disable", "", "200", `{"status":"disabled"}`},
		{"GET /none", "", "404", "404 page not found\n"}, {"GET /info?pool=none", "", "200", "{}"},
	}, "Authorization", clientBasic)
	form := c.ask(c.admin, "POST", "/token/ns", "description=in+a+form", "Authorization", clientBasic, "Content-Type",
		"application/x-www-form-urlencoded")
	if form.Code != 201 {
		t.Errorf("a form: %d %s", form.Code, form.Body)
	}
	if w := c.ask(c.admin, "GET", "/pools/", ""); w.Code != 301 || w.Header().Get("Location") != "/pools" {
		t.Errorf("/pools/: %d", w.Code)
	}
}

func TestLimitsOfTokens(t *testing.T) {
	c := newClient(t)
	limit := "/token/ns/" + clientToken + "/limit"
	const members = `{"read":1,"write":2,"interval":60}`
	c.wants(c.admin, [][4]string{
		{"GET " + limit, "", "404", "null"}, {"GET /limits?force_update=true", "", "200", "[]"},
		{"POST " + limit, `{"interval":1}`, "400", `{"limiter":{"read":0,"write":0,"interval":1}}`},
		{"POST " + limit, `{"read":1}`, "400", `{"error":"interval should be \u003e 0"}`},
		{"POST " + limit, members, "201", `{"limiter":` + members + `}`},
		{"POST " + limit, members, "500", `{"error":"throttler token(` + clientToken + `) has already exists"}`},
		{"PUT " + limit, members, "200", `{"limiter":` + members + `}`}, {"GET " + limit, "", "200", members},
		{"GET /limits", "", "200", `[{"namespace":"ns","token":"` + clientToken + `","limiter":` + members + `}]`},
		{"POST /token/ns/big:" + clientToken + "/limit", members, "201", `{"limiter":` + members + `}`},
		{"GET /limits", "", "200", `[{"namespace":"ns","token":"` + clientToken + `","limiter":` + members +
			`},{"namespace":"ns","token":"big:` + clientToken + `","limiter":` + members + `}]`},
	}, "Authorization", clientBasic)
	over := func(kind string) string {
		return `{"msg":"token(` + clientToken + `) ` + kind + ` reach the limit rate, please retry later"}`
	}
	c.do("GET", "q", "") // a 404 is not counted
	c.publish("q", "1")
	c.do("PUT", "q", strings.Repeat("x", 1<<20+1)) // nor is a 413
	if w := c.do("PUT", "q/bulk", "[1,2,3]"); w.Code != 201 {
		t.Errorf("a bulk counts as one: %d %s", w.Code, w.Body)
	}
	if w := c.do("PUT", "q", "x"); w.Code != 429 || w.Body.String() != over("produce") {
		t.Errorf("publish: %d %s", w.Code, w.Body)
	}
	if jobs := c.consume("q?count=2"); len(jobs) != 2 {
		t.Errorf("consumed %+v", jobs)
	}
	if w := c.do("GET", "q", ""); w.Code != 429 || w.Body.String() != over("consume") {
		t.Errorf("consume: %d %s", w.Code, w.Body)
	}
	again := c.consume0("q/peek") // only publishes and consumes are counted
	if w := c.do("PUT", "q/job/"+again, "x"); w.Code != 201 {
		t.Errorf("republish: %d %s", w.Code, w.Body)
	}
	c.wants(c.admin, [][4]string{{"DELETE " + limit, "", "200", `{"msg":"success"}`},
		{"GET " + limit, "", "404", "null"}},
		"Authorization", clientBasic)
	c.publish("q", "x")
}

func TestDeadJobsRespawn(t *testing.T) {
	c := newClient(t)
	first, second := c.publish("q?ttl=3600&delay=0", "1"), c.publish("q", "2")
	c.consume("q?count=2&ttr=0")
	dead := func(head string, size int) string {
		return fmt.Sprintf(`{"deadletter_head":"%s","deadletter_size":%d,"namespace":"ns","queue":"q"}`, head, size)
	}
	wait.For(t, "both jobs are dead",
		func() bool { return c.do("GET", "q/deadletter", "").Body.String() == dead(first, 2) })
	if text := c.do("GET", "q/job/"+first, "").Body.String(); !strings.Contains(text, `"ttl":0`) {
		t.Errorf("the ttl of a dead job is not removed: %s", text)
	}
	if w := c.do("PUT", "q/deadletter?ttl=0", ""); w.Code != 200 || w.Body.String() != `{"count":1,"msg":"respawned"}` {
		t.Errorf("respawn: %d %s", w.Code, w.Body)
	}
	if job := c.consume("q")[0]; job.JobID != first || job.TTL != 0 || job.RemainTries != 0 {
		t.Errorf("respawned %+v", job)
	}
	if text := c.do("GET", "q/deadletter/size", "").Body.String(); text != `{"namespace":"ns","queue":"q","size":1}` {
		t.Errorf("size: %s", text)
	}
	c.do("DELETE", "q/deadletter", "")
	if w := c.do("GET", "q/job/"+second, ""); w.Code != 404 ||
		c.do("GET", "q/deadletter", "").Body.String() != dead("", 0) {
		t.Errorf("a dead job that was deleted: %d", w.Code)
	}
}

// A waiting consume answers 404 after its timeout, never before; with a count, it waits for one job.
func TestAConsumeWaitsForItsTimeout(t *testing.T) {
	c := newClient(t)
	began := time.Now()
	if w := c.do("GET", "q?timeout=1", ""); w.Code != 404 || w.Body.String() != `{"msg":"no job available"}` {
		t.Errorf("without a job: %d %s", w.Code, w.Body)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("answered after %s", took)
	}
	c.publish("q?delay=1", "x")
	if jobs := c.consume("q?timeout=600&count=5"); len(jobs) != 1 {
		t.Errorf("consumed %+v", jobs)
	}
}

// TestAClientThatLeavesIsNoticed while its consume waits, although the server has not read the body of its request.
func TestAClientThatLeavesIsNoticed(t *testing.T) {
	c := newClient(t)
	server := httptest.NewServer(c.api)
	defer server.Close()
	for _, body := range []string{"", "the last body that PHP's client sent"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /api/ns/q?timeout=600 HTTP/1.1\r\nHost: x\r\nX-Token: %s\r\nContent-Length: "+
			"%d\r\n\r\n%s",
			c.token, len(body), body)
		wait.For(t, "the consume waits", func() bool { return c.q.Hub.Workers() == 1 })
		_ = conn.Close()
		wait.For(t, "the client's end is noticed", func() bool { return c.q.Hub.Workers() == 0 })
	}
}

// A publish without parameters has a ttl of a day and one try. An ack is final in every state; a destroy leaves delayed
// and running jobs.
// TestAnOfflineQueueTakesNoJobs, but its consumers still ack theirs. A refused republish keeps the old job.
func TestAnOfflineQueueTakesNoJobs(t *testing.T) {
	c := newClient(t)
	id := c.publish("q", "x")
	c.q.TakeOffline(t, "lmstfy.*")
	for _, path := range []string{"q", "q/job/" + id, "q/bulk"} {
		if w := c.do("PUT", path, `["x"]`); w.Code != 409 || w.Body.String() != `{"error":"queue is offline"}` {
			t.Errorf("PUT %s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := c.do("GET", "q/job/"+id, ""); w.Code != 200 {
		t.Errorf("the old job: %d %s", w.Code, w.Body)
	}
	if w := c.do("DELETE", "q/job/"+id, ""); w.Code != 204 {
		t.Errorf("its ack: %d %s", w.Code, w.Body)
	}
}

func TestDefaultsAcksAndDestroys(t *testing.T) {
	c := newClient(t)
	ids := map[string]string{"running": c.publish("q", "x"), "delayed": c.publish("q?delay=3600", "x")}
	if job := c.consume("q?ttr=600")[0]; job.TTL != 86400 || job.RemainTries != 0 {
		t.Errorf("by default %+v", job)
	}
	ids["ready"] = c.publish("q", "x")
	if w := c.do("DELETE", "q", ""); w.Code != 204 || c.do("GET", "q/job/"+ids["ready"], "").Code != 404 {
		t.Errorf("destroy: %d", w.Code)
	}
	ids["dead"] = c.publish("q", "x")
	c.consume("q?ttr=0")
	wait.For(t, "the job is dead", func() bool {
		return strings.Contains(c.do("GET", "q/deadletter/size", "").Body.String(), `"size":1`)
	})
	for _, state := range []string{"running", "delayed", "dead"} {
		if w := c.do("GET", "q/job/"+ids[state], ""); w.Code != 200 {
			t.Errorf("a job that is %s: %d %s", state, w.Code, w.Body)
		}
		c.do("DELETE", "other/job/"+ids[state], "") // it is in another queue
		if w := c.do("DELETE", "q/job/"+ids[state], ""); w.Code != 204 ||
			c.do("GET", "q/job/"+ids[state], "").Code != 404 {
			t.Errorf("an ack of a job that is %s: %d %s", state, w.Code, w.Body)
		}
	}
}

// TestDefaultsAreSettings, as in lmstfy's configuration file.
func TestDefaultsAreSettings(t *testing.T) {
	c := newClient(t)
	c.options.Defaults = defaultsOf(func(key string) string {
		return map[string]string{keyTTL: "1h", keyDelay: "1s", keyTries: "3", keyTTR: "9m", keyTimeout: "1m"}[key]
	})
	c.api = New(c.endpoint, c.options).handler()
	c.publish("q", "x")
	job := c.consume("q")[0] // waits, because the job is delayed
	if job.TTL < 3590 || job.TTL > 3600 || job.RemainTries != 2 {
		t.Errorf("consumed %+v", job)
	}
	stored, err := c.q.Get(t.Context(), c.options.Pools.topicOf("default", "ns", "q"), job.JobID)
	if err != nil {
		t.Fatal(err)
	}
	if ttr := time.Until(stored.LeaseUntil); ttr < 8*time.Minute || ttr > 9*time.Minute ||
		stored.DueAt.Sub(stored.CreatedAt) != time.Second {
		t.Errorf("its ttr ends in %s, and its delay was %s", ttr, stored.DueAt.Sub(stored.CreatedAt))
	}
}

// TestALongIntervalIsALimit: one that no duration can hold is as good as forever.
func TestALongIntervalIsALimit(t *testing.T) {
	c := newClient(t)
	limit := `{"read":1,"write":1,"interval":9223372036854775807}`
	w := c.ask(c.admin, "PUT", "/token/ns/"+clientToken+"/limit", limit, "Authorization", clientBasic)
	if w.Code != 200 {
		t.Fatalf("set a limit: %d %s", w.Code, w.Body)
	}
	c.publish("q", "x")
	if w := c.do("PUT", "q", "y"); w.Code != 429 {
		t.Errorf("a second publish: %d %s", w.Code, w.Body)
	}
}
