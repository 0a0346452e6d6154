package admin

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/wakecall/wakecall/internal/queue"
)

// heldQueue blocks the first page after armed, while it waits for its numbers.
type heldQueue struct {
	*fakeQueue
	armed            atomic.Bool
	reached, release chan struct{}
}

func (q *heldQueue) Counts(context.Context) (map[string]queue.Stats, error) {
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
	for name, end := range map[string]func(s *site){
		"logout":          func(s *site) { s.post("/logout") },
		"password change": func(s *site) { s.as("ops").changePassword() },
		"other sessions":  func(s *site) { s.as("ops").post("/account/sessions/end") },
		"admin's reset":   func(s *site) { s.as("root").post("/access/users/ops/password", "password", "another horse") },
		"disabling":       func(s *site) { s.as("root").post("/access/users/ops/disable") },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			q := &heldQueue{fakeQueue: &fakeQueue{}, reached: make(chan struct{}), release: make(chan struct{})}
			s := open(t, func(o *Options) { o.Queue, o.Now = q, func() time.Time { return now } }).as("ops")
			stolen := s.client
			now = now.Add(2 * time.Minute) // so that the request changes its session
			q.armed.Store(true)
			ended := make(chan error, 1)
			go func() {
				res, err := stolen.Get(s.url + "/topics?sort=dead")
				if err == nil {
					err = res.Body.Close()
				}
				ended <- err
			}()
			<-q.reached
			own := *stolen // the same cookie on other connections
			s.client = &own
			end(s)
			close(q.release)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			s.client = stolen
			if name == "disabling" {
				s.client = newClient()
				s.client.Jar = stolen.Jar
			}
			if _, body := s.get("/account"); !strings.Contains(body, `name="password"`) || strings.Contains(body, "/logout") {
				t.Error("the session is still valid")
			}
		})
	}
}

func (s *site) changePassword() {
	s.post("/account/password", "current", password, "password", "another horse", "again", "another horse")
}

// TestAResetEndsASignInThatWaitsForItsCode: an attacker who knew the old password, and has yet to enter the code, must
// start again.
func TestAResetEndsASignInThatWaitsForItsCode(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	const secret = "JBSWY3DPEHPK3PXP"
	if err := s.registry.SetTOTP(t.Context(), "test", "ops", secret); err != nil {
		t.Fatal(err)
	}
	if _, body := s.post("/login", "username", "ops", "password",
		password); !regexp.MustCompile(`name="code"`).MatchString(body) {
		t.Fatalf("the code is not requested:\n%s", body)
	}
	waiting := s.client
	s.as("root").post("/access/users/ops/password", "password", "another horse")
	s.client = waiting
	code, err := totp.GenerateCode(secret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if status, body := s.post("/login/code", "code", code); status != http.StatusOK ||
		!strings.Contains(body, `name="password"`) {
		t.Errorf("the code is still accepted: %d", status)
	}
	if _, body := s.get("/account"); strings.Contains(body, "/logout") {
		t.Error("the sign-in with the old password succeeded")
	}
}
