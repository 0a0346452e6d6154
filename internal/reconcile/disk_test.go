package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

// diskCase is one seed: two processes of a host write to its journal until the power is cut, or they are killed.
type diskCase struct {
	t        *testing.T
	r        *rand.Rand
	dir      string
	disk     *lyingDisk
	always   bool // journal.sync: always
	journals [2]*journal.Journal
	day      time.Time

	undrained error // of the last drain

	revision int64
	ids      int
	jobs     map[string][]change // by id: what happened to it, in the order of its revisions
	spooled  map[string]bool     // ids of pushes that the spool has accepted
	pushed   map[string]bool     // ids of those that a shard has
}

// change is what a request did to a job.
type change struct {
	body     string // empty: the job is gone
	answered bool   // the journal had it
	onDisk   bool   // and it survives a power cut
}

func newDiskCase(t *testing.T, seed uint64) *diskCase {
	c := &diskCase{t: t, r: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), jobs: map[string][]change{},
		spooled: map[string]bool{}, pushed: map[string]bool{}, day: time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)}
	c.always = c.r.IntN(2) == 0
	return c
}

// start starts the processes on a disk.
func (c *diskCase) start() {
	c.disk, c.undrained = newLyingDisk(c.t, c.r, c.dir), nil
	for i := range c.journals {
		c.open(i)
	}
}

func (c *diskCase) open(i int) {
	j, err := journal.Open(journal.Options{Dir: c.dir, Sync: c.always, Keep: 20 * 24 * time.Hour,
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return c.day }})
	c.journals[i] = j
	if err != nil { // the disk failed: the process cannot start
		c.journals[i] = nil
	}
}

func (c *diskCase) any() (int, *journal.Journal) {
	i := c.r.IntN(len(c.journals))
	if c.journals[i] == nil {
		c.open(i)
	}
	return i, c.journals[i]
}

// run does things until the power is cut, or n of them are done.
func (c *diskCase) run(n int) {
	for ; n > 0 && !c.disk.off; n-- {
		i, j := c.any()
		if j == nil {
			continue
		}
		switch dice := c.r.IntN(20); {
		case dice < 8:
			c.write(j, journal.OpPush, 1+c.r.IntN(3))
		case dice < 10:
			c.write(j, journal.OpDelete, 1)
		case dice < 12:
			c.deliver(j)
		case dice < 15:
			c.keep(j)
		case dice < 17:
			c.drain(j)
		case dice < 18:
			_ = j.Close()
			c.open(i)
		case dice < 19:
			c.day = c.day.Add(24 * time.Hour)
		default:
			_, _ = j.Housekeep(context.Background()) // is tried again
		}
	}
}

func (c *diskCase) done(id string, ch change) {
	ch.onDisk = ch.answered && ch.onDisk
	c.jobs[id] = append(c.jobs[id], ch)
}

// write writes the lines of one to three requests.
func (c *diskCase) write(j *journal.Journal, op journal.Op, n int) {
	var lines []journal.RequestLine
	for range n {
		c.revision++
		l := journal.RequestLine{Op: op, Topic: "t", ID: fmt.Sprint(c.r.IntN(5)), Shard: "a", Revision: c.revision}
		if op == journal.OpPush {
			l.Body = fmt.Appendf(nil, "%s %d", strings.Repeat("x", c.r.IntN(200)), c.revision)
		}
		lines = append(lines, l)
	}
	err := j.Requests(lines)
	for _, l := range lines {
		c.done(l.ID, change{string(l.Body), err == nil, c.always})
	}
}

func (c *diskCase) deliver(j *journal.Journal) {
	c.revision++
	id := fmt.Sprint(c.r.IntN(5))
	err := j.Attempts([]journal.AttemptLine{{Topic: "t", ID: id, Shard: "a", Revision: c.revision, Outcome: journal.Done}})
	c.done(id, change{answered: err == nil})
}

// keep spools pushes of new jobs.
func (c *diskCase) keep(j *journal.Journal) {
	var pushes []store.Push
	for range 1 + c.r.IntN(2) {
		c.ids++
		id := fmt.Sprintf("spooled %d", c.ids)
		pushes = append(pushes, store.Push{Topic: "s", ID: id, Body: []byte("body of " + id), Priority: store.Normal})
	}
	_, err := NewSpool(c.dir, j).Keep(pushes)
	for i := range pushes {
		c.spooled[pushes[i].ID] = err == nil
	}
}

