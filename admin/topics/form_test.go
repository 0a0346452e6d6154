package topics_test

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func TestATopicIsRegisteredChangedAndDeleted(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.As("root")
	status, body := s.Post("/topics/-/new",
		admintest.TopicForm("name", "shop.mail", "title", "<script>alert(1)</script>", "retry", "10s, 1m", "headers",
			"X-A: b\nX-C: d",
			"sign", "on")...)
	if status != http.StatusOK || !strings.Contains(body, "whsec_") || strings.Contains(body, "<script>alert") {
		t.Fatalf("created: %d\n%s", status, body)
	}
	if body := s.Shows("/topics/shop.mail", "shop.mail"); strings.Contains(body, "whsec_") {
		t.Error("the secret is shown a second time")
	}
	x := s.Registry.Snapshot().Topics.Get("shop.mail")
	if x == nil || len(x.Secrets) != 1 || x.Headers["X-C"] != "d" || len(x.Retry) != 2 || x.MaxAttempts != 3 {
		t.Fatalf("it is stored as %+v", x)
	}
	if status, body := s.Post("/topics/shop.mail/edit",
		admintest.TopicForm("retry_if", "res.code !=", "title",
			"Mails")...); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "column") || !strings.Contains(body, "Mails") {
		t.Errorf("a wrong expression: %d\n%s", status, body)
	}
	s.Post("/topics/shop.mail/edit", admintest.TopicForm("title", "Mails", "durability", "replica")...)
	if x := s.Registry.Snapshot().Topics.Get("shop.mail"); x.Title != "Mails" ||
		x.Durability != registry.DurabilityReplica ||
		len(x.Secrets) != 1 || len(x.Retry) != 0 {
		t.Errorf("after the change it is %+v", x)
	}
	if _, body := s.Get("/topics/shop.mail/edit"); !strings.Contains(body, `<option value="replica" selected>`) {
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
	_, opened := s.Get("/topics/shop.mail/edit")
	if status, _ := s.Post("/topics/shop.mail/edit",
		admintest.TopicForm("title", "Theirs", "etag", etagOf(opened))...); status != http.StatusOK {
		t.Errorf("the first edit: %d", status)
	}
	status, body = s.Post("/topics/shop.mail/edit", admintest.TopicForm("title", "Yours", "etag", etagOf(opened))...)
	if status != http.StatusConflict || !strings.Contains(body, "Theirs") || !strings.Contains(body, "Yours") ||
		s.Registry.Snapshot().Topics.Get("shop.mail").Title != "Theirs" {
		t.Errorf("the second edit: %d\n%s", status, body)
	}
	s.Post("/topics/shop.mail/edit", admintest.TopicForm("title", "Yours", "durability", "replica", "etag",
		etagOf(body))...)
	if x := s.Registry.Snapshot().Topics.Get("shop.mail"); x.Title != "Yours" {
		t.Errorf("after the second user saw both versions, it is %+v", x)
	}
	if status, body := s.Post("/topics/-/new", admintest.TopicForm("name",
		"shop.mail")...); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "already") {
		t.Errorf("the same name again: %d", status)
	}
	s.Post("/topics/shop.mail/secret")
	if x := s.Registry.Snapshot().Topics.Get("shop.mail"); len(x.Secrets) != 2 {
		t.Errorf("after the rotation it has %d secrets", len(x.Secrets))
	}
	if _, body := s.Get("/topics/shop.mail"); !strings.Contains(body, "The old one will be dropped: <time") ||
		!strings.Contains(body, "in 23h 5") && !strings.Contains(body, "in 1d") && !strings.Contains(body, "24h") {
		t.Errorf("the page does not count the overlap down")
	}
	s.Post("/topics/shop.mail/secret/overlap", "overlap", "1h")
	if _, body := s.Get("/topics/shop.mail"); !strings.Contains(body, "in 5") && !strings.Contains(body, "in 1h") {
		t.Errorf("the overlap was not shortened")
	}
	if status, _ := s.Post("/topics/shop.mail/secret/overlap", "overlap", "soon"); status != http.StatusBadRequest {
		t.Errorf("a wrong overlap got %d", status)
	}
	s.Post("/topics/shop.mail/secret/drop")
	if x := s.Registry.Snapshot().Topics.Get("shop.mail"); len(x.Secrets) != 1 {
		t.Errorf("after the old one was dropped it has %d secrets", len(x.Secrets))
	}
	q.Push(t.Context(), store.Push{Topic: "shop.mail", ID: "1", Delay: time.Hour})
	if _, body := s.Post("/topics/shop.mail/delete"); !strings.Contains(body, "still has jobs (1)") ||
		s.Registry.Snapshot().Topics.Get("shop.mail") == nil {
		t.Errorf("deleting with jobs: %s", body)
	}
	daily := registry.NewSchedule("daily")
	daily.Topic, daily.Cron, daily.Body = "shop.mail", "@daily", []byte("1")
	change := func(to *registry.Schedule) {
		t.Helper()
		_, err := s.Registry.ChangeSchedule(t.Context(), "me", "put", "daily",
			func(*registry.Schedule) (*registry.Schedule, error) { return to, nil },
			func(context.Context, *registry.Schedule, *registry.Schedule) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	change(&daily)
	if _, body := s.Post("/topics/shop.mail/delete", "drop", "on"); !strings.Contains(body, "has schedules: daily") {
		t.Errorf("deleting with schedules: %s", body)
	}
	if _, err := q.Get(t.Context(), "shop.mail", "1"); err != nil {
		t.Errorf("a refused deletion dropped the job: %v", err)
	}
	change(nil)
	s.Post("/topics/shop.mail/delete", "drop", "on")
	if _, err := q.Get(t.Context(), "shop.mail", "1"); err == nil ||
		s.Registry.Snapshot().Topics.Get("shop.mail") != nil {
		t.Error("the topic or its job still exists")
	}
}

// TestTheLimitsOfKeysAreFields: those of per_key are stored, shown, corrected and removed one by one.
func TestTheLimitsOfKeysAreFields(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	s.AddTopic("shop.close")
	post := func(flight, rate, skip string) (int, string) {
		t.Helper()
		return s.Post("/topics/shop.close/edit", admintest.TopicForm("per_key.max_in_flight", flight,
			"per_key.rate_limit", rate, "per_key.skip_retrying", skip)...)
	}
	post("1", "0.5", "true")
	want := registry.PerKey{MaxInFlight: 1, RateLimit: 0.5, SkipRetrying: true}
	if k := s.Registry.Snapshot().Topics.Get("shop.close").PerKey; k == nil || *k != want {
		t.Errorf("stored as %+v", k)
	}
	s.Shows("/topics/shop.close", "1 at a time, 0.5/s, those that wait for a retry are skipped")
	s.Shows("/topics/shop.close/edit", `name="per_key.max_in_flight" type="number" value="1"`,
		`name="per_key.rate_limit" type="text" value="0.5"`, `name="per_key.skip_retrying" value="true" checked`)
	for field, bad := range map[string][3]string{
		"max_in_flight 1: the rate": {"2", "1", ""}, "between 1 and 1000": {"0", "0", ""},
		"not a number": {"1", "many", ""}, "required with": {"", "1", ""}, "one at a time": {"", "", "true"},
	} {
		status, body := post(bad[0], bad[1], bad[2])
		if status != http.StatusUnprocessableEntity ||
			!regexp.MustCompile(`invalid-feedback d-block[^>]*>[^<]*`+field).MatchString(body) {
			t.Errorf("%v: %d, without %q", bad, status, field)
		}
	}
	post("", "0", "")
	if k := s.Registry.Snapshot().Topics.Get("shop.close").PerKey; k != nil {
		t.Errorf("not removed: %+v", k)
	}
}

// TestRareFieldsAreUnderAdvanced: each card's rare fields are shown at first only if one of them differs from its
// default or has an error.
func TestRareFieldsAreUnderAdvanced(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	s.AddTopic("plain")
	replica, form := registry.NewTopic("replica"), registry.NewTopic("form")
	replica.CallbackURL, replica.Durability = "http://127.0.0.1:1/x", registry.DurabilityReplica
	form.CallbackURL, form.ContentType = "http://127.0.0.1:1/x", "form"
	for _, topic := range []registry.Topic{replica, form} {
		_, err := s.Registry.PutTopic(t.Context(), "test", topic)
		admintest.Must(t, err)
	}
	cards := func(body string) (open []bool) {
		for _, m := range regexp.MustCompile(`<details class="mb-3"( open)?><summary[^>]*>Advanced`).
			FindAllStringSubmatch(body, -1) {
			open = append(open, m[1] != "")
		}
		return open
	}
	for path, want := range map[string][]bool{
		"/topics/-/new": {false, false}, "/topics/plain/edit": {false, false},
		"/topics/replica/edit": {false, true}, "/topics/form/edit": {true, false},
	} {
		if _, body := s.Get(path); !slices.Equal(cards(body), want) {
			t.Errorf("%s: open are %v; want %v", path, cards(body), want)
		}
	}
	usual := admintest.TopicForm("headers", "", "expires_after", "0s", "on_expiry", "dead", "remember", "last", "durability", "memory",
		"shard", "", "dialect", "wakecall", "retry_if", "")
	_, body := s.Post("/topics/plain/edit", append([]string{"ttr", "soon"}, usual...)...)
	if got := cards(body); !slices.Equal(got, []bool{false, false}) {
		t.Errorf("an error elsewhere opens %v", got)
	}
	_, body = s.Post("/topics/plain/edit", append([]string{"headers", "no colon"}, usual...)...)
	if got := cards(body); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("a wrong header opens %v", got)
	}
}

func TestFieldsAreCheckedWhileTheyAreWritten(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("root")
	s.Shows("/topics/check/name?name=free.name", "available")
	s.Shows("/topics/check/name?name=shop.close", "already")
	s.Shows("/topics/check/name?name=Bad+Name", "text-danger")
	for expression, want := range map[string]string{"res.code != 200": "would be a success",
		"res.code == 200": "would be a failure", "res.code =!": "column"} {
		if _, body := s.Post("/topics/check/retry_if", "retry_if", expression, "sample_status", "200", "sample_body",
			`{"code":200}`); !strings.Contains(body, want) {
			t.Errorf("%s: %s", expression, body)
		}
	}
	if _, body := s.Post("/topics/check/retry", "retry", "", "max_attempts", "4"); !strings.Contains(body, "5m later") {
		t.Errorf("the preview: %s", body)
	}
	if _, body := s.Post("/topics/check/retry", "retry", "soon", "max_attempts", "4"); !strings.Contains(body,
		"text-danger") {
		t.Errorf("the preview of invalid input: %s", body)
	}
}
