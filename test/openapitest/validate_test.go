package openapitest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func exchange(method, path, sent string, status int, contentType, got string) error {
	req, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(sent))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer x")
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(got))}
	resp.Header.Set("X-Request-Id", "abc")
	resp.Header.Set("Content-Type", contentType)
	resp.Header.Set("ETag", `"e"`)
	return Check(req, []byte(sent), resp)
}

const jobs = "/v1/topics/shop.orders/jobs"

const job = `{"topic":"t","id":"x","state":"ready","due_at":"2026-01-02T03:04:05.678Z","priority":"low","attempts":0,"created_at":"2026-01-02T03:04:05.678Z"}`

func TestCheck(t *testing.T) {
	if err := exchange("POST", jobs, `{"body":null}`, 200, "application/json", job); err != nil {
		t.Errorf("a good exchange: %v", err)
	}
	without := func(s, what string) string { return strings.Replace(s, what, "", 1) }
	for name, err := range map[string]error{
		"accepted without body":  exchange("POST", jobs, `{}`, 200, "application/json", job),
		"accepted unknown field": exchange("POST", jobs, `{"body":1,"x":1}`, 200, "application/json", job),
		"accepted bad priority":  exchange("POST", jobs, `{"body":1,"priority":"x"}`, 200, "application/json", job),
		"field missing": exchange("POST", jobs, `{"body":1}`, 200, "application/json",
			without(job, `"attempts":0,`)),
		"field too many": exchange("POST", jobs, `{"body":1}`, 200, "application/json",
			strings.Replace(job, "{", `{"x":1,`, 1)),
		"field too many in a list": exchange("GET", jobs+"?state=dead", ``, 200, "application/json",
			`{"jobs":[`+strings.Replace(job, "{", `{"x":1,`, 1)+`],"next":""}`),
		"field too many beside a job": exchange("GET", jobs+"/x", ``, 200, "application/json",
			strings.Replace(job, "{", `{"x":1,"content_type":"","history":[],`, 1)),
		"field too many in a problem": exchange("POST", jobs, `{}`, 400, "application/problem+json",
			`{"type":"about:blank","title":"x","status":400,"code":"invalid","detail":"x","request_id":"x","x":1}`),
		"field too many in a member of a batch": exchange("POST", "/v1/jobs", `{"jobs":[{"topic":"t","body":1,"x":1}]}`,
			200, "application/json", `{"results":[`+job+`]}`),
		"instant without ms": exchange("POST", jobs, `{"body":1}`, 200, "application/json", without(job, ".678")),
		"bad state": exchange("POST", jobs, `{"body":1}`, 200, "application/json",
			strings.Replace(job, "ready", "waiting", 1)),
		"no Location":            exchange("POST", jobs, `{"body":1}`, 201, "application/json", job),
		"status not described":   exchange("POST", jobs, `{"body":1}`, 418, "application/problem+json", `{}`),
		"type not described":     exchange("POST", jobs, `{"body":1}`, 400, "text/plain", `x`),
		"bad problem":            exchange("POST", jobs, `{}`, 400, "application/problem+json", `{"status":400}`),
		"bad unrouted problem":   exchange("GET", "/nowhere", ``, 404, "application/problem+json", `{"status":404}`),
		"unknown route answered": exchange("GET", "/nowhere", ``, 200, "application/json", `{}`),
		"body with 204":          exchange("DELETE", jobs+"/x", ``, 204, "", `{}`),
		"no Retry-After": exchange("GET", "/readyz", ``, 503, "application/problem+json",
			`{"type":"about:blank","title":"x","status":503,"detail":"x","request_id":"x"}`),
		"const":           exchange("GET", "/healthz", ``, 200, "application/json", `{"status":"fine"}`),
		"query parameter": exchange("GET", jobs+"?state=x", ``, 200, "application/json", `{"jobs":[],"next":""}`),
	} {
		if err == nil {
			t.Errorf("%s: no error was found", name)
		}
	}
}

func TestFind(t *testing.T) {
	req, err := http.NewRequest(http.MethodGet, "http://localhost"+jobs+"/a%2Fb%25", nil)
	if err != nil {
		t.Fatal(err)
	}
	route, params, err := find(req)
	if err != nil || route == nil || route.Path != "/v1/topics/{topic}/jobs/{id}" || params["id"] != "a/b%" {
		t.Errorf("%v %v", route, params)
	}
}
