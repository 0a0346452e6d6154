package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/queue"
)

// Queue is the part of a queue.Queue that a recovery needs.
type Queue interface {
	Lookup(ctx context.Context, refs []queue.Ref, shard string) ([]*queue.Job, error)
	PushBatch(ctx context.Context, pushes []queue.Push) []queue.Result
	Delete(ctx context.Context, topic, id string) error
	Change(ctx context.Context, topic, id string, c queue.Change) (*queue.Job, error)
	Restore(ctx context.Context, jobs []queue.Job) (int, error)
}

// Options say what is compared.
type Options struct {
	Queue   Queue
	Dirs    []string // journals of one or several hosts
	Since   time.Time
	Shard   string            // only what this shard accepted; empty: all
	Empty   bool              // the shard has lost everything, so nothing that ended can live again
	Before  time.Time         // only what was created earlier than that, by Redis's clock; zero: all
	Late    time.Time         // only what was written to the journal since then, by the host's clock; zero: all
	Others  Others            // what other hosts' journals know; nil: there are none
	Spooled bool              // only what was taken while no shard was up
	Topic   func(string) bool // says whether a topic is registered; nil: all are
	DryRun  bool              // nothing is changed
	Settle  time.Duration     // how long to wait for lines of requests that were under way; 0: a second
	Logger  *slog.Logger      // nil: nothing is logged
}

// Others tell by name (see nameOf) what became of jobs elsewhere: endedElsewhere, the line of a change, or nothing.
type Others interface {
	Ends(ctx context.Context, names []string) ([]string, error)
}

// Report is what a recovery found. Jobs = There + Delivered + Dead + Deleted + Missing.
type Report struct {
	Jobs      int `json:"jobs"`      // accepted in that time
	There     int `json:"there"`     // live in a shard
	Delivered int `json:"delivered"` // and gone
	Dead      int `json:"dead"`      // by the journal, and not in a shard any more: restored as dead
	Deleted   int `json:"deleted"`
	Missing   int `json:"missing"` // neither: pushed again, unless it was a dry run

	Pushed   int `json:"pushed"`   // of the missing
	Unknown  int `json:"unknown"`  // of the missing, left out: their topic is not registered any more
	Failed   int `json:"failed"`   // of the missing, refused
	Ended    int `json:"ended"`    // lived again though they were deleted or delivered; deleted
	Changed  int `json:"changed"`  // changed again
	Restored int `json:"restored"` // dead jobs that are visible again
	Torn     int `json:"torn"`     // lines of the journal that cannot be read
}

// Quiet says whether everything was as the journal has it.
func (r *Report) Quiet() bool { return r.Missing+r.Ended+r.Changed+r.Restored == 0 }

func (r *Report) String() string {
	return fmt.Sprintf("%d jobs were accepted; %d are there, %d delivered, %d dead, %d deleted, %d missing; %d pushed again, %d deleted again, "+
		"%d changed again, %d dead ones restored", r.Jobs, r.There, r.Delivered, r.Dead, r.Deleted, r.Missing, r.Pushed, r.Ended, r.Changed, r.Restored)
}

// maxJobs is how many jobs one pass over the journal keeps in mind, at about 110 bytes each.
const maxJobs = 1_000_000

