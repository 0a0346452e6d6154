package server_test

import (
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/registry"
)

// TestLocalDueTimes: every way in reads local times beside time_zone; in a gap, the first instant after it, and in a
// repeated hour the first.
func TestLocalDueTimes(t *testing.T) {
	for fields, want := range map[string]string{
		`"due_at":"2027-07-01T08:00:00","time_zone":"Asia/Shanghai"`: "2027-07-01T00:00:00.000Z",
		`"time_zone":"Europe/Berlin","due_at":"2027-03-28T02:30:00"`: "2027-03-28T01:00:00.000Z",
		`"due_at":"2027-10-31 02:30","time_zone":"Europe/Berlin"`:    "2027-10-31T00:30:00.000Z",
		`"due_at":"2027-07-01t08:00:00.0001","time_zone":"UTC"`:      "2027-07-01T08:00:00.001Z",
		`"due_at":"2027-07-01T08:00:00Z","time_zone":"UTC"`:          "400 time_zone",
		`"due_at":1893456000000,"time_zone":"UTC"`:                   "400 time_zone",
		`"time_zone":"UTC"`: "400 time_zone",
		`"delay":1,"due_at":"2027-07-01T08:00:00","time_zone":"UTC"`: "400 due_at",
		`"due_at":"2027-07-01T08:00:00","time_zone":"Mars/Base"`:     "422 time_zone",
		`"due_at":"2027-07-01T08:00:00","time_zone":"Local"`:         "422 time_zone",
		`"due_at":"2027-07-01T08:00:00","time_zone":8`:               "400 time_zone",
		`"due_at":"2027-07-01T08:00:00","time_zone":null`:            "400 time_zone",
		`"due_at":"2027-13-01T08:00:00","time_zone":"UTC"`:           "400 due_at",
		`"due_at":"1999-12-31T23:00:00","time_zone":"UTC"`:           "422 due_at",
		`"due_at":"2057-12-31T23:00:00","time_zone":"UTC"`:           "422 due_at",
		`"due_at":"2027-07-01T08:00:00"`:                             "422 due_at",
	} {
		a := newAPI(t)
		a.do("POST", orders, `{"id":"z","body":1,"delay":1}`).want(201)
		status, field, refused := strings.Cut(want, " ")
		body := []string{
			a.do("POST", orders, `{"id":"x","body":1,`+fields+`}`).body,
			a.do("PATCH", orders+"/z", `{`+fields+`}`).body,
			a.do("POST", "/v1/jobs", `{"jobs":[{"topic":"shop.orders","body":1,`+fields+`}]}`).want(200).body,
		}
		move := a.do("PATCH", "/v1/groups/g", `{`+fields+`}`)
		for _, got := range body {
			if refused && !(strings.Contains(got, `"field":"`+field+`"`) &&
				strings.Contains(got, `"status":`+status)) ||
				!refused && !strings.Contains(got, `"due_at":"`+want+`"`) {
				t.Errorf("%s: %s, want %s", fields, got, want)
			}
		}
		if asked := a.groups.asked; !refused && !strings.HasSuffix(asked, want[:10]+"T"+want[11:19]+"Z") {
			t.Errorf("%s: %s %s", fields, move.body, asked)
		}
	}
	a := newAPI(t)
	raw := a.do("PUT", orders+"/raw?due_at=2027-07-01T08:00:00&time_zone=Asia/Shanghai", "1").want(201)
	if raw.json()["due_at"] != "2027-07-01T00:00:00.000Z" {
		t.Error(raw.body)
	}
	a.do("PATCH", "/v1/groups/g", `{"shift":"1m","time_zone":"UTC"}`, "Idempotency-Key", "k").problem(400, "time_zone")
}

// TestJobURL: by every way in, and kept or cleared by PATCH.
func TestJobURL(t *testing.T) {
	a := newAPI(t)
	allow := func(change func(*registry.Topic)) {
		a.registry.edit(func(s *registry.Snapshot) {
			topic := *s.Topics.Get("shop.orders")
			topic.Dialect, topic.JobURLs = registry.DialectOwn, []string{"https://*.shop.example/hooks/"}
			change(&topic)
			s.Topics = s.Topics.With(topic.Name, &topic)
		})
	}
	const url = "https://a.shop.example/hooks/42?key=1"
	a.do("POST", orders, `{"body":1,"url":"`+url+`"}`).problem(422, "url", "job_urls")
	allow(func(*registry.Topic) {})
	for _, r := range []reply{
		a.do("POST", orders, `{"id":"x","body":1,"url":"`+url+`"}`).want(201),
		a.do("PUT", orders+"/raw?url="+strings.ReplaceAll(url, "?", "%3F"), "1").want(201),
		a.do("POST", "/v1/jobs", `{"jobs":[{"topic":"shop.orders","body":1,"url":"`+url+`"}]}`).want(200),
		a.do("GET", orders+"/x", "").want(200),
		a.do("PATCH", orders+"/x", `{"priority":"high"}`).want(200), // keeps it
	} {
		if !strings.Contains(r.body, `"url":"`+url+`"`) {
			t.Error(r.body)
		}
	}
	for _, bad := range []string{
		`"http://a.shop.example/hooks/42"`, `"https://shop.example/hooks/42"`, `"https://a.shop.example/hooks/../x"`,
		`"https://u:p@a.shop.example/hooks/42"`, `""`, `"x"`, `"https://a.shop.example/hooks/42#x"`,
	} {
		a.do("POST", orders, `{"body":1,"url":`+bad+`}`).problem(422, "url")
		a.do("PATCH", orders+"/x", `{"url":`+bad+`}`).problem(422, "url")
	}
	a.do("POST", orders, `{"body":1,"url":7}`).problem(400, "url")
	a.do("POST", orders, `{"body":1,"url":null,"url":null}`).problem(400, "url", "duplicate")
	if r := a.do("POST", orders, `{"body":1,"url":null}`).want(201); strings.Contains(r.body, `"url"`) {
		t.Error(r.body)
	}
	if r := a.do("PATCH", orders+"/x", `{"url":null}`).want(200); strings.Contains(r.body, `"url"`) {
		t.Error(r.body)
	}
	a.do("PATCH", orders+"/x", `{"url":"`+url+`"}`).want(200)
	for _, change := range []func(*registry.Topic){
		func(t *registry.Topic) { t.Delivery = registry.DeliveryPull }, func(t *registry.Topic) { t.Dialect = "phpdq" },
	} {
		allow(change)
		a.do("POST", orders, `{"body":1,"url":"`+url+`"}`).problem(422, "url", "calls an endpoint")
		a.do("PATCH", orders+"/x", `{"url":"`+url+`"}`).problem(422, "url", "calls an endpoint")
		a.do("PATCH", orders+"/x", `{"url":null}`).want(200)
	}
}
