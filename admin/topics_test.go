package admin

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert/activity"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/wait"
)

// shop is an admin on a real queue, with a topic.
func shop(t *testing.T) (*site, *queue.Queue) {
	t.Helper()
	q := realQueue(t)
	s := open(t, func(o *Options) {
		o.Queue = q
		o.Activity = activity.NewReader(q)
		o.APIURL = "http://127.0.0.1:6789"
	})
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1:1/hook"
	if _, err := s.registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
	return s, q
}

func (s *site) shows(path string, words ...string) string {
	s.Helper()
	status, body := s.get(path)
	if status != http.StatusOK {
		s.Fatalf("%s answered %d:\n%s", path, status, body)
	}
	for _, w := range words {
		if !strings.Contains(body, w) {
			s.Errorf("%s does not show %q:\n%s", path, w, body)
		}
	}
	return body
}

// form has a topic's fields as the page sends them.
func form(pairs ...string) []string {
	return append([]string{"callback_url", "http://127.0.0.1:1/hook", "method", "POST", "content_type", "json",
		"priority", "normal", "ttr", "10s", "max_attempts", "3"}, pairs...)
}

func TestATopicIsRegisteredChangedAndDeleted(t *testing.T) {
	t.Parallel()
	s, q := shop(t)
	s.as("root")
	status, body := s.post("/topics/-/new",
		form("name", "shop.mail", "title", "<script>alert(1)</script>", "retry", "10s, 1m", "headers", "X-A: b\nX-C: d",
			"sign", "on")...)
	if status != http.StatusOK || !strings.Contains(body, "whsec_") || strings.Contains(body, "<script>alert") {
		t.Fatalf("created: %d\n%s", status, body)
	}
	if body := s.shows("/topics/shop.mail", "shop.mail"); strings.Contains(body, "whsec_") {
		t.Error("the secret is shown a second time")
	}
	x := s.registry.Snapshot().Topics.Get("shop.mail")
	if x == nil || len(x.Secrets) != 1 || x.Headers["X-C"] != "d" || len(x.Retry) != 2 || x.MaxAttempts != 3 {
		t.Fatalf("it is stored as %+v", x)
	}
	if status, body := s.post("/topics/shop.mail/edit",
		form("retry_if", "res.code !=", "title", "Mails")...); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "column") || !strings.Contains(body, "Mails") {
		t.Errorf("a wrong expression: %d\n%s", status, body)
	}
	s.post("/topics/shop.mail/edit", form("title", "Mails", "durability", "replica")...)
	if x := s.registry.Snapshot().Topics.Get("shop.mail"); x.Title != "Mails" ||
		x.Durability != registry.DurabilityReplica ||
		len(x.Secrets) != 1 || len(x.Retry) != 0 {
		t.Errorf("after the change it is %+v", x)
	}
	if _, body := s.get("/topics/shop.mail/edit"); !strings.Contains(body, `<option value="replica" selected>`) {
		t.Error("the form does not show the durability")
	}
	// Two users who edit a topic do not overwrite each other's changes: the second sees both versions first.
	etagOf := func(body string) string {
		m := regexp.MustCompile(`name="etag" value="([^"]+)"`).FindStringSubmatch(body)
		if m == nil {
			t.Fatal("the form has no ETag")
		}
		return m[1]
	}
	_, opened := s.get("/topics/shop.mail/edit")
	if status, _ := s.post("/topics/shop.mail/edit",
		form("title", "Theirs", "etag", etagOf(opened))...); status != http.StatusOK {
		t.Errorf("the first edit: %d", status)
	}
	status, body = s.post("/topics/shop.mail/edit", form("title", "Yours", "etag", etagOf(opened))...)
	if status != http.StatusConflict || !strings.Contains(body, "Theirs") || !strings.Contains(body, "Yours") ||
		s.registry.Snapshot().Topics.Get("shop.mail").Title != "Theirs" {
		t.Errorf("the second edit: %d\n%s", status, body)
	}
	s.post("/topics/shop.mail/edit", form("title", "Yours", "durability", "replica", "etag", etagOf(body))...)
	if x := s.registry.Snapshot().Topics.Get("shop.mail"); x.Title != "Yours" {
		t.Errorf("after the second user saw both versions, it is %+v", x)
	}
	if status, body := s.post("/topics/-/new", form("name", "shop.mail")...); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "already") {
		t.Errorf("the same name again: %d", status)
	}
	s.post("/topics/shop.mail/secret")
	if x := s.registry.Snapshot().Topics.Get("shop.mail"); len(x.Secrets) != 2 {
		t.Errorf("after the rotation it has %d secrets", len(x.Secrets))
	}
	if _, body := s.get("/topics/shop.mail"); !strings.Contains(body, "The old one will be dropped: <time") ||
		!strings.Contains(body, "in 23h 5") && !strings.Contains(body, "in 1d") && !strings.Contains(body, "24h") {
		t.Errorf("the page does not count the overlap down")
	}
	s.post("/topics/shop.mail/secret/overlap", "overlap", "1h")
	if _, body := s.get("/topics/shop.mail"); !strings.Contains(body, "in 5") && !strings.Contains(body, "in 1h") {
		t.Errorf("the overlap was not shortened")
	}
	if status, _ := s.post("/topics/shop.mail/secret/overlap", "overlap", "soon"); status != http.StatusBadRequest {
		t.Errorf("a wrong overlap got %d", status)
	}
	s.post("/topics/shop.mail/secret/drop")
	if x := s.registry.Snapshot().Topics.Get("shop.mail"); len(x.Secrets) != 1 {
		t.Errorf("after the old one was dropped it has %d secrets", len(x.Secrets))
	}
	q.Push(t.Context(), queue.Push{Topic: "shop.mail", ID: "1", Delay: time.Hour})
	if _, body := s.post("/topics/shop.mail/delete"); !strings.Contains(body, "still has jobs (1)") ||
		s.registry.Snapshot().Topics.Get("shop.mail") == nil {
		t.Errorf("deleting with jobs: %s", body)
	}
	s.post("/topics/shop.mail/delete", "drop", "on")
	if _, err := q.Get(t.Context(), "shop.mail", "1"); err == nil || s.registry.Snapshot().Topics.Get("shop.mail") != nil {
		t.Error("the topic or its job still exists")
	}
}

