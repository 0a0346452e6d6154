package pull

import (
	"context"

	"github.com/wakecall/wakecall/internal/store"
)

// Waiter is a waiter whose steps a test makes one by one.
type Waiter struct{ w *waiter }

// EnterVia lets a worker wait until leave is called.
func (h *Hub) EnterVia(ctx context.Context, r Request) (leave func(), err error) {
	w, err := h.enter(ctx, r)
	return func() { h.leave(w) }, err
}

// Enter lets a worker wait.
func (h *Hub) Enter(r store.TakeRequest) Waiter {
	w, err := h.enter(context.Background(), Request{TakeRequest: r})
	if err != nil {
		panic(err)
	}
	return Waiter{w}
}

// Signal signals the first waiter of a topic that has no signal of bucket 0 of the shard yet.
func (h *Hub) Signal(s *store.Shard, topic string) { h.signal(s.Buckets()[0], topic, 1) }

// AsksAgain takes from the buckets that were signaled while a shard has to be asked again, and reports whether it still
// has to be.
func (w Waiter) AsksAgain(ctx context.Context) (bool, error) {
	defer w.w.hub.leave(w.w)
	w.w.askAgain(unavailablePause)
	_, err := w.takeSignaled(ctx)
	return w.w.retry() != nil, err
}

// Take takes from the buckets that were signaled, and ends the wait.
func (w Waiter) Take(ctx context.Context) ([]store.Job, error) {
	defer w.w.hub.leave(w.w)
	return w.takeSignaled(ctx)
}

func (w Waiter) takeSignaled(ctx context.Context) ([]store.Job, error) {
	over := make(chan struct{})
	close(over)
	w.w.askSignaled()
	return w.w.take(ctx, nil, over)
}
