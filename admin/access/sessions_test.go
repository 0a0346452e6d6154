package access_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/store"
)

func TestSessionsAreSeenAndEnded(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("look")
	s.Get("/")
	look := s.Client
	s.As("root").Get("/")
	_, body := s.Get("/access")
	if strings.Count(body, "/end\"") != 1 {
		t.Fatalf("every session except one's own should have a button:\n%s", body)
	}
	path := regexp.MustCompile(`action="(/access/sessions/[0-9a-f]+/end)"`).FindStringSubmatch(body)
	s.Post(path[1])
	s.Client = look
	if _, body := s.Get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("the session is still valid")
	}
}

func TestChangingThePasswordEndsOtherSessions(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("ops")
	s.Get("/")
	other := s.Client
	s.As("ops")
	if status, body := s.Post("/account/password", "current", "wrong password", "password", "another horse", "again",
		"another horse"); status != http.StatusUnprocessableEntity {
		t.Errorf("a wrong password got %d\n%s", status, body)
	}
	if status, body := s.Post("/account/password", "current", admintest.Password, "password", "another horse", "again",
		"another horse"); status != http.StatusOK || !strings.Contains(body, "alert-success") {
		t.Fatalf("got %d\n%s", status, body)
	}
	s.Client = other
	if _, body := s.Get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("the other session is still valid")
	}
}

// TestNobodyEndsSessionsOfOthers by their ids, and users end their own only one at a time.
func TestNobodyEndsSessionsOfOthers(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	s.Get("/")
	root := s.Client
	s.As("ops").Get("/")
	first := s.Client
	s.As("ops").Get("/")
	ends := regexp.MustCompile(`action="(/account/sessions/[0-9a-f]+/end)"`)
	ids := regexp.MustCompile(`action="/access(/sessions/[0-9a-f]+/end)"`)
	second := s.Client
	s.Client = root
	_, access := s.Get("/access")
	var all []string
	for _, found := range ids.FindAllStringSubmatch(access, -1) {
		all = append(all, "/account"+found[1])
	}
	s.Client = second
	_, account := s.Get("/account")
	mine := ends.FindAllStringSubmatch(account, -1)
	if len(mine) != 1 || len(all) != 2 {
		t.Fatalf("%d sessions can be ended here, %d by the admin", len(mine), len(all))
	}
	s.As("look")
	for _, path := range all {
		s.Post(path)
	}
	signedIn := func(c *http.Client) bool {
		s.Client = c
		_, body := s.Get("/")
		return !strings.Contains(body, `name="password"`)
	}
	if !signedIn(first) || !signedIn(second) || !signedIn(root) {
		t.Error("a viewer ended sessions of others")
	}
	s.Client = second
	s.Post(mine[0][1])
	if signedIn(first) || !signedIn(second) {
		t.Errorf("the other session is valid: %t, this one: %t", signedIn(first), signedIn(second))
	}
}

// heldQueue blocks the first page after armed, while it waits for its numbers.
type heldQueue struct {
	*admintest.Queue
	armed            atomic.Bool
	reached, release chan struct{}
}

func (q *heldQueue) Counts(context.Context) (map[string]store.Stats, error) {
	if q.armed.CompareAndSwap(true, false) {
		close(q.reached)
		<-q.release
	}
	return nil, nil
}

