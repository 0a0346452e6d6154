package reconcile

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// cursorKey names a schedule in one bucket: revisions of several buckets cannot be compared.
type cursorKey struct {
	name, shard string
	bucket      int
}

// cursorLines are the lines about a schedule in one bucket.
type cursorLines struct {
	newest *line
	last   []store.Occurrence // each line has only the newest one
	gone   time.Time          // those up to here are of a schedule of the same name that was removed
}

// lastOccurrences is how many occurrences a schedule keeps.
const lastOccurrences = 10

func (f *index) addCursor(l *line) error {
	r := l.request
	key := cursorKey{r.Schedule, r.Shard, r.Bucket}
	c := f.cursors[key]
	if c == nil {
		c = &cursorLines{newest: l}
		f.cursors[key] = c
		f.groupLines++
	}
	if l.revision > c.newest.revision {
		c.newest = l
	}
	if r.Definition == 0 && r.For.After(c.gone) {
		c.gone = r.For
	}
	var last []store.Occurrence
	if json.Unmarshal(r.Last, &last) == nil {
		c.add(last)
	}
	return f.tooMany()
}

func (c *cursorLines) add(last []store.Occurrence) {
	c.last = append(c.last, last...)
	slices.SortStableFunc(c.last, func(a, b store.Occurrence) int { return cmp.Compare(a.For, b.For) })
	c.last = slices.CompactFunc(c.last, func(a, b store.Occurrence) bool { return a.ID == b.ID })
	c.last = slices.Delete(c.last, 0, max(0, len(c.last)-lastOccurrences))
}

// entry returns the entry of a schedule's lines.
func (c *cursorLines) entry() Entry {
	r := c.newest.request
	s := &store.ScheduleChange{
		Name: r.Schedule, Topic: r.Topic, Rev: r.Definition, At: r.For, Last: c.last, LeftOut: r.LeftOut,
	}
	return Entry{Kind: EntryCursor, Revision: r.Revision, Job: store.Job{Topic: r.Topic}, Schedule: s, Gone: c.gone}
}

// addCursor adds what the lines about a schedule say. The lines of a shard that is no longer in use have no effect but
// that the schedule goes on from its cursor.
func (p *pass) addCursor(c *cursorLines) error {
	e := c.entry()
	if p.topic != nil && !p.topic(e.Job.Topic) {
		return nil
	}
	if !isOf(c.newest, p.shard) {
		if e.Kind = EntryMoved; e.Schedule.Rev == 0 {
			return nil
		}
		return p.add(e)
	}
	for _, b := range p.shard.Buckets() {
		if c.newest.isIn(b) && (p.lost == nil || p.lost[b].holds(e.Revision)) {
			return p.addTo(b, e)
		}
	}
	return nil
}

// firedKey names a schedule and the topic of its jobs.
type firedKey struct{ schedule, topic string }

// noteFired notes that an occurrence was pushed, if the data may have lost that.
func (p *pass) noteFired(l *line) {
	schedule, at, ok := l.occurrence()
	if !ok || p.lost != nil && isOf(l, p.shard) && !p.lost[p.shard.BucketOf(l.topic)].holds(l.revision) {
		return
	}
	if key := (firedKey{schedule, l.topic}); at.After(p.fired[key]) {
		p.fired[key] = at
	}
}

// addFired adds up to when occurrences of schedules were pushed, by the lines of their jobs: the line of the cursor may
// be in the journal of a host that will not be back.
func (p *pass) addFired() error {
	for key, at := range p.fired {
		if p.topic != nil && !p.topic(key.topic) {
			continue
		}
		e := Entry{Kind: EntryFired, Job: store.Job{Topic: key.topic, Schedule: key.schedule, For: at}}
		if err := p.add(e); err != nil {
			return err
		}
	}
	return nil
}
