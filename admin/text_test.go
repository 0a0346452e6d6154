package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// TestHostileWordsAreInert: untrusted text is text on every page that shows it, never markup.
func TestHostileWordsAreInert(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	const evil = `"'><script>alert(1)</script><img src=x onerror=alert(1)>`
	escaped := url.QueryEscape(evil)
	for _, path := range []string{
		"/topics?q=" + escaped, "/topics/" + url.PathEscape(evil), "/topics/x/jobs/" + url.PathEscape(evil),
		"/search?id=" + escaped, "/dead?q=" + escaped,
		"/audit?q=" + escaped, "/login?next=" + escaped, "/push?topic=" + escaped, "/" + url.PathEscape(evil),
		"/topics?sort=" + escaped + "&page=" + escaped,
	} {
		if _, body := s.Get(path); strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") {
			t.Errorf("%s shows markup from the request", path)
		}
	}
	s.Client = admintest.NewClient()
	if _, body := s.Post("/login", "username", evil, "password", "wrong password", "next", evil); strings.Contains(body,
		"<script>alert") {
		t.Error("the sign-in shows a name as markup")
	}
}

// evil would add an element, or an attribute, wherever it was written unescaped.
const evil = `"'></pre></textarea></script></title><wk-evil onevil="1"></wk-evil><svg onload="alert(1)">` +
	`<script>alert(1)</script>` + "` onevil=1 ' onevil=1 \" onevil=1 {{evil}}"

// evilQueue has jobs whose user-supplied values are all evil.
type evilQueue struct {
	*admintest.Queue
	job store.Job
}

func (q *evilQueue) Get(context.Context, string, string, ...store.State) (*store.Job, error) {
	j := q.job
	return &j, nil
}

func (q *evilQueue) List(context.Context, string, store.State, string, int) ([]store.Job, string, error) {
	return []store.Job{q.job}, "", nil
}

func (q *evilQueue) Find(context.Context, []store.Ref) ([]*store.Job, error) {
	return []*store.Job{&q.job, &q.job}, nil
}

// checkPage requires that a page has no trace of evil in its elements, and a page.Policy that would stop it anyway.
func checkPage(t *testing.T, what string, res *http.Response) string {
	t.Helper()
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Errorf("%s is %d", what, res.StatusCode)
	}
	if csp := res.Header.Get("Content-Security-Policy"); csp != page.Policy ||
		res.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s has the page.Policy %q and %q", what, csp, res.Header.Get("X-Content-Type-Options"))
	}
	if kind := res.Header.Get("Content-Type"); !strings.EqualFold(kind, "text/html; charset=utf-8") {
		t.Errorf("%s has the type %q", what, kind)
	}
	root, err := html.Parse(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		inline := n.Data == "script" && n.FirstChild != nil
		for _, a := range n.Attr {
			inline = inline || strings.HasPrefix(a.Key, "on") ||
				strings.HasPrefix(strings.TrimSpace(strings.ToLower(a.Val)), "javascript:")
		}
		if n.Data == "wk-evil" || inline {
			t.Errorf("%s has the element %s with %v", what, n.Data, n.Attr)
		}
	}
	return string(text)
}

