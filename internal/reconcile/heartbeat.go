package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// heartbeat attends one bucket for this host.
type heartbeat struct {
	*Reconciler
	bucket   *store.Bucket
	end      journal.Position // as last sent to the bucket
	attended time.Time
	revision int64 // of the data when it was last attended
	failed   bool  // the last attempt failed
	late     []lateLines
}

// lateLines is a later search for lines of requests that the previous server had answered before the comparison.
type lateLines struct {
	at   time.Time
	from journal.Position
	gap  Gap
}

func newHeartbeat(k *Reconciler, b *store.Bucket) *heartbeat {
	return &heartbeat{Reconciler: k, bucket: b, revision: k.hosts.revision(b)}
}

func (a *heartbeat) run(ctx context.Context) {
	defer a.state.replays(a.bucket, false)
	wakeups := a.bucket.Wakeups(ctx)
	tick := time.NewTicker(a.opts.Every) // wake-ups must not postpone it: with traffic there is always one
	defer tick.Stop()
	a.attend(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-wakeups:
			if w.Kind == store.WakeReconnect || w.Kind == store.WakeComparing {
				a.attend(ctx)
			}
		case <-tick.C:
			if a.due(ctx) {
				a.attend(ctx)
			}
		}
	}
}

// due reports whether the bucket has to be attended: the journal has grown, or the bucket may have lost everything.
func (a *heartbeat) due(ctx context.Context) bool {
	return a.failed || time.Since(a.attended) >= a.opts.Quiet || a.isLate() || a.hasGrown() || a.mayBeEmpty(ctx)
}

// hasGrown reports whether the journal has lines since the bucket was attended.
func (a *heartbeat) hasGrown() bool {
	end, err := journal.End(a.opts.Dir)
	return err != nil || !end.Equal(a.end)
}

// mayBeEmpty reports whether the bucket does not know that it was compared.
func (a *heartbeat) mayBeEmpty(ctx context.Context) bool {
	compared, err := IsCompared(ctx, a.bucket)
	return err != nil || !compared
}

// isLate reports whether it is time to search for late lines.
func (a *heartbeat) isLate() bool { return len(a.late) > 0 && time.Now().After(a.late[0].at) }

func (a *heartbeat) attend(ctx context.Context) {
	err := a.beat(ctx)
	for errors.Is(err, ErrOtherComparison) && ctx.Err() == nil {
		err = a.beat(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil && !a.failed {
		a.opts.Logger.Warn("the journal cannot be compared with a shard; trying again",
			"shard", a.bucket.Name(), "bucket", a.bucket.Number(), "error", err)
	}
	a.failed = err != nil
}

func (a *heartbeat) beat(ctx context.Context) error {
	// Read before the bucket is attended: the server has carried out every line that the journal has by now.
	end, err := journal.End(a.opts.Dir)
	if err != nil {
		return err
	}
	c, err := a.send(ctx, end)
	if err != nil {
		return err
	}
	if c.Open {
		a.revision = c.After
	}
	a.hosts.saw(a.bucket, c.Hosts, a.revision)
	behind := !c.Open || len(c.Missed) > 0
	a.state.replays(a.bucket, behind)
	if behind {
		if err := a.compare(ctx, end, c); err != nil {
			return err
		}
	}
	for a.isLate() {
		if err := a.replayLate(ctx, &a.late[0]); err != nil {
			return err
		}
		a.late = a.late[1:]
	}
	a.end, a.attended = end, time.Now()
	if behind {
		a.attended = time.Time{} // attend again: only an open bucket stores how far the journal reaches
	}
	return nil
}

func (a *heartbeat) send(ctx context.Context, end journal.Position) (Comparison, error) {
	return Attend(ctx, a.bucket,
		Attendance{Host: a.host, Position: end.String(), Revision: a.revision})
}

// compareLimit bounds one comparison, which may have to read days of the journal.
const compareLimit = time.Hour

// compare replays the journal in the bucket, and waits until it is open.
func (a *heartbeat) compare(ctx context.Context, end journal.Position, c Comparison) error {
	ctx, cancel := context.WithTimeout(ctx, compareLimit)
	defer cancel()
	defer a.stayAtWork(ctx, end)()
	mode := ReplayCompare
	if c.Open { // others may change its jobs meanwhile
		mode = ReplayLate
	}
	if a.opts.Limit != nil { // jobs with keys are stored as their topic's limits say
		if err := a.opts.Limit(ctx, a.bucket); err != nil {
			return err
		}
	}
	var report Report
	highest, err := a.replay(ctx, mode, c, &report)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, ErrOtherComparison) {
			a.report(a.bucket.Name(), &report, err)
		}
		return err
	}
	opened, err := a.open(ctx, c, highest)
	if err != nil {
		return err
	}
	if !c.Open {
		gap := Gap{After: c.After, Upto: opened.Upto}
		a.late = append(a.late, lateLines{time.Now().Add(a.opts.LateAfter), end, gap})
	}
	a.report(a.bucket.Name(), &report, nil)
	return nil
}

