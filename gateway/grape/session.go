package grape

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"
)

const (
	sessionLife = 12 * time.Hour
	maxSessions = 100 // more end the oldest ones
)

// sessionsSetting is the registry's setting with the sessions of users who are logged in, so that all hosts and
// processes know them.
const sessionsSetting = "grape.sessions"

// session is a login. It is stored under the hash of its id, so that the database lets nobody in.
type session struct {
	User string    `json:"user"`
	Ends time.Time `json:"ends"`
	// Check is of the password, so that a change of it ends the session. Its key is the session's id: without that, no
	// guess of the password can be checked.
	Check []byte `json:"check"`
}

func hashOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// check returns the Check of a session.
func (s *Web) check(id, user string) []byte {
	password, _ := s.accounts.Password(user)
	mac := hmac.New(sha256.New, []byte(id))
	mac.Write([]byte(password))
	return mac.Sum(nil)
}

// begin returns the id of a new session.
func (s *Web) begin(ctx context.Context, user string) (id string, err error) {
	id = rand.Text()
	err = s.editSessions(ctx, func(list map[string]session) {
		list[hashOf(id)] = session{user, s.now().Add(sessionLife).UTC(), s.check(id, user)}
	})
	return id, err
}

// end ends a session.
func (s *Web) end(ctx context.Context, id string) error {
	return s.editSessions(ctx, func(list map[string]session) { delete(list, hashOf(id)) })
}

func (s *Web) editSessions(ctx context.Context, edit func(map[string]session)) error {
	list := map[string]session{}
	return s.gateway.registry.EditSetting(ctx, actor, sessionsSetting, &list, func() error {
		edit(list)
		s.prune(list)
		return nil
	})
}

// prune removes the sessions that have ended, and the oldest ones of too many.
func (s *Web) prune(list map[string]session) {
	now := s.now()
	maps.DeleteFunc(list, func(_ string, x session) bool { return !now.Before(x.Ends) })
	oldest := slices.SortedFunc(maps.Keys(list), func(a, b string) int { return list[a].Ends.Compare(list[b].Ends) })
	for _, hash := range oldest[:max(0, len(oldest)-maxSessions)] {
		delete(list, hash)
	}
}

// sessions returns the stored sessions; none if they cannot be read.
func (s *Web) sessions() map[string]session {
	list := map[string]session{}
	_, _ = s.gateway.registry.Snapshot().Setting(sessionsSetting, &list)
	return list
}

// valid reports whether an id is that of a session.
func (s *Web) valid(id string) bool {
	x, found := s.sessions()[hashOf(id)]
	_, known := s.accounts.Password(x.User)
	return found && known && s.now().Before(x.Ends) && bytes.Equal(x.Check, s.check(id, x.User))
}
