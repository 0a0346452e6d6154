package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/store"
)

// Report holds what a recovery found and did. Jobs = There + Delivered + Dead + Deleted + Missing.
type Report struct {
	Jobs      int `json:"jobs"`      // accepted, by the lines read
	There     int `json:"there"`     // in their shard as they should be
	Delivered int `json:"delivered"` // delivered and gone
	Dead      int `json:"dead"`
	Deleted   int `json:"deleted"`
	Missing   int `json:"missing"` // or stored with an older content

	Pushed    int `json:"pushed"`    // missing jobs that were stored again
	Unknown   int `json:"unknown"`   // missing jobs that were left out: their topic is no longer registered
	Failed    int `json:"failed"`    // spooled pushes that were refused
	Refused   int `json:"refused"`   // spooled pushes into a group that was closed meanwhile
	Ended     int `json:"ended"`     // existing jobs that had ended: deleted
	Changed   int `json:"changed"`   // changed again, or ready again
	Restored  int `json:"restored"`  // dead again, and visible
	Schedules int `json:"schedules"` // whose cursors were behind the journals
	Torn      int `json:"torn"`      // lines of the journal that cannot be read
}

// Quiet reports whether nothing had to be done.
func (r *Report) Quiet() bool { return r.Missing+r.Ended+r.Changed+r.Restored+r.Schedules == 0 }

func (r *Report) String() string {
	return fmt.Sprintf("%d jobs pushed again, %d deleted again, %d changed again, %d dead again; %d schedules set; "+
		"%d unreadable lines", r.Pushed, r.Ended, r.Changed, r.Restored, r.Schedules, r.Torn)
}

// count adds the effect of replaying an entry. In a dry run nothing counts as done.
func (r *Report) count(e *Entry, effect Effect, dry bool) {
	n := 1
	if dry {
		n = 0
	}
	if e.Kind == EntryCursor || e.Kind == EntryMoved || e.Kind == EntryFired {
		if effect != EffectNone {
			r.Schedules++
		}
		return
	}
	isDead := e.Job.State == store.Dead
	switch effect {
	case EffectStored:
		if isDead {
			r.Restored += n
		} else {
			r.Pushed += n
			r.Missing++
		}
	case EffectReplaced:
		r.Changed += n
		r.Missing++
	case EffectRemoved:
		r.Ended++
	case EffectBuried:
		r.Restored += n
	case EffectNone:
		if e.Kind == EntryStored && !isDead {
			r.There++
		}
	}
}

// countJobs adds how the jobs ended according to the lines.
func (r *Report) countJobs(f *index) {
	for _, j := range f.jobs {
		if j.content == 0 {
			continue
		}
		r.Jobs++
		switch {
		case j.state() == delivered:
			r.Delivered++
		case j.state() == deleted:
			r.Deleted++
		case j.state() == dead:
			r.Dead++
		}
	}
}

// target is where entries are replayed.
type target struct {
	shard *store.Shard
	mode  ReplayMode
	names map[*store.Bucket]string // comparison by bucket; nothing is replayed in other buckets
	dry   bool
	topic func(string) bool        // reports whether a topic is registered; nil: all are
	lost  map[*store.Bucket]bounds // by bucket: other lines have no effect; nil: all may have one
	// Stored jobs outside are present; nil: any may be missing. See twice.
	missing map[key]bool
	found   map[key]bool // if not nil, receives the jobs whose entries had an effect
}

// replayStep is the number of entries that are replayed at once.
const replayStep = 500

