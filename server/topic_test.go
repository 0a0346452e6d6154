package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

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
	got := a.do("GET", "/v1/topics/new.topic", "").want(200).json()
	if got["callback_url"] != "https://shop.example/y" || got["ttr"] != "10s" {
		t.Errorf("%v", got)
	}
	for _, tt := range []struct {
		name, body, field string
		status            int
	}{
		{"new.topic", ``, "", 400}, {"new.topic", `{`, "", 400}, {"new.topic", `{}`, "callback_url", 400},
		{"new.topic", `[]`, "", 400},
		{"Upper", `{"callback_url":"http://x/"}`, "topic", 400},
		{"a%2Fb", `{"callback_url":"http://x/"}`, "topic", 400},
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

// TestPatchTopic: a JSON merge patch, validated as a whole.
func TestPatchTopic(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/topics/shop.mail"
	before := a.do("GET", path, "").want(200)
	r := a.do("PATCH", path, `{"ttr":"5s","headers":{"X-Team":"shop"},"delay":null}`, "Content-Type",
		"application/merge-patch+json").want(200)
	got := r.json()
	if got["ttr"] != "5s" || got["delay"] != "0s" || got["priority"] != "low" ||
		r.header.Get("ETag") == before.header.Get("ETag") {
		t.Errorf("%s", r.body)
	}
	if secrets := a.registry.Snapshot().Topics.Get("shop.mail").Secrets; len(secrets) != 1 {
		t.Errorf("the secrets became %q", secrets)
	}
	a.do("PATCH", path, `{"headers":{"X-Team":null}}`, "If-Match", r.header.Get("ETag")).want(200)
	a.do("PATCH", path, `{"ttr":"6s"}`, "If-Match", r.header.Get("ETag")).problem(412, "").code("topic_changed")
	a.do("PATCH", path, `{"ttr":"6s"}`, "If-Match", "*").want(200)
	a.do("PATCH", path, `{"secrets":["***12ab"]}`).problem(422, "secrets")
	a.do("PATCH", path, `{"ttr":"6h"}`).problem(422, "ttr")
	a.do("PATCH", path, `{"colour":null}`).problem(400, "colour")
	a.do("PATCH", path, `[]`).problem(400, "")
	a.do("PATCH", "/v1/topics/shop.none", `{}`).problem(404, "").code("topic_not_found")
	token := a.registry.grant("reader", "*", registry.RightRead)
	a.do("PATCH", path, `{}`, "Authorization", "Bearer "+token).problem(403, "")
}

// TestAPatchIsMergedAgain when another client changed the topic meanwhile, unless it has an If-Match.
func TestAPatchIsMergedAgain(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/topics/shop.mail"
	etag := a.do("GET", path, "").want(200).header.Get("ETag")
	others := 0
	a.registry.meanwhile = func() {
		if others++; others <= 2 {
			a.registry.edit(func(s *registry.Snapshot) {
				next := *s.Topics.Get("shop.mail")
				next.Title += "!"
				s.Topics = s.Topics.With(next.Name, &next)
			})
		}
	}
	got := a.do("PATCH", path, `{"owner":"ann"}`).want(200).json()
	if got["owner"] != "ann" || got["title"] != "!!" {
		t.Errorf("a change was lost: %v", got)
	}
	a.do("PATCH", path, `{"owner":"bob"}`, "If-Match", etag).problem(412, "")
	a.registry.meanwhile = func() {
		a.registry.edit(func(s *registry.Snapshot) {
			next := *s.Topics.Get("shop.mail")
			next.Title += "!"
			s.Topics = s.Topics.With(next.Name, &next)
		})
	}
	a.do("PATCH", path, `{"owner":"bob"}`).problem(412, "")
}

// TestATopicIsPausedWithAReason, which the token gives. A reason that cannot be stored changes nothing.
func TestATopicIsPausedWithAReason(t *testing.T) {
	a := newAPI(t)
	const paused, active = `{"callback_url":"http://x/","state":"paused"}`, `{"callback_url":"http://x/","state":"active"}`
	a.do("PUT", "/v1/topics/shop.held?reason=stock+count", paused).want(201)
	a.do("PUT", "/v1/topics/shop.held?reason="+strings.Repeat("x", 501), active).problem(400, "reason")
	a.do("PUT", "/v1/topics/shop.held?reason="+strings.Repeat("x", 501), paused).problem(422, "reason")
	a.do("PUT", "/v1/topics/shop.held?why=x", paused).problem(400, "why")
	a.do("PUT", "/v1/topics/shop.held?reason=", paused).want(200)
	if got := a.registry.reasons; len(got) != 1 || !strings.HasSuffix(got[0], ": shop.held: stock count") {
		t.Errorf("reasons: %q", got)
	}
	if got := a.do("GET", "/v1/topics/shop.held", "").want(200).json()["state"]; got != "paused" {
		t.Errorf("it is %v", got)
	}
}

// TestPauseTopic: a pause says why and until when, in topics and in the waits of their jobs.
func TestPauseTopic(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/topics/shop.orders"
	until := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
	r := a.do("POST", path+"/pause", `{"reason":"stock count","until":"`+until+`"}`).want(200)
	if got := r.json(); got["state"] != "paused" || got["pause_reason"] != "stock count" || got["paused_until"] != until {
		t.Errorf("%s", r.body)
	}
	got := a.do("GET", path, "").want(200)
	if got.body != r.body || got.header.Get("ETag") != r.header.Get("ETag") {
		t.Errorf("read %s, paused %s", got.body, r.body)
	}
	a.do("PUT", path, got.body).want(200) // as it was read
	if listed := a.do("GET", "/v1/topics?prefix=shop.orders", "").want(200); !strings.Contains(listed.body, until) {
		t.Errorf("%s", listed.body)
	}
	before := time.Now().Add(2 * time.Hour)
	text, _ := a.do("POST", path+"/pause", `{"until":"2h"}`).want(200).json()["paused_until"].(string)
	if end, err := time.Parse(time.RFC3339, text); err != nil || end.Before(before) {
		t.Errorf("the pause of 2h ends at %q", text)
	}
	a.do("POST", path+"/pause", ``).want(200)
	for body, status := range map[string]int{
		`{"until":"2020-01-02T03:04:05Z"}`: 422, `{"until":"0s"}`: 422, `{"until":"later"}`: 400, `{"until":60}`: 422,
		`{"until":null}`: 400, `{"why":""}`: 400, `{"reason":1}`: 400,
	} {
		if r := a.do("POST", path+"/pause", body); r.status != status {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	a.do("POST", "/v1/topics/shop.offline/pause", ``).problem(409, "").code("topic_offline")
	a.do("POST", "/v1/topics/shop.none/pause", ``).problem(404, "")
	if got := a.do("POST", path+"/resume", ``).want(200).json(); got["state"] != "active" {
		t.Errorf("%v", got)
	}
	a.do("POST", path+"/resume", `{"x":1}`).problem(400, "x")
	a.do("POST", path+"/resume", `{}`).want(200)
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
		``: 400, `{}`: 400, `[]`: 400, `{"topics":[]}`: 400, `{"topics":1}`: 400, `{"topics":[1]}`: 400,
		`{"jobs":[]}`:                                                                               400,
		`{"topics":[` + good + `],"topics":[]}`:                                                     400,
		`{"topics":[` + good + `,` + good + `]}`:                                                    400,
		`{"topics":[` + good + `,{"callback_url":"http://x/"}]}`:                                    400,
		`{"topics":[` + good + `,{"name":"Upper","callback_url":"http://x/"}]}`:                     400,
		`{"topics":[` + good + `,{"name":"b.bad"}]}`:                                                400,
		`{"topics":[` + good + `,{"name":"b.bad","callback_url":"http://x/","x":1}]}`:               400,
		`{"topics":[` + good + `,{"name":"b.bad","callback_url":"http://x/","max_attempts":5000}]}`: 422,
		`{"topics":[` + strings.Repeat(good+",", 1000) + good + `]}`:                                422,
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
	token := a.registry.grant("bank", "bank.*", "read")
	topics, _ := a.do("GET", "/v1/topics", "", "Authorization", "Bearer "+token).want(200).json()["topics"].([]any)
	if len(topics) != 1 || topics[0].(map[string]any)["name"] != "bank.loans" {
		t.Errorf("%v", topics)
	}
	all, _ := a.do("GET", "/v1/topics", "").want(200).json()["topics"].([]any)
	if len(all) != 5 || all[0].(map[string]any)["name"] != "bank.loans" {
		t.Errorf("%v", all)
	}
}

// TestAReaderSeesNoSecrets: neither in headers nor in the query of the URL, and no hash of them.
func TestAReaderSeesNoSecrets(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/topics/shop.sealed"
	a.do("PUT", path, `{"callback_url":"https://h/?key=hidden1","headers":{"Authorization":"hidden2","X-Team":"shop"},
		"secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}`).want(201)
	bearer := "Bearer " + a.registry.grant("reader", "shop.*", registry.RightRead)
	for _, url := range []string{path, "/v1/topics"} {
		r := a.do("GET", url, "", "Authorization", bearer).want(200)
		if strings.Contains(r.body, "hidden") || strings.Contains(r.body, "whsec_") || r.header.Get("ETag") != "" ||
			!strings.Contains(r.body, `"X-Team":"shop"`) || !strings.Contains(r.body, "https://h/?***") {
			t.Errorf("%s: %v %s", url, r.header, r.body)
		}
	}
	shown := a.do("GET", path, "", "Authorization", bearer).body
	r := a.do("PATCH", path, shown).want(422)
	if strings.Contains(r.body, "hidden") {
		t.Error(r.body)
	}
}

// TestTopicSecrets: secrets are accepted, never shown, and kept unless a request replaces them.
func TestTopicSecrets(t *testing.T) {
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
	a.do("DELETE", path+"?jobs=true", "").problem(400, "jobs")
	a.do("DELETE", path+"?drop=true&force=1", "").problem(400, "force")
	a.do("DELETE", path+"?drop=true", "").want(204)
	if len(a.jobs.jobs) != 0 || a.registry.Snapshot().Topics.Get("shop.orders") != nil {
		t.Error("something remains")
	}
	a.do("DELETE", path, "").problem(404, "")
	a.do("DELETE", "/v1/topics/bank.loans", "").want(204)
}

// TestDeleteTopicWithSchedules is refused before any job is dropped, unless the schedules are to be deleted, too.
func TestDeleteTopicWithSchedules(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/topics/shop.orders"
	a.do("POST", orders, `{"body":1,"delay":"1h"}`).want(201)
	a.registry.edit(func(s *registry.Snapshot) {
		for i := range 12 {
			schedule := registry.NewSchedule(fmt.Sprintf("report-%02d", i))
			schedule.Topic = "shop.orders"
			s.Schedules = s.Schedules.With(schedule.Name, &schedule)
		}
	})
	for _, query := range []string{"?drop=true", "?drop=true&force=false"} {
		r := a.do("DELETE", path+query, "").problem(409, "", "report-00, ", "report-09 and 2 more", "force=true")
		if !strings.Contains(r.body, `"code":"topic_in_use"`) {
			t.Error(r.body)
		}
	}
	if len(a.jobs.jobs) != 1 {
		t.Error("a refused deletion dropped the jobs")
	}
	a.do("DELETE", path+"?force=true", "").problem(409, "", "still has jobs (1)")
	a.do("DELETE", path+"?force=true&drop=true", "").want(204)
	if a.registry.Snapshot().Topics.Get("shop.orders") != nil {
		t.Error("the topic remains")
	}
}

func TestTopicsWithoutRegistry(t *testing.T) {
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

// TestTopicNameInvalid: the answer says so, instead of suggesting a PUT that would be refused.
func TestTopicNameInvalid(t *testing.T) {
	a := newAPI(t)
	r := a.do("POST", "/v1/topics/Shop%20Orders/jobs", `{"body":1}`).problem(404, "", "is not a valid name")
	if strings.Contains(r.body, "PUT") {
		t.Error(r.body)
	}
}
