package admin

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"

	"github.com/wakecall/wakecall/registry"
)

// SessionStore is where sessions live: the registry.
type SessionStore interface {
	scs.CtxStore
	scs.IterableCtxStore
}

// steadyStore goes on for a while with the sessions last seen when the registry's database is away: that is when somebody has to look. While
// it is there, it is asked each time, so that a session that was ended elsewhere has ended here. What hardly changed is not written.
type steadyStore struct {
	SessionStore
	now func() time.Time

	mu    sync.Mutex
	known map[string]knownSession // by the token's hash
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

func newSteadyStore(s SessionStore, now func() time.Time) *steadyStore {
	return &steadyStore{SessionStore: s, now: now, known: map[string]knownSession{}}
}

func (s *steadyStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	data, found, err := s.SessionStore.FindCtx(ctx, token)
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.known[token]
	switch {
	case errors.Is(err, registry.ErrUnavailable) && ok && s.now().Sub(k.seen) < sessionSteady:
		return k.data, true, nil
	case err != nil:
		return nil, false, err
	case !found:
		delete(s.known, token)
		return nil, false, nil
	}
	if !bytes.Equal(k.data, data) {
		k.expiry = time.Time{} // another host wrote it
	}
	k.data, k.seen = data, s.now()
	s.keep(token, k)
	return data, true, nil
}

// CommitCtx writes a session that changed, or whose end moved by a step.
func (s *steadyStore) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	s.mu.Lock()
	k, ok := s.known[token]
	s.mu.Unlock()
	if ok && bytes.Equal(k.data, data) && expiry.Sub(k.expiry).Abs() < expiryStep {
		return nil
	}
	err := s.SessionStore.CommitCtx(ctx, token, data, expiry)
	if err != nil && (!ok || !errors.Is(err, registry.ErrUnavailable)) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil { // the database is away: the change lives here until it is back
		k.data = data
		s.keep(token, k)
		return nil
	}
	s.keep(token, knownSession{data, expiry, s.now()})
	return nil
}

func (s *steadyStore) DeleteCtx(ctx context.Context, token string) error {
	s.mu.Lock()
	delete(s.known, token)
	s.mu.Unlock()
	return s.SessionStore.DeleteCtx(ctx, token)
}

// keep bounds the memory. The lock is held.
func (s *steadyStore) keep(token string, k knownSession) {
	if _, ok := s.known[token]; !ok && len(s.known) >= maxKnown {
		for old := range s.known {
			delete(s.known, old)
			break
		}
	}
	s.known[token] = k
}
