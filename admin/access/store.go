package access

import (
	"context"
	"errors"
	"time"

	"github.com/alexedwards/scs/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/registry"
)

// steadyStore is the store of the session manager. While the database is unavailable, it serves the sessions seen last
// for a while: that is when operators need the pages. Otherwise each request reads the database, so that a session that
// was ended elsewhere has ended here, too.
//
// A request that found its session in the store may only update it: an insert would revive a session that ended
// meanwhile.
type steadyStore struct {
	scs.Store // nil: the manager calls the methods that take a context
	sessions  page.SessionStore
	now       func() time.Time

	known *lru.Cache[string, knownSession] // by the token's hash
}

type knownSession struct {
	data []byte
	seen time.Time
}

const (
	sessionSteady = 10 * time.Minute // without the database
	maxKnown      = 10_000
)

func newSteadyStore(s page.SessionStore, now func() time.Time) *steadyStore {
	known, _ := lru.New[string, knownSession](maxKnown) // which only fails for no sessions
	return &steadyStore{sessions: s, now: now, known: known}
}

type openedKey struct{}

// withOpened makes room for the session that a request will find.
func withOpened(ctx context.Context) context.Context {
	return context.WithValue(ctx, openedKey{}, new(string))
}

// opened is the hash of the token of the session that the request found; empty: it found none.
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

// CommitCtx writes a session that a request changed.
func (s *steadyStore) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	k, ok := s.known.Get(token)
	err := s.write(ctx, token, data, expiry)
	if err != nil && (!ok || !errors.Is(err, registry.ErrUnavailable)) {
		return err
	}
	if err == nil {
		k.seen = s.now()
	} // else the database is away: the change lives here until it is back
	k.data = data
	s.known.Add(token, k)
	return nil
}

func (s *steadyStore) write(ctx context.Context, token string, data []byte, expiry time.Time) error {
	if opened(ctx) != token {
		return s.sessions.Create(ctx, token, data, expiry)
	}
	return s.sessions.Update(ctx, token, data, expiry) // one that has ended is found out by the next request
}

// DeleteCtx implements scs.CtxStore.
func (s *steadyStore) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.end(ctx, token)
	return err
}

// end ends a session and says whether it was there.
func (s *steadyStore) end(ctx context.Context, token string) (found bool, err error) {
	s.known.Remove(token)
	return s.sessions.Delete(ctx, token)
}
