package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/openapitest"
)

// described lists the operations of openapi.yaml, which TestRoutesAreDescribed keeps equal to the served ones.
func described(t *testing.T) [][2]string {
	t.Helper()
	doc, err := openapitest.Document()
	if err != nil {
		t.Fatal(err)
	}
	var list [][2]string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			list = append(list, [2]string{method, path})
			if method == http.MethodGet {
				list = append(list, [2]string{http.MethodHead, path})
			}
		}
	}
	return list
}

// withoutTopic are the routes without a topic in their path, and what limits a token to its rights there.
var withoutTopic = map[string]string{
	"/v1/jobs":   "each member is judged: TestABatchIsJudgedByMember",
	"/v1/topics": "lists what the token manages: TestTopicsOfAToken",
	"/v1/shards": "wants the right to read somewhere: TestTokenRights", "/healthz": "", "/readyz": "",
	"/openapi.yaml": "",
	"/docs":         "",
	"/v1/reserve":   "each topic is judged: TestWhatIsWrongWithAReserve",
	"/v1/leases":    "each lease is judged by its topic: TestLeasesAreEnded", "/v1/leases/{lease}/ack": "so is one",
	"/v1/leases/{lease}/release": "", "/v1/leases/{lease}/fail": "", "/v1/leases/{lease}/bury": "",
	"/v1/leases/{lease}/extend": "",
	"/v1/groups/{group}":        "acts on the topics of the token: TestGroupsAreThoseOfTheToken",
	"/v1/schedules":             "lists those of its topics: TestATokenHasOnlySchedulesOfItsTopics",
	"/v1/schedules/{schedule}":  "so are all about one", "/v1/schedules/{schedule}/pause": "",
	"/v1/schedules/{schedule}/resume": "", "/v1/schedules/{schedule}/run": "", "/v1/schedules/{schedule}/backfill": "",
	"/v1/dev/now": "only installations for tests have them: TestDevNeedsRights", "/v1/dev/advance": "",
	"/v1/tasks": "needs rights on all topics: TestATokenSeesTheTasksOfItsTopicsOnly", "/v1/tasks/{task}": "",
	"/v1/relays":             "lists those of its topics: TestRelaysOfAToken",
	"/v1/relays/{relay}":     "touches only those",
	"/v1/search":             "shows what the token may read: TestSearchTellsWhatATokenMayRead",
	"/v1/tokens":             "shows and creates what the token covers: TestTokensOverTheAPI",
	"/v1/tokens/{token}":     "so does this",
	"/v1/alerts":             "lists those of its topics: TestAlertsBelongToTheirTopics",
	"/v1/alerts/{alert}/ack": "takes only those", "/v1/alerts/{alert}/mute": "", "/v1/alerts/{alert}/unmute": "",
}

