package recovery

import (
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/queue"
)

// key stands for a topic and an id: two independent 64-bit hashes, so that a collision among a billion jobs is one in 10^20.
type key [2]uint64

func keyOf(topic, id string) key {
	text := topic + "\x00" + id
	return key{xxhash.Sum64String(text), xxhash.Sum64String(text + "\x01")}
}

type state uint8

const (
	living    state = iota // accepted, and nothing known of an end
	delivered              // called, and the endpoint said yes
	dead
	deleted
)

// entry is what the journal says of the newest job of an id. There may be a million of them, so it is kept small.
type entry struct {
	created  int64  // ms by Redis's clock; 0 of a spooled push
	at       int64  // ms by the host's clock, when that was written
	look     uint32 // what it looked like when it was looked up
	state    state
	accepted bool // its push is among the lines, so it can be pushed again
	spooled  bool
	changed  bool // by a later request
	seen     bool // later, as it was then

	checked bool // looked up, with the result:
	there   bool
	missing bool
	stale   bool // an older job of the id is there
}

// books are the entries of the jobs that a pass is about.
type books struct {
	opts     *Options
	mine     func(key) bool
	entries  map[key]entry
	cleared  map[string]int64             // topic → ms by the host's clock, when all of its jobs were deleted
	redriven map[string]int64             // topic → when dead ones were put back that are not named
	putBack  map[key]int64                // when dead ones were that are
	deaths   map[key]*journal.AttemptLine // the last attempts of those that died
	missing  int
	changed  int
}

func newBooks(o *Options, mine func(key) bool) *books {
	return &books{opts: o, mine: mine, entries: map[key]entry{}, cleared: map[string]int64{}, redriven: map[string]int64{},
		putBack: map[key]int64{}, deaths: map[key]*journal.AttemptLine{}}
}

var errTooMany = errors.New("more jobs than one pass keeps in mind")

func (b *books) knows(topic, id string) bool {
	_, ok := b.entries[keyOf(topic, id)]
	return ok
}

func (b *books) put(k key, e entry) error {
	b.entries[k] = e
	if len(b.entries) > maxJobs {
		return errTooMany
	}
	return nil
}

// wanted says whether a push is one that may have been forgotten.
func (b *books) wanted(l *journal.RequestLine) bool {
	o := b.opts
	return (o.Shard == "" || l.Shard == o.Shard) && (o.Before.IsZero() || l.CreatedAt.Before(o.Before)) && (o.Late.IsZero() || l.TS.After(o.Late))
}

// request enters a request.
func (b *books) request(l *journal.RequestLine) error {
	at := l.TS.UnixMilli()
	if l.ID == "" {
		switch l.Op {
		case journal.OpClear:
			b.cleared[l.Topic] = max(at, b.cleared[l.Topic])
		case journal.OpRedrive:
			b.redriven[l.Topic] = max(at, b.redriven[l.Topic])
		}
		return nil
	}
	k := keyOf(l.Topic, l.ID)
	if !b.mine(k) {
		return nil
	}
	e, known := b.entries[k]
	created := int64(0)
	if !l.CreatedAt.IsZero() {
		created = l.CreatedAt.UnixMilli()
	}
	switch l.Op {
	case journal.OpPush, journal.OpReplace, journal.OpMove, journal.OpDuplicate:
		switch {
		case known && created < e.created:
			return nil
		case !known || created > e.created:
			e = entry{created: created, at: at, accepted: b.wanted(l)}
		case !e.accepted: // its end, or a change of it, was read first
			e.accepted = b.wanted(l)
		case e.state == deleted && !asItWas(l.Op): // the id was used again within a millisecond of its end
			e.state = living
		}
		e.seen = e.seen || asItWas(l.Op)
		return b.put(k, e)
	case journal.OpSpool:
		if b.opts.Shard != "" { // the spool is drained in its own way
			return nil
		}
		if known && (e.at > at || e.spooled && (e.at == at || e.state == living && l.OnDuplicate != replaceText)) { // the first one stays, unless it is replaced
			return nil
		}
		return b.put(k, entry{at: at, accepted: true, spooled: true})
	case journal.OpDelete, journal.OpDrop:
		if !e.concerns(known, created, at) {
			return nil
		}
		if created == 0 && !known {
			return nil // nothing to compare with
		}
		e.state, e.created = deleted, max(created, e.created)
		return b.put(k, e)
	case journal.OpChange, journal.OpRun:
		if !e.concerns(known, created, at) || b.opts.Shard != "" && l.Shard != "" && l.Shard != b.opts.Shard && !e.accepted {
			return nil
		}
		if !known || created > e.created {
			e = entry{created: created, at: at}
		}
		if !e.changed {
			b.changed++
		}
		e.changed = true
		return b.put(k, e)
	case journal.OpRedrive:
		if known {
			b.putBack[k] = max(at, b.putBack[k])
			if e.state == dead {
				e.state = living
				delete(b.deaths, k)
			}
			return b.put(k, e)
		}
	}
	return nil
}