// stayAtWork attends the bucket while the journal is replayed, which may take long, so that the other hosts wait.
func (a *heartbeat) stayAtWork(ctx context.Context, end journal.Position) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(min(a.opts.Patience/3, time.Second))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_, _ = a.send(ctx, end) // the replay meets the same error
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// replay replays the lines that the bucket misses, and returns the highest revision of the bucket in the journal.
func (a *heartbeat) replay(
	ctx context.Context, mode ReplayMode, c Comparison, r *Report,
) (highest int64, err error) {
	from, err := journal.ParsePosition(c.Position)
	if err != nil {
		return 0, err
	}
	missing := boundsOf(&c)
	s := &selection{dirs: []string{a.opts.Dir}, from: journal.Range{From: from}, wants: func(l *line) bool {
		if !l.isIn(a.bucket) {
			return false
		}
		highest = max(highest, l.revision)
		return missing.has(l)
	}}
	t := &target{shard: a.bucket.Shard(), mode: mode, names: map[*store.Bucket]string{a.bucket: c.Name}}
	return highest, replay(ctx, s, t, r)
}

// bounds says which lines a bucket misses.
type bounds struct {
	gaps []Gap
	late bool // others may change jobs meanwhile
}

// boundsOf derives the bounds from a bucket's answer.
func boundsOf(c *Comparison) bounds {
	if c.Open {
		return bounds{gaps: c.Missed, late: true}
	}
	return bounds{gaps: []Gap{{After: c.After, Upto: math.MaxInt64}}}
}

func (b bounds) has(l *line) bool {
	if l.kind == EntryDelivered && !b.late { // the data may have the reservation, but not its end
		return true
	}
	return b.holds(l.revision)
}

func (b bounds) holds(revision int64) bool {
	return slices.ContainsFunc(b.gaps, func(g Gap) bool { return g.After < revision && revision <= g.Upto })
}

// openEvery is how often a host asks whether the others have replayed their journals.
const openEvery = 50 * time.Millisecond

// open tells the bucket that this host has replayed its journal, and waits until all other running hosts have done the
// same.
func (a *heartbeat) open(ctx context.Context, c Comparison, highest int64) (Opened, error) {
	t := time.NewTicker(openEvery)
	defer t.Stop()
	by := ComparedBy{
		Host: a.host, Name: c.Name, Highest: max(highest, a.revision), Patience: a.opts.Patience,
	}
	if c.Open {
		by.Mode = ComparedLate
	}
	for {
		by.Known = a.hosts.known()
		opened, err := OpenBucket(ctx, a.bucket, by)
		switch {
		case err != nil:
			return opened, err
		case opened.Another:
			return opened, ErrOtherComparison
		case opened.Open:
			if len(opened.Absent) > 0 {
				a.opts.Logger.Warn("hosts are absent; jobs that only their journals have are missing until they are "+
					"back", "shard", a.bucket.Name(), "bucket", a.bucket.Number(), "hosts", opened.Absent)
			}
			return opened, nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return opened, fmt.Errorf("wait for other hosts: %w", ctx.Err())
		}
	}
}

// replayLate replays lines written since the comparison by requests that the previous server had answered.
func (a *heartbeat) replayLate(ctx context.Context, l *lateLines) error {
	var r Report
	missed := Comparison{Open: true, Position: l.from.String(), Missed: []Gap{l.gap}}
	if _, err := a.replay(ctx, ReplayLate, missed, &r); err != nil {
		return err
	}
	a.report(a.bucket.Name(), &r, nil)
	return nil
}