func TestTopicsAreFoundSortedAndPaged(t *testing.T) {
	t.Parallel()
	s, q := shop(t)
	for i := range 60 {
		x := registry.NewTopic(fmt.Sprintf("team.t%02d", i))
		x.CallbackURL, x.Owner = "http://127.0.0.1:1/", fmt.Sprint("owner", i%2)
		if _, err := s.registry.PutTopic(t.Context(), "test", x); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		q.Push(t.Context(), queue.Push{Topic: "team.t42", ID: fmt.Sprint(i), Delay: time.Hour})
	}
	s.as("look")
	if body := s.shows("/topics?q=team", "1–50 of 60"); strings.Contains(body, "team.t55") ||
		strings.Contains(body, "shop.close") {
		t.Error("the first page shows a topic of another page")
	}
	s.shows("/topics?q=team&page=2", "team.t55", "51–60 of 60")
	s.shows("/topics?q=owner1+team.t5", "team.t51", "1–5 of 5")
	body := s.shows("/topics?sort=delayed", "team.t42")
	if first := regexp.MustCompile(`href="/topics/([a-z0-9.]+)"`).FindStringSubmatch(body); first == nil ||
		first[1] != "team.t42" {
		t.Errorf("sorted by delayed jobs, the first is %v", first)
	}
	if status, _ := s.get("/topics/-/new"); status != http.StatusForbidden {
		t.Errorf("a viewer may create topics: %d", status)
	}
	if status, _ := s.get("/topics/nobody"); status != http.StatusNotFound {
		t.Errorf("an unknown topic: %d", status)
	}
}

func TestFieldsAreCheckedWhileTheyAreWritten(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("root")
	s.shows("/topics/check/name?name=free.name", "available")
	s.shows("/topics/check/name?name=shop.close", "already")
	s.shows("/topics/check/name?name=Bad+Name", "text-danger")
	for expression, want := range map[string]string{"res.code != 200": "would be a success",
		"res.code == 200": "would be a failure", "res.code =!": "column"} {
		if _, body := s.post("/topics/check/retry_if", "retry_if", expression, "sample_status", "200", "sample_body",
			`{"code":200}`); !strings.Contains(body, want) {
			t.Errorf("%s: %s", expression, body)
		}
	}
	if _, body := s.post("/topics/check/retry", "retry", "", "max_attempts", "4"); !strings.Contains(body, "5m later") {
		t.Errorf("the preview: %s", body)
	}
	if _, body := s.post("/topics/check/retry", "retry", "soon", "max_attempts", "4"); !strings.Contains(body,
		"text-danger") {
		t.Errorf("the preview of invalid input: %s", body)
	}
}

