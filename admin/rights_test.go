package admin

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry"
)

// Requests that a role may send besides its own sign-in. A new route must be added here with its roles; all others need
// an admin.
var (
	forEverybody = []string{
		"/login", "/login/code", "/logout", "/language", "/theme", "/zone",
		"/account/password", "/account/totp/begin", "/account/totp/finish", "/account/totp/clear",
		"/account/sessions/:id/end", "/account/sessions/end",
	}
	forOperators = []string{
		"/topics/:topic/pause", "/topics/:topic/resume", "/topics/:topic/jobs", "/topics/:topic/matching",
		"/topics/:topic/errors/clear", "/topics/:topic/test",
		"/topics/:topic/jobs/:id", "/push", "/dead/redrive", "/dead/delete", "/dead/selected", "/tasks/:id/cancel",
		"/shards/:name/state", "/processes/restart", "/alerts/handle",
	}
	// pagesAbove are pages that not every user may see, with the role they need.
	pagesAbove = map[string]account.Role{
		"/access": account.RoleAdmin, "/alerts/settings": account.RoleAdmin, "/topics/-/new": account.RoleAdmin,
		"/topics/:topic/edit": account.RoleAdmin, "/topics/check/name": account.RoleAdmin,
		"/access/tokens/:id": account.RoleAdmin, "/topics/-/export": account.RoleAdmin, "/shards/-/new": account.RoleAdmin,
		"/shards/:name/edit": account.RoleAdmin, "/push": account.RoleOperator, "/topics/:topic/test": account.RoleOperator,
	}
	openPages = []string{"/login", "/healthz", "/assets/:name", "/events"}
)

// changes lists echo's routes that change state: all but GET and the not-found handler.
func (s *site) changes() [][2]string {
	var list [][2]string
	for _, r := range s.admin.echo.Routes() {
		if r.Method != http.MethodGet && r.Method != echo.RouteNotFound {
			list = append(list, [2]string{r.Method, r.Path})
		}
	}
	return list
}

// at replaces the parameters of a path.
func at(path string) string {
	return strings.NewReplacer(":topic", "shop.close", ":name", "look", ":id", "1", ":kind", "rates").Replace(path)
}

// TestEveryChangeNeedsItsRole tests the registered routes, so that a new one cannot be forgotten: it needs an admin
// unless the lists above say otherwise, and other users get 403 before anything else of the request is read.
func TestEveryChangeNeedsItsRole(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	stranger := newClient()
	stranger.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	changes := s.changes()
	if len(changes) < 30 {
		t.Fatalf("there are %d routes that change state", len(changes))
	}
	for _, role := range []account.Role{"", account.RoleViewer, account.RoleOperator} {
		switch role {
		case account.RoleViewer:
			s.as("look")
		case account.RoleOperator:
			s.as("ops")
		default:
			s.client = stranger
		}
		for _, route := range changes {
			method, path := route[0], route[1]
			if slices.Contains(forEverybody, path) || role == account.RoleOperator && slices.Contains(forOperators, path) {
				continue
			}
			status, _ := s.do(method, at(path), strings.NewReader("name=x&role=admin&password=0123456789"))
			if want := map[bool]int{true: http.StatusSeeOther, false: http.StatusForbidden}[role == ""]; status != want {
				t.Errorf("%s %s as %q: %d, want %d", method, path, role, status, want)
			}
		}
	}
	if users, err := s.registry.ListUsers(t.Context()); err != nil || len(users) != 3 {
		t.Errorf("there are now %d users: %v", len(users), err)
	}
}

// TestTheListsOfRolesAreTrue: their routes exist, so that renaming a route does not leave its old name in them.
func TestTheListsOfRolesAreTrue(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	have := map[string]bool{}
	for _, r := range s.admin.echo.Routes() {
		have[r.Method+" "+r.Path] = true
	}
	for _, path := range slices.Concat(forEverybody, forOperators) {
		if !have["POST "+path] {
			t.Errorf("there is no route POST %s", path)
		}
	}
	for path := range pagesAbove {
		if !have["GET "+path] {
			t.Errorf("there is no page %s", path)
		}
	}
	for _, path := range openPages {
		if !have["GET "+path] {
			t.Errorf("there is no page %s", path)
		}
	}
}

// TestEveryPageNeedsItsRole: without a session every page is the sign-in, and viewers get 403 for the pages in the map
// above.
func TestEveryPageNeedsItsRole(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, who := range []string{"", "look", "ops"} {
		s.client = newClient()
		if who != "" {
			s.as(who)
		}
		s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for _, r := range s.admin.echo.Routes() {
			if r.Method != http.MethodGet || slices.Contains(openPages, r.Path) {
				continue
			}
			need := pagesAbove[r.Path]
			status, _ := s.get(at(r.Path))
			switch {
			case who == "" && status != http.StatusSeeOther:
				t.Errorf("%s without a session: %d", r.Path, status)
			case who != "" && need != "" && !(who == "ops" && need == account.RoleOperator) && status != http.StatusForbidden:
				t.Errorf("%s for %s: %d, want 403", r.Path, who, status)
			case who != "" && need == "" && status == http.StatusForbidden:
				t.Errorf("%s for %s: 403; add it to pagesAbove", r.Path, who)
			}
		}
	}
}

