package topics_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
)

// TestOnlyTheShownSecretIsDropped: another user has rotated the secret since the page was opened.
func TestOnlyTheShownSecretIsDropped(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("root")
	s.Post("/topics/shop.close/secret")
	s.Post("/topics/shop.close/secret")
	shown := s.Registry.Snapshot().Topics.Get("shop.close")
	s.Shows("/topics/shop.close", `name="etag" value="`+shown.ETag()+`"`)
	s.Post("/topics/shop.close/secret", "etag", shown.ETag())
	before := s.Registry.Snapshot().Topics.Get("shop.close")
	for _, do := range []string{"/secret/drop", "/secret"} {
		status, body := s.Post("/topics/shop.close"+do, "etag", shown.ETag())
		if !strings.Contains(body, "was changed in the meantime") {
			t.Errorf("%s from an outdated page: %d", do, status)
		}
	}
	if after := s.Registry.Snapshot().Topics.Get("shop.close"); !slices.Equal(after.Secrets, before.Secrets) {
		t.Error("the secrets changed")
	}
	s.Post("/topics/shop.close/secret/drop", "etag", before.ETag())
	if after := s.Registry.Snapshot().Topics.Get("shop.close"); len(after.Secrets) != 1 ||
		after.Secrets[0] != before.Secrets[0] {
		t.Errorf("%d secrets are left", len(after.Secrets))
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
	q := admintest.RealQueue(t)
	s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Caller = observe.Figures{Queue: q}, caller })
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = endpoint.URL + "/close?key=hidden1"
	topic.Headers = map[string]string{"Authorization": "Bearer hidden2", "X-Team": "shop-team"}
	if _, err := s.Registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
	s.As("ops").Post("/push", "topic", "shop.close", "id", "42", "body", `{}`, "delay", "1h")
	const test = "/topics/shop.close/test"
	for _, role := range []string{"look", "ops", "root"} {
		s.As(role)
		seen := ""
		for _, path := range []string{
			"/topics", "/topics/shop.close", "/topics/shop.close?tab=push", "/topics/shop.close?tab=summary",
			"/topics/shop.close/jobs/42", "/topics/shop.close/edit", "/topics/-/export", "/audit", test, "/",
		} {
			_, body := s.Get(path)
			seen += body
		}
		if role != "look" {
			_, one := s.Post(test, "do", "call", "body", `{}`)
			_, doctor := s.Post(test, "do", "doctor", "body", `{}`)
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
		if _, found := s.Get("/topics?q=hidden1"); strings.Contains(found, "/topics/shop.close") {
			t.Errorf("%s finds a topic by a secret", role)
		}
	}
}

// TestAWrongOverlapMakesNoSecret, because the page with a new secret is shown only once.
func TestAWrongOverlapMakesNoSecret(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1/"
	_, err := s.Registry.PutTopic(t.Context(), "test", topic)
	admintest.Must(t, err)
	secrets := func() []string { return s.Registry.Snapshot().Topics.Get("shop.close").Secrets }
	for _, overlap := range []string{"soon", "-1h", "0s", "24"} {
		for _, path := range []string{"/secret", "/secret/overlap"} {
			if status, body := s.Post("/topics/shop.close"+path, "overlap", overlap); status != http.StatusBadRequest ||
				!strings.Contains(body, overlap) {
				t.Errorf("%s with %q: %d", path, overlap, status)
			}
		}
	}
	if got := secrets(); len(got) != 0 {
		t.Errorf("there are %d secrets", len(got))
	}
	s.Post("/topics/shop.close/secret")
	first := secrets()
	_, body := s.Post("/topics/shop.close/secret", "overlap", "1h")
	both := secrets()
	if len(first) != 1 || len(both) != 2 || both[1] != first[0] ||
		!strings.Contains(html.UnescapeString(body), both[0]) {
		t.Fatalf("the secrets are %d, then %d", len(first), len(both))
	}
	_, body = s.Get("/topics/shop.close")
	if body = html.UnescapeString(body); strings.Contains(body, both[0]) || strings.Contains(body, both[1]) {
		t.Error("a secret is shown twice")
	}
	etag := s.Registry.Snapshot().Topics.Get("shop.close").ETag()
	if _, body := s.Post("/topics/shop.close/secret/drop", "etag", "another"); !strings.Contains(body,
		"alert-danger") ||
		len(secrets()) != 2 {
		t.Error("the old secret was dropped from an outdated page")
	}
	s.Post("/topics/shop.close/secret/drop", "etag", etag)
	if left := secrets(); len(left) != 1 || left[0] != both[0] {
		t.Errorf("%d secrets are left", len(left))
	}
}