// TestEveryRouteIsWithinTheRights tests all routes of the API, so that a new one cannot be forgotten: without a token
// it answers 401; with a token for other topics, similar names, or without rights it answers 403, however the topic is
// encoded, and changes nothing.
func TestEveryRouteIsWithinTheRights(t *testing.T) {
	a := newAPI(t)
	all := []registry.Right{"push", "read", "manage"}
	tokens := map[string]string{
		"without": "", "elsewhere": a.registry.grant("elsewhere", "bank.* shop.mail", all...),
		"nothing": a.registry.grant("nothing", "*"),
		"near": a.registry.grant("near", "shop.order shop.orders.* shop.orders-* shop.ordersx shop*.orders ?hop.orders",
			all...),
		"none": a.registry.grant("none", "", all...),
	}
	a.do("POST", orders, `{"id":"x","body":1,"delay":60}`).want(201)
	before := len(a.jobs.changes())
	for _, op := range described(t) {
		method, path := op[0], op[1]
		if _, known := withoutTopic[path]; known {
			continue
		}
		if !strings.Contains(path, "{topic}") {
			t.Errorf("%s %s has no topic: add to withoutTopic what limits tokens to their rights there", method, path)
		}
		for who, token := range tokens {
			for _, topic := range []string{
				"shop.orders", "%73hop.orders", "shop%2eorders", "shop.mail%2F..%2Fshop.orders",
				"shop.mail%00shop.orders",
				"SHOP.orders", "shop.orders%20", "shop.none", "bank.loans%2F%2E%2E%2Fshop.orders", "shop.orders%2F",
			} {
				target := strings.NewReplacer("{topic}", topic, "{id}", "x").Replace(path)
				header := []string{"Authorization", "Bearer " + token}
				want := http.StatusForbidden
				if token == "" {
					header[1], want = "", http.StatusUnauthorized
				}
				r := a.do(method, target, `{"limit":1,"delay":1,"callback_url":"http://x/","body":1}`, header...)
				// The characters of a pattern are not a topic.
				covered := who == "elsewhere" && strings.HasPrefix(topic, "bank.")
				if r.status != want && !(covered &&
					(r.status == http.StatusNotFound || r.status == http.StatusBadRequest)) {
					t.Errorf("%s %s by %s: %d, want %d: %s", method, target, who, r.status, want, r.body)
				}
			}
		}
	}
	if done := a.jobs.changes(); len(done) != before || a.registry.Snapshot().Topics.Len() != 5 {
		t.Errorf("the requests changed something: %v", done[before:])
	}
}

// TestABatchIsJudgedByMember: a token pushes the permitted members, and the others get the same errors as alone.
func TestABatchIsJudgedByMember(t *testing.T) {
	a := newAPI(t)
	token := a.registry.grant("mail", "shop.mail", registry.RightPush)
	members := []string{`{"topic":"shop.mail","body":1}`, `{"topic":"shop.orders","body":1}`,
		`{"topic":"shop.none","body":1}`, `{"topic":"shop.mail\u0000","body":1}`}
	results, _ := a.do("POST", "/v1/jobs", `{"jobs":[`+strings.Join(members, ",")+`]}`, "Authorization",
		"Bearer "+token).want(200).json()["results"].([]any)
	for i, result := range results {
		refused, _ := result.(map[string]any)["error"].(map[string]any)
		if i == 0 && refused != nil || i > 0 && refused["status"] != float64(http.StatusForbidden) {
			t.Errorf("member %d: %v", i, result)
		}
	}
	if done := a.jobs.changes(); len(results) != len(members) || len(done) != 1 ||
		!strings.HasPrefix(done[0], "push shop.mail/") {
		t.Errorf("%d results, and the calls %v", len(results), done)
	}
}

// TestNoAnswerIsAPage but /docs: whatever a job contains and whatever its content type, a browser that opens an answer
// of the API shows data.
func TestNoAnswerIsAPage(t *testing.T) {
	a := newAPI(t)
	const page = `<html><script>alert(1)</script><svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`
	id := url.PathEscape(page)
	for _, kind := range []string{"text/html", "image/svg+xml", "application/xhtml+xml", "text/plain",
		"application/octet-stream", "application/json"} {
		body := page
		if kind == "application/json" {
			body = `"` + strings.ReplaceAll(page, `"`, `\"`) + `"`
		}
		a.do("PUT", orders+"/"+id+"?on_duplicate=replace", body, "Content-Type",
			kind).want(map[bool]int{true: 201, false: 200}[kind == "text/html"])
		whole := a.do("GET", orders+"/"+id, "").want(200).json()
		if whole["content_type"] != kind || whole["body"] != page {
			t.Errorf("%s has the headers %v", kind, whole["body"])
		}
	}
	answers := map[string]reply{
		"job":      a.do("GET", orders+"/"+id, "", "Accept", "text/html"),
		"list":     a.do("GET", orders+"?state=delayed", "", "Accept", "text/html"),
		"no job":   a.do("GET", orders+"/"+id+"x", "", "Accept", "text/html"),
		"no route": a.do("GET", "/"+id, "", "Accept", "text/html"),
		"no token": a.do("GET", orders+"/"+id, "", "Authorization", page),
		"no topic": a.do("GET", "/v1/topics/"+id, ""),
		"query":    a.do("GET", orders+"?"+id, ""), "body": a.do("POST", orders, page),
		"method": a.do("DELETE", orders+"?"+id, ""),
	}
	for _, op := range described(t) {
		if op[1] != "/docs" && op[1] != "/openapi.yaml" {
			answers[op[0]+" "+op[1]] = a.do(op[0],
				strings.NewReplacer("{topic}", "shop.orders", "{id}", id).Replace(op[1]), "",
				"Accept", "text/html")
		}
	}
	for what, r := range answers {
		kind := r.header.Get("Content-Type")
		if r.status != http.StatusNoContent && kind != "application/json" && kind != "application/problem+json" {
			t.Errorf("%s: %d with the type %q", what, r.status, kind)
		}
		if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", what, r.header)
		}
	}
}

