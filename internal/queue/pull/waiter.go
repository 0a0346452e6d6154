package pull

import (
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
)

// manyAtOnce is how many waiters take after a call has found that there are more jobs.
const manyAtOnce = 64

// spot is a bucket of a shard.
type spot struct {
	shard  *queue.Shard
	bucket int
}

// line holds the waiters of a topic, the longest-waiting first.
type line struct{ waiters list.List }

// waiter is one waiting worker.
type waiter struct {
	hub    *Hub
	ask    queue.TakeRequest
	wake   chan struct{}
	places []*list.Element // in the lines of ask.Topics
	uses   []use           // counted by hub.limiter

	pending map[spot]bool // spots signaled since the last take; guarded by hub.mu
	again   time.Time     // when to ask all shards; zero: only after a signal; used by the worker's goroutine alone
}

// enter lets a worker wait, or returns a *LimitError.
func (h *Hub) enter(ctx context.Context, r Request) (*waiter, error) {
	w := &waiter{
		hub: h, ask: r.TakeRequest, wake: make(chan struct{}, 1), pending: map[spot]bool{},
		uses: usesOf(&r, queue.ViaOf(ctx), h.namespace),
	}
	h.mu.Lock()
	if err := h.limiter.enter(w.uses); err != nil {
		h.mu.Unlock()
		return nil, err
	}
	h.workers++
	for _, topic := range r.Topics {
		l := h.topics[topic]
		if l == nil {
			l = &line{}
			h.topics[topic] = l
		}
		w.places = append(w.places, l.waiters.PushBack(w))
	}
	h.mu.Unlock()
	h.once.Do(func() { close(h.entered) })
	return w, nil
}

// namespace returns the name of a topic's namespace, or "".
func (h *Hub) namespace(topic string) string {
	if h.opts.Topics == nil {
		return ""
	}
	if ns := h.opts.Topics().Namespace(topic); ns != nil {
		return ns.Name
	}
	return ""
}

// leave ends a wait. Signals that this waiter has not used go to the next.
func (h *Hub) leave(w *waiter) {
	h.mu.Lock()
	for i, topic := range w.ask.Topics {
		l := h.topics[topic]
		l.waiters.Remove(w.places[i])
		if l.waiters.Len() == 0 && h.topics[topic] == l {
			delete(h.topics, topic)
		}
	}
	h.limiter.leave(w.uses)
	unused := w.pending
	h.workers--
	h.mu.Unlock()
	for at := range unused {
		for _, topic := range w.ask.Topics {
			h.signal(at, topic, 1)
		}
	}
}

// signal signals the first n waiters of a topic that have no signal of this spot yet.
func (h *Hub) signal(at spot, topic string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.topics[topic]
	if l == nil {
		return
	}
	for e := l.waiters.Front(); e != nil && n > 0; e = e.Next() {
		w := e.Value.(*waiter)
		if w.pending[at] {
			continue
		}
		w.pending[at] = true
		n--
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// waitedFor returns the topics of a bucket that workers wait for.
func (h *Hub) waitedFor(at spot) (topics []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for topic := range h.topics {
		if at.shard.BucketOf(topic) == at.bucket {
			topics = append(topics, topic)
		}
	}
	return topics
}

// Workers returns how many workers wait.
func (h *Hub) Workers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.workers
}

// Waiting returns how many workers wait for each topic.
func (h *Hub) Waiting() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := make(map[string]int, len(h.topics))
	for topic, l := range h.topics {
		counts[topic] = l.waiters.Len()
	}
	return counts
}

// takeAnywhere asks all shards. It fails when none of them answers.
func (w *waiter) takeAnywhere(ctx context.Context) ([]queue.Leased, error) {
	w.again = time.Time{}
	jobs, _, err := w.take(ctx, w.hub.opts.Queue.Spots(w.ask.Topics, w.ask.Order))
	return jobs, err
}

// takeSignaled asks the buckets that were signaled. The signals of those that it need not ask, or that do not answer,
// stay for the next waiter: these buckets send no more until a worker asks them.
func (w *waiter) takeSignaled(ctx context.Context) ([]queue.Leased, error) {
	w.hub.mu.Lock()
	told := w.pending
	w.pending = map[spot]bool{}
	w.hub.mu.Unlock()
	spots := slices.DeleteFunc(w.hub.opts.Queue.Spots(w.ask.Topics, w.ask.Order), func(at queue.Spot) bool {
		return !told[spot{at.Shard, at.Bucket}]
	})
	jobs, rest, err := w.take(ctx, spots)
	w.hub.mu.Lock()
	for _, at := range rest {
		w.pending[spot{at.Shard, at.Bucket}] = true
	}
	w.hub.mu.Unlock()
	return jobs, err
}

// take asks one bucket after the other until one has jobs, and returns the others, also those that did not answer. An
// error of the script ends it: asking again would not help.
func (w *waiter) take(ctx context.Context, spots []queue.Spot) (jobs []queue.Leased, rest []queue.Spot, err error) {
	var missed error
	answered := 0
	for i, at := range spots {
		jobs, err := w.takeFrom(ctx, at)
		if len(jobs) > 0 {
			return jobs, append(rest, spots[i+1:]...), nil
		}
		if unavailable(err) {
			missed, rest = err, append(rest, at)
			continue
		}
		if err != nil {
			return nil, append(rest, spots[i:]...), err
		}
		answered++
	}
	if missed != nil { // that bucket has not stored the awaited topics
		w.askAgain(unavailablePause)
	}
	if answered == 0 {
		return nil, nil, missed
	}
	return nil, nil, nil
}

// takeFrom asks one bucket. If the answer says that there are more jobs, other waiters for them are signaled.
func (w *waiter) takeFrom(ctx context.Context, at queue.Spot) ([]queue.Leased, error) {
	ask := w.ask
	ask.Topics = at.Topics
	w.hub.note(spot{at.Shard, at.Bucket}, at.Topics)
	taken, err := at.Shard.Take(ctx, at.Bucket, []queue.TakeRequest{ask}, at.Topics)
	if err != nil {
		return nil, err
	}
	for _, topic := range taken.More {
		w.hub.signal(spot{at.Shard, at.Bucket}, topic, manyAtOnce)
	}
	w.askAgain(taken.Retry)
	return taken.Jobs[0], nil
}

// askAgain makes the worker ask all shards after some time, unless it does so before; 0: only after a signal.
func (w *waiter) askAgain(after time.Duration) {
	if at := time.Now().Add(after); after > 0 && (w.again.IsZero() || at.Before(w.again)) {
		w.again = at
	}
}

// retry returns a channel that receives when to ask all shards; nil: never.
func (w *waiter) retry() <-chan time.Time {
	if w.again.IsZero() {
		return nil
	}
	return time.After(time.Until(w.again))
}
