package admin_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
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
		"/topics/:topic/pause", "/topics/:topic/resume", "/topics/:topic/probe",
		"/topics/:topic/jobs", "/topics/:topic/matching",
		"/topics/:topic/errors/clear", "/topics/:topic/test",
		"/topics/:topic/jobs/:id", "/groups/:group", "/push", "/dead/redrive", "/dead/delete", "/dead/selected", "/tasks/:id/cancel",
		"/tasks/:id/continue",
		"/schedules/:schedule/pause", "/schedules/:schedule/resume", "/schedules/:schedule/run",
		"/schedules/:schedule/backfill",
		"/shards/:name/state", "/processes/restart", "/alerts/handle",
	}
	// pagesAbove are pages that not every user may see, with the role they need.
	pagesAbove = map[string]account.Role{
		"/access": account.RoleAdmin, "/alerts/settings": account.RoleAdmin, "/topics/-/new": account.RoleAdmin,
		"/topics/:topic/edit": account.RoleAdmin, "/topics/check/name": account.RoleAdmin,
		"/access/tokens/:id": account.RoleAdmin, "/topics/-/export": account.RoleAdmin,
		"/shards/-/new":      account.RoleAdmin,
		"/shards/:name/edit": account.RoleAdmin, "/push": account.RoleOperator, "/push/settings": account.RoleOperator,
		"/topics/:topic/test": account.RoleOperator, "/schedules/-/new": account.RoleAdmin,
		"/schedules/:schedule/edit": account.RoleAdmin, "/schedules/:schedule/backfill": account.RoleOperator,
	}
	openPages = []string{"/login", "/healthz", "/assets/:name", "/events"}
)

// changes lists echo's routes that change state: all but GET and the not-found handler.
func changes(s *admintest.Site) [][2]string {
	var list [][2]string
	for _, r := range s.Admin.Routes() {
		if r.Method != http.MethodGet && r.Method != echo.RouteNotFound {
			list = append(list, [2]string{r.Method, r.Path})
		}
	}
	return list
}

// at replaces the parameters of a path.
func at(path string) string {
	return strings.NewReplacer(":topic", "shop.close", ":name", "look", ":id", "1", ":kind", "rates", ":group", "order-42", ":schedule",
		"report").
		Replace(path)
}

// TestEveryChangeNeedsItsRole tests the registered routes, so that a new one cannot be forgotten: it needs an admin
// unless the lists above say otherwise, and other users get 403 before anything else of the request is read.
func TestEveryChangeNeedsItsRole(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	stranger := admintest.NewClient()
	stranger.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	changes := changes(s)
	if len(changes) < 30 {
		t.Fatalf("there are %d routes that change state", len(changes))
	}
	for _, role := range []account.Role{"", account.RoleViewer, account.RoleOperator} {
		switch role {
		case account.RoleViewer:
			s.As("look")
		case account.RoleOperator:
			s.As("ops")
		default:
			s.Client = stranger
		}
		for _, route := range changes {
			method, path := route[0], route[1]
			if slices.Contains(forEverybody, path) || role == account.RoleOperator && slices.Contains(forOperators,
				path) {
				continue
			}
			status, _ := s.Do(method, at(path), "name", "x", "role", "admin", "password", "0123456789")
			if want := map[bool]int{true: http.StatusSeeOther,
				false: http.StatusForbidden}[role == ""]; status != want {
				t.Errorf("%s %s as %q: %d, want %d", method, path, role, status, want)
			}
		}
	}
	if users, err := s.Registry.ListUsers(t.Context()); err != nil || len(users) != 3 {
		t.Errorf("there are now %d users: %v", len(users), err)
	}
}

