package answers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/store"
)

// Limit is how many waits a process holds at once unless Options say otherwise: about 30 KiB each, most of them for the
// connection.
const Limit = 5000

// ErrLimit is the error of a wait over the limit.
var ErrLimit = errors.New("too many pushes wait for their jobs on this server")

// Options of a Hub.
type Options struct {
	Buckets func() []*store.Bucket
	Changed <-chan struct{} // receives when Buckets may have changed; nil: never
	Limit   int             // 0: Limit
}

// Hub tells those who wait for a job to read it. Run must run while others use it.
type Hub struct {
	opts    Options
	entered chan struct{} // closed when the first wait comes
	once    sync.Once

	mu    sync.Mutex
	open  int
	waits map[store.Ref][]*Wait
}

// New makes a Hub.
func New(o Options) *Hub {
	if o.Limit == 0 {
		o.Limit = Limit
	}
	return &Hub{opts: o, entered: make(chan struct{}), waits: map[store.Ref][]*Wait{}}
}

// Open returns how many waits there are.
func (h *Hub) Open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}

// Wait is a wait for the end of one job. Told receives when the job may have ended, or be gone: it is to be read then.
type Wait struct {
	Told chan struct{}
	hub  *Hub
	ref  store.Ref
}

// Enter begins a wait, before the push of the job. Leave must end it. Error: ErrLimit.
func (h *Hub) Enter(ref store.Ref) (*Wait, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open >= h.opts.Limit {
		return nil, ErrLimit
	}
	h.once.Do(func() { close(h.entered) })
	w := &Wait{Told: make(chan struct{}, 1), hub: h, ref: ref}
	h.open, h.waits[ref] = h.open+1, append(h.waits[ref], w)
	return w, nil
}

// Leave ends the wait.
func (w *Wait) Leave() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
	h.waits[w.ref] = slices.DeleteFunc(h.waits[w.ref], func(other *Wait) bool { return other == w })
	if len(h.waits[w.ref]) == 0 {
		delete(h.waits, w.ref)
	}
}

// Tell tells those who wait for a job.
func (h *Hub) Tell(ref store.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waits[ref] {
		select {
		case w.Told <- struct{}{}:
		default:
		}
	}
}

// All waits are notified in steps, so that they do not all read their jobs at once.
const (
	tellStep  = 100
	tellPause = 10 * time.Millisecond
	pollEvery = 5 * time.Second // how often all are notified, in case a message was lost
)

func (h *Hub) tellAll(ctx context.Context) {
	h.mu.Lock()
	refs := make([]store.Ref, 0, len(h.waits))
	for ref := range h.waits {
		refs = append(refs, ref)
	}
	h.mu.Unlock()
	for some := range slices.Chunk(refs, tellStep) {
		for _, ref := range some {
			h.Tell(ref)
		}
		if !pause.For(ctx, tellPause) {
			return
		}
	}
}

// Run serves waits until ctx is done.
func (h *Hub) Run(ctx context.Context) error {
	var poll sync.WaitGroup
	defer poll.Wait()
	poll.Go(func() {
		for pause.For(ctx, pollEvery) {
			h.tellAll(ctx)
		}
	})
	store.RunEach(ctx, h.opts.Buckets, h.opts.Changed, h.listen)
	return nil
}

// listen listens to a bucket once there is a wait.
func (h *Hub) listen(ctx context.Context, b *store.Bucket) {
	select {
	case <-ctx.Done():
		return
	case <-h.entered:
	}
	ended := b.EndedJobs(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-ended:
			if w.Kind == store.WakeReconnect {
				h.tellAll(ctx)
				continue
			}
			topic, id, _ := strings.Cut(w.About, "/")
			h.Tell(store.Ref{Topic: topic, ID: id})
		}
	}
}
