package dispatcher

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Bucket is the part of a store.Bucket that a dispatcher needs.
type Bucket interface {
	Name() string // of its shard
	Number() int
	Reserve(ctx context.Context, r store.Reserve) (store.Reserved, error)
	NothingReady(ctx context.Context) (bool, error)
	End(ctx context.Context, list []store.End) ([]store.Ended, error)
	WidenStart(ctx context.Context, took time.Duration) (window time.Duration, err error)
	Wakeups(ctx context.Context) <-chan store.Wakeup
	activity.Sink
}

// Caller makes one callback.
type Caller interface {
	Do(ctx context.Context, e *callback.Endpoint, r *callback.Request) callback.Outcome
}

// Journal stores attempts, and deletions of jobs whose group was cancelled during their last one.
type Journal interface {
	Attempts(lines []journal.AttemptLine) error
	Requests(lines []journal.RequestLine) error
}

// Options of a Dispatcher.
type Options struct {
	Buckets func() []Bucket
	Changed <-chan struct{}       // receives when Buckets may have changed; nil: never
	Refresh func(context.Context) // brings Topics up to date; nil: they are
	Topics  func() *registry.Snapshot
	// Deleted reports whether a topic missing from Topics was deleted. An error means that this is currently unknown.
	// nil: always true.
	Deleted         func(ctx context.Context, topic string) (bool, error)
	Caller          Caller
	Journal         Journal
	Activity        *activity.Recorder // nil: not recorded
	Concurrency     int                // concurrent callbacks
	Pattern         string             // of priorities, see queue.Reserve
	Poll            time.Duration
	ShutdownTimeout time.Duration
	Logger          *slog.Logger
	Registerer      prometheus.Registerer // nil: no metrics
	Trace           Trace                 // nil: attempts have no spans
	MetricTopics    int                   // limit of topics with their own metrics; 0: 1,000
}

// Dispatcher is the dispatcher role.
type Dispatcher struct {
	opts      Options
	worker    string // unique for each process
	places    *places
	workers   *workers
	endpoints endpoints
	unknown   unknowns
	shortage  shortage
	metrics   *counters
	tokens    atomic.Uint64

	calls      context.Context // for callbacks: ends later than the context of Run
	settles    context.Context // for settling: ends later than calls
	stopCalls  context.CancelFunc
	stopSettle context.CancelFunc
}

// New returns a Dispatcher; Run starts it.
func New(o Options) *Dispatcher {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Refresh == nil {
		o.Refresh = func(context.Context) {}
	}
	if o.Deleted == nil {
		o.Deleted = func(context.Context, string) (bool, error) { return true, nil }
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 256
	}
	if o.ShutdownTimeout <= 0 {
		o.ShutdownTimeout = 30 * time.Second
	}
	d := &Dispatcher{
		opts: o, worker: rand.Text()[:12], places: newPlaces(o.Concurrency, o.Pattern), workers: newWorkers(),
	}
	d.metrics = newCounters(o.Registerer, d.places, o.MetricTopics)
	d.calls, d.stopCalls = context.WithCancel(context.Background())
	d.settles, d.stopSettle = context.WithCancel(context.Background())
	return d
}

// Status returns the status that `wakecall ps` shows.
func (d *Dispatcher) Status() map[string]any {
	return map[string]any{"in_flight": d.places.inFlight(), "concurrency": d.opts.Concurrency}
}

var errUnsettled = errors.New("outcomes were not settled before the shutdown timeout; " +
	"their jobs are called again when their leases expire")

// settleTime is the part of the shutdown timeout that remains for settling after calls were canceled.
const settleTime = 2 * time.Second

// Run dispatches jobs until ctx is done, and then finishes those that it holds within ShutdownTimeout.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.stopSettle()
	defer d.stopCalls()
	stopRecording := d.recordActivity()
	defer stopRecording()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		store.RunEach(ctx, d.buckets, d.opts.Changed, d.serve)
		d.workers.stop()
	}()
	<-ctx.Done()
	soft := time.NewTimer(max(d.opts.ShutdownTimeout-settleTime, d.opts.ShutdownTimeout/2))
	defer soft.Stop()
	select {
	case <-ended:
		return nil
	case <-soft.C:
	}
	d.opts.Logger.Warn("callbacks canceled at the end of the shutdown timeout; their jobs are released",
		"held", d.places.inFlight())
	d.stopCalls()
	hard := time.NewTimer(settleTime / 2)
	defer hard.Stop()
	select {
	case <-ended:
		return nil
	case <-hard.C:
	}
	d.stopSettle()
	<-ended
	return errUnsettled
}

// recordActivity runs the activity recorder until the returned function is called.
func (d *Dispatcher) recordActivity() (stop func()) {
	if d.opts.Activity == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { d.opts.Activity.Run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// buckets returns the buckets in use. Their reservers share the places.
func (d *Dispatcher) buckets() []Bucket {
	list := d.opts.Buckets()
	d.places.divide(len(list))
	return list
}

// serve runs the reserver of a bucket and passes its wake-ups to it.
func (d *Dispatcher) serve(ctx context.Context, b Bucket) {
	r := newReserver(ctx, d, b)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(r.run)
	wake := b.Wakeups(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-wake:
			r.woken(w)
		}
	}
}
