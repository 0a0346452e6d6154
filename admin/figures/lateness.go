package figures

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Window is the time that success rates and latenesses describe. It is the shortest span of the history.
const Window = 15 * time.Minute

// late caches the calls of all topics by their lateness.
type late struct {
	mu    sync.Mutex
	asked time.Time
	known bool
	calls activity.Histogram
}

// Lateness returns how late the jobs of all topics were called in the Window, and how late the waiting ones are, except
// in topics that are paused or offline. While no shard answers, it returns the last known values; nil: unknown.
func (h *Handler) Lateness(ctx context.Context) activity.Histogram {
	l := &h.late
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := h.Now(); now.Sub(l.asked) >= countsFresh {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		defer cancel()
		calls, err := h.Queue.LatenessOfAll(limited, now.Add(-Window))
		if l.asked = now; h.someAnswered(err) {
			l.calls, l.known = calls, true
		}
	}
	if !l.known {
		return nil
	}
	all := activity.Histogram{}
	maps.Copy(all, l.calls)
	topics := h.Registry.Snapshot().Topics
	for name, s := range h.Counts(ctx).Topics {
		if t := topics.Get(name); t != nil && t.State == registry.TopicActive {
			all.AddWaiting(s.Ready, s.OldestReady)
		}
	}
	return all
}

// Late returns how late the topic's jobs are, those called in the Window and those waiting, in milliseconds; nil: there
// are none, or they are unknown.
func (v *Vitals) Late(waiting store.Stats) *float64 {
	all := activity.Histogram{}
	maps.Copy(all, v.calls)
	all.AddWaiting(waiting.Ready, waiting.OldestReady)
	if all.Count() == 0 {
		return nil
	}
	ms := float64(all.Quantile(0.99)) / float64(time.Millisecond)
	return &ms
}
