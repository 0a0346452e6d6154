package recovery

import (
	"errors"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/queue"
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
	content int64 // revision of the line with the job's content; 0: none
	since   int64 // revision of the last line that shows this job alive, by its creation; 0: not known
	state   int64 // revision of the line that says how it ended, or that it has not
	created int64 // of the content, ms
	ending  ending
}

// maxJobs is the most jobs that one pass over the journal tracks, at about 110 bytes each. With more jobs the journal
// is read eight times instead of twice.
const maxJobs = 2_000_000

var errTooMany = errors.New("more jobs than one pass can track")

// fold tracks which lines decide, for the jobs whose keys belong to its part.
type fold struct {
	part, parts uint64
	jobs        map[key]latest
	cleared     map[string]int64             // topic → revision
	deaths      map[key]*journal.AttemptLine // of jobs that are dead
}

func newFold(part, parts int) *fold {
	return &fold{part: uint64(part), parts: uint64(parts), jobs: map[key]latest{}, cleared: map[string]int64{},
		deaths: map[key]*journal.AttemptLine{}}
}

func (f *fold) mine(l *line) bool { return l.key[0]%f.parts == f.part }

var endings = map[queue.EntryKind]ending{
	queue.EntryDeleted: deleted, queue.EntryDelivered: delivered, queue.EntryDied: dead,
}

// add adds a line. All requests come before all attempts.
func (f *fold) add(l *line) error {
	if l.kind == queue.EntryCleared {
		f.cleared[l.topic()] = max(f.cleared[l.topic()], l.revision)
		return nil
	}
	if !f.mine(l) {
		return nil
	}
	j := f.jobs[l.key]
	switch {
	case l.kind == queue.EntryStored:
		j.store(l)
	case j.state != 0 && (l.revision < j.state || l.revision == j.state && l.kind != queue.EntryDelivered):
		return nil
	default:
		j.state, j.ending = l.revision, endings[l.kind]
	}
	if l.kind == queue.EntryDied {
		f.deaths[l.key] = l.attempt
	}
	f.jobs[l.key] = j
	if len(f.jobs) > maxJobs {
		return errTooMany
	}
	return nil
}

func (j *latest) store(l *line) {
	switch {
	// its host's clock may have been set back, so a later one came first
	case j.content != 0 && l.revision <= j.content:
		if l.found || l.created != j.created {
			return
		}
		j.since = max(j.since, l.revision)
	case l.found: // it shows that the job exists, not whether it is dead
		if l.created != j.created {
			j.since = 0
		}
		j.content, j.created = l.revision, l.created
		return
	default:
		j.content, j.created, j.since = l.revision, l.created, l.revision
	}
	if j.state == 0 || l.revision > j.state {
		j.state, j.ending = l.revision, living
	}
}

// ended reports whether the job has ended by its last line. A push that found the job while it was called has the
// revision of that call.
func (j *latest) ended() bool {
	return j.ending == deleted && (j.content == 0 || j.state > j.content) ||
		j.ending == delivered && (j.content == 0 || j.state >= j.content)
}

// decides reports whether a line decides about its job, so that it is to be replayed.
func (f *fold) decides(l *line) bool {
	j := f.jobs[l.key]
	switch l.kind {
	case queue.EntryCleared:
		return false // is replayed before all others
	case queue.EntryStored:
		at, wasCleared := f.cleared[l.topic()]
		return j.content == l.revision && !j.ended() && !(wasCleared && l.revision < at)
	case queue.EntryDied:
		// The content's entry has it, too, but another host may have a newer content.
		return j.state == l.revision && j.ending == dead
	}
	return j.state == l.revision && j.ended()
}

// entry returns the entry of a line that decides, with what other lines say about its job.
func (f *fold) entry(l *line) queue.Entry {
	e := entryOf(l)
	j := f.jobs[l.key]
	e.Since = j.since
	if d := f.deaths[l.key]; l.kind == queue.EntryStored && j.ending == dead && d != nil {
		died(&e.Job, d)
	}
	return e
}
