package admin

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// TestAFormSaysAllThatIsWrong: every invalid field has its message, and the input stays.
func TestAFormSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("root")
	for path, sent := range map[string]struct{ fields, messages []string }{
		"/topics/-/new": {
			[]string{"name", "No Name", "callback_url", "ftp://h", "ttr", "soon", "max_attempts", "many", "max_in_flight",
				"-1", "emails", "nobody", "title", "Kept title"},
			[]string{"is not a valid name", "must start with http:// or https://", "must be a duration",
				"is not a number", "between 0 and 100000, not -1", "is not a mail address", "Kept title"},
		},
		"/topics/-/new?again": {
			form("name", "x", "headers", "X-A: 1\nno colon"), []string{"&#34;no colon&#34; has no colon"},
		},
		"/topics/-/new?twice": {
			form("name", "x", "headers", "X-A: 1\nX-A: 2"), []string{"&#34;X-A&#34; is a duplicate"},
		},
		"/push": {
			[]string{"topic", "nowhere", "id", " x", "body", "{", "delay", "soon", "max_attempts", "0"},
			[]string{"does not exist", "is not an id", "not JSON", "is not a delay", "between 1 and 1000, not 0"},
		},
		"/access/users": {
			[]string{"name", "No Name", "password", "short", "role", "king"},
			[]string{"is not a valid user name", "10 to 72"},
		},
		"/access/tokens": {
			[]string{"name", "", "topics", "No!"},
			[]string{"required: who or what uses the token", "required: one or more of push", "is not a pattern"},
		},
		"/account/password":  {[]string{"current", password, "password", "0123456789"}, []string{"do not match"}},
		"/alerts/recipients": {[]string{"recipients", "nobody"}, []string{"is not a mail address"}},
		"/shards/-/new": {
			[]string{"name", "No Name", "url", "http://h"},
			[]string{"is not a valid name", "it does not begin with"},
		},
	} {
		status, body := s.post(path, sent.fields...)
		if status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, status)
		}
		back := regexp.MustCompile(`action="/language"><input type="hidden" name="back" value="([^"]*)"`).
			FindStringSubmatch(body)
		if again, _ := s.post("/language", "choice", "en", "back", html.UnescapeString(back[1])); again != http.StatusOK {
			t.Errorf("%s: a choice of the language leads to %d", path, again)
		}
		for _, m := range sent.messages {
			if !strings.Contains(body, m) {
				t.Errorf("%s does not say %q", path, m)
			}
		}
	}
}

// TestAWrongWebhookStays: its fields keep the input, and it is not shown as added.
func TestAWrongWebhookStays(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	status, body := s.post("/alerts/webhooks", "webhooks.name", "on-call", "preset", "feishu", "webhooks.url",
		"ftp://bot.example/hook", "webhooks.template", `{"a": 1}`)
	for _, want := range []string{`value="on-call"`, `value="ftp://bot.example/hook"`, `<option value="feishu" selected>`,
		"No webhooks yet.", "must start with http:// or https://"} {
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, want) {
			t.Errorf("%d, without %s", status, want)
		}
	}
	if _, body := s.post("/alerts/rules", "lateness", "soon", "backlog_age", "never"); strings.Count(body,
		"is not a duration such as") < 2 {
		t.Error("not every wrong limit has its message")
	}
}

// TestANewTokenIsMadeOnceAndShownOnce: the page that shows it can be reloaded without creating another token, and the
// database never contains it.
func TestANewTokenIsMadeOnceAndShownOnce(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, body := s.post("/access/tokens", "name", "shop", "rights", "push", "topics", "*"); status !=
		http.StatusSeeOther {
		t.Fatalf("status %d, so a reload would send the form again\n%s", status, body)
	}
	id := fmt.Sprint(s.registry.ListTokens()[0].ID)
	sessions, err := account.NewSessions(s.registry.DB()).All(t.Context())
	must(t, err)
	_, body := s.get("/access/tokens/" + id)
	secret := regexp.MustCompile(`value="(wk_[^"]+)"`).FindStringSubmatch(body)
	if len(secret) == 0 {
		t.Fatalf("the token is not shown\n%s", body)
	}
	for _, session := range sessions {
		if strings.Contains(string(session), secret[1]) {
			t.Error("a session in the database has the token")
		}
	}
	if status, body := s.get("/access/tokens/" + id); status != http.StatusSeeOther || strings.Contains(body, secret[1]) {
		t.Errorf("the second time it is %d\n%s", status, body)
	}
	if n := len(s.registry.ListTokens()); n != 1 {
		t.Errorf("there are %d tokens", n)
	}
}

