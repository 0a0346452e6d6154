package recovery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/pershard"
	"github.com/wakecall/wakecall/queue"
)

// Shard is the part of a queue.Shard that a Keeper needs.
type Shard interface {
	Name() string
	Buckets() int
	Checks(ctx context.Context) (queue.Server, []queue.Check, error)
	TellEnds(ctx context.Context, ends map[string]string) error
	Ask(ctx context.Context, about string) error
	NoteTold(ctx context.Context, host, about string) error
	Told(ctx context.Context, hosts []string, about string) ([]string, error)
	Others
	NoteCheck(ctx context.Context, was, now queue.Check) (bool, error)
	Wakeups(ctx context.Context) <-chan queue.Wakeup
}

// KeeperOptions of a Keeper.
type KeeperOptions struct {
	Dir     string // of this host's journal
	Shards  func() []Shard
	Changed <-chan struct{} // ticks when Shards may have changed; nil: they never do
	Queue   Queue
	Ready   func() error // whether a shard takes pushes: then the journal's spool is drained
	Topic   func(string) bool
	Told    func(shard string, r Report, err error) // called after each comparison with a server that came new to a shard; may be nil
	Every   time.Duration                           // how often the shard's data is told how far the journal goes; 0: a second
	Quiet   time.Duration                           // the same while nothing is written to the journal; 0: 10 s
	Again   time.Duration                           // after which a comparison is made once more, for requests that were under way; 0: 15 s
	Logger  *slog.Logger

	Registerer prometheus.Registerer // nil: no metrics
}

// Keeper compares this host's journal with every server that comes new to a shard: after a restart, a failover or the loss of everything.
// Of several keepers with one journal one works at a time.
type Keeper struct {
	opts      KeeperOptions
	host      string
	hosts     *hosts
	recovered *prometheus.CounterVec
}

// NewKeeper makes a keeper; Run starts it. It gives the journal's directory an identity when it has none.
func NewKeeper(o KeeperOptions) (*Keeper, error) {
	host, err := journal.Identity(o.Dir)
	if err != nil {
		return nil, err
	}
	setDefault(&o.Every, time.Second)
	setDefault(&o.Quiet, 10*time.Second)
	setDefault(&o.Again, 15*time.Second)
	k := &Keeper{opts: o, host: host, hosts: loadHosts(o.Dir, host), recovered: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_recovered_jobs_total",
		Help: "Jobs that a shard had forgotten, by what was done: pushed, ended, changed, failed.",
	}, []string{"shard", "what"})}
	if o.Registerer != nil {
		o.Registerer.MustRegister(k.recovered)
	}
	return k, nil
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d == 0 {
		*d = to
	}
}

// Run watches until ctx is done and everything it started has ended.
func (k *Keeper) Run(ctx context.Context) error {
	unlock, err := journal.Lock(ctx, k.opts.Dir, "recovery")
	if err != nil {
		return fmt.Errorf("keeping the journal of %s: %w", k.opts.Dir, err)
	}
	defer unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { k.drainSpool(ctx) })
	pershard.Run(ctx, k.opts.Shards, k.opts.Changed, func(ctx context.Context, s Shard) {
		(&kept{Keeper: k, shard: s}).watch(ctx)
	})
	return nil
}

// kept is one shard.
type kept struct {
	*Keeper
	shard   Shard
	said    queue.Check // to the shard, the last time; the zero Check: look whether it is still the same server
	written int64       // by the journal, when the shard was told last
	looked  time.Time   // when the server was asked who it is
	failed  bool        // the last time

	answered string       // the last question; the answering goroutine's
	told     atomic.Int64 // since, in ms, for that goroutine; 0: everything

	// Of the comparison with this server, see Options; and when to do it once more, with what was written late.
	server              string // until the comparison has succeeded
	since, before, late time.Time
	empty               bool
	again               time.Time
}

func (k *kept) watch(ctx context.Context) {
	asks, again := make(chan string, asksKept), make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wakeups := k.shard.Wakeups(ctx)
	wg.Go(func() { listen(ctx, wakeups, asks, again) })
	wg.Go(func() { k.answerAll(ctx, asks) })
	k.look(ctx)
	if err := k.shard.Ask(ctx, hello+k.host); err != nil && ctx.Err() == nil {
		k.opts.Logger.Debug("other hosts could not be told that this one has come", "shard", k.shard.Name(), "error", err)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			k.said = queue.Check{}
			k.look(ctx)
		case <-time.After(k.opts.Every):
			if k.due() {
				k.look(ctx)
			}
		}
	}
}

// asksKept is how many questions wait; others are asked again by whoever asks.
const asksKept = 16

// listen sorts what a shard tells. Nothing of it waits for a comparison that is under way: another host may be waiting for the answer.
func listen(ctx context.Context, wakeups <-chan queue.Wakeup, asks chan<- string, again chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-wakeups:
			switch w.Kind {
			case queue.WakeReconnect:
				select {
				case again <- struct{}{}:
				default:
				}
			case queue.WakeAsk:
				select {
				case asks <- w.About:
				default:
				}
			}
		}
	}
}

func (k *kept) answerAll(ctx context.Context, asks <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case about := <-asks:
			k.answer(ctx, about)
		}
	}
}

// due says whether there is something to tell or to look at.
func (k *kept) due() bool {
	now := time.Now()
	if k.failed || now.Sub(k.looked) >= k.opts.Quiet || !k.again.IsZero() && now.After(k.again) {
		k.said = queue.Check{}
		return true
	}
	return journal.Written(k.opts.Dir) != k.written
}

