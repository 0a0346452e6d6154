package recovery

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/journal"
)

// What a host tells of a job: that it was delivered or deleted there; or that it died there, followed by the line of its last attempt; or else the
// lines of its last changes.
const (
	endedElsewhere = "x"
	diedElsewhere  = "d"
)

// nameOf is under what hosts tell each other of a job: its key and when it was created.
func nameOf(k key, created int64) string {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], k[0])
	binary.BigEndian.PutUint64(b[8:], k[1])
	binary.BigEndian.PutUint64(b[16:], uint64(created))
	return string(b[:])
}

// maxTold is how many ends a host tells of, at about 60 bytes of Redis each.
const maxTold = 2_000_000

// teller gathers what a host tells the others.
type teller struct {
	ctx   context.Context
	tell  func(context.Context, map[string]string) error
	batch map[string]string
	total int
}

func (t *teller) add(name, what string) error {
	t.batch[name] = what
	if len(t.batch) < step {
		return nil
	}
	return t.flush()
}

func (t *teller) flush() error {
	if len(t.batch) == 0 {
		return nil
	}
	if t.total += len(t.batch); t.total > maxTold {
		return fmt.Errorf("more than %d jobs ended; compare the journals of all hosts by hand: wakecall recover", maxTold)
	}
	err := t.tell(t.ctx, t.batch)
	clear(t.batch)
	return err
}

// tellEnds tells what this journal knows of changes and ends since a time. The last word on a job counts: a change, then its death, then its
// deletion.
//
// Ends stand under the name that all hosts have for a job, and changes under that and the host's own, so that no host's change takes the place of
// another's end.
func tellEnds(ctx context.Context, dir, host string, since time.Time, tell func(context.Context, map[string]string) error) error {
	t := &teller{ctx: ctx, tell: tell, batch: map[string]string{}}
	r := &recovery{Options: Options{Dirs: []string{dir}}}
	changes := map[string][]journal.RequestLine{}
	err := r.requests(ctx, since, new(int), func(l *journal.RequestLine) error {
		if l.Op != journal.OpChange && l.Op != journal.OpRun || l.CreatedAt.IsZero() {
			return nil
		}
		name := nameOf(keyOf(l.Topic, l.ID), l.CreatedAt.UnixMilli())
		changes[name] = lastWords(append(changes[name], *l))
		return nil
	})
	for name, lines := range changes {
		var what []byte
		for i := range lines {
			what = journal.AppendRequest(what, &lines[i])
		}
		if err == nil {
			err = t.add(name+host, string(what))
		}
	}
	if err == nil {
		err = t.flush()
	}
	if err == nil {
		err = r.attempts(ctx, since, new(int), func(l *journal.AttemptLine) error {
			if l.CreatedAt.IsZero() || !slices.Contains(ends, l.Outcome) {
				return nil
			}
			what := endedElsewhere
			if l.Outcome != journal.Done {
				what = diedElsewhere + string(journal.AppendAttempt(nil, l))
			}
			return t.add(nameOf(keyOf(l.Topic, l.ID), l.CreatedAt.UnixMilli()), what)
		})
	}
	if err == nil {
		err = r.requests(ctx, since, new(int), func(l *journal.RequestLine) error {
			if l.Op != journal.OpDelete || l.CreatedAt.IsZero() {
				return nil
			}
			return t.add(nameOf(keyOf(l.Topic, l.ID), l.CreatedAt.UnixMilli()), endedElsewhere)
		})
	}
	if err == nil {
		err = t.flush()
	}
	return err
}

// lastWords keeps of the changes of a job the last one, and the last that gave it a body.
func lastWords(lines []journal.RequestLine) []journal.RequestLine {
	last := len(lines) - 1
	for i := last; i >= 0; i-- {
		if lines[i].Body == nil {
			continue
		}
		if i == last {
			break
		}
		return []journal.RequestLine{lines[i], lines[last]}
	}
	return lines[last:]
}

var ends = []journal.Outcome{journal.Done, journal.Dead, journal.Expired}