// TestEveryChangeComesFromThisSite: a browser's request from another site gets 403 on every registered route, for a
// signed-in admin and for the sign-in itself, whatever its headers say about its origin.
func TestEveryChangeComesFromThisSite(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/wakecall"} {
		s := open(t, func(o *Options) { o.BasePath = base + "/" }).as("root")
		s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		host := strings.TrimPrefix(strings.TrimSuffix(s.url, base), "http://")
		foreign := []map[string]string{
			{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
			{"Sec-Fetch-Site": "cross-site", "Origin": "http://" + host},
			{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://" + host + ".evil.example"},
			{"Origin": "http://evil.example/" + host},
			{"Sec-Fetch-Site": "nonsense"},
		}
		for _, route := range s.changes() {
			for _, headers := range foreign {
				r, err := http.NewRequestWithContext(t.Context(), route[0], s.url+at(strings.TrimPrefix(route[1], base)),
					strings.NewReader("a=b"))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				for name, value := range headers {
					r.Header.Set(name, value)
				}
				if status, _ := s.send(r); status != http.StatusForbidden {
					t.Errorf("%s %s with %v: %d", route[0], route[1], headers, status)
				}
			}
		}
		if status, _ := s.get("/account"); status != http.StatusOK {
			t.Errorf("the session ended meanwhile: %d", status)
		}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/theme", strings.NewReader("choice=dark"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+host)
		if status, _ := s.send(r); status != http.StatusSeeOther {
			t.Errorf("a change from this site: %d", status)
		}
	}
}

// TestNoPageChangesAnything: a GET can be sent from any site, so none may write to the registry.
func TestNoPageChangesAnything(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	before := s.registry.Snapshot().Revision
	audited := func() int {
		trail, err := s.registry.Audit(t.Context(), registry.AuditFilter{})
		if err != nil {
			t.Fatal(err)
		}
		return len(trail)
	}
	had := audited()
	for _, r := range s.admin.echo.Routes() {
		if r.Method == http.MethodGet && r.Path != "/events" {
			s.get(at(r.Path) + "?do=delete&choice=dark&name=x&drop=1&role=admin")
		}
	}
	s.registry.Refresh(t.Context())
	if after := s.registry.Snapshot().Revision; after != before || audited() != had {
		t.Errorf("pages changed the registry: revision %d to %d, %d entries of the audit to %d", before, after, had,
			audited())
	}
}

// TestStrangersWriteNothing: no request without a session stores one; otherwise anybody could fill the database.
func TestStrangersWriteNothing(t *testing.T) {
	t.Parallel()
	db := &FlakyStore{}
	s := open(t, func(o *Options) {
		db.SessionStore = o.SessionStore
		o.SessionStore = db
	})
	for _, r := range s.admin.echo.Routes() {
		if r.Method == echo.RouteNotFound || r.Path == "/events" {
			continue
		}
		form := "username=nobody&password=wrong+password&choice=dark&code=000000&name=x&next=/topics&back=/login"
		for _, method := range []string{r.Method, http.MethodPost} {
			s.client = newClient()
			s.do(method, at(r.Path), strings.NewReader(form))
		}
	}
	if db.Writes != 0 {
		t.Errorf("%d sessions were written", db.Writes)
	}
}

var linked = regexp.MustCompile(`(?:href|action|hx-get)="(/[^"#?]*)`)

// TestNoPageOffersWhatARoleMayNot: no link or button that a user sees leads to a 403.
func TestNoPageOffersWhatARoleMayNot(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, user := range []string{"look", "ops", "root"} {
		s.as(user)
		tried := map[string]bool{"/logout": true}
		for _, page := range []string{"/", "/topics", "/dead", "/tasks", "/shards", "/alerts", "/processes", "/audit",
			"/account", "/search?id=push"} {
			_, body := s.get(page)
			for _, link := range linked.FindAllStringSubmatch(body, -1) {
				if path := link[1]; !tried[path] && !strings.HasPrefix(path, "/assets/") {
					tried[path] = true
					if status, _ := s.get(path); status == http.StatusForbidden {
						t.Errorf("%s offers %s to %s, which is not permitted", page, path, user)
					}
				}
			}
		}
		if user == "look" {
			s.topic("shop.close") // other paths have one
		}
	}
}