// TestAFormSurvivesItsSession: a form that is sent after the session has expired is available again after the login.
func TestAFormSurvivesItsSession(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	store := account.NewSessions(s.registry.DB())
	sessions, err := store.All(t.Context())
	must(t, err)
	for token := range sessions {
		_, err := store.Delete(t.Context(), token)
		must(t, err)
	}
	typed := form("name", "shop.mail", "title", "Typed for ten minutes")
	status, body := s.post("/topics/-/new", append(typed, "password", "do not keep me")...)
	if status != http.StatusUnauthorized || !strings.Contains(body, "Your session expired") ||
		!strings.Contains(body, "Typed for ten minutes") || strings.Contains(body, "do not keep me") {
		t.Fatalf("%d\n%s", status, body)
	}
	kept := []string{"username", "root", "password", password}
	for _, field := range regexp.MustCompile(`name="(kept[^"]+)" value="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		kept = append(kept, field[1], field[2])
	}
	if status, body = s.post("/login", kept...); status != http.StatusOK ||
		!strings.Contains(body, `action="/topics/-/new"`) ||
		!strings.Contains(body, `name="title" value="Typed for ten minutes"`) {
		t.Errorf("after the login: %d\n%s", status, body)
	}
}

func TestNothingSelectedIsNotASuccess(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	_, body := s.as("ops").post("/dead/selected", "do", "retry")
	if !strings.Contains(body, "No jobs selected") || strings.Contains(body, "are ready again") {
		t.Errorf("it says\n%s", body)
	}
}

func TestAWrongCursorIsARequestsFault(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("look")
	for _, path := range []string{"/dead?topic=shop.close&cursor=zzz", "/topics/shop.close?tab=jobs&cursor=zzz",
		"/topics/shop.close?tab=jobs&state=ready&cursor=zzz~1"} {
		if status, body := s.get(path); status != http.StatusBadRequest {
			t.Errorf("%s: %d\n%s", path, status, body)
		}
	}
}

// TestDelayedJobsAreListedByTheirTimes, over several pages, whatever the order of the pushes.
func TestDelayedJobsAreListedByTheirTimes(t *testing.T) {
	t.Parallel()
	s, q := shop(t)
	s.as("look")
	const jobs = 230
	var pushes []queue.Push
	for i := range jobs { // some near, most far, each three hundred seconds after the one before
		delay := 40 + (i*337)%jobs*7
		pushes = append(pushes, queue.Push{Topic: "shop.close", ID: fmt.Sprintf("due-%05d", delay), Body: []byte(`1`),
			Delay: time.Duration(delay) * time.Second})
	}
	for _, r := range q.PushBatch(t.Context(), pushes) {
		must(t, r.Err)
	}
	var ids []string
	for path := "/topics/shop.close?tab=jobs&state=delayed"; path != ""; {
		body := s.shows(path)
		for _, m := range regexp.MustCompile(`>(due-\d+)</a>`).FindAllStringSubmatch(body, -1) {
			ids = append(ids, m[1])
		}
		next := regexp.MustCompile(`href="([^"]*cursor=[^"]*)">Next`).FindStringSubmatch(body)
		if path = ""; next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if len(ids) != jobs || !slices.IsSorted(ids) {
		t.Errorf("%d of %d jobs, in order: %v\n%v", len(ids), jobs, slices.IsSorted(ids), ids)
	}
}

// awayEditor stores nothing, as while the database is unavailable.
type awayEditor struct{ page.Editor }

func (awayEditor) PutTopic(context.Context, string, registry.Topic, ...registry.Condition) (bool, error) {
	return false, registry.ErrUnavailable
}

// TestAFormWaitsForTheDatabase: the page that says that the database is unavailable contains the input, which can be
// sent again from there, without passwords.
func TestAFormWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.Editor = awayEditor{o.Editor} }).as("root")
	status, body := s.post("/topics/-/new?from=a", form("name", "shop.mail", "title", "Typed <b>", "password", "x-y-z")...)
	for _, want := range []string{`action="/topics/-/new?from=a"`, `name="title" value="Typed &lt;b&gt;"`, "Try again"} {
		if status != http.StatusServiceUnavailable || !strings.Contains(body, want) {
			t.Errorf("%d, without %s:\n%s", status, want, body)
		}
	}
	if strings.Contains(body, "x-y-z") {
		t.Error("a password is in the page")
	}
}

// TestAPushHereIsAsOneThroughTheAPI: the same limits apply, those of the configuration and of pull topics, and topics
// of a namespace are accepted, but not the namespace itself.
func TestAPushHereIsAsOneThroughTheAPI(t *testing.T) {
	t.Parallel()
	q := realQueue(t)
	s := open(t, func(o *Options) {
		o.Queue = q
		o.Config.Server.MaxBody = 1000
	}).as("ops")
	for _, name := range []string{"film.render", "team.*"} {
		topic := registry.NewTopic(name)
		topic.Delivery = registry.DeliveryPull
		_, err := s.registry.PutTopic(t.Context(), "test", topic)
		must(t, err)
	}
	push := func(topic, attempts, body string) (int, string) {
		return s.post("/push", "topic", topic, "max_attempts", attempts, "body", body, "delay", "1h")
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

// TestAPageOutlivesItsSession: a part that a page requests after the session has ended does not replace the page, in
// which something may be typed, but says so at its top. So does an error in what a form of the page sends.
func TestAPageOutlivesItsSession(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, role := range []string{"", "look"} {
		want, says := http.StatusUnauthorized, `href="/login"`
		if role != "" {
			s.as(role)
			want, says = http.StatusForbidden, "Requires the role admin."
		}
		res, body := s.part("/alerts/mail", "mail.host", "h")
		if h := res.Header; res.StatusCode != want || h.Get("HX-Redirect") != "" || h.Get("HX-Retarget") != "#wk-flash" ||
			h.Get("HX-Reselect") == "" || !strings.Contains(body, says) {
			t.Errorf("as %q: %d %v\n%s", role, res.StatusCode, h, body)
		}
	}
}
