package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// A Spool accepts pushes while no shard can: it writes them to the journal, and a file beside it says where the first
// one is. The reconciler of the journal pushes them to the shards, in the order in which they came. This does not
// depend on a clock: a host whose clock was set back while no shard was up has lines that seem older than the spool.
//
//	.spool            there are spooled pushes, after the position in the journal that it contains
//	.spool-draining   the same for those that the reconciler is pushing; removed when all of them are in a shard
//
// A writer holds .spool.lock shared from before it checks for .spool until its lines are written; the reconciler
// renames .spool under the exclusive lock. So no line is younger than the file that the reconciler reads for it.
type Spool struct {
	dir     string
	journal *journal.Journal
}

const (
	spoolName    = ".spool"
	drainingName = ".spool-draining"
)

// NewSpool makes a spool in a journal.
func NewSpool(dir string, j *journal.Journal) *Spool { return &Spool{dir, j} }

// Keep spools pushes; when it returns they are on disk. Each must have its id, and keep a job that exists; a delay
// counts from now by this host's clock.
func (s *Spool) Keep(pushes []store.Push) ([]store.Job, error) {
	unlock, err := lockSpool(s.dir, syscall.LOCK_SH)
	if err != nil {
		return nil, fmt.Errorf("spool %d pushes: %w", len(pushes), err)
	}
	defer unlock()
	now := time.Now().UTC()
	if err := markSpool(s.dir); err != nil {
		return nil, fmt.Errorf("spool %d pushes: %w", len(pushes), err)
	}
	jobs := make([]store.Job, len(pushes))
	lines := make([]journal.RequestLine, len(pushes))
	for i := range pushes {
		p := &pushes[i]
		asked, due := p.DueAt, now.Add(p.Delay) // with only a delay, due is an estimate: the shard's clock will count
		if !asked.IsZero() {
			asked = asked.Add(time.Millisecond - 1).Truncate(time.Millisecond).UTC() // never early
			due = asked
		}
		expires := p.ExpiresAt
		if p.TTL > 0 {
			expires = now.Add(p.TTL) // an estimate, too
		}
		jobs[i] = store.Job{Topic: p.Topic, ID: p.ID, State: store.Spooled, Priority: p.Priority, Order: p.Order,
			TTR: p.TTR, MaxAttempts: p.MaxAttempts, ExpiresAt: expires, Headers: p.Headers, Retry: p.Retry,
			Group: p.Group, Key: p.Key, Traceparent: p.Traceparent, URL: p.URL, Quota: p.Quota, Awaited: p.Awaited,
			CreatedAt: now, DueAt: due}
		lines[i] = journal.RequestLine{TS: now, Op: journal.OpSpool, Topic: p.Topic, ID: p.ID, DueAt: asked,
			Delay:    p.Delay,
			Priority: p.Priority.String(), Order: p.Order, TTR: p.TTR, MaxAttempts: p.MaxAttempts,
			ContentType: p.ContentType, Body: p.Body,
			ExpiresAt: p.ExpiresAt, TTL: p.TTL, Headers: p.Headers, Retry: p.Retry, Group: p.Group, Key: p.Key,
			Traceparent: p.Traceparent, URL: p.URL,
			Quota: p.Quota, Via: p.Via, Awaited: p.Awaited}
	}
	if err := s.journal.Durably(lines); err != nil {
		return nil, fmt.Errorf("spool %d pushes: %w", len(pushes), err)
	}
	return jobs, nil
}

func lockSpool(dir string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".spool.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = disk.Flock(f, how) // waits, but only for a rename
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the spool: %w", err)
	}
	return func() { f.Close() }, nil
}

// markSpool makes sure that .spool is on disk. Of several processes that create it at once, one wins; the lines of all
// come later.
func markSpool(dir string) error {
	path := filepath.Join(dir, spoolName)
	if _, err := os.Stat(path); err == nil {
		return disk.SyncDir(dir) // the one that created it may have failed to
	}
	end, err := journal.End(dir)
	if err != nil {
		return err
	}
	return disk.Create(path, end.String())
}

