package access

import (
	"context"
	"errors"
	"time"

	"github.com/alexedwards/scs/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/wakecall/wakecall/internal/registry"
)

// SessionStore stores sessions by the hashes of their tokens; *account.Sessions implements it. Update does not change a
// session that has ended.
type SessionStore interface {
	Find(ctx context.Context, token string) (data []byte, found bool, err error)
	Create(ctx context.Context, token string, data []byte, expiry time.Time) error
	Update(ctx context.Context, token string, data []byte, expiry time.Time) error
	Delete(ctx context.Context, token string) (found bool, err error)
	All(ctx context.Context) (map[string][]byte, error)
}

// steadyStore is the store of the session manager. While the database is unavailable, it keeps serving recently seen
// sessions for a while, because that is when operators need the pages. Otherwise each request reads the database, so a
// session ended on another host ends here, too.
//
// A request that found its session in the store may only update it: an insert would revive a session that ended in
// the meantime.
type steadyStore struct {
	scs.Store // nil: the manager calls the methods that take a context
	sessions  SessionStore
	now       func() time.Time

	known *lru.Cache[string, knownSession] // by the token's hash
}

type knownSession struct {
	data []byte
	seen time.Time
}

const (
	sessionSteady = 10 * time.Minute // while the database is unavailable
	maxKnown      = 10_000
)

func newSteadyStore(s SessionStore, now func() time.Time) *steadyStore {
	known, _ := lru.New[string, knownSession](maxKnown) // fails only for a size of 0
	return &steadyStore{sessions: s, now: now, known: known}
}

type openedKey struct{}

// withOpened returns a context that can store which session the request finds.
func withOpened(ctx context.Context) context.Context {
	return context.WithValue(ctx, openedKey{}, new(string))
}

// opened returns the hash of the token of the session that the request found; empty if it found none.
func opened(ctx context.Context) string {
	if token, ok := ctx.Value(openedKey{}).(*string); ok {
		return *token
	}
	return ""
}

// FindCtx implements scs.CtxStore.
func (s *steadyStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	data, found, err := s.find(ctx, token)
	if o, ok := ctx.Value(openedKey{}).(*string); ok && found {
		*o = token
	}
	return data, found, err
}

func (s *steadyStore) find(ctx context.Context, token string) ([]byte, bool, error) {
	data, found, err := s.sessions.Find(ctx, token)
	k, ok := s.known.Get(token)
	switch {
	case errors.Is(err, registry.ErrUnavailable) && ok && s.now().Sub(k.seen) < sessionSteady:
		return k.data, true, nil
	case err != nil:
		return nil, false, err
	case !found:
		s.known.Remove(token)
		return nil, false, nil
	}
	s.known.Add(token, knownSession{data, s.now()})
	return data, true, nil
}

// CommitCtx stores a session that a request changed.
func (s *steadyStore) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	k, ok := s.known.Get(token)
	err := s.write(ctx, token, data, expiry)
	if err != nil && (!ok || !errors.Is(err, registry.ErrUnavailable)) {
		return err
	}
	if err == nil {
		k.seen = s.now()
	} // otherwise the database is unavailable; the change is kept here until it is back
	k.data = data
	s.known.Add(token, k)
	return nil
}

func (s *steadyStore) write(ctx context.Context, token string, data []byte, expiry time.Time) error {
	if opened(ctx) != token {
		return s.sessions.Create(ctx, token, data, expiry)
	}
	return s.sessions.Update(ctx, token, data, expiry) // the next request notices if the session has ended
}

// DeleteCtx implements scs.CtxStore.
func (s *steadyStore) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.end(ctx, token)
	return err
}

// end ends a session and reports whether it existed.
func (s *steadyStore) end(ctx context.Context, token string) (found bool, err error) {
	s.known.Remove(token)
	return s.sessions.Delete(ctx, token)
}
