package pull

import (
	"context"

	"github.com/wakecall/wakecall/internal/queue"
)

// Waiter is a waiter whose steps a test makes one by one.
type Waiter struct{ w *waiter }

// Enter lets a worker wait.
func (h *Hub) Enter(r queue.TakeRequest) Waiter { return Waiter{h.enter(r)} }

// Signal signals the first waiter of a topic that has no signal of bucket 0 of the shard yet.
func (h *Hub) Signal(s *queue.Shard, topic string) { h.signal(spot{s, 0}, topic, 1) }

// Take takes from the buckets that were signaled, and ends the wait.
func (w Waiter) Take(ctx context.Context) ([]queue.Leased, error) {
	defer w.w.hub.leave(w.w)
	return w.w.takeSignaled(ctx)
}