// look tells the shard how far the journal goes, and compares first when it has to. What was stored there before that stays there as long as
// what it was told does: a Redis that forgets, forgets the latest first.
func (k *kept) look(ctx context.Context) {
	now := time.Now()
	written := journal.Written(k.opts.Dir)
	told, err := k.tell(ctx, now)
	if err == nil && !told {
		err = k.compare(ctx, now)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil && !k.failed {
		k.opts.Logger.Warn("the journal cannot be compared with a shard; trying again", "shard", k.shard.Name(), "error", err)
	}
	if k.failed = err != nil; !k.failed {
		k.written = written
	}
}

// tell is enough as long as the shard still knows what it was told before.
func (k *kept) tell(ctx context.Context, now time.Time) (bool, error) {
	if k.said.Host == "" {
		return false, nil
	}
	next := queue.Check{Host: k.host, Server: k.said.Server, Until: now}
	ok, err := k.shard.NoteCheck(ctx, k.said, next)
	if ok {
		k.said = next
	}
	return ok, err
}

func (k *kept) compare(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, compareLimit)
	defer cancel()
	server, checks, err := k.shard.Checks(ctx)
	if err != nil {
		return err
	}
	mine := queue.Check{}
	if i := slices.IndexFunc(checks, func(c queue.Check) bool { return c.Host == k.host }); i >= 0 {
		mine = checks[i]
	}
	k.hosts.hear(checks)
	others := k.hosts.others()
	if mine.Server != server.RunID && k.server != server.RunID {
		k.meet(server, mine, len(checks) == 0)
	}
	switch {
	case mine.Server != server.RunID:
		if err = k.recover(ctx, others, k.empty); err == nil {
			k.again, k.late = now.Add(k.opts.Again), now
		}
	case !k.again.IsZero() && now.After(k.again):
		k.again = time.Time{}
		err = k.recover(ctx, others, true)
	}
	if err != nil {
		return err
	}
	k.looked = now
	said := queue.Check{Host: k.host, Server: server.RunID, Until: now}
	ok, err := k.shard.NoteCheck(ctx, mine, said)
	if err == nil && !ok {
		err = errors.New("yet another server answers")
	}
	if err == nil {
		k.said, k.server = said, ""
	}
	return err
}

// meet notes what is to be compared with a server that is new to the shard: what this host's journal has had since its last word that the server
// knows, and what was created before the server was met. To one that has been running for a while, as a replica, not everybody comes at once:
// its predecessor may have been written to for some seconds more.
func (k *kept) meet(server queue.Server, mine queue.Check, empty bool) {
	k.server, k.again, k.late = server.RunID, time.Time{}, time.Time{}
	k.since, k.empty = time.Time{}, empty
	if mine.Host != "" {
		k.since = mine.Until.Add(-clockSlack)
		if k.shard.Buckets() > 1 { // the word is on one node, and another may have forgotten more
			k.since = k.since.Add(-clusterSlack)
		}
	}
	k.told.Store(0)
	if !k.since.IsZero() {
		k.told.Store(k.since.UnixMilli())
	}
	k.before = server.Now
	if server.Now.Sub(server.Started) > time.Minute {
		k.before = server.Now.Add(handover)
	}
}

// handover is how long a server that has been replaced may still be written to.
const handover = 10 * time.Second

// clusterSlack is how much further behind one node of a Cluster may be than another.
const clusterSlack = time.Minute

// compareLimit bounds one comparison, which may have to read days of journal.
const compareLimit = time.Hour

// recover is silent about a comparison that finds nothing where none was expected to.
func (k *kept) recover(ctx context.Context, others []string, routine bool) error {
	name := k.shard.Name()
	var known Others
	if len(others) > 0 {
		about := k.host + " " + rand.Text()
		if k.since.IsZero() {
			about = everything + about
		}
		known = &inquiry{kept: k, hosts: others, about: about}
	}
	r, err := Recover(ctx, Options{
		Queue: k.opts.Queue, Dirs: []string{k.opts.Dir}, Since: k.since, Shard: name, Empty: k.empty, Before: k.before, Late: k.late, Others: known,
		Topic: k.opts.Topic, Logger: k.opts.Logger.With("shard", name),
	})
	for what, n := range map[string]int{"pushed": r.Pushed, "ended": r.Ended, "changed": r.Changed, "failed": r.Failed} {
		k.recovered.WithLabelValues(name, what).Add(float64(n))
	}
	if routine && r.Quiet() {
		return err
	}
	k.opts.Logger.Warn("another server answers for a shard; the journal was compared with what it holds", "shard", name, "found", r.String(), "error", err)
	if k.opts.Told != nil {
		k.opts.Told(name, r, err)
	}
	return err
}

// readyEvery is how often a spool with something in it waits for a shard.
const readyEvery = 100 * time.Millisecond

// drainSpool brings pushes that were taken while no shard was up to the first that returns.
func (k *Keeper) drainSpool(ctx context.Context) {
	failed := false
	for ctx.Err() == nil {
		wait := k.opts.Every
		if spooled(k.opts.Dir) {
			wait = readyEvery
			if k.opts.Ready() == nil {
				failed = k.drain(ctx, failed)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (k *Keeper) drain(ctx context.Context, failedBefore bool) (failed bool) {
	r, err := Drain(ctx, Options{Queue: k.opts.Queue, Topic: k.opts.Topic, Settle: readyEvery, Logger: k.opts.Logger}, k.opts.Dir)
	k.recovered.WithLabelValues("", "spooled").Add(float64(r.Pushed))
	switch {
	case ctx.Err() != nil:
	case err == nil:
		k.opts.Logger.Warn("pushes that were taken while no shard was up are in a shard now", "pushed", r.Pushed, "there", r.There, "refused", r.Failed+r.Unknown)
	case !failedBefore:
		k.opts.Logger.Warn("pushes that were taken while no shard was up cannot be brought to one yet; trying again", "error", err)
	}
	return err != nil
}
