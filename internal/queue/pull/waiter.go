package pull

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// manyAtOnce is how many waiters take after a call has found that there are more jobs.
const manyAtOnce = 64

// line holds the waiters of a topic, the longest-waiting first.
type line struct{ waiters list.List }

// waiter is one waiting worker.
type waiter struct {
	hub    *Hub
	ask    store.TakeRequest
	wake   chan struct{}
	places []*list.Element // in the lines of ask.Topics
	uses   []use           // counted by hub.limiter

	// pending are the buckets signaled since they were last asked, or that did not answer. Guarded by hub.mu.
	pending map[*store.Bucket]bool

	// Used by the worker's goroutine alone:
	asks     *queue.Asks
	answered bool      // some bucket has
	again    time.Time // when to ask all shards; zero: only after a signal
}

// enter lets a worker wait, or returns a *LimitError.
func (h *Hub) enter(ctx context.Context, r Request) (*waiter, error) {
	w := &waiter{
		hub: h, ask: r.TakeRequest, wake: make(chan struct{}, 1), pending: map[*store.Bucket]bool{},
		uses: usesOf(&r, store.ViaOf(ctx), h.namespace),
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
	w.asks = queue.NewAsks(ctx, r.TakeRequest, w.begun)
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
	for _, at := range w.asks.Close() { // the next waiter takes what this one does not get
		w.keep(at.Bucket)
	}
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
	for b := range unused {
		for _, topic := range w.ask.Topics {
			h.signal(b, topic, 1)
		}
	}
}

// signal signals the first n waiters of a topic that have no signal of this bucket yet.
func (h *Hub) signal(b *store.Bucket, topic string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.topics[topic]
	if l == nil {
		return
	}
	for e := l.waiters.Front(); e != nil && n > 0; e = e.Next() {
		w := e.Value.(*waiter)
		if w.pending[b] {
			continue
		}
		w.pending[b] = true
		n--
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// waitedFor returns the topics of a bucket that workers wait for.
func (h *Hub) waitedFor(b *store.Bucket) (topics []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for topic := range h.topics {
		if b.Shard().BucketOf(topic) == b {
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

// take asks all buckets, and then those that are signaled, until it has jobs. When over or stopping is ready, it waits
// only for buckets that it is asking. It fails when none answers.
func (w *waiter) take(ctx context.Context, over <-chan time.Time, stopping <-chan struct{}) ([]store.Job, error) {
	for ended := false; !ended || !w.asks.Done(); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over:
			ended = true
		case <-stopping:
			ended, stopping = true, nil
		case <-w.retry():
			w.askAll()
		case <-w.wake:
			w.askSignaled()
		case <-w.asks.Late():
			w.asks.Proceed()
		case a := <-w.asks.Answers():
			if jobs, err := w.receive(a); len(jobs) > 0 || err != nil {
				return jobs, err
			}
		}
	}
	return nil, nil
}

// askAll asks all buckets.
func (w *waiter) askAll() {
	w.again = time.Time{}
	w.asks.Add(w.hub.opts.Queue.Shards.Divide(w.ask.Topics, w.ask.Order))
}

// askSignaled asks the buckets that were signaled.
func (w *waiter) askSignaled() {
	w.hub.mu.Lock()
	signaled := maps.Clone(w.pending)
	w.hub.mu.Unlock()
	if len(signaled) == 0 {
		return
	}
	list := w.hub.opts.Queue.Shards.Divide(w.ask.Topics, w.ask.Order)
	w.asks.Add(slices.DeleteFunc(list, func(at queue.BucketTopics) bool { return !signaled[at.Bucket] }))
}

// begun notes that a bucket is asked: it will know the topics as awaited, and its signal is used.
func (w *waiter) begun(at queue.BucketTopics) {
	w.hub.note(at.Bucket, at.Topics)
	w.hub.mu.Lock()
	delete(w.pending, at.Bucket)
	w.hub.mu.Unlock()
}

// keep keeps the signal of a bucket that did not answer, for the next waiter: such a bucket sends no more until a
// worker asks it.
func (w *waiter) keep(b *store.Bucket) {
	w.hub.mu.Lock()
	w.pending[b] = true
	w.hub.mu.Unlock()
}

// receive uses the answer of a bucket. If it says that there are more jobs, other waiters for them are signaled. An
// error of the script ends the wait: asking again would not help.
func (w *waiter) receive(a queue.Answer) ([]store.Job, error) {
	w.asks.Received(a)
	if unavailable(a.Err) {
		w.keep(a.Bucket)
		w.askAgain(unavailablePause) // it has not stored the awaited topics
		w.asks.Proceed()
		if !w.answered && w.asks.Done() {
			return nil, a.Err
		}
		return nil, nil
	}
	if a.Err != nil {
		return nil, a.Err
	}
	w.answered = true
	for _, topic := range a.More {
		w.hub.signal(a.Bucket, topic, manyAtOnce)
	}
	w.askAgain(a.Retry)
	if len(a.Jobs[0]) > 0 {
		return a.Jobs[0], nil
	}
	w.asks.Proceed()
	w.askSignaled() // while they were asked
	return nil, nil
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
