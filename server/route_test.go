package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/openapitest"
)

// TestRoutesAreDescribed compares the routes with openapi.yaml, both ways.
func TestRoutesAreDescribed(t *testing.T) {
	a := newAPI(t, withDev(&fakeDev{}))
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

func TestRoutes(t *testing.T) {
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

func TestAnswerHeaders(t *testing.T) {
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

func TestAnswerAfterPanic(t *testing.T) {
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
		"wakecall_http_request_duration_seconds 404|POST|/v1/topics/:topic/jobs": 20,
		"wakecall_http_requests_in_flight ":                                      0,
	} {
		if got, ok := counts[strings.ReplaceAll(key, "|", " ")]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if len(counts) > 15 {
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
	for _, down := range []map[string]any{two, old} {
		for _, unknown := range []string{"latency", "memory", "max_memory", "jobs"} {
			if v, shown := down[unknown]; shown {
				t.Errorf("%s of shard %v, which is not up, is %v", unknown, down["name"], v)
			}
		}
	}
}

// TestRouteOptionsOfEverything is refused like any other request.
func TestRouteOptionsOfEverything(t *testing.T) {
	r := start(t, listen(t))
	c := dial(t, r.addr)
	if _, err := io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := status(t, c); got != http.StatusUnauthorized {
		t.Errorf("answered %d", got)
	}
}

// panicking panics on Get.
type panicking struct{ *fakeJobs }

func (panicking) Get(context.Context, string, string, ...store.State) (*store.Job, error) {
	panic("a secret reason")
}
