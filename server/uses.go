package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

// tokenUses holds the tokens used since the last take. Requests only write here, mostly without a lock; storeUses
// writes to the registry's database.
type tokenUses struct{ used sync.Map }

// note records a use. If the token is already noted, the next take covers this use, too.
func (u *tokenUses) note(id uint64) {
	if _, noted := u.used.Load(id); !noted {
		u.used.Store(id, nil)
	}
}

func (u *tokenUses) take() (ids []uint64) {
	u.used.Range(func(id, _ any) bool {
		u.used.Delete(id)
		ids = append(ids, id.(uint64))
		return true
	})
	slices.Sort(ids)
	return ids
}

const (
	storeUsesEvery = time.Minute
	lastUsesLimit  = time.Second // when the server stops
)

// storeUses stores which tokens were used, once a minute and when the server stops. Uses that cannot be stored are
// lost: the server does not wait for an unavailable database.
func (s *Server) storeUses(ctx context.Context) {
	tick := time.NewTicker(storeUsesEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.storeUsed(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastUsesLimit)
			defer cancel()
			s.storeUsed(last)
			return
		}
	}
}

func (s *Server) storeUsed(ctx context.Context) {
	ids := s.uses.take()
	if len(ids) == 0 || !s.registry.Up() {
		return
	}
	if err := s.registry.NoteTokenUses(ctx, ids, s.opts.Now()); err != nil {
		s.log.Debug("store token uses failed", "tokens", len(ids), "error", err)
	}
}
