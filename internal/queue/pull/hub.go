package pull

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Options of a Hub.
type Options struct {
	Queue   *queue.Queue
	Changed <-chan struct{} // receives when the queue's shards may have changed; nil: they never do
	Topics  func() *registry.Snapshot
	Limits  Limits
	Logger  *slog.Logger
}

// Request asks for jobs of pull topics, and waits for the first one.
type Request struct {
	store.TakeRequest
	Wait  time.Duration // 0: do not wait
	Token string        // of the client, for Limits.Token; "": it has none
	// Stopping is closed to end all waits, as if Wait were over. A worker whose jobs are on their way still gets them.
	// nil: never.
	Stopping <-chan struct{}
}

// Hub takes jobs for workers and ends their leases. Run must run while others use it.
type Hub struct {
	opts Options
	name string // under which it reports how many workers wait

	mu      sync.Mutex
	topics  map[string]*line
	workers int
	limiter limiter
	noted   map[*store.Bucket]map[string]int // how many waiting workers each bucket knows, see report
	entered chan struct{}                    // closed when the first waiter comes
	once    sync.Once
}

// New makes a Hub.
func New(o Options) *Hub {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Hub{
		opts: o, name: rand.Text()[:12], topics: map[string]*line{}, noted: map[*store.Bucket]map[string]int{},
		limiter: limiter{limits: o.Limits, scopes: map[scope]map[string]int{}}, entered: make(chan struct{}),
	}
}

// Run passes on the shards' wake-ups until ctx is done.
func (h *Hub) Run(ctx context.Context) error {
	store.RunEach(ctx, h.opts.Queue.Shards.Buckets, h.opts.Changed, h.serve)
	return nil
}

// refreshEvery is how often all awaited topics are renewed; their entries live longer.
const refreshEvery = 20 * time.Second

// serve listens to a bucket once there is a waiter.
func (h *Hub) serve(ctx context.Context, b *store.Bucket) {
	select {
	case <-ctx.Done():
		return
	case <-h.entered:
	}
	wake := b.PullWakeups(ctx)
	again, report := time.NewTicker(refreshEvery), time.NewTicker(reportEvery)
	defer again.Stop()
	defer report.Stop()
	defer h.forget(b)
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			h.refresh(ctx, b)
			h.report(ctx, b, true)
		case <-report.C:
			h.report(ctx, b, false)
		case w := <-wake:
			h.woken(ctx, b, w)
		}
	}
}

// reportEvery is how often the numbers of waiting workers that have changed are reported to a bucket.
const reportEvery = 2 * time.Second

// unreported is the number of workers of a topic that a bucket knows as awaited, but not yet by how many.
const unreported = -1

// note records that a bucket will know topics as awaited.
func (h *Hub) note(b *store.Bucket, topics []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	noted := h.noted[b]
	if noted == nil {
		noted = map[string]int{}
		h.noted[b] = noted
	}
	for _, topic := range topics {
		if _, known := noted[topic]; !known {
			noted[topic] = unreported
		}
	}
}

// report stores how many workers wait for each topic that a bucket knows, if that has changed or all is set, and
// removes those for which none waits any more.
func (h *Hub) report(ctx context.Context, b *store.Bucket, all bool) {
	changed := h.changed(b, all)
	if len(changed) == 0 {
		return
	}
	if err := queue.NoteWorkers(ctx, b, h.name, changed); err != nil {
		h.unreport(b, slices.Collect(maps.Keys(changed)))
	}
}

// changed returns the numbers that report stores, and takes them as reported.
func (h *Hub) changed(b *store.Bucket, all bool) map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := map[string]int{}
	for topic, reported := range h.noted[b] {
		n := 0
		if l := h.topics[topic]; l != nil {
			n = l.waiters.Len()
		}
		if n > 0 && n == reported && !all {
			continue
		}
		changed[topic], h.noted[b][topic] = n, n
		if n == 0 {
			delete(h.noted[b], topic)
		}
	}
	return changed
}

// unreport lets topics be reported again.
func (h *Hub) unreport(b *store.Bucket, topics []string) {
	h.note(b, topics)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, topic := range topics {
		h.noted[b][topic] = unreported
	}
}

// forget forgets what a bucket knows that is no longer served.
func (h *Hub) forget(b *store.Bucket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.noted, b)
}

func (h *Hub) woken(ctx context.Context, b *store.Bucket, w store.Wakeup) {
	switch w.Kind {
	case store.WakePull:
		for _, topic := range w.Topics() {
			h.signal(b, topic, 1)
		}
	case store.WakeReconnect:
		h.refresh(ctx, b)
	}
}

// refreshStep is the most topics in one call.
const refreshStep = 250

// refresh renews all awaited topics of a bucket, and lets waiters take from those with ready jobs.
func (h *Hub) refresh(ctx context.Context, b *store.Bucket) {
	for some := range slices.Chunk(h.waitedFor(b), refreshStep) {
		h.note(b, some)
		taken, err := b.Take(ctx, nil, some)
		if err != nil {
			return // another refresh follows, at the latest when the connection is back
		}
		for _, topic := range taken.More {
			h.signal(b, topic, manyAtOnce)
		}
	}
}

// Take takes up to Max jobs, and if there are none waits until there are. It returns none when Wait is over, or when
// Stopping is closed. Errors: ctx's, a *queue.UnavailableError when no shard answers, or a *LimitError if it may not
// wait for so many topics.
func (h *Hub) Take(ctx context.Context, r Request) ([]store.Job, error) {
	if r.Wait <= 0 {
		return h.opts.Queue.Take(ctx, r.TakeRequest)
	}
	over := time.NewTimer(r.Wait)
	defer over.Stop()
	w, err := h.enter(ctx, r)
	if err != nil {
		return nil, err
	}
	defer h.leave(w)
	w.askAll()
	return w.take(ctx, over.C, r.Stopping)
}

// unavailablePause is how long a waiting worker pauses after shards did not answer.
const unavailablePause = time.Second

func unavailable(err error) bool {
	var un *store.UnavailableError
	return errors.As(err, &un)
}

// End ends leases, or changes jobs that are named by their ids, like queue.End. A failed attempt is retried after the
// topic's wait.
func (h *Hub) End(ctx context.Context, list []store.End) []store.Ended {
	list = slices.Clone(list)
	for i := range list {
		e := &list[i]
		if e.Verb != store.Fail || e.Retry != nil {
			continue
		}
		topic := e.Topic
		if e.Lease != nil {
			topic = e.Lease.Topic
		}
		if t := h.opts.Topics().Topic(topic); t != nil {
			for _, d := range t.Retry {
				e.Retry = append(e.Retry, d.Std())
			}
		}
	}
	return h.opts.Queue.End(ctx, list)
}
