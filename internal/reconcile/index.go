package reconcile

import (
	"errors"
	"slices"
	"strings"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

type ending uint8

const (
	living ending = iota
	deleted
	delivered
	dead
)

// latest is what the lines read so far say about a job. There may be a million of them, so it is small.
type latest struct {
	content int64 // revision of the last line with the job's content; 0: none
	created int64 // of that job, Unix ms
	end     int64 // revision of the last line that says how it ended
	ending  ending
}

// maxJobs is the most jobs that one pass over the journal tracks, at about 110 bytes each. With more jobs the journal
// is read eight times instead of twice.
const maxJobs = 2_000_000

var errTooMany = errors.New("more jobs than one pass can track")

// index tracks which lines decide, for the jobs whose keys belong to its part.
type index struct {
	part, parts uint64
	jobs        map[key]latest
	cleared     map[string]int64   // topic → revision
	groups      map[string][]*line // by group: the last lines about it
	groupLines  int                // in groups and cursors
	cursors     map[cursorKey]*cursorLines
	deaths      map[key]*journal.AttemptLine // of jobs that are dead
}

func newIndex(part, parts int) *index {
	return &index{part: uint64(part), parts: uint64(parts), jobs: map[key]latest{}, cleared: map[string]int64{},
		groups: map[string][]*line{}, cursors: map[cursorKey]*cursorLines{}, deaths: map[key]*journal.AttemptLine{}}
}

func (f *index) mine(l *line) bool { return l.key[0]%f.parts == f.part }

var endings = map[EntryKind]ending{
	EntryDeleted: deleted, EntryDelivered: delivered, EntryDied: dead,
}

// add adds a line. All requests come before all attempts.
func (f *index) add(l *line) error {
	if l.kind == EntryCleared {
		f.cleared[l.topic] = max(f.cleared[l.topic], l.revision)
		return nil
	}
	if !f.mine(l) {
		return nil
	}
	switch {
	case l.ofGroup():
		return f.addGroup(l)
	case l.kind == EntryCursor:
		return f.addCursor(l)
	}
	j := f.jobs[l.key]
	switch {
	case l.kind == EntryStored:
		if l.revision > j.content {
			j.content, j.created = l.revision, l.request.CreatedAt.UnixMilli()
		}
	case j.end != 0 && (l.revision < j.end || l.revision == j.end && l.kind != EntryDelivered):
		return nil
	default:
		j.end, j.ending = l.revision, endings[l.kind]
	}
	if l.kind == EntryDied {
		f.deaths[l.key] = l.attempt
		if j.content != 0 && j.created != l.attempt.CreatedAt.UnixMilli() {
			j.ending = deleted // it is a later job of the same id that died, and no line has its content
		}
	}
	f.jobs[l.key] = j
	return f.tooMany()
}

func (f *index) addGroup(l *line) error {
	list, r := f.groups[l.request.Group], l.request
	i := slices.IndexFunc(list, func(was *line) bool {
		w := was.request
		return was.kind == l.kind && w.Shard == r.Shard && w.Bucket == r.Bucket && w.Topics == r.Topics
	})
	switch {
	case i < 0:
		f.groups[r.Group] = append(list, l)
		f.groupLines++
	case list[i].revision < l.revision:
		list[i] = l
	}
	return f.tooMany()
}

// cancelled reports whether a job was deleted with its group after a line about it. The index may not know: then the
// shard does when the line is replayed.
func (f *index) cancelled(l *line) bool {
	return l.kind == EntryStored && slices.ContainsFunc(f.groups[l.request.Group], func(c *line) bool {
		return c.kind == EntryCancelled && c.shard == l.shard && c.revision >= l.revision &&
			slices.ContainsFunc(strings.Fields(c.request.Topics), func(pattern string) bool {
				return registry.MatchesPattern(pattern, l.topic)
			})
	})
}

// groupLineJobs is how many jobs need as much memory as a line about a group.
const groupLineJobs = 8

func (f *index) tooMany() error {
	if len(f.jobs)+groupLineJobs*f.groupLines > maxJobs {
		return errTooMany
	}
	return nil
}

// state returns how the job ended by its last line. The line of a delivery has the revision of the reservation, and a
// push that finds a job has the revision of what it found.
func (j *latest) state() ending {
	if j.end < j.content {
		return living
	}
	return j.ending
}

// ended reports whether the job is gone.
func (j *latest) ended() bool { return j.state() == deleted || j.state() == delivered }

// decides reports whether a line decides about its job, so that it is to be replayed.
func (f *index) decides(l *line) bool {
	j := f.jobs[l.key]
	switch l.kind {
	case EntryCleared, EntryCancelled, EntryClosed, EntryCursor:
		return false // are replayed before all others
	case EntryStored:
		return j.content == l.revision && !j.ended() && l.revision > f.cleared[l.topic]
	case EntryDied:
		// The content's entry has it, too, but another host may have a newer content.
		return j.end == l.revision && j.state() != living
	}
	return j.end == l.revision && j.ended()
}

// entry returns the entry of a line that decides, with what other lines say about its job.
func (f *index) entry(l *line) Entry {
	e := entryOf(l)
	j := f.jobs[l.key]
	if d := f.deaths[l.key]; l.kind == EntryStored && j.state() == dead && d != nil && e.Job.State != store.Dead {
		died(&e.Job, d)
	}
	return e
}