// TestTheListsOfRolesAreTrue: their routes exist, so that renaming a route does not leave its old name in them.
func TestTheListsOfRolesAreTrue(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	have := map[string]bool{}
	for _, r := range s.Admin.Routes() {
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
	s := admintest.Open(t, nil)
	for _, who := range []string{"", "look", "ops"} {
		s.Client = admintest.NewClient()
		if who != "" {
			s.As(who)
		}
		s.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for _, r := range s.Admin.Routes() {
			if r.Method != http.MethodGet || slices.Contains(openPages, r.Path) {
				continue
			}
			need := pagesAbove[r.Path]
			status, _ := s.Get(at(r.Path))
			switch {
			case who == "" && status != http.StatusSeeOther:
				t.Errorf("%s without a session: %d", r.Path, status)
			case who != "" && need != "" && !(who == "ops" && need == account.RoleOperator) &&
				status != http.StatusForbidden:
				t.Errorf("%s for %s: %d, want 403", r.Path, who, status)
			case who != "" && need == "" && status == http.StatusForbidden:
				t.Errorf("%s for %s: 403; add it to pagesAbove", r.Path, who)
			}
		}
	}
}

// TestNoPageChangesAnything: a GET can be sent from any site, so none may write to the registry.
func TestNoPageChangesAnything(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	before := s.Registry.Snapshot().Revision
	audited := func() int {
		trail, err := s.Registry.Audit(t.Context(), registry.AuditFilter{})
		if err != nil {
			t.Fatal(err)
		}
		return len(trail)
	}
	had := audited()
	for _, r := range s.Admin.Routes() {
		if r.Method == http.MethodGet && r.Path != "/events" {
			s.Get(at(r.Path) + "?do=delete&choice=dark&name=x&drop=1&role=admin")
		}
	}
	s.Registry.Refresh(t.Context())
	if after := s.Registry.Snapshot().Revision; after != before || audited() != had {
		t.Errorf("pages changed the registry: revision %d to %d, %d entries of the audit to %d", before, after, had,
			audited())
	}
}

// TestStrangersWriteNothing: no request without a session stores one; otherwise anybody could fill the database.
func TestStrangersWriteNothing(t *testing.T) {
	t.Parallel()
	db := &admintest.FlakyStore{}
	s := admintest.Open(t, func(o *admin.Options) {
		db.SessionStore = o.Sessions
		o.Sessions = db
	})
	for _, r := range s.Admin.Routes() {
		if r.Method == echo.RouteNotFound || r.Path == "/events" {
			continue
		}
		form := []string{"username", "nobody", "password", "wrong password", "choice", "dark", "code", "000000",
			"name", "x", "next", "/topics", "back", "/login"}
		for _, method := range []string{r.Method, http.MethodPost} {
			s.Client = admintest.NewClient()
			s.Do(method, at(r.Path), form...)
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
	s := admintest.Open(t, nil)
	for _, user := range []string{"look", "ops", "root"} {
		s.As(user)
		tried := map[string]bool{"/logout": true}
		for _, page := range []string{"/", "/topics", "/dead", "/tasks", "/shards", "/alerts", "/processes", "/audit",
			"/account", "/search?id=push"} {
			_, body := s.Get(page)
			for _, link := range linked.FindAllStringSubmatch(body, -1) {
				if path := link[1]; !tried[path] && !strings.HasPrefix(path, "/assets/") {
					tried[path] = true
					if status, _ := s.Get(path); status == http.StatusForbidden {
						t.Errorf("%s offers %s to %s, which is not permitted", page, path, user)
					}
				}
			}
		}
		if user == "look" {
			s.AddTopic("shop.close") // other paths have one
		}
	}
}

// TestNoNameIsHiddenByAnAddressOfTheAdmin: the forms and the export have addresses that no topic or shard can have.
func TestNoNameIsHiddenByAnAddressOfTheAdmin(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	for _, r := range s.Admin.Routes() {
		of, name, found := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		if r.Method != http.MethodGet || !found || strings.ContainsAny(name, "/:*") {
			continue
		}
		switch of {
		case "topics":
			s.AddTopic(name)
		case "shards":
			admintest.Must(t, s.Registry.PutShard(t.Context(), "test",
				registry.Shard{Name: name, URL: "redis://127.0.0.1:1/0", State: registry.ShardOffline}))
		default:
			continue
		}
		t.Errorf("%s hides the page of %s", r.Path, name)
	}
	s.AddTopic("new")
	s.Shows("/topics/new", "<title>new ")
	shard := registry.Shard{Name: "-", URL: "redis://h", State: "active"}
	if registry.ValidTopicName("-") == nil || shard.Validate() == nil {
		t.Error("- is a name")
	}
}