func TestAPauseHasABanner(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("ops").post("/topics/shop.close/pause", "reason", "the bank <b>sleeps</b>")
	if s.registry.Snapshot().Topics.Get("shop.close").State != registry.TopicPaused {
		t.Error("it is not paused")
	}
	body := s.shows("/topics/shop.close", "the bank &lt;b&gt;sleeps")
	s.shows("/topics", "the bank &lt;b&gt;sleeps")
	if !strings.Contains(body, "user/ops") {
		t.Error("the banner does not say who paused it")
	}
	s.post("/topics/shop.close/resume")
	if body := s.shows("/topics/shop.close"); strings.Contains(body, "sleeps") {
		t.Error("the reason stays after the pause")
	}
	if status, _ := s.as("look").post("/topics/shop.close/pause"); status != http.StatusForbidden {
		t.Errorf("a viewer may pause: %d", status)
	}
}

func TestEveryTabOfATopicShowsItsNumbers(t *testing.T) {
	t.Parallel()
	s, q := shop(t)
	s.as("ops")
	for i := range 70 {
		q.Push(t.Context(), queue.Push{Topic: "shop.close", ID: fmt.Sprint("order ", i), Body: []byte(`{}`),
			Delay: time.Hour + time.Duration(i)*time.Second})
	}
	s.shows("/topics/shop.close", "shop.close", "127.0.0.1:1/hook", "nav-link")
	body := s.shows("/topics/shop.close?tab=jobs&state=delayed", "order 0", "/topics/shop.close/jobs/order%20", "cursor=")
	if strings.Count(body, `name="job"`) != jobsOnPage {
		t.Errorf("%d jobs on a page", strings.Count(body, `name="job"`))
	}
	s.shows("/topics/shop.close?tab=attempts", "No callbacks in the last week")
	s.shows("/topics/shop.close?tab=ledger", "adds up", "70 pushed")
	s.shows("/topics/shop.close?tab=forecast", "data-chart-json")
	s.shows("/topics/shop.close?tab=push", "curl http://127.0.0.1:6789/v1/topics/shop.close/jobs", "c.Push(ctx")
	s.post("/topics/shop.close/jobs", "do", "run", "job", "order 1", "job", "order 2")
	if j, err := q.Get(t.Context(), "shop.close", "order 2"); err != nil || j.State != queue.Ready {
		t.Errorf("after run it is %+v, %v", j, err)
	}
	if _, body := s.post("/topics/shop.close/jobs", "do", "delete", "job", "order 1", "job",
		"nobody"); !strings.Contains(body, "1 of 2") {
		t.Errorf("deleting an existing and an unknown job: %s", body)
	}
}

func TestAJobIsFoundShownAndChanged(t *testing.T) {
	t.Parallel()
	s, q := shop(t)
	s.as("ops")
	if _, body := s.post("/push", "topic", "shop.close", "id", "order/42", "body", `{"n": 1}`, "delay",
		"1h"); !strings.Contains(body, "&#34;n&#34;: 1") {
		t.Errorf("after the push: %s", body)
	}
	path := "/topics/shop.close/jobs/order%2F42"
	if _, body := s.get("/search?id=order/42"); !strings.Contains(body, "order/42") ||
		!strings.Contains(body, "127.0.0.1") && !strings.Contains(body, "Due") {
		t.Errorf("the search: %s", body)
	}
	wait.For(t, "all jobs to be searched at once", func() bool { // a busy machine continues the search after the page
		_, body := s.get("/search?id=nothing")
		return strings.Contains(body, "No results")
	})
	s.post(path, "do", "due", "due_at", "2031-01-02T03:04")
	if j, err := q.Get(t.Context(), "shop.close", "order/42"); err != nil || j.DueAt.Year() != 2031 {
		t.Errorf("after the change %+v, %v", j, err)
	}
	if _, body := s.post(path, "do", "due", "due_at", "tomorrow"); !strings.Contains(body, "is not a time") {
		t.Errorf("a wrong time: %s", body)
	}
	s.post(path, "do", "run")
	if j, _ := q.Get(t.Context(), "shop.close", "order/42"); j == nil || j.State != queue.Ready {
		t.Errorf("after run it is %+v", j)
	}
	s.post(path, "do", "delete")
	if status, _ := s.get(path); status != http.StatusNotFound {
		t.Errorf("after it was deleted: %d", status)
	}
	if status, _ := s.as("look").post(path, "do", "run"); status != http.StatusForbidden {
		t.Errorf("a viewer may run jobs: %d", status)
	}
}

