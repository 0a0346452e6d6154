package access

import (
	"bytes"
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
// was ended elsewhere has ended here, too. A session that hardly changed is not written.
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
	data   []byte
	expiry time.Time // as it was stored
	seen   time.Time
}

const (
	sessionSteady = 10 * time.Minute // without the database
	expiryStep    = time.Minute      // by which the end of a session may lag behind
	maxKnown      = 10_000
)

func newSteadyStore(s page.SessionStore, now func() time.Time) *steadyStore {
	known, _ := lru.New[string, knownSession](maxKnown) // which only fails for no sessions
	return &steadyStore{sessions: s, now: now, known: known}
}

// openedSession is the session that a request found in the store.
type openedSession struct {
	token string // its hash
	data  []byte // as it was then
}

type openedKey struct{}

// withOpened makes room for the session that a request will find.
func withOpened(ctx context.Context) context.Context {
	return context.WithValue(ctx, openedKey{}, &openedSession{})
}

// opened is the session that the request found; the zero one: it found none.
func opened(ctx context.Context) openedSession {
	if o, ok := ctx.Value(openedKey{}).(*openedSession); ok {
		return *o
	}
	return openedSession{}
}

// FindCtx implements scs.CtxStore.
func (s *steadyStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	data, found, err := s.find(ctx, token)
	if o, ok := ctx.Value(openedKey{}).(*openedSession); ok && found {
		o.token, o.data = token, data
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
	if !bytes.Equal(k.data, data) {
		k.expiry = time.Time{} // another host wrote it
	}
	k.data, k.seen = data, s.now()
	s.known.Add(token, k)
	return data, true, nil
}

// CommitCtx writes a session that changed, or whose end moved by a step. What the request did not change is as another
// request may have changed it meanwhile: a message for the next page must not get lost.
func (s *steadyStore) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	k, ok := s.known.Get(token)
	if o := opened(ctx); ok && o.token == token && bytes.Equal(o.data, data) {
		data = k.data
	}
	if ok && bytes.Equal(k.data, data) && expiry.Sub(k.expiry).Abs() < expiryStep {
		return nil
	}
	err := s.write(ctx, token, data, expiry)
	if err != nil && (!ok || !errors.Is(err, registry.ErrUnavailable)) {
		return err
	}
	if err != nil { // the database is away: the change lives here until it is back
		k.data = data
		s.known.Add(token, k)
		return nil
	}
	s.known.Add(token, knownSession{data, expiry, s.now()})
	return nil
}

func (s *steadyStore) write(ctx context.Context, token string, data []byte, expiry time.Time) error {
	if opened(ctx).token != token {
		return s.sessions.Create(ctx, token, data, expiry)
	}
	_, err := s.sessions.Update(ctx, token, data, expiry) // one that has ended is found out by the next request
	return err
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
