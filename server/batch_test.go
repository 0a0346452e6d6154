package server_test

import (
	"net/http"
	"strings"
	"testing"
)

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
		{``, "", 400}, {`[]`, "", 400}, {`{}`, "jobs", 400}, {`{"jobs":null}`, "jobs", 400},
		{`{"jobs":{}}`, "jobs", 400},
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

// TestABatchLooksOnceForUnknownTopics: the registry is read at most every 20 ms, so 1,000 reads would take 20 s.
func TestABatchLooksOnceForUnknownTopics(t *testing.T) {
	a := newAPI(t)
	a.do("POST", "/v1/jobs", `{"jobs":[`+strings.Repeat(`{"topic":"shop.unknown","body":1},`, 99)+
		`{"topic":"shop.orders","body":1}]}`).want(http.StatusOK)
	if n := a.registry.refreshes.Load(); n != 1 {
		t.Errorf("the registry was read %d times", n)
	}
}
