package jobs_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
)

func TestAWrongPushIsShownAtItsField(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.As("ops")
	for field, pairs := range map[string][]string{
		"does not exist":  {"topic", "nobody", "body", "1"},
		"not JSON":        {"topic", "shop.close", "body", "{"},
		"is not a delay":  {"topic", "shop.close", "body", "1", "delay", "soon"},
		"is not an id":    {"topic", "shop.close", "body", "1", "id", " x"},
		"key&#34; is not": {"topic", "shop.close", "body", "1", "key", " key"},
		"between 1 and":   {"topic", "shop.close", "body", "1", "max_attempts", "many"},
		"not &#34;x&#34;": {"topic", "shop.close", "body", "1", "priority", "x"},
	} {
		if status, body := s.Post("/push", pairs...); status != http.StatusUnprocessableEntity ||
			!strings.Contains(body, field) {
			t.Errorf("%v: %d, without %q", pairs, status, field)
		}
	}
	s.Post("/push", "topic", "shop.close", "body", "1", "id", "twice", "delay", "1h", "key", "customer-42")
	if j, err := q.Get(t.Context(), "shop.close", "twice"); err != nil || j.Key != "customer-42" {
		t.Errorf("pushed with a key: %+v, %v", j, err)
	}
	if status, body := s.Post("/push", "topic", "shop.close", "body", "1", "id", "twice", "on_duplicate",
		"error"); status != http.StatusConflict || !strings.Contains(body, "already exists") {
		t.Errorf("a duplicate: %d", status)
	}
}

// TestAPushHereIsAsOneThroughTheAPI: the same limits apply, those of the configuration and of pull topics, and topics
// of a namespace are accepted, but not the namespace itself.
func TestAPushHereIsAsOneThroughTheAPI(t *testing.T) {
	t.Parallel()
	q := admintest.RealQueue(t)
	s := admintest.Open(t, func(o *admin.Options) {
		o.Queue = observe.Figures{Queue: q}
		o.Config.Server.MaxBody = 1000
	}).As("ops")
	for _, name := range []string{"film.render", "team.*"} {
		topic := registry.NewTopic(name)
		topic.Delivery = registry.DeliveryPull
		_, err := s.Registry.PutTopic(t.Context(), "test", topic)
		admintest.Must(t, err)
	}
	push := func(topic, attempts, body string) (int, string) {
		return s.Post("/push", "topic", topic, "max_attempts", attempts, "body", body, "delay", "1h")
	}
	for _, topic := range []string{"film.render", "team.mail"} {
		if status, body := push(topic, "65535", "1"); status != http.StatusOK {
			t.Errorf("65,535 attempts of %s: %d\n%s", topic, status, body)
		}
	}
	for want, sent := range map[string][3]string{
		"is a namespace":                 {"team.*", "", "1"},
		"1000":                           {"film.render", "", `"` + strings.Repeat("x", 1000) + `"`},
		"between 1 and 65535, not 65536": {"film.render", "65536", "1"},
	} {
		if status, body := push(sent[0], sent[1], sent[2]); status != http.StatusUnprocessableEntity ||
			!strings.Contains(body, want) {
			t.Errorf("%d, without %s", status, want)
		}
	}
}

// TestThePushFormShowsWhatApplies: the topic's settings, or its namespace's, except where the form sets its own, and
// that the topic is paused. A push that sets no delay gets the topic's.
func TestThePushFormShowsWhatApplies(t *testing.T) {
	t.Parallel()
	q := admintest.RealQueue(t)
	s := admintest.Open(t, func(o *admin.Options) { o.Queue = observe.Figures{Queue: q} }).As("ops")
	shop, team := registry.NewTopic("shop.close"), registry.NewTopic("team.*")
	shop.CallbackURL, shop.Delay, shop.RateLimit = "http://127.0.0.1:1/x", registry.Duration(40*time.Minute), 7
	shop.MaxAttempts, shop.State = 4, registry.TopicPaused
	team.Delivery = registry.DeliveryPull
	for _, topic := range []registry.Topic{shop, team} {
		_, err := s.Registry.PutTopic(t.Context(), "test", topic)
		admintest.Must(t, err)
	}
	admintest.Must(t, s.Registry.SetPauseReason(t.Context(), "test", "shop.close", "The shop moves"))
	own := `<span class="badge bg-blue-lt">set here</span>`
	for query, want := range map[string][]string{
		"/push?topic=shop.close": {"<dd>40m</dd>", "<dd>normal</dd>", "<dd>4</dd>", "<dd>7</dd>",
			"POST http://127.0.0.1:1/<wbr>x", "Paused: pushes are accepted", "The shop moves"},
		"/push/settings?topic=shop.close&delay=5s&max_attempts=2&priority=high": {"<dd>5s " + own, "<dd>2 " + own,
			"<dd>high " + own},
		"/push/settings?topic=team.mail": {"<dd>pull</dd>", "namespace team.*"},
		"/push/settings?topic=nobody":    {"no such topic"},
		"/push":                          {"Enter a topic"},
	} {
		s.Shows(query, want...)
	}
	s.Post("/push", "topic", "shop.close", "id", "late", "body", "1")
	j, err := q.Get(t.Context(), "shop.close", "late")
	if err != nil || time.Until(j.DueAt) < 30*time.Minute {
		t.Errorf("the job is due at %v, %v", j.DueAt, err)
	}
}
