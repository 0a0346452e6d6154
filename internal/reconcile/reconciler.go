package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// Pusher is the part of a queue.Queue that the spool is drained to.
type Pusher interface {
	PushBatch(ctx context.Context, pushes []store.Push) []store.Result
	Ready() error
}

// ReconcilerOptions are the options of a Reconciler.
type ReconcilerOptions struct {
	Dir     string // of this host's journal
	Buckets func() []*store.Bucket
	Changed <-chan struct{} // receives when Buckets may have changed; nil: they never do
	Queue   Pusher          // for the spool, which is drained when a shard accepts pushes
	// Limit sets the limits of a bucket's topics before the journal is replayed into it; nil: nothing has limits.
	Limit func(ctx context.Context, b *store.Bucket) error
	// Told is called when a bucket of a shard had lost changes, or could not be compared; it may be nil.
	Reported  func(shard string, r Report, err error)
	Prefer    bool          // work rather than reconcilers of other processes
	Every     time.Duration // how often a shard is polled; 0: 2 s
	Quiet     time.Duration // how often an idle shard is attended; 0: 10 s
	LateAfter time.Duration // delay of the search for late lines; 0: 15 s
	Patience  time.Duration // how long to wait for hosts that do not attend a shard; 0: 30 s
	Logger    *slog.Logger

	Registerer prometheus.Registerer // nil: no metrics
}

// Reconciler replays this host's journal in every shard whose server is new or has lost data, and tells the shards that
// this host is running. Every process has one; of several with one journal one works at a time, unless it hangs.
type Reconciler struct {
	opts      ReconcilerOptions
	host      string
	hosts     *hosts
	recovered *prometheus.CounterVec
	state     state
}

// NewReconciler makes a reconciler; Run starts it. It gives the journal's directory an identity if it has none.
func NewReconciler(o ReconcilerOptions) (*Reconciler, error) {
	host, err := journal.Identity(o.Dir)
	if err != nil {
		return nil, err
	}
	for d, to := range map[*time.Duration]time.Duration{
		&o.Every: 2 * time.Second, &o.Quiet: 10 * time.Second, &o.LateAfter: 15 * time.Second,
		&o.Patience: 30 * time.Second,
	} {
		if *d == 0 {
			*d = to
		}
	}
	k := &Reconciler{opts: o, host: host, hosts: newHosts(o.Dir)}
	k.recovered = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_recovered_jobs_total",
		Help: "Jobs that a shard had lost, by what was done: pushed, ended, changed, failed.",
	}, []string{"shard", "what"})
	if o.Registerer != nil {
		o.Registerer.MustRegister(k)
	}
	return k, nil
}

// Run works until ctx is done and everything it started has ended. It must end after all other work of the process: the
// last process of a host then tells the shards that the host has stopped.
func (k *Reconciler) Run(ctx context.Context) error {
	leave, err := journal.Join(k.opts.Dir)
	if err != nil {
		return err
	}
	err = journal.WithLock(ctx, k.opts.Dir, "recovery", k.opts.Prefer, k.work)
	if last := leave(); last && err == nil {
		k.leave()
	}
	return err
}

func (k *Reconciler) work(ctx context.Context) {
	k.hosts.load()
	k.state.work(true)
	defer k.state.work(false)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { k.drainSpool(ctx) })
	store.RunEach(ctx, k.opts.Buckets, k.opts.Changed, func(ctx context.Context, b *store.Bucket) {
		newHeartbeat(k, b).run(ctx)
	})
}

// leaveLimit bounds the last calls of a host that stops.
const leaveLimit = time.Second

// leave tells the shards that this host stops. Those that have all of its changes do not wait for it when they restart.
func (k *Reconciler) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	end, err := journal.End(k.opts.Dir)
	if err != nil {
		return
	}
	left := Attendance{Host: k.host, Position: end.String(), Leaves: true}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, b := range k.opts.Buckets() {
		wg.Go(func() { _, _ = Attend(ctx, b, left) })
	}
}

func (k *Reconciler) report(shard string, r *Report, err error) {
	for what, n := range map[string]int{
		"pushed": r.Pushed + r.Restored, "ended": r.Ended, "changed": r.Changed, "failed": r.Failed,
	} {
		k.recovered.WithLabelValues(shard, what).Add(float64(n))
	}
	if err == nil && r.Quiet() {
		return
	}
	if err != nil {
		k.opts.Logger.Error("a shard had lost data; replaying the journal failed",
			"shard", shard, "done", r.String(), "error", err)
	} else {
		k.opts.Logger.Warn("a shard had lost data; the journal was replayed", "shard", shard, "done", r.String())
	}
	if k.opts.Reported != nil {
		k.opts.Reported(shard, *r, err)
	}
}

// readyEvery is how often the reconciler checks for a shard while the spool is not empty.
const readyEvery = 100 * time.Millisecond

// drainSpool pushes spooled jobs to the first shard that returns.
func (k *Reconciler) drainSpool(ctx context.Context) {
	var failed error
	for ctx.Err() == nil {
		wait := k.opts.Every
		if spooled(k.opts.Dir) {
			wait = readyEvery
			if k.opts.Queue.Ready() == nil {
				failed = k.drain(ctx, failed)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// drain drains the spool, after a drain that failed or nil.
func (k *Reconciler) drain(ctx context.Context, failed error) error {
	un, _ := errors.AsType[*store.UnavailableError](failed)
	r, err := Drain(ctx, k.opts.Queue, k.opts.Logger, k.opts.Dir, un != nil && un.Reason == "journal")
	k.recovered.WithLabelValues("", "spooled").Add(float64(r.Pushed))
	switch {
	case ctx.Err() != nil:
	case err == nil:
		k.opts.Logger.Warn("pushes that were accepted while no shard was up are in a shard now",
			"pushed", r.Pushed, "refused", r.Failed)
	case failed == nil:
		k.opts.Logger.Warn("pushes that were accepted while no shard was up cannot be stored yet; trying again",
			"error", err)
	}
	return err
}
