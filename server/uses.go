package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// tokenUses are the tokens that were used since they were last taken. Requests only write here; storeUses writes the
// registry's database.
type tokenUses struct {
	mu   sync.Mutex
	used map[uint64]struct{}
}

func (u *tokenUses) note(id uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.used == nil {
		u.used = map[uint64]struct{}{}
	}
	u.used[id] = struct{}{}
}

func (u *tokenUses) take() []uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	ids := slices.Sorted(maps.Keys(u.used))
	clear(u.used)
	return ids
}

const (
	storeUsesEvery = time.Minute
	lastUsesLimit  = time.Second // when the server stops
)

// storeUses stores once a minute, and at the end, which tokens were used. What cannot be stored is lost: nothing waits
// for a database that is away.
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
		s.log.Debug("the last uses of tokens are not stored", "tokens", len(ids), "error", err)
	}
}