// drain lets the reconciler of the host try to drain the spool through a process.
func (c *diskCase) drain(j *journal.Journal) {
	k, err := NewReconciler(ReconcilerOptions{
		Dir: c.dir, Queue: &shardOf{c, j}, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil && spooled(c.dir) {
		c.undrained = k.drain(context.Background(), c.undrained)
	}
}

// shardOf is a shard that accepts every push, and records it in a journal.
type shardOf struct {
	*diskCase
	journal *journal.Journal
}

func (s *shardOf) Ready() error { return nil }

func (s *shardOf) PushBatch(_ context.Context, pushes []store.Push) []store.Result {
	results := make([]store.Result, len(pushes))
	for i := range pushes {
		p := &pushes[i]
		if string(p.Body) != "body of "+p.ID {
			s.t.Errorf("the spool has %s with %q", p.ID, p.Body)
		}
		s.revision++
		results[i].Job = store.Job{Topic: p.Topic, ID: p.ID, Shard: "a", Revision: s.revision, Priority: store.Normal}
		s.pushed[p.ID] = true
	}
	if err := (Recorder{s.journal}).Accepted(pushes, results); err != nil {
		for i := range results {
			results[i].Err = &store.UnavailableError{Reason: "journal", Err: err}
		}
	}
	return results
}

// stop ends the processes by a power cut, or kills them, and continues with what is left.
func (c *diskCase) stop() (powerCut bool) {
	powerCut = c.disk.off || c.r.IntN(2) == 0
	if powerCut {
		c.dir = c.disk.cut(c.t)
	} else {
		c.dir = c.disk.killed(c.t)
	}
	c.disk.off = true
	for _, j := range c.journals {
		if j != nil {
			_ = j.Close()
		}
	}
	disk.Write, disk.Sync = systemWrite, systemSync
	return powerCut
}

var systemWrite, systemSync = disk.Write, disk.Sync

// replayed returns the jobs that a shard which lost everything gets from the journal.
func (c *diskCase) replayed() map[string]string {
	c.t.Helper()
	jobs, f, torn := map[string]string{}, newIndex(0, 1), 0
	s := &selection{dirs: []string{c.dir}, wants: func(*line) bool { return true }}
	err := s.each(context.Background(), &torn, f.add)
	err = errors.Join(err, s.each(context.Background(), &torn, func(l *line) error {
		if e := f.entry(l); f.decides(l) && e.Kind == EntryStored {
			jobs[e.Job.ID] = string(e.Job.Body)
		}
		return nil
	}))
	if err != nil {
		c.t.Errorf("the journal cannot be read: %v", err)
	}
	return jobs
}

// check checks that what was answered is there, and nothing that nobody requested.
func (c *diskCase) check(powerCut bool) {
	c.t.Helper()
	jobs := c.replayed()
	for id, changes := range c.jobs {
		may := []string{""}
		for _, ch := range changes {
			if ch.onDisk || ch.answered && !powerCut {
				may = may[:0]
			}
			may = append(may, ch.body)
		}
		if !slices.Contains(may, jobs[id]) {
			c.t.Errorf("job %s is %.20q; it may be %.20q (power cut: %t, always: %t)", id, jobs[id], may, powerCut, c.always)
		}
		c.jobs[id] = []change{{jobs[id], true, true}} // as the next processes find it
	}
	if spooled(c.dir) {
		again := &diskCase{t: c.t, pushed: map[string]bool{}, revision: c.revision}
		j, err := journal.Open(journal.Options{Dir: c.dir, Now: func() time.Time { return c.day }})
		if err == nil {
			_, err = Drain(context.Background(), &shardOf{again, j}, slog.New(slog.DiscardHandler), c.dir, false)
			_ = j.Close()
		}
		if err != nil {
			c.t.Errorf("drain: %v", err)
		}
		c.revision = again.revision
		for id := range again.pushed {
			c.pushed[id] = true
			jobs[id] = "body of " + id
		}
	}
	for id, answered := range c.spooled {
		switch _, stored := jobs[id]; {
		case answered && !c.pushed[id]:
			c.t.Errorf("%s was accepted, and is neither in the spool nor in a shard", id)
		case answered && !stored && (c.always || !powerCut):
			c.t.Errorf("%s was accepted, and is not in the journal of a shard that lost it (power cut: %t, always: %t)", id,
				powerCut, c.always)
		case !stored: // nothing promises more
			delete(c.spooled, id)
		}
	}
}

// TestADiskThatLies: whatever it does with what was not synced, what was answered is there when the power or the
// processes are back, three times in a row.
func TestADiskThatLies(t *testing.T) {
	defer func() { disk.Write, disk.Sync = systemWrite, systemSync }()
	for seed := range uint64(diskSeeds()) {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newDiskCase(t, seed)
			for range 3 {
				c.start()
				c.run(40)
				c.check(c.stop())
			}
		})
		if !ok {
			return
		}
	}
}

func diskSeeds() int {
	if n := os.Getenv("WAKECALL_TEST_SEEDS"); n != "" {
		var seeds int
		_, _ = fmt.Sscan(n, &seeds)
		return seeds
	}
	return 300
}

// TestABitThatFlips in a file of the journal costs the line that has it, and changes none.
func TestABitThatFlips(t *testing.T) {
	defer func() { disk.Write, disk.Sync = systemWrite, systemSync }()
	for seed := range uint64(diskSeeds()) {
		c := newDiskCase(t, seed)
		c.start()
		c.disk.failing, c.disk.cutAt = 0, -1
		c.run(40)
		c.stop()
		want, files := c.lines(), []string(nil)
		for _, pattern := range []string{"request-*", "notify-*"} {
			found, _ := filepath.Glob(filepath.Join(c.dir, pattern))
			files = append(files, found...)
		}
		if len(files) == 0 {
			continue
		}
		file := files[c.r.IntN(len(files))]
		flip(t, c.r, file)
		got := c.lines()
		for l := range got {
			if !want[l] {
				t.Fatalf("seed %d: a flipped bit in %s: a line is read as %.300s", seed, filepath.Base(file), l)
			}
		}
		if lost := len(want) - len(got); lost > 1 && !strings.HasSuffix(file, ".gz") {
			t.Fatalf("seed %d: a flipped bit in %s lost %d lines", seed, filepath.Base(file), lost)
		}
		c.replayed()
	}
}

// lines returns all lines that can be read.
func (c *diskCase) lines() map[string]bool {
	lines := map[string]bool{}
	for l, err := range journal.ReadRequests(c.dir, journal.Range{}) {
		if err == nil {
			lines[fmt.Sprintf("%+v", l)] = true
		}
	}
	for l, err := range journal.ReadAttempts(c.dir, journal.Range{}) {
		if err == nil {
			lines[fmt.Sprintf("%+v", l)] = true
		}
	}
	return lines
}