func TestAWrongPushIsShownAtItsField(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("ops")
	for field, pairs := range map[string][]string{
		"does not exist":  {"topic", "nobody", "body", "1"},
		"not JSON":        {"topic", "shop.close", "body", "{"},
		"is not a delay":  {"topic", "shop.close", "body", "1", "delay", "soon"},
		"is not an id":    {"topic", "shop.close", "body", "1", "id", " x"},
		"between 1 and":   {"topic", "shop.close", "body", "1", "max_attempts", "many"},
		"not &#34;x&#34;": {"topic", "shop.close", "body", "1", "priority", "x"},
	} {
		if status, body := s.post("/push", pairs...); status != http.StatusUnprocessableEntity ||
			!strings.Contains(body, field) {
			t.Errorf("%v: %d, without %q", pairs, status, field)
		}
	}
	s.post("/push", "topic", "shop.close", "body", "1", "id", "twice", "delay", "1h")
	if status, body := s.post("/push", "topic", "shop.close", "body", "1", "id", "twice", "on_duplicate",
		"error"); status != http.StatusConflict || !strings.Contains(body, "already exists") {
		t.Errorf("a duplicate: %d", status)
	}
}

// TestAnEndpointIsTried: the complete request, the answer, and the finding for an endpoint that does not check
// signatures.
func TestAnEndpointIsTried(t *testing.T) {
	t.Parallel()
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, `{"code":0,"said":"<b>"}`)
	}))
	defer endpoint.Close()
	q := realQueue(t)
	caller, err := callback.New(callback.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	s := open(t, func(o *Options) { o.Queue, o.Caller = q, caller })
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL, topic.Secrets = endpoint.URL, []string{"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
	if _, err := s.registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
	s.as("ops")
	if _, body := s.post("/topics/shop.close/test", "do", "call", "body", `{"a":1}`); !strings.Contains(body,
		"Webhook-Signature: v1,") || !strings.Contains(body, "&lt;b&gt;") {
		t.Errorf("the test callback: %s", body)
	}
	if _, body := s.post("/topics/shop.close/test", "do", "doctor", "body", `{"a":1}`); !strings.Contains(body,
		"does not verify webhook-signature") {
		t.Errorf("the doctor: %s", body)
	}
	if status, _ := s.post("/topics/shop.close/test", "do", "call", "body",
		`{`); status != http.StatusUnprocessableEntity {
		t.Errorf("a body that is no JSON: %d", status)
	}
}

// TestSecretsOfATopicAreForAdmins: the values of headers with credentials, and the query of the address, are shown only
// to users who may edit the topic: on its pages, on those of its jobs, in test calls, in the audit trail.
func TestSecretsOfATopicAreForAdmins(t *testing.T) {
	t.Parallel()
	calls := make(chan *http.Request, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { calls <- r }))
	defer endpoint.Close()
	caller, err := callback.New(callback.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	q := realQueue(t)
	s := open(t, func(o *Options) { o.Queue, o.Caller = q, caller })
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = endpoint.URL + "/close?key=hidden1"
	topic.Headers = map[string]string{"Authorization": "Bearer hidden2", "X-Team": "shop-team"}
	if _, err := s.registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
	s.as("ops").post("/push", "topic", "shop.close", "id", "42", "body", `{}`, "delay", "1h")
	const test = "/topics/shop.close/test"
	for _, role := range []string{"look", "ops", "root"} {
		s.as(role)
		seen := ""
		for _, path := range []string{
			"/topics", "/topics/shop.close", "/topics/shop.close?tab=push", "/topics/shop.close?tab=summary",
			"/topics/shop.close/jobs/42", "/topics/shop.close/edit", "/topics/-/export", "/audit", test, "/",
		} {
			_, body := s.get(path)
			seen += body
		}
		if role != "look" {
			_, one := s.post(test, "do", "call", "body", `{}`)
			_, doctor := s.post(test, "do", "doctor", "body", `{}`)
			seen += one + doctor
			if r := <-calls; r.Header.Get("Authorization") != "Bearer hidden2" || r.URL.RawQuery != "key=hidden1" {
				t.Errorf("the test call of %s was %s with %v", role, r.URL, r.Header)
			}
			if !strings.Contains(seen, "shop-team") {
				t.Errorf("%s does not see a header without a secret", role)
			}
		}
		if shown := strings.Contains(seen, "hidden1") || strings.Contains(seen, "hidden2"); shown != (role == "root") {
			t.Errorf("the secrets are shown to %s: %v", role, shown)
		}
		if _, found := s.get("/topics?q=hidden1"); strings.Contains(found, "/topics/shop.close") {
			t.Errorf("%s finds a topic by a secret", role)
		}
	}
}

// upload imports a file of topics and returns the page that follows.
func (s *site) upload(file string) string {
	s.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", "topics.yaml")
	must(s.T, err)
	_, _ = io.WriteString(part, file)
	_ = w.Close()
	res, err := s.client.Post(s.url+"/topics/import", w.FormDataContentType(), &b)
	must(s.T, err)
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

// TestTopicsGoOutAndInAsYAML: an export can be imported, and a file with an error changes nothing.
func TestTopicsGoOutAndInAsYAML(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("root")
	_, exported := s.get("/topics/-/export")
	if !strings.Contains(exported, "name: shop.close") || strings.Contains(exported, "created_at") ||
		!strings.Contains(exported, "max_attempts: 10\n") {
		t.Fatalf("exported\n%s", exported)
	}
	if body := s.upload(strings.ReplaceAll(exported, "shop.close", "shop.copy")); !strings.Contains(body,
		"1 topic was imported") || s.registry.Snapshot().Topics.Get("shop.copy") == nil {
		t.Errorf("imported: %s", body)
	}
	for _, bad := range []string{"name: a\n---\nname: b\ncallback_url: http://h\nnonsense: 1\n",
		"- callback_url: http://h\n", "{", "just text"} {
		before := s.registry.Snapshot().Topics.Len()
		if body := s.upload(bad); !strings.Contains(body, "document") || s.registry.Snapshot().Topics.Len() != before {
			t.Errorf("%q was accepted: %s", bad, body)
		}
	}
}

// TestAFileOfTopicsIsTakenAsAWhole: a file that is too large is not treated as empty, and one with a duplicate topic
// changes nothing.
func TestAFileOfTopicsIsTakenAsAWhole(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	if body := s.upload("# " + strings.Repeat("x", 5<<20)); !strings.Contains(body, "too large; the limit is 4.0 MiB") {
		t.Errorf("a large file: %s", body)
	}
	twice := "name: a\ncallback_url: http://h\n---\nname: b\ncallback_url: http://h\n---\nname: a\ncallback_url: http://i\n"
	if body := s.upload(twice); !strings.Contains(body, "the topic a twice") || s.registry.Snapshot().Topics.Len() > 0 {
		t.Errorf("a file with a topic twice: %s", body)
	}
}

// TestNoLimitOfAttemptsIsSaidSo: for a pull topic, 0 attempts are shown as no limit.
func TestNoLimitOfAttemptsIsSaidSo(t *testing.T) {
	q := realQueue(t)
	s := open(t, func(o *Options) { o.Queue = q }).as("look")
	topic := registry.NewTopic("films")
	topic.Delivery, topic.MaxAttempts = registry.DeliveryPull, 0
	_, err := s.registry.PutTopic(t.Context(), "test", topic)
	must(t, err)
	must(t, q.Push(t.Context(), queue.Push{Topic: "films", ID: "one", Body: []byte(`{}`), Delay: time.Hour}).Err)
	s.wants("/topics/films", "<dt>Attempts</dt><dd>no limit</dd>")
	s.wants("/topics/films/jobs/one", "<dt>Attempts</dt><dd>0</dd>")
}

// TestNoNameIsHiddenByAnAddressOfTheAdmin: the forms and the export have addresses that no topic or shard can have.
func TestNoNameIsHiddenByAnAddressOfTheAdmin(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	for _, r := range s.admin.echo.Routes() {
		of, name, found := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		if r.Method != http.MethodGet || !found || strings.ContainsAny(name, "/:*") {
			continue
		}
		switch of {
		case "topics":
			s.topic(name)
		case "shards":
			must(t, s.registry.PutShard(t.Context(), "test",
				registry.Shard{Name: name, URL: "redis://127.0.0.1:1/0", State: registry.ShardOffline}))
		default:
			continue
		}
		t.Errorf("%s hides the page of %s", r.Path, name)
	}
	s.topic("new")
	s.shows("/topics/new", "<title>new ")
	shard := registry.Shard{Name: "-", URL: "redis://h", State: "active"}
	if registry.ValidTopicName("-") == nil || shard.Validate() == nil {
		t.Error("- is a name")
	}
}
