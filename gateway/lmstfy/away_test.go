package lmstfy

import (
	"fmt"
	"strings"
	"testing"
)

// TestWithoutAShardClientsAreToldToRetry: lmstfy's clients repeat a request after a 5xx. No answer contains the token,
// and no limit counts requests that failed.
func TestWithoutAShardClientsAreToldToRetry(t *testing.T) {
	c := newClient(t)
	limit := "/token/ns/" + clientToken + "/limit"
	w := c.ask(c.admin, "POST", limit, `{"read":1,"write":1,"interval":600}`, "Authorization", clientBasic)
	if w.Code != 201 {
		t.Fatalf("set a limit: %d %s", w.Code, w.Body)
	}
	c.q.Redis.Shutdown()
	for _, route := range []string{
		"PUT q", "PUT q/bulk", "PUT q/job/1", "GET q", "DELETE q/job/1", "GET q/peek", "GET q/job/1", "DELETE q",
		"GET q/size", "GET q/deadletter/size", "GET q/deadletter", "PUT q/deadletter", "DELETE q/deadletter",
	} {
		for range 2 { // a limit of one would refuse the second publish or consume
			method, path, _ := strings.Cut(route, " ")
			w := c.do(method, path, "[1]")
			if w.Code != 503 || w.Header().Get("Retry-After") == "" ||
				!strings.HasPrefix(w.Body.String(), `{"error":"`) ||
				!strings.Contains(w.Body.String(), "no shard is available") {
				t.Errorf("%s: %d, Retry-After %q: %s", route, w.Code, w.Header().Get("Retry-After"), w.Body)
			}
			if strings.Contains(w.Body.String(), clientToken) {
				t.Errorf("the answer to %s contains the token: %s", route, w.Body)
			}
		}
	}
	if w := c.ask(c.admin, "GET", "/info", ""); w.Code != 503 {
		t.Errorf("GET /info: %d %s", w.Code, w.Body)
	}
	w = c.ask(c.admin, "GET", "/metrics", "")
	if text := w.Body.String(); w.Code != 200 || !strings.Contains(text, "infra_lmstfy_http_http_codes{") ||
		strings.Contains(text, "_sizes{") {
		t.Errorf("metrics are not shown, or sizes that nobody knows: %d %s", w.Code, text)
	}
}

// TestAFullRedisRefusesPublishesOnly: consumers empty it, and a job that cannot be republished stays.
func TestAFullRedisRefusesPublishesOnly(t *testing.T) {
	c := newClient(t)
	id := c.publish("q", "x")
	c.q.Redis.ConfigSet("maxmemory", "1")
	for _, path := range []string{"q", "q/bulk", "q/job/" + id} {
		if w := c.do("PUT", path, "[1]"); w.Code != 503 || !strings.Contains(w.Body.String(), "full") {
			t.Errorf("PUT %s: %d %s", path, w.Code, w.Body)
		}
	}
	if job := c.consume("q?ttr=60")[0]; job.JobID != id {
		t.Errorf("consumed %+v", job)
	}
	if w := c.do("DELETE", "q/job/"+id, ""); w.Code != 204 {
		t.Errorf("ack: %d %s", w.Code, w.Body)
	}
}

// TestTheDatabaseIsNotNeededForJobs: tokens and limits are known from the last snapshot. Changes of them are refused,
// and the cause is logged.
func TestTheDatabaseIsNotNeededForJobs(t *testing.T) {
	c := newClient(t)
	if err := c.q.Registry.Close(); err != nil {
		t.Fatal(err)
	}
	id := c.publish("q", "x")
	if job := c.consume("q")[0]; job.JobID != id {
		t.Errorf("consumed %+v", job)
	}
	const refused = `{"error":"internal error"}`
	limit := "/token/ns/" + clientToken + "/limit"
	c.wants(c.admin, [][4]string{
		{"POST /token/ns?description=d", "", "500", refused}, {"DELETE /token/ns/" + clientToken, "", "500", refused},
		{"POST " + limit, `{"read":1,"interval":1}`, "500", refused},
		{"PUT " + limit, `{"read":1,"interval":1}`, "500", refused},
		{"DELETE " + limit, "", "500", refused},
		{"GET /token/ns", "", "200", fmt.Sprintf("{\n    \"tokens\": {\n        %q: \"d\"\n    }\n}", clientToken)},
		{"GET /limits", "", "200", "[]"},
	}, "Authorization", clientBasic)
}