// asItWas says whether a line tells of a job that lived already, as it was then.
func asItWas(op journal.Op) bool { return op == journal.OpMove || op == journal.OpDuplicate }

// concerns says whether a line is about this job or a newer one of the id, by the creation that it names or else by its time.
func (e *entry) concerns(known bool, created, at int64) bool {
	if !known {
		return true
	}
	if created == 0 || e.created == 0 {
		return at >= e.at
	}
	return created >= e.created
}

// attempt enters the end of a job.
func (b *books) attempt(l *journal.AttemptLine) error {
	k := keyOf(l.Topic, l.ID)
	if !b.mine(k) {
		return nil
	}
	e, known := b.entries[k]
	created := l.CreatedAt.UnixMilli()
	if l.CreatedAt.IsZero() {
		created = 0
	}
	switch {
	case !known:
		if l.Outcome != journal.Done || created == 0 || b.opts.Shard != "" && l.Shard != b.opts.Shard {
			return nil
		}
		return b.put(k, entry{created: created, at: l.TS.UnixMilli(), state: delivered})
	case e.state == deleted || !b.same(&e, created, l.StartedAt):
		return nil
	}
	at := l.TS.UnixMilli()
	switch l.Outcome {
	case journal.Done:
		e.state = delivered
		delete(b.deaths, k)
	case journal.Dead, journal.Expired:
		if at <= max(b.putBack[k], b.redriven[l.Topic]) || e.state == delivered {
			return nil
		}
		e.state = dead
		died := *l
		b.deaths[k] = &died
	default:
		return nil
	}
	return b.put(k, e)
}

func (b *books) same(e *entry, created int64, started time.Time) bool {
	if created == 0 || e.created == 0 {
		return started.UnixMilli() >= max(e.created, e.at)
	}
	return created == e.created
}

// lookOf stands for what a change can change of a job.
func lookOf(j *queue.Job) uint32 {
	h := xxhash.New()
	_, _ = fmt.Fprintf(h, "%d %d ", j.DueAt.UnixMilli(), j.Priority)
	_, _ = h.Write(j.Body)
	return uint32(h.Sum64())
}

// matters says whether the shards have to be asked about a job.
func (e *entry) matters(empty bool) bool {
	switch e.state {
	case living:
		return e.accepted || e.changed
	case deleted, delivered:
		return !empty
	default:
		return e.accepted
	}
}

type verdict uint8

const (
	fine verdict = iota
	missing
	stale // an older job of the id lives, which the newer one had replaced
	ended // it lives though it ended
)

// judge compares what the journal says with what was found, nil for nothing.
func (e *entry) judge(job *queue.Job) verdict {
	created := int64(0)
	if job != nil {
		created = job.CreatedAt.UnixMilli()
	}
	switch e.state {
	case living:
		switch {
		case !e.accepted:
			return fine
		case job == nil:
			return missing
		case created < e.created:
			return stale
		}
	case dead:
		if e.accepted && job == nil {
			return missing
		}
	case deleted:
		if job != nil && created <= e.created {
			return ended
		}
	case delivered:
		if job != nil && (created < e.created || created == e.created && job.State != queue.Running) {
			return ended
		}
	}
	return fine
}
