package recovery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/queue"
)

// attendant attends one shard for this host.
type attendant struct {
	*Keeper
	shard    *queue.Shard
	end      journal.Position // as last sent to the shard
	attended time.Time
	revision []int64 // by bucket: of the data when it was last attended
	failed   bool    // the last attempt failed
	late     []lateLines
}

// lateLines is a later search for lines of requests that the previous server had answered before the comparison.
type lateLines struct {
	at     time.Time
	from   journal.Position
	bucket int
	gap    queue.Gap
}

func newAttendant(k *Keeper, s *queue.Shard) *attendant {
	return &attendant{Keeper: k, shard: s, revision: k.hosts.of(s.Name(), s.Buckets())}
}

func (a *attendant) run(ctx context.Context) {
	defer a.state.replays(a.shard.Name(), false)
	wakeups := a.shard.Wakeups(ctx)
	tick := time.NewTicker(a.opts.Every) // wake-ups must not postpone it: with traffic there is always one
	defer tick.Stop()
	a.attend(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-wakeups:
			if w.Kind == queue.WakeReconnect || w.Kind == queue.WakeComparing {
				a.attend(ctx)
			}
		case <-tick.C:
			if a.due(ctx) {
				a.attend(ctx)
			}
		}
	}
}

// due reports whether the shard has to be attended: the journal has grown, or the shard may have lost everything.
func (a *attendant) due(ctx context.Context) bool {
	if a.failed || time.Since(a.attended) >= a.opts.Quiet || a.isLate() {
		return true
	}
	if end, err := journal.End(a.opts.Dir); err != nil || !end.Equal(a.end) {
		return true
	}
	servers, err := a.shard.ComparedWith(ctx)
	return err != nil || slices.Contains(servers, "")
}

// isLate reports whether it is time to search for late lines.
func (a *attendant) isLate() bool { return len(a.late) > 0 && time.Now().After(a.late[0].at) }

