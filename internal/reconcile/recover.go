package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// Options says what Recover compares.
type Options struct {
	Shards []*store.Shard
	Dirs   []string  // journals of one or several hosts
	Since  time.Time // only lines since this time, by the clock of their host; zero: all
	Shard  string    // only changes that this shard accepted; empty: all
	Topic  func(string) bool
	// ScheduleHome returns the shard of a schedule whose shard is no longer in use; nil: there is no such schedule.
	ScheduleHome func(topic, name string) *store.Shard
	DryRun       bool         // change nothing
	Logger       *slog.Logger // nil: no logging
}

// Recover compares journals with the shards in use and recovers lost changes. A job that may have been changed through
// a host whose journal is not named stays as it is, unless the journals have it otherwise. After an error the report
// says what was done; Recover may be repeated.
func Recover(ctx context.Context, o Options) (Report, error) {
	var report Report
	for _, dir := range o.Dirs {
		if err := journal.CheckFormat(dir); err != nil {
			return report, err
		}
	}
	inUse := map[string]bool{}
	for _, s := range o.Shards {
		for _, name := range namesOf(s) {
			inUse[name] = true
		}
	}
	home := o.home()
	for _, s := range o.Shards {
		if o.Shard != "" && s.Name() != o.Shard {
			continue
		}
		lost, err := lostBy(ctx, s)
		if err != nil {
			return report, err
		}
		src := &selection{dirs: o.Dirs, from: journal.Range{Since: o.Since}, wants: func(l *line) bool {
			return isOf(l, s) || !inUse[l.shard] && o.adopts(s, home, l)
		}}
		t := &target{
			shard: s, mode: ReplayByHand, names: map[*store.Bucket]string{}, dry: o.DryRun, topic: o.Topic, lost: lost,
		}
		for _, b := range s.Buckets() {
			t.names[b] = ""
		}
		var r Report
		err = replay(ctx, src, t, &r)
		report.add(&r)
		if err != nil {
			return report, fmt.Errorf("recover shard %s: %w", s.Name(), err)
		}
		if o.Logger != nil && !r.Quiet() {
			o.Logger.Warn("the journal was compared with a shard", "shard", s.Name(), "found", r.String())
		}
	}
	return report, nil
}

// lostBy returns by bucket which changes a shard may have lost: it has all others, so their lines have no effect.
func lostBy(ctx context.Context, s *store.Shard) (map[*store.Bucket]bounds, error) {
	lost := map[*store.Bucket]bounds{}
	for _, b := range s.Buckets() {
		gaps, err := Gaps(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("recover shard %s: %w", s.Name(), err)
		}
		lost[b] = bounds{gaps: gaps, late: true}
	}
	return lost, nil
}

// home returns the shard that gets the jobs of shards that are no longer in use.
func (o *Options) home() *store.Shard {
	if len(o.Shards) == 0 || o.Shard != "" {
		return nil
	}
	return o.Shards[0]
}

// adopts reports whether a shard gets what a line of a shard that is no longer in use is about.
func (o *Options) adopts(s, home *store.Shard, l *line) bool {
	if l.kind == EntryCursor && home != nil && o.ScheduleHome != nil {
		return s == o.ScheduleHome(l.topic, l.request.Schedule)
	}
	return s == home
}

// isOf reports whether a line concerns a shard.
func isOf(l *line, s *store.Shard) bool { return slices.Contains(namesOf(s), l.shard) }

// isIn reports whether a line concerns a bucket.
func (l *line) isIn(b *store.Bucket) bool {
	if l.namesBucket() {
		return isOf(l, b.Shard()) && l.request.Bucket == b.Number()
	}
	return isOf(l, b.Shard()) && b.Shard().BucketOf(l.topic) == b
}

// namesOf returns the names of a shard in journals.
func namesOf(s *store.Shard) []string { return append(strings.Fields(s.Former()), s.Name()) }

func (r *Report) add(o *Report) {
	r.Jobs += o.Jobs
	r.There += o.There
	r.Delivered += o.Delivered
	r.Dead += o.Dead
	r.Deleted += o.Deleted
	r.Missing += o.Missing
	r.Pushed += o.Pushed
	r.Unknown += o.Unknown
	r.Failed += o.Failed
	r.Ended += o.Ended
	r.Changed += o.Changed
	r.Restored += o.Restored
	r.Schedules += o.Schedules
	r.Torn = max(r.Torn, o.Torn)
}