const (
	atWork    = 10 * time.Minute // how long after its last word a host counts as one that will be heard of: a comparison can take minutes
	tellAhead = 20 * time.Second // how much further back than its own word a host tells: others' may be older
	tellLimit = 20 * time.Second // how long the others are waited for
	tellAll   = 2 * time.Minute  // the same when they have to read all of their journals
	tellEvery = 50 * time.Millisecond
	askEvery  = 10 // looks for answers
)

// everything begins a question about all that a journal knows, not only what is as new as what the server may have forgotten.
const everything = "all "

// hello is said by a host that has just come, so that the others know of it before they read it in the data.
const hello = "hello "

// inquiry asks the other hosts, once, when there is something to ask.
type inquiry struct {
	*kept
	hosts []string // that have not told yet
	heard []string // that have
	about string
	asked bool
}

// Ends is what others know.
func (q *inquiry) Ends(ctx context.Context, names []string) ([]string, error) {
	if !q.asked {
		if err := q.ask(ctx); err != nil {
			return nil, err
		}
		q.asked = true
	}
	ends, err := q.shard.Ends(ctx, names)
	if err != nil || len(q.heard) == 0 {
		return ends, err
	}
	for _, host := range q.heard {
		fields := make([]string, len(names))
		for i, name := range names {
			fields[i] = name + host
		}
		changes, err := q.shard.Ends(ctx, fields)
		if err != nil {
			return nil, err
		}
		for i, lines := range changes {
			if ends[i] == "" || strings.HasPrefix(ends[i], "{") { // no end, but perhaps a change on a third host
				ends[i] += lines
			}
		}
	}
	// The server may have been killed since, and what was told with it: nothing found would mean nothing then.
	told, err := q.shard.Told(ctx, q.heard, q.about)
	if err == nil && len(told) < len(q.heard) {
		err = fmt.Errorf("shard %s has forgotten what other hosts told", q.shard.Name())
	}
	return ends, err
}

func (q *inquiry) ask(ctx context.Context) error {
	patience := tellLimit
	if strings.HasPrefix(q.about, everything) {
		patience = tellAll
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	t := time.NewTicker(tellEvery)
	defer t.Stop()
	for n := 0; ; n++ {
		if n%askEvery == 0 { // who has just come did not hear it before
			if err := q.shard.Ask(ctx, q.about); err != nil {
				return err
			}
		}
		told, err := q.shard.Told(ctx, q.hosts, q.about)
		if err != nil {
			return err
		}
		q.heard = append(q.heard, told...)
		q.hosts = slices.DeleteFunc(q.hosts, func(host string) bool { return slices.Contains(told, host) })
		if len(q.hosts) == 0 {
			return nil
		}
		select {
		case <-t.C:
		case <-limit.C:
			q.opts.Logger.Warn("another host has not told what its journal knows; jobs that ended there may be called again",
				"shard", q.shard.Name(), "hosts", q.hosts)
			q.Keeper.hosts.forget(q.hosts)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answer tells another host what ended or was changed here.
func (k *kept) answer(ctx context.Context, about string) {
	if strings.Contains(about, k.host) || about == k.answered {
		return // its own question, or one that was asked twice
	}
	if host, ok := strings.CutPrefix(about, hello); ok {
		k.hosts.alive(host)
		return
	}
	question, all := strings.CutPrefix(about, everything)
	host, _, _ := strings.Cut(question, " ")
	k.hosts.alive(host) // also while its own comparison keeps it from saying so in the data
	since := time.Time{}
	if ms := k.told.Load(); ms != 0 && !all {
		since = time.UnixMilli(ms).Add(-tellAhead)
	}
	err := tellEnds(ctx, k.opts.Dir, k.host, since, k.shard.TellEnds)
	if err == nil {
		err = k.shard.NoteTold(ctx, k.host, about)
	}
	if err == nil {
		k.answered = about
	} else if ctx.Err() == nil {
		k.opts.Logger.Warn("another host could not be told what ended here", "shard", k.shard.Name(), "error", err)
	}
}
