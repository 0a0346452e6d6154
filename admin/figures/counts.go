package figures

import (
	"context"
	"sync"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/queue"
)

// statsCache keeps the counts of all topics for a moment: sorting 5,000 topics by a count reads Redis once, not at
// every click.
type statsCache struct {
	mu  sync.Mutex
	at  time.Time
	all map[string]queue.Stats
}

const statsFresh = 3 * time.Second

func (h *Handler) AllStats(ctx context.Context) (map[string]queue.Stats, error) {
	b := &h.counted
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all != nil && h.Now().Sub(b.at) < statsFresh {
		return b.all, nil
	}
	all, err := h.opts.Queue.Stats(ctx, page.TopicNames(h.Snapshot()))
	if err != nil && !queue.IsPartial(err) {
		return nil, err
	}
	b.all, b.at = all, h.Now()
	return all, err
}