// Recover compares and puts right. After an error the report tells what was done; doing it again does no harm.
func Recover(ctx context.Context, o Options) (Report, error) {
	if o.Settle == 0 {
		o.Settle = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Topic == nil {
		o.Topic = func(string) bool { return true }
	}
	var report Report
	for part, parts := 0, 1; part < parts; part++ {
		r := &recovery{Options: o, report: &report, part: part, parts: parts}
		err := r.run(ctx)
		if errors.Is(err, errTooMany) {
			part, parts = -1, 4*parts
			report = Report{Pushed: report.Pushed, Ended: report.Ended, Changed: report.Changed, Restored: report.Restored} // which are there by now
			continue
		}
		if err != nil {
			return report, err
		}
	}
	return report, nil
}

// recovery is one pass, over the jobs whose key falls into its part.
type recovery struct {
	Options
	report      *Report
	part, parts int
	books       *books
	late        map[key]bool                  // nil: all jobs are looked at
	elsewhere   map[key][]journal.RequestLine // changes made on other hosts
}

func (r *recovery) run(ctx context.Context) error {
	started := time.Now()
	if !r.Late.IsZero() && r.Empty {
		if err := r.findLate(ctx); err != nil || len(r.late) == 0 {
			return err
		}
	}
	r.books = newBooks(&r.Options, r.mine)
	torn := 0
	if err := r.read(ctx, r.Since, &torn); err != nil {
		return err
	}
	r.report.Torn = max(r.report.Torn, torn)
	if err := r.compare(ctx); err != nil {
		return err
	}
	r.count()
	if r.DryRun || r.books.missing+r.books.changed+len(r.books.deaths) == 0 {
		return nil
	}
	if err := r.askOthers(ctx); err != nil {
		return err
	}
	// A job that just ended is gone from its shard before its line stands in the journal.
	select {
	case <-time.After(r.Settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.read(ctx, started.Add(-clockSlack), new(int)); err != nil {
		return err
	}
	return r.restore(ctx)
}

// findLate finds the jobs whose lines came late. Mostly there are none, or a few, while new jobs may have come by the hundred thousand.
func (r *recovery) findLate(ctx context.Context) error {
	r.late = map[key]bool{}
	for _, dir := range r.Dirs {
		for l, err := range journal.ReadRequests(dir, journal.Range{Since: r.Late, CreatedBefore: r.Before}) {
			if err := errors.Join(ctx.Err(), skipTorn(err, new(int))); err != nil {
				return err
			}
			if err == nil {
				r.late[keyOf(l.Topic, l.ID)] = true
			}
		}
	}
	return nil
}

// askOthers finds out which missing jobs ended on another host, and which of them, and of those that were changed here, were changed there.
func (r *recovery) askOthers(ctx context.Context) error {
	if r.Others == nil {
		return nil
	}
	r.elsewhere = map[key][]journal.RequestLine{}
	var names []string
	var keys []key
	ask := func() error {
		answers, err := r.Others.Ends(ctx, names)
		if err != nil {
			return err
		}
		for i, a := range answers {
			r.learn(keys[i], a)
		}
		names, keys = names[:0], keys[:0]
		return nil
	}
	for k, e := range r.books.entries {
		if e.state == dead || !e.missing && !(e.changed && e.there && e.state == living) {
			continue
		}
		names, keys = append(names, nameOf(k, e.created)), append(keys, k)
		if len(names) == step {
			if err := ask(); err != nil {
				return err
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return ask()
}

func (r *recovery) learn(k key, answer string) {
	e := r.books.entries[k]
	var death journal.AttemptLine
	switch {
	case answer == "":
		return
	case !e.missing && (answer == endedElsewhere || strings.HasPrefix(answer, diedElsewhere)):
		e.changed = false // that host puts it right
	case answer == endedElsewhere:
		e.missing, e.state = false, delivered
		r.report.Missing--
		r.report.Delivered++
	case strings.HasPrefix(answer, diedElsewhere):
		if json.Unmarshal([]byte(answer[len(diedElsewhere):]), &death) != nil {
			return
		}
		e.state = dead
		r.books.deaths[k] = &death
		r.report.Missing--
		r.report.Dead++
	default:
		for text := range strings.Lines(answer) {
			var l journal.RequestLine
			if json.Unmarshal([]byte(text), &l) != nil {
				return
			}
			e.changed = true
			r.elsewhere[k] = append(r.elsewhere[k], l)
		}
	}
	r.books.entries[k] = e
}

// clockSlack is how far a line's time may be from the time of its writing, and how far a host's clock may be set back unpunished.
const clockSlack = time.Second

func (r *recovery) mine(k key) bool {
	return k[0]%uint64(r.parts) == uint64(r.part) && (r.late == nil || r.late[k])
}

// read enters the journal's lines from a time on into the books. Deletions count by creation time, so the order of hosts does not matter; all
// attempts come after all requests.
func (r *recovery) read(ctx context.Context, since time.Time, torn *int) error {
	err := r.requests(ctx, since, torn, r.books.request)
	if err != nil {
		return err
	}
	return r.attempts(ctx, since, torn, r.books.attempt)
}

func (r *recovery) requests(ctx context.Context, since time.Time, torn *int, each func(*journal.RequestLine) error) error {
	for _, dir := range r.Dirs {
		for l, err := range journal.ReadRequests(dir, journal.Range{Since: since}) {
			if err := skipTorn(err, torn); err != nil {
				return err
			}
			if err != nil || r.Spooled && l.Op != journal.OpSpool && !r.books.knows(l.Topic, l.ID) {
				continue
			}
			if err := errors.Join(ctx.Err(), each(&l)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *recovery) attempts(ctx context.Context, since time.Time, torn *int, each func(*journal.AttemptLine) error) error {
	for _, dir := range r.Dirs {
		for l, err := range journal.ReadAttempts(dir, journal.Range{Since: since}) {
			if err := skipTorn(err, torn); err != nil {
				return err
			}
			if err != nil || r.Spooled && !r.books.knows(l.Topic, l.ID) {
				continue
			}
			if err := errors.Join(ctx.Err(), each(&l)); err != nil {
				return err
			}
		}
	}
	return nil
}

// skipTorn goes on after a line that a killed process left in pieces: its request was not answered.
func skipTorn(err error, torn *int) error {
	var t *journal.TornError
	if errors.As(err, &t) {
		*torn++
		return nil
	}
	return err
}

// step is how many jobs are looked up or pushed at once.
const step = 500

// compare looks every job of the books up in the shards.
func (r *recovery) compare(ctx context.Context) error {
	var refs []queue.Ref
	var keys []key
	flush := func() error {
		defer func() { refs, keys = refs[:0], keys[:0] }()
		return r.lookUp(ctx, refs, keys)
	}
	look := func(topic, id string) error {
		k := keyOf(topic, id)
		e, ok := r.books.entries[k]
		if !ok || e.checked {
			return nil
		}
		e.checked = true
		if e.state == living && e.at < r.books.cleared[topic] {
			e.state = deleted
		}
		r.books.entries[k] = e
		if !e.matters(r.Empty) {
			return nil
		}
		refs, keys = append(refs, queue.Ref{Topic: topic, ID: id}), append(keys, k)
		if len(refs) < step {
			return nil
		}
		return flush()
	}
	err := r.requests(ctx, r.Since, new(int), func(l *journal.RequestLine) error { return look(l.Topic, l.ID) })
	if err == nil && !r.Empty {
		err = r.attempts(ctx, r.Since, new(int), func(l *journal.AttemptLine) error { return look(l.Topic, l.ID) })
	}
	if err != nil {
		return err
	}
	return flush()
}

func (r *recovery) lookUp(ctx context.Context, refs []queue.Ref, keys []key) error {
	jobs, err := r.Queue.Lookup(ctx, refs, r.Shard)
	if err != nil {
		return err
	}
	for i, job := range jobs {
		e := r.books.entries[keys[i]]
		switch e.judge(job) {
		case missing:
			e.missing = true
			if e.state == living {
				r.books.missing++
			}
		case stale:
			e.missing, e.stale = true, true
			r.books.missing++
		case ended:
			r.report.Ended++
			if err := r.delete(ctx, refs[i]); err != nil {
				return err
			}
		case fine:
			if e.there = job != nil; e.there {
				e.look = lookOf(job)
			}
		}
		r.books.entries[keys[i]] = e
	}
	return nil
}

func (r *recovery) delete(ctx context.Context, ref queue.Ref) error {
	if r.DryRun {
		return nil
	}
	err := r.Queue.Delete(ctx, ref.Topic, ref.ID)
	if err != nil && !errors.Is(err, queue.ErrNotFound) && !queue.Stored(err) {
		return err
	}
	r.Logger.Info("a job that had ended lived again, and was deleted again", "topic", ref.Topic, "id", ref.ID)
	return nil
}

func (r *recovery) count() {
	for _, e := range r.books.entries {
		switch {
		case !e.accepted:
			continue
		case e.missing && e.state == living:
			r.report.Missing++
		case e.there:
			r.report.There++
		case e.state == delivered:
			r.report.Delivered++
		case e.state == dead:
			r.report.Dead++
		case e.state == deleted:
			r.report.Deleted++
		default:
			continue
		}
		r.report.Jobs++
	}
}