func (a *attendant) attend(ctx context.Context) {
	err := a.once(ctx)
	for errors.Is(err, queue.ErrOtherComparison) && ctx.Err() == nil {
		err = a.once(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil && !a.failed {
		a.opts.Logger.Warn("the journal cannot be compared with a shard; trying again",
			"shard", a.shard.Name(), "error", err)
	}
	a.failed = err != nil
}

func (a *attendant) once(ctx context.Context) error {
	// Read before the shard is attended: the server has carried out every line that the journal has by now.
	end, err := journal.End(a.opts.Dir)
	if err != nil {
		return err
	}
	behind, err := a.behind(ctx, end)
	if err != nil {
		return err
	}
	a.state.replays(a.shard.Name(), len(behind) > 0)
	if len(behind) > 0 {
		if err := a.compare(ctx, end, behind); err != nil {
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
	if len(behind) > 0 {
		a.attended = time.Time{} // attend again: only an open shard stores how far the journal reaches
	}
	return nil
}

func (a *attendant) tellEnd(ctx context.Context, bucket int, end journal.Position) (queue.Comparison, error) {
	return a.shard.Attend(ctx, bucket,
		queue.Attendance{Host: a.host, Position: end.String(), Revision: a.revision[bucket]})
}

// behind attends all buckets and returns those that miss changes.
func (a *attendant) behind(ctx context.Context, end journal.Position) (map[int]queue.Comparison, error) {
	behind := map[int]queue.Comparison{}
	for bucket := range a.shard.Buckets() {
		c, err := a.tellEnd(ctx, bucket, end)
		if err != nil {
			return nil, err
		}
		if c.Open {
			a.revision[bucket] = c.After
		}
		a.hosts.hear(a.shard.Name(), c.Hosts, a.revision)
		if !c.Open || len(c.Missed) > 0 {
			behind[bucket] = c
		}
	}
	return behind, nil
}

// compareLimit bounds one comparison, which may have to read days of the journal.
const compareLimit = time.Hour

// compare replays the journal in the buckets that are behind, and waits until they are open.
func (a *attendant) compare(ctx context.Context, end journal.Position, behind map[int]queue.Comparison) error {
	ctx, cancel := context.WithTimeout(ctx, compareLimit)
	defer cancel()
	defer a.stayAtWork(ctx, end, behind)()
	var report Report
	highest := map[int]int64{}
	for mode, some := range byMode(behind) {
		err := a.replay(ctx, mode, some, highest, &report)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, queue.ErrOtherComparison) {
				a.tell(a.shard.Name(), &report, err)
			}
			return err
		}
	}
	if a.opts.Limit != nil {
		if err := a.opts.Limit(ctx, a.shard); err != nil {
			return err
		}
	}
	for bucket, c := range behind {
		opened, err := a.open(ctx, bucket, c, highest[bucket])
		if err != nil {
			return err
		}
		if !c.Open {
			gap := queue.Gap{After: c.After, Upto: opened.Upto}
			a.late = append(a.late, lateLines{time.Now().Add(a.opts.Again), end, bucket, gap})
		}
	}
	a.tell(a.shard.Name(), &report, nil)
	return nil
}

// stayAtWork attends the buckets while the journal is replayed, which may take long, so that the other hosts wait.
func (a *attendant) stayAtWork(
	ctx context.Context, end journal.Position, buckets map[int]queue.Comparison,
) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(min(a.opts.Patience/3, time.Second)):
				for bucket := range buckets {
					_, _ = a.tellEnd(ctx, bucket, end) // the replay meets the same error
				}
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// byMode groups buckets by whether others may change their jobs meanwhile.
func byMode(behind map[int]queue.Comparison) map[queue.ReplayMode]map[int]queue.Comparison {
	modes := map[queue.ReplayMode]map[int]queue.Comparison{}
	for bucket, c := range behind {
		mode := queue.ReplayCompare
		if c.Open {
			mode = queue.ReplayLate
		}
		if modes[mode] == nil {
			modes[mode] = map[int]queue.Comparison{}
		}
		modes[mode][bucket] = c
	}
	return modes
}

// replay replays the lines that the buckets miss, and returns the highest revision of each in the journal.
func (a *attendant) replay(
	ctx context.Context, mode queue.ReplayMode, buckets map[int]queue.Comparison, highest map[int]int64, r *Report,
) error {
	t := &target{shard: a.shard, mode: mode, names: map[int]string{}}
	missing := map[int]bounds{}
	var from journal.Position
	first := true
	for bucket, c := range buckets {
		t.names[bucket], missing[bucket] = c.Name, boundsOf(&c)
		p, err := journal.ParsePosition(c.Position)
		if err != nil {
			return err
		}
		if first {
			from, first = p, false
		}
		from = from.Earlier(p)
	}
	s := &source{dirs: []string{a.opts.Dir}, from: journal.Range{From: from}, wants: func(l *line) bool {
		if !isOf(l, a.shard) {
			return false
		}
		bucket := a.shard.BucketOf(l.topic)
		b, wanted := missing[bucket]
		if wanted {
			highest[bucket] = max(highest[bucket], l.revision)
		}
		return wanted && b.has(l)
	}}
	return replay(ctx, s, t, r)
}

// bounds says which lines a bucket misses.
type bounds struct {
	gaps []queue.Gap
	late bool // others may change jobs meanwhile
}

// boundsOf derives the bounds from a bucket's answer.
func boundsOf(c *queue.Comparison) bounds {
	if c.Open {
		return bounds{gaps: c.Missed, late: true}
	}
	return bounds{gaps: []queue.Gap{{After: c.After, Upto: math.MaxInt64}}}
}

func (b bounds) has(l *line) bool {
	if l.kind == queue.EntryDelivered && !b.late { // the data may have the reservation, but not its end
		return true
	}
	return b.holds(l.revision)
}

func (b bounds) holds(revision int64) bool {
	return slices.ContainsFunc(b.gaps, func(g queue.Gap) bool { return g.After < revision && revision <= g.Upto })
}

// openEvery is how often a host asks whether the others have replayed their journals.
const openEvery = 50 * time.Millisecond

// open tells a bucket that this host has replayed its journal, and waits until all other running hosts have done the
// same.
func (a *attendant) open(
	ctx context.Context, bucket int, c queue.Comparison, highest int64,
) (queue.Opened, error) {
	t := time.NewTicker(openEvery)
	defer t.Stop()
	by := queue.ComparedBy{
		Host: a.host, Name: c.Name, Highest: max(highest, a.revision[bucket]), Patience: a.opts.Patience,
	}
	if c.Open {
		by.Mode = queue.ComparedLate
	}
	for {
		by.Known = a.hosts.known()
		opened, err := a.shard.Compared(ctx, bucket, by)
		switch {
		case err != nil:
			return opened, err
		case opened.Another:
			return opened, queue.ErrOtherComparison
		case opened.Open:
			if len(opened.Absent) > 0 {
				a.opts.Logger.Warn("hosts are absent; jobs that only their journals have are missing until they are "+
					"back", "shard", a.shard.Name(), "hosts", opened.Absent)
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
func (a *attendant) replayLate(ctx context.Context, l *lateLines) error {
	var r Report
	missed := queue.Comparison{Open: true, Position: l.from.String(), Missed: []queue.Gap{l.gap}}
	bucket := map[int]queue.Comparison{l.bucket: missed}
	if err := a.replay(ctx, queue.ReplayLate, bucket, map[int]int64{}, &r); err != nil {
		return err
	}
	a.tell(a.shard.Name(), &r, nil)
	return nil
}