// spooled reports whether a spool has pushes.
func spooled(dir string) bool {
	for _, name := range []string{spoolName, drainingName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Drain pushes the jobs in a journal's spool to the shards, in the order in which they came. Only one process may call
// it at a time: the reconciler. After an error the spool is still there. The journal's line of each drained push names
// its line in the spool, so that the next drain skips it if this one was interrupted. Drain also skips pushes of jobs
// that were changed in another way since. It does not check whether a topic is registered: dispatchers decide about
// jobs of unknown topics.
//
// With anew it skips no drained push: the last drain could not write the journal, so its lines may be in the files but
// not on disk.
func Drain(ctx context.Context, q Pusher, log *slog.Logger, dir string, anew bool) (Report, error) {
	var report Report
	from, err := claimSpool(dir)
	if err != nil {
		return report, fmt.Errorf("drain the spool: %w", err)
	}
	d := &drain{ctx: ctx, queue: q, log: log, dir: dir, anew: anew, from: from, report: &report}
	if err := d.run(); err != nil {
		return report, fmt.Errorf("drain the spool: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, drainingName)); err != nil {
		return report, fmt.Errorf("drain the spool: %w", err)
	}
	return report, nil
}

type drain struct {
	ctx    context.Context
	queue  Pusher
	log    *slog.Logger
	dir    string
	anew   bool
	from   journal.Range
	report *Report
}

func (d *drain) run() error {
	brought, err := d.drained()
	if err != nil {
		return err
	}
	var batch []store.Push
	spooled := 0 // lines of the spool so far
	for l, err := range journal.ReadRequests(d.dir, d.from) {
		if err := errors.Join(d.ctx.Err(), skipTorn(err, &d.report.Torn)); err != nil {
			return err
		}
		if err != nil || l.Op != journal.OpSpool {
			continue
		}
		via := brought.viaOf(&l)
		spooled++
		if !d.anew && brought.drained[via] || brought.changed[keyOf(l.Topic, l.ID)] >= spooled {
			continue
		}
		d.report.Jobs++
		p := pushOf(&l)
		p.Via = via
		if batch = append(batch, p); len(batch) == replayStep {
			if err := d.push(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return d.push(batch)
}

// brought holds what the journal says about spooled pushes.
type drained struct {
	drained map[string]bool // by viaOf: the line was pushed
	changed map[key]int     // how many lines of the spool come before the last line of a job that no drain wrote
	spooled map[string]int  // how many lines of the spool had the same time and id
}

const viaSpool = "spool "

// viaOf names a line of the spool and its protocol. It must be called once for each line, in their order.
func (b *drained) viaOf(l *journal.RequestLine) string {
	via := viaSpool + l.TS.UTC().Format(time.RFC3339Nano) + " " + l.Topic + "/" + l.ID
	if l.Via != "" {
		via += " via " + l.Via
	}
	b.spooled[via]++
	if n := b.spooled[via]; n > 1 {
		via += " " + strconv.Itoa(n)
	}
	return via
}

func (d *drain) drained() (*drained, error) {
	b := &drained{drained: map[string]bool{}, changed: map[key]int{}, spooled: map[string]int{}}
	spooled := 0
	for l, err := range journal.ReadRequests(d.dir, d.from) {
		if err := errors.Join(d.ctx.Err(), skipTorn(err, new(int))); err != nil {
			return nil, err
		}
		switch {
		case err != nil || l.ID == "":
		case l.Op == journal.OpSpool:
			spooled++
		case strings.HasPrefix(l.Via, viaSpool):
			b.drained[l.Via] = true
		default:
			b.changed[keyOf(l.Topic, l.ID)] = spooled
		}
	}
	return b, nil
}

func (d *drain) push(pushes []store.Push) error {
	if len(pushes) == 0 {
		return nil
	}
	var away error
	for i, result := range d.queue.PushBatch(d.ctx, pushes) {
		p := &pushes[i]
		var un *store.UnavailableError
		switch {
		case result.Err == nil && result.Duplicate:
			d.report.There++
		case result.Err == nil, store.Stored(result.Err): // stored; an unavailable replica must not hold up the rest
			d.report.Pushed++
		case errors.As(result.Err, &un) || d.ctx.Err() != nil:
			away = result.Err
		case errors.Is(result.Err, store.ErrClosed): // it would have been deleted with its group
			d.report.Refused++
		default:
			d.report.Failed++
			d.log.Error("a push that was accepted while no shard was up is refused now",
				"topic", p.Topic, "id", p.ID, "error", result.Err)
		}
	}
	if away != nil {
		return fmt.Errorf("push the spooled jobs: %w", away)
	}
	return nil
}

func pushOf(l *journal.RequestLine) store.Push {
	p := store.Push{
		Topic: l.Topic, ID: l.ID, Body: l.Body, ContentType: l.ContentType, DueAt: l.DueAt, TTR: l.TTR,
		MaxAttempts: l.MaxAttempts, Priority: priorityOf(l), Order: l.Order, ExpiresAt: l.ExpiresAt, Headers: l.Headers,
		Retry: l.Retry, Group: l.Group, Key: l.Key, Traceparent: l.Traceparent, URL: l.URL, Quota: l.Quota,
		Awaited: l.Awaited,
	}
	if l.TTL > 0 { // the remaining time, but not 0, which means no limit
		p.TTL = max(time.Millisecond, time.Until(l.TS.Add(l.TTL)))
	}
	if l.DueAt.IsZero() { // the remaining delay: the shard's clock may differ from this host's
		p.Delay = max(0, time.Until(l.TS.Add(l.Delay+time.Millisecond))) // TS was truncated to a millisecond
	}
	return p
}

// claimSpool renames .spool to .spool-draining. After an interrupted drain it removes .spool instead, since the
// position in .spool-draining is older and covers both.
func claimSpool(dir string) (from journal.Range, err error) {
	unlock, err := lockSpool(dir, syscall.LOCK_EX)
	if err != nil {
		return from, err
	}
	defer unlock()
	spool, draining := filepath.Join(dir, spoolName), filepath.Join(dir, drainingName)
	from, err = readMark(draining)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = os.Rename(spool, draining); err != nil {
			return from, err
		}
		return readMark(draining)
	case err != nil:
		return from, err
	}
	if err = os.Remove(spool); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return from, err
	}
	return from, nil
}

func readMark(path string) (from journal.Range, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return from, err
	}
	from.From, _ = journal.ParsePosition(strings.TrimSpace(string(b))) // if invalid, everything rather than nothing
	return from, nil
}