// TestWhatIsStoredIsText: bodies, ids, types, errors and answers that are pages, pictures, scripts or binary data are
// shown as text on every page with jobs, whatever their content type.
func TestWhatIsStoredIsText(t *testing.T) {
	t.Parallel()
	asJSON, err := json.Marshal(map[string]string{evil: evil})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for kind, body := range map[string]string{
		"text/html":        "<!doctype html>" + evil,
		"image/svg+xml":    `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)">` + evil + `</svg>`,
		"application/json": string(asJSON), "application/octet-stream": evil + "\x00\xff\xfe" + evil,
		"text/plain": strings.Repeat(evil, 1000), evil: "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
	} {
		q := &evilQueue{Queue: &admintest.Queue{ByTopic: map[string]store.Stats{"shop.close": {Dead: 1, Delayed: 1}}},
			job: store.Job{
				Topic: "shop.close", ID: evil, State: store.Dead, Body: []byte(body), ContentType: kind,
				DeadReason: evil,
				DueAt:      now, CreatedAt: now, DeadAt: now,
				Attempts: 1, History: []store.Attempt{{N: 1, StartedAt: now.UnixMilli(), Status: 500, Error: evil,
					Answer: evil}},
			}}
		s := admintest.Open(t, func(o *admin.Options) { o.Queue = q })
		topic := registry.NewTopic("shop.close")
		topic.CallbackURL, topic.Title, topic.Owner, topic.RetryIf = "http://127.0.0.1:1/?"+url.QueryEscape(evil), evil,
			evil, `body == "<wk-evil>"`
		if _, err := s.Registry.PutTopic(t.Context(), "token/"+evil, topic); err != nil {
			t.Fatal(err)
		}
		s.As("root")
		for _, path := range []string{
			"/topics/shop.close/jobs/" + url.PathEscape(evil), "/topics/shop.close?tab=jobs&state=dead",
			"/dead?topic=shop.close", "/search?id=" + url.QueryEscape(evil),
			"/topics", "/topics/shop.close", "/topics/shop.close/edit", "/topics/shop.close/test", "/audit",
			"/push?topic=shop.close", "/",
		} {
			res, err := s.Client.Get(s.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			text := checkPage(t, path+" with "+kind[:min(len(kind), 20)], res)
			if strings.Contains(path, "/jobs/") && !strings.Contains(text, "&lt;wk-evil") && !strings.Contains(text,
				"ADw") {
				t.Errorf("%s does not show the body", path)
			}
		}
	}
}

// TestWhatIsDownloadedIsNoPage: the only file that the admin offers is downloaded, not displayed.
func TestWhatIsDownloadedIsNoPage(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL, topic.Title = "http://127.0.0.1:1/", evil
	if _, err := s.Registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
	res, err := s.Client.Get(s.URL + "/topics/-/export")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if d := res.Header.Get("Content-Disposition"); !strings.HasPrefix(d, "attachment;") ||
		res.Header.Get("Content-Type") != "application/yaml" ||
		res.Header.Get("X-Content-Type-Options") != "nosniff" ||
		res.Header.Get("Content-Security-Policy") != page.Policy {
		t.Errorf("the export has %v", res.Header)
	}
}

// TestPathsLeadNowhereElse: only embedded assets are served, and names in paths are names, however dots, slashes and
// NUL are encoded.
func TestPathsLeadNowhereElse(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	s.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, way := range []string{
		"..", "%2e%2e", "../../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd",
		`..\..\etc\passwd`, "..%5c..%5cetc%5cpasswd", "/etc/passwd", "%2fetc%2fpasswd",
		"app.css%00.html", "%00", ".", "", "....//etc/passwd", "%252e%252e%252fetc%252fpasswd", "~root", "C:%5cwindows",
		"dist/../templates.go", "%c0%ae%c0%ae/etc/passwd",
	} {
		for _, before := range []string{"/assets/", "/topics/", "/topics/-/export?topic=", "/shards/", "/charts/",
			"/tasks/",
			"/topics/x/jobs/"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			path, query, _ := strings.Cut(before+way, "?")
			r.URL.Opaque, r.URL.RawQuery = path, query // unchanged, not cleaned by the client
			status, body := s.Send(r)
			if strings.Contains(body, "root:x:") || strings.Contains(body, "package web") ||
				status >= http.StatusInternalServerError {
				t.Errorf("%s%s is %d: %.200s", before, way, status, body)
			}
			if before == "/assets/" && status == http.StatusOK {
				t.Errorf("%s%s was served as an asset", before, way)
			}
		}
	}
}

// TestAUserAgentIsText in the lists of sessions, where an admin sees those of all users.
func TestAUserAgentIsText(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(time.Minute) // later than the creation of the test's users
	s := admintest.Open(t, func(o *admin.Options) { o.Now = func() time.Time { return now } }).As("look")
	now = now.Add(2 * time.Minute) // so that it is recorded again
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/topics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", evil+"\xff\u2028\u009b")
	s.Send(r)
	for _, path := range []string{"/account", "/access"} {
		if path == "/access" {
			s.As("root")
		}
		res, err := s.Client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if text := checkPage(t, path, res); !strings.Contains(text, "&lt;wk-evil") {
			t.Errorf("%s does not show the agent", path)
		}
	}
}