// TestARequestIsOneLineOfTheLog: paths, ids, names, tokens, agents and bodies with line breaks, escapes and invalid
// UTF-8 are logged as single lines.
func TestARequestIsOneLineOfTheLog(t *testing.T) {
	const hostile = "%0A%7B%22level%22:%22FORGED%22%7D%0D%1B[2J%E2%80%A8%C2%85%FF%00"
	for _, format := range []string{"json", "text"} {
		log := &syncBuffer{}
		a := newAPI(t, func(o *server.Options) {
			opts := &slog.HandlerOptions{Level: slog.LevelDebug}
			o.Logger = slog.New(slog.NewJSONHandler(log, opts))
			if format == "text" {
				o.Logger = slog.New(slog.NewTextHandler(log, opts))
			}
			o.Jobs = panicking{newFakeJobs()}
		})
		requests := 0
		raw := func(request string) {
			requests++
			c, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_, _ = c.Write([]byte(request))
			if r, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				_ = r.Body.Close()
			}
		}
		for _, path := range []string{"/" + hostile, orders + "/" + hostile, "/v1/topics/" + hostile + "/jobs/1",
			orders + "?state=" + hostile, orders + "/1"} {
			for _, method := range []string{"GET", "PUT", "DELETE"} {
				raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer %s\r\n"+
					"User-Agent: a\xe2\x80\xa8b\xff\r\nX-Request-Id: x\xc2\x9b2J\xff\r\nContent-Length: 1\r\n\r\n\xff",
					method, path, a.token))
			}
		}
		if log.String() == "" {
			t.Fatal("nothing was logged")
		}
		for line := range strings.Lines(log.String()) {
			var event map[string]any
			if format == "json" && (json.Unmarshal([]byte(line), &event) != nil || event["level"] == "FORGED") ||
				format == "text" && !strings.HasPrefix(line, "time=") {
				t.Errorf("%q is not an event", line)
			}
			if format == "text" && strings.ContainsFunc(strings.TrimSuffix(line, "\n"),
				func(r rune) bool { return r < ' ' || r == '\u2028' || r == '\u0085' || r == '\ufffd' }) {
				t.Errorf("%q has control characters", line)
			}
		}
		requestsLogged := strings.Count(log.String(), `"msg":"request"`) + strings.Count(log.String(), "msg=request ")
		if requestsLogged > requests || requestsLogged == 0 {
			t.Errorf("%d requests made %d events as %s", requests, requestsLogged, format)
		}
	}
}

// TestStrangersLearnNothingOfTheHost: /readyz says that the journal cannot be written, but not where it is.
func TestStrangersLearnNothingOfTheHost(t *testing.T) {
	a := newAPI(t, func(o *server.Options) {
		o.Healthy = func() error {
			return &os.PathError{Op: "open", Path: "/var/lib/wakecall/journal",
				Err: syscall.ENOSPC}
		}
	})
	r := a.do("GET", "/readyz", "", "Authorization", "").problem(503, "", "journal", "no space left")
	if strings.Contains(r.body, "/var/lib") {
		t.Errorf("the answer is %s", r.body)
	}
	a.do("POST", orders, `{"body":1}`).problem(503, "", "no space left", "/var/lib") // but pushers get the error
}
