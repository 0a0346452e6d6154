package answers

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Limit is how many waits a process holds at once unless Options say otherwise: about 20 KiB each, most of them for the
// connection.
const Limit = 5000

// ErrLimit is the error of a wait over the limit.
var ErrLimit = errors.New("too many pushes wait for their jobs on this server")

// Jobs reads jobs; a *queue.Queue is one.
type Jobs interface {
	Find(ctx context.Context, refs []store.Ref) ([]*store.Job, error)
	Get(ctx context.Context, topic, id string, also ...store.State) (*store.Job, error)
}

// Options of a Hub. Jobs is required.
type Options struct {
	Jobs    Jobs
	Buckets func() []*store.Bucket
	Changed <-chan struct{} // receives when Buckets may have changed; nil: never
	Limit   int             // 0: Limit
}

// Hub passes the ends of jobs on to those who wait. Run must run while others use it.
type Hub struct {
	opts    Options
	kick    chan struct{}
	entered chan struct{} // closed when the first wait comes
	once    sync.Once

	mu    sync.Mutex
	open  int
	waits map[store.Ref]map[*Wait]struct{}
	asked map[store.Ref]struct{} // to be read
}

// New makes a Hub.
func New(o Options) *Hub {
	if o.Limit == 0 {
		o.Limit = Limit
	}
	return &Hub{
		opts: o, kick: make(chan struct{}, 1), entered: make(chan struct{}),
		waits: map[store.Ref]map[*Wait]struct{}{}, asked: map[store.Ref]struct{}{},
	}
}

// Open returns how many waits there are.
func (h *Hub) Open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}

// Wait is a wait for the end of one job.
type Wait struct {
	hub     *Hub
	ref     store.Ref
	pushed  bool
	created time.Time
	ended   chan *store.Job
}

// Enter begins a wait, before the push of the job. Leave must end it. Error: ErrLimit.
func (h *Hub) Enter(ref store.Ref) (*Wait, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open >= h.opts.Limit {
		return nil, ErrLimit
	}
	h.once.Do(func() { close(h.entered) })
	h.open++
	w := &Wait{hub: h, ref: ref, ended: make(chan *store.Job, 1)}
	if h.waits[ref] == nil {
		h.waits[ref] = map[*Wait]struct{}{}
	}
	h.waits[ref][w] = struct{}{}
	return w, nil
}

// Pushed says which job to wait for, once it is stored: the one created then; the zero time: that is not known yet.
func (w *Wait) Pushed(created time.Time) {
	w.hub.mu.Lock()
	w.pushed, w.created = true, created
	w.hub.mu.Unlock()
	w.hub.Read(w.ref)
}

// Ended returns a channel that receives the job when it is finished or dead, or nil when it was deleted or replaced.
func (w *Wait) Ended() <-chan *store.Job { return w.ended }

// Leave ends the wait.
func (w *Wait) Leave() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.open--
	w.hub.drop(w)
}

// drop takes a wait out of the list of those that are told. h.mu is held.
func (h *Hub) drop(w *Wait) {
	if delete(h.waits[w.ref], w); len(h.waits[w.ref]) == 0 {
		delete(h.waits, w.ref)
	}
}

// Read lets a job be read, if somebody waits for it.
func (h *Hub) Read(ref store.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, waited := h.waits[ref]; waited {
		h.asked[ref] = struct{}{}
		h.wake()
	}
}

// readAll lets all jobs be read.
func (h *Hub) readAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ref := range h.waits {
		h.asked[ref] = struct{}{}
	}
	h.wake()
}

func (h *Hub) wake() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// pollEvery is how often all jobs are read, in case a message was lost.
const pollEvery = 5 * time.Second

// Run serves waits until ctx is done.
func (h *Hub) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { h.reader(ctx) })
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
				h.readAll()
				continue
			}
			topic, id, _ := strings.Cut(w.About, "/")
			h.Read(store.Ref{Topic: topic, ID: id})
		}
	}
}

// reader reads the jobs that may have ended.
func (h *Hub) reader(ctx context.Context) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			h.readAll()
		case <-h.kick:
			for refs := h.next(); len(refs) > 0 && ctx.Err() == nil; refs = h.next() {
				h.readSome(ctx, refs)
			}
		}
	}
}

// readStep is how many jobs are read at once: each may have a result of 64 KiB.
const readStep = 100

// next returns the next jobs to be read.
func (h *Hub) next() []store.Ref {
	h.mu.Lock()
	defer h.mu.Unlock()
	refs := make([]store.Ref, 0, min(len(h.asked), readStep))
	for ref := range maps.Keys(h.asked) {
		if delete(h.asked, ref); h.waits[ref] != nil {
			refs = append(refs, ref)
		}
		if len(refs) == readStep {
			break
		}
	}
	return refs
}

func (h *Hub) readSome(ctx context.Context, refs []store.Ref) {
	jobs, missed := h.opts.Jobs.Find(ctx, refs)
	for i, ref := range refs {
		job := jobs[i]
		if job == nil && missed != nil {
			continue // a shard did not answer, and may have it
		}
		if job == nil { // where no journal of an absent host may have it either
			var err error
			if job, err = h.opts.Jobs.Get(ctx, ref.Topic, ref.ID, store.Finished); err != nil && !errors.Is(err, store.ErrNotFound) {
				continue
			}
		}
		h.found(ref, job)
	}
}

// found ends the waits for a job, nil for none, unless it goes on.
func (h *Hub) found(ref store.Ref, job *store.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waits[ref] {
		is := job
		if job != nil && !w.created.IsZero() && !job.CreatedAt.Equal(w.created) {
			is = nil // another one of the same id
		}
		if !w.pushed || is == nil && w.created.IsZero() || is != nil && !Over(is) {
			continue
		}
		w.ended <- is
		h.drop(w)
	}
}

// Over reports whether a job has ended.
func Over(j *store.Job) bool { return j.State == store.Finished || j.State == store.Dead }