// TestARequestUnderWayDoesNotReviveItsSession: however a session ends during a request, its cookie is invalid
// afterwards.
func TestARequestUnderWayDoesNotReviveItsSession(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *admintest.Site){
		"logout":          func(s *admintest.Site) { s.Post("/logout") },
		"password change": func(s *admintest.Site) { changePassword(s.As("ops")) },
		"other sessions":  func(s *admintest.Site) { s.As("ops").Post("/account/sessions/end") },
		"admin's reset": func(s *admintest.Site) {
			s.As("root").Post("/access/users/ops/password", "password",
				"another horse")
		},
		"disabling": func(s *admintest.Site) { s.As("root").Post("/access/users/ops/disable") },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			q := &heldQueue{Queue: &admintest.Queue{}, reached: make(chan struct{}), release: make(chan struct{})}
			s := admintest.Open(t, func(o *admin.Options) {
				o.Queue, o.Now = q,
					func() time.Time { return now }
			}).As("ops")
			stolen := s.Client
			now = now.Add(2 * time.Minute) // so that the request changes its session
			q.armed.Store(true)
			ended := make(chan error, 1)
			go func() {
				res, err := stolen.Get(s.URL + "/topics?sort=dead")
				if err == nil {
					err = res.Body.Close()
				}
				ended <- err
			}()
			<-q.reached
			own := *stolen // the same cookie on other connections
			s.Client = &own
			end(s)
			close(q.release)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			s.Client = stolen
			if name == "disabling" {
				s.Client = admintest.NewClient()
				s.Client.Jar = stolen.Jar
			}
			if _, body := s.Get("/account"); !strings.Contains(body, `name="password"`) || strings.Contains(body,
				"/logout") {
				t.Error("the session is still valid")
			}
		})
	}
}

func changePassword(s *admintest.Site) {
	s.Post("/account/password", "current", admintest.Password, "password", "another horse", "again", "another horse")
}

// TestAnEarlierUsersSessionHasNoStream: a deleted user gets no live updates, even after another user gets the name.
func TestAnEarlierUsersSessionHasNoStream(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(-time.Hour)
	s := admintest.Open(t, func(o *admin.Options) { o.Now = func() time.Time { return now } }).As("look")
	now = time.Now().Add(time.Hour) // the cached users are outdated, and the session is an hour old
	if err := errors.Join(s.Registry.DeleteUser(t.Context(), "test", "look"),
		s.Registry.CreateUser(t.Context(), "test", "look", admintest.Password, account.RoleAdmin)); err != nil {
		t.Fatal(err)
	}
	if status, _ := s.Get("/events?on=strip"); status != http.StatusNoContent {
		t.Errorf("the stream of an earlier user got %d", status)
	}
	if _, body := s.Get("/"); !strings.Contains(body, `name="password"`) {
		t.Error("an earlier user's session is signed in")
	}
}

func TestPagesThatChangeNothingWriteNothing(t *testing.T) {
	t.Parallel()
	db := &admintest.FlakyStore{}
	s := admintest.Open(t, func(o *admin.Options) {
		db.SessionStore = o.Sessions
		o.Sessions = db
	}).As("look")
	s.Get("/")
	before := db.Writes
	for range 3 {
		s.Get("/topics")
	}
	if db.Writes != before {
		t.Errorf("three pages wrote the session %d times", db.Writes-before)
	}
	db.Away = true
	if status, _ := s.Get("/topics"); status != 200 {
		t.Errorf("without the sessions' database a page got %d", status)
	}
}

// TestWhatAPageRequestsByItselfIsNoUse: parts of a page and its charts do not prolong the session, so that a page left
// open does not keep it alive.
func TestWhatAPageRequestsByItselfIsNoUse(t *testing.T) {
	t.Parallel()
	db := &admintest.FlakyStore{}
	var later atomic.Int64
	s := admintest.Open(t, func(o *admin.Options) {
		db.SessionStore = o.Sessions
		o.Sessions = db
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	}).As("look")
	s.Get("/")
	later.Store(int64(time.Hour))
	before := db.Writes
	for name, value := range map[string]string{"HX-Request": "true", "Accept": "application/json"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/charts/rates", nil)
		admintest.Must(t, err)
		r.Header.Set(name, value)
		if status, _ := s.Send(r); status != http.StatusOK || db.Writes != before {
			t.Errorf("with %s: %d, the session was written %d times", name, status, db.Writes-before)
		}
	}
	if s.Get("/topics"); db.Writes == before {
		t.Error("a page that the user opens does not prolong the session")
	}
}