// replay reads a journal and replays the lines that decide, in several passes if there are too many jobs for one.
func replay(ctx context.Context, s *selection, t *target, r *Report) error {
	round := t.replayOnce
	if t.mode == ReplayByHand {
		round = t.replayTwice
	}
	for part, parts := 0, 1; part < parts; part++ {
		err := round(ctx, s, newIndex(part, parts), r)
		if errors.Is(err, errTooMany) {
			part, parts = -1, 4*parts
			*r = Report{Pushed: r.Pushed, Ended: r.Ended, Changed: r.Changed, Restored: r.Restored,
				Schedules: r.Schedules} // these stay done
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lineDelay is more than the time between a change of a job and its line in the journal.
const lineDelay = time.Second

// twice replays one part while others change its jobs. Jobs end after their lines were read, and are then not in the
// shard: so a job counts as missing only if it was missing before the journal was read from which it should be there.
func (t *target) replayTwice(ctx context.Context, s *selection, f *index, r *Report) error {
	first, second := *t, *t
	first.dry, first.found = true, map[key]bool{}
	if err := first.replayOnce(ctx, s, newIndex(int(f.part), int(f.parts)), &Report{}); err != nil {
		return err
	}
	if second.missing = first.found; len(second.missing) > 0 {
		if !pause.For(ctx, lineDelay) {
			return ctx.Err()
		}
	}
	return second.replayOnce(ctx, s, f, r)
}

// once reads the lines of one part and replays those that decide.
func (t *target) replayOnce(ctx context.Context, s *selection, f *index, r *Report) error {
	torn := 0
	if err := s.each(ctx, &torn, f.add); err != nil {
		return err
	}
	r.Torn = max(r.Torn, torn)
	r.countJobs(f)
	p := &pass{ctx: ctx, target: t, index: f, report: r, batches: map[*store.Bucket][]Entry{},
		fired: map[firedKey]time.Time{}}
	return p.run(s)
}

// pass replays the lines that decide in one part.
type pass struct {
	*target
	ctx     context.Context
	index   *index
	report  *Report
	batches map[*store.Bucket][]Entry // by bucket
	fired   map[firedKey]time.Time    // up to when occurrences were pushed
}

func (p *pass) run(s *selection) error {
	for topic, revision := range p.index.cleared {
		if p.lost != nil && !p.lost[p.shard.BucketOf(topic)].holds(revision) {
			continue
		}
		cleared := Entry{Kind: EntryCleared, Revision: revision, Job: store.Job{Topic: topic}}
		if err := p.add(cleared); err != nil {
			return err
		}
	}
	for _, lines := range p.index.groups {
		for _, l := range lines {
			if err := p.addGroup(l); err != nil {
				return err
			}
		}
	}
	for _, c := range p.index.cursors {
		if err := p.addCursor(c); err != nil {
			return err
		}
	}
	err := s.each(p.ctx, new(int), func(l *line) error {
		if l.kind != EntryCleared && !p.index.mine(l) {
			return nil
		}
		p.noteFired(l)
		if !p.index.decides(l) {
			return nil
		}
		if p.index.cancelled(l) {
			p.report.Deleted++
			return nil
		}
		e := p.index.entry(l)
		if e.Kind == EntryStored && p.topic != nil && !p.topic(e.Job.Topic) {
			p.report.Unknown++
			return nil
		}
		if e.Kind == EntryStored && p.missing != nil && !p.missing[l.key] {
			p.report.count(&e, EffectNone, p.dry)
			return nil
		}
		if p.lost != nil && !isOf(l, p.shard) {
			if e.Kind != EntryStored {
				return nil
			}
			e.Kind = EntryAdopted
			return p.add(e)
		}
		if p.lost != nil && !p.lost[p.shard.BucketOf(l.topic)].has(l) {
			p.report.count(&e, EffectNone, p.dry)
			return nil
		}
		return p.add(e)
	})
	if err == nil {
		err = p.addFired()
	}
	if err != nil {
		return err
	}
	for bucket := range p.batches {
		if err := p.flush(bucket); err != nil {
			return err
		}
	}
	return nil
}

// addGroup adds a line about a group.
func (p *pass) addGroup(l *line) error {
	for _, b := range p.shard.Buckets() {
		if l.isIn(b) && (p.lost == nil || p.lost[b].holds(l.revision)) {
			return p.addTo(b, entryOf(l))
		}
	}
	return nil
}

func (p *pass) add(e Entry) error { return p.addTo(p.shard.BucketOf(e.Job.Topic), e) }

func (p *pass) addTo(bucket *store.Bucket, e Entry) error {
	if _, wanted := p.names[bucket]; !wanted {
		return nil
	}
	p.batches[bucket] = append(p.batches[bucket], e)
	if len(p.batches[bucket]) < replayStep {
		return nil
	}
	return p.flush(bucket)
}

func (p *pass) flush(bucket *store.Bucket) error {
	batch := p.batches[bucket]
	p.batches[bucket] = batch[:0]
	if len(batch) == 0 {
		return nil
	}
	effects, err := Replay(p.ctx, bucket, p.mode, p.names[bucket], p.dry, batch)
	for i, effect := range effects {
		p.report.count(&batch[i], effect, p.dry)
		if p.found != nil && effect != EffectNone {
			p.found[keyOf(batch[i].Job.Topic, batch[i].Job.ID)] = true
		}
	}
	return err
}
