package admin_test

import (
	"bufio"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
)

// TestChineseIsChineseThroughout: messages of other packages are translated by their codes, with their arguments.
func TestChineseIsChineseThroughout(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("root").Post("/language", "choice", "zh-Hans")
	if _, body := s.Post("/topics/-/new", "name", "b", "callback_url", "ftp://h", "ttr", "2h"); !strings.Contains(body,
		"应以 http:// 或 https:// 开头") || !strings.Contains(body, "必须在 100 毫秒 到 1 小时 之间，而不是 2 小时") {
		t.Errorf("a wrong form says\n%s", body)
	}
	if _, body := s.Get("/topics/nowhere"); !strings.Contains(body, "主题不存在") {
		t.Errorf("a topic that does not exist:\n%s", body)
	}
}

// TestEveryTimeIsAbsoluteAndRelative, on every page with times.
func TestEveryTimeIsAbsoluteAndRelative(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	q := admintest.NewDeadQueue("a", 3)
	for i := range q.Dead["a"] {
		j := &q.Dead["a"][i]
		j.DueAt, j.CreatedAt, j.DeadAt = time.Now().Add(-time.Hour), time.Now().Add(-2*time.Hour),
			time.Now().Add(-time.Minute)
		j.History[0].StartedAt = time.Now().Add(-time.Minute).UnixMilli()
	}
	s := admintest.Open(t, func(o *admin.Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Queue, o.Alerts = q, store
	}).As("root")
	s.AddTopic("a")
	admintest.SaveAlert(t, store, alert.Alert{Key: "topic/a", Kind: "breaker", Severity: alert.Critical, Topic: "a",
		BeganAt: time.Now(),
		Causes:  []alert.Cause{{Kind: "breaker", Severity: alert.Critical, BeganAt: time.Now()}}})
	admintest.Must(t, store.Save(t.Context(), &alert.Changes{Deliveries: []alert.Delivery{
		{ID: "1", Channel: "mail", Recipient: "ops@example.com", State: "sent", At: time.Now()},
	}}))
	for _, path := range []string{"/dead?topic=a", "/topics/a?tab=jobs&state=dead", "/topics/a/jobs/job-1", "/alerts",
		"/alerts/deliveries",
		"/access", "/audit", "/account"} {
		times := regexp.MustCompile(`(?s)<time.*?</time>`).FindAllString(s.Shows(path), -1)
		if len(times) == 0 {
			t.Errorf("%s shows no time", path)
		}
		for _, at := range times {
			if !strings.Contains(at, "data-at=") || !regexp.MustCompile(` ago|^now|in \d|>now`).MatchString(at) {
				t.Errorf("%s shows a time as %s", path, at)
			}
		}
	}
}

// TestAFormSaysAllThatIsWrong: every invalid field has its message, and the input stays.
func TestAFormSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("root")
	for path, sent := range map[string]struct{ fields, messages []string }{
		"/topics/-/new": {
			[]string{"name", "No Name", "callback_url", "ftp://h", "ttr", "soon", "max_attempts", "many",
				"max_in_flight",
				"-1", "emails", "nobody", "title", "Kept title"},
			[]string{"is not a valid name", "must start with http:// or https://", "must be a duration",
				"is not a number", "between 0 and 100000, not -1", "is not a mail address", "Kept title"},
		},
		"/topics/-/new?again": {
			admintest.TopicForm("name", "x", "headers", "X-A: 1\nno colon"),
			[]string{"&#34;no colon&#34; has no colon"},
		},
		"/topics/-/new?twice": {
			admintest.TopicForm("name", "x", "headers", "X-A: 1\nX-A: 2"), []string{"&#34;X-A&#34; is a duplicate"},
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
		"/account/password": {[]string{"current", admintest.Password, "password", "0123456789"},
			[]string{"do not match"}},
		"/alerts/recipients": {[]string{"recipients", "nobody"}, []string{"is not a mail address"}},
		"/shards/-/new": {
			[]string{"name", "No Name", "url", "http://h"},
			[]string{"is not a valid name", "it does not begin with"},
		},
	} {
		status, body := s.Post(path, sent.fields...)
		if status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, status)
		}
		back := regexp.MustCompile(`action="/language"><input type="hidden" name="back" value="([^"]*)"`).
			FindStringSubmatch(body)
		if again, _ := s.Post("/language", "choice", "en", "back",
			html.UnescapeString(back[1])); again != http.StatusOK {
			t.Errorf("%s: a choice of the language leads to %d", path, again)
		}
		for _, m := range sent.messages {
			if !strings.Contains(body, m) {
				t.Errorf("%s does not say %q", path, m)
			}
		}
	}
}

// A malformed request is answered with a page, without markup from the request, and without a reset of the connection.
func TestWhatIsRefusedBeforeAHandlerIsAPage(t *testing.T) {
	t.Parallel()
	addr := serving(t)
	for request, status := range map[string]int{
		"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n":                                                               400,
		"GET /login HTTP/1.1\r\n\r\n":                                                                        400,
		"GET /login HTTP/1.1\r\nHost: <script>\r\n\r\n":                                                      400,
		"<script>alert(1)</script>\r\n\r\n":                                                                  400,
		"POST /login HTTP/1.1\r\nHost: h\r\nExpect: cake\r\nContent-Length: 0\r\n\r\n":                       417,
		"POST /login HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: <b>\r\n\r\n":                                  501,
		"GET /login HTTP/1.1\r\nHost: h\r\nCookie: wk=" + strings.Repeat("x", 1<<20) + "\r\n\r\n":            431,
		"POST /login HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\nConnection: x\r\n\r\n": 400,
	} {
		c := dial(t, addr)
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		go func() { _, _ = io.WriteString(c, request) }()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%.60q: %v", request, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !strings.HasPrefix(string(body), "<!doctype html>") ||
			!strings.Contains(string(body), http.StatusText(status)) || strings.Contains(string(body), "<script>") ||
			resp.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
			resp.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%.60q: %d %v\n%s\n%v", request, resp.StatusCode, resp.Header, body, err)
		}
	}
}
