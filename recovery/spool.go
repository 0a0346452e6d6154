package recovery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/queue"
)

// A Spool takes pushes while no shard can: they stand in the journal, and a file beside it says since when there are some. The keeper of the
// journal brings them to the shards, in the order in which they came.
//
//	.spool            there are spooled pushes, since the Unix milliseconds in it
//	.spool-draining   the same of those that the keeper is bringing; it is removed when all of them are in a shard
//
// Who writes to the spool holds .spool.lock shared from before it looks for .spool until its lines are written; the keeper renames .spool
// under the exclusive lock. So no line is younger than the file that the keeper reads for it.
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

// Keep takes pushes; when it returns they are on the disk. Each must have its id; a delay counts from now by this host's clock.
func (s *Spool) Keep(pushes []queue.Push) ([]queue.Job, error) {
	unlock, err := lockSpool(s.dir, syscall.LOCK_SH)
	if err != nil {
		return nil, fmt.Errorf("spool %d pushes: %w", len(pushes), err)
	}
	defer unlock()
	now := time.Now().UTC()
	if err := markSpool(s.dir, now); err != nil {
		return nil, fmt.Errorf("spool %d pushes: %w", len(pushes), err)
	}
	jobs := make([]queue.Job, len(pushes))
	lines := make([]journal.RequestLine, len(pushes))
	for i := range pushes {
		p := &pushes[i]
		asked, due := p.DueAt, now.Add(p.Delay) // due is a guess when there is only a delay: the shard's clock will count
		if !asked.IsZero() {
			asked = asked.Add(time.Millisecond - 1).Truncate(time.Millisecond).UTC() // never early
			due = asked
		}
		jobs[i] = queue.Job{Topic: p.Topic, ID: p.ID, State: queue.Spooled, Priority: p.Priority, TTR: p.TTR, MaxAttempts: p.MaxAttempts, CreatedAt: now, DueAt: due}
		lines[i] = journal.RequestLine{TS: now, Op: journal.OpSpool, Topic: p.Topic, ID: p.ID, DueAt: asked, Delay: p.Delay,
			Priority: p.Priority.String(), TTR: p.TTR, MaxAttempts: p.MaxAttempts, ContentType: p.ContentType, Body: p.Body}
		if p.OnDuplicate == queue.Replace {
			lines[i].OnDuplicate = replaceText
		}
	}
	if err := s.journal.Durably(lines); err != nil {
		return nil, fmt.Errorf("spool %d pushes: %w", len(pushes), err)
	}
	return jobs, nil
}

const replaceText = "replace"

func lockSpool(dir string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".spool.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how) // waits, but only for a rename
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the spool: %w", err)
	}
	return func() { f.Close() }, nil
}

// markSpool has .spool there. Of several that make it at once, one wins; what the others write is at most a moment older than that.
func markSpool(dir string, now time.Time) error {
	path := filepath.Join(dir, spoolName)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	f, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(strconv.FormatInt(now.UnixMilli(), 10))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// spooled says whether there is something in a spool.
func spooled(dir string) bool {
	for _, name := range []string{spoolName, drainingName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Drain brings what is in a journal's spool to the shards. Only one process may do it at a time: it is the keeper's. After an error it is
// still there.
func Drain(ctx context.Context, o Options, dir string) (Report, error) {
	since, err := claimSpool(dir)
	if err != nil {
		return Report{}, fmt.Errorf("drain the spool: %w", err)
	}
	o.Dirs, o.Since, o.Spooled = []string{dir}, since.Add(-clockSlack), true
	report, err := Recover(ctx, o)
	if err != nil {
		return report, fmt.Errorf("drain the spool: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, drainingName)); err != nil {
		return report, fmt.Errorf("drain the spool: %w", err)
	}
	return report, nil
}

// claimSpool makes .spool the one that is drained, unless an earlier draining did not come to its end: then it is the older of both.
func claimSpool(dir string) (since time.Time, err error) {
	unlock, err := lockSpool(dir, syscall.LOCK_EX)
	if err != nil {
		return since, err
	}
	defer unlock()
	spool, draining := filepath.Join(dir, spoolName), filepath.Join(dir, drainingName)
	since, err = readMark(draining)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = os.Rename(spool, draining); err != nil {
			return since, err
		}
		return readMark(draining)
	case err != nil:
		return since, err
	}
	if err = os.Remove(spool); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return since, err
	}
	return since, nil
}

func readMark(path string) (time.Time, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, err
	}
	ms, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return time.Time{}, nil // everything, rather than nothing
	}
	return time.UnixMilli(ms), nil
}
