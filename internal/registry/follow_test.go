package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/test/dbtest"
)

// TestChangesAreFollowedWhileTheSnapshotIsKept: writing a large snapshot takes long. Here the file is a pipe that
// nobody reads or writes, so opening it blocks until the end of the test.
func TestChangesAreFollowedWhileTheSnapshotIsKept(t *testing.T) {
	dsn, file := dbtest.SQLite(t), filepath.Join(t.TempDir(), "snapshot.json")
	there := open(t, Options{DSN: dsn, Poll: time.Hour})
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	release := func() { // unblocks an open of the pipe for reading
		if f, err := os.OpenFile(file, os.O_RDWR, 0); err == nil {
			_ = f.Close()
		}
	}
	here, err := connect(Options{DSN: dsn, SnapshotFile: file, SecretKey: testKey, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- here.Run(ctx) }()
	for n := range 3 {
		name := fmt.Sprint("shop.", n)
		put(t, there, topic(name))
		here.Nudge()
		eventually(t, name+" is known", func() bool { return here.Snapshot().Topics.Get(name) != nil })
	}
	cancel()
	for done := false; !done; {
		release()
		select {
		case <-ended:
			done = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	_ = os.Remove(file)
	if err := here.Close(); err != nil {
		t.Error(err)
	}
}

// TestATopicOfAnotherProcessIsFoundOnDemand, without waiting for the next poll.
func TestATopicOfAnotherProcessIsFoundOnDemand(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		here, there := open(t, Options{DSN: dsn, Poll: time.Hour}), open(t, Options{DSN: dsn, Poll: time.Hour})
		put(t, there, topic("shop.close"))
		if here.Snapshot().Topics.Get("shop.close") != nil {
			t.Fatal("the topic is already known")
		}
		eventually(t, "it is found", func() bool { // on a busy machine a refresh may exceed its time limit
			here.Refresh(t.Context())
			return here.Snapshot().Topics.Get("shop.close") != nil
		})
	})
}

// TestAnOlderSnapshotDoesNotReplaceANewerOne: the processes of a host share the file, and some end before they have
// read the last change.
func TestAnOlderSnapshotDoesNotReplaceANewerOne(t *testing.T) {
	t.Parallel()
	dsn, file := dbtest.SQLite(t), filepath.Join(t.TempDir(), "snapshot.json")
	slow, err := Open(Options{DSN: dsn, Migrate: MigrateOlder, SnapshotFile: file})
	if err != nil {
		t.Fatal(err)
	}
	quick, err := Open(Options{DSN: dsn, SnapshotFile: file})
	if err != nil {
		t.Fatal(err)
	}
	put(t, quick, topic("shop.close"))
	for _, r := range []*Registry{quick, slow} { // slow ends last
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := readSnapshot(file); err != nil || s.Topics.Get("shop.close") == nil {
		t.Errorf("the file has lost the topic: %+v, %v", s, err)
	}
}

func TestOneProcessOfAHostWritesTheSnapshotAtATime(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot.json")
	r, err := Open(Options{DSN: dbtest.SQLite(t), Migrate: MigrateOlder, SnapshotFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	put(t, r, topic("shop.close"))
	other, err := os.Create(file + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := disk.Flock(other, syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	<-r.unkept
	r.keepAlone()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the snapshot was written while another process wrote one: %v", err)
	}
	if len(r.unkept) == 0 {
		t.Fatal("the snapshot will never be written")
	}
	other.Close()
	r.keepAlone()
	if s, err := readSnapshot(file); err != nil || s.Topics.Get("shop.close") == nil {
		t.Errorf("the file has no such topic: %+v, %v", s, err)
	}
}

func TestNoChangeIsMissed(t *testing.T) {
	t.Parallel()
	dsn := dbtest.SQLite(t)
	a, b := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn, Poll: time.Millisecond})
	for i := range 100 {
		name := fmt.Sprint("t", i)
		put(t, a, topic(name))
		eventually(t, name+" is seen", func() bool { return b.Snapshot().Topics.Get(name) != nil })
	}
}

// TestOnlyAStartMigrates: a push to an unknown topic, which polls for changes, does not.
func TestOnlyAStartMigrates(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot.json")
	if err := writeSnapshot(file, &Snapshot{Revision: 7}); err != nil {
		t.Fatal(err)
	}
	r, err := connect(Options{DSN: dbtest.SQLite(t), SnapshotFile: file, Migrate: MigrateOlder})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if err := r.startWithout(ErrUnavailable, r.readFile()); err != nil {
		t.Fatal(err)
	}
	if err := r.Ping(t.Context()); err != nil || !r.Up() {
		t.Fatalf("the database is still unavailable: %v", err)
	}
	r.Refresh(t.Context())
	if steps, err := r.db.Migrations(t.Context()); err != nil || steps[0].Applied {
		t.Errorf("a poll for an unknown topic migrated the schema: %v, %v", steps, err)
	}
}

// TestAFloodOfUnknownNamesCostsFewQueries: all callers share one poll, which begins after the last of them called.
func TestAFloodOfUnknownNamesCostsFewQueries(t *testing.T) {
	dsn := dbtest.SQLite(t)
	here, there := open(t, Options{DSN: dsn, Poll: time.Hour}), open(t, Options{DSN: dsn, Poll: time.Hour})
	polls := 0
	if err := here.db.Do(t.Context(), func(tx *gorm.DB) error {
		return tx.Callback().Query().After("gorm:query").Register("count", func(*gorm.DB) { polls++ })
	}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var asked atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for asked.Add(1) <= 2000 {
				here.Refresh(t.Context())
			}
		})
	}
	wg.Wait()
	if most := 2 + 2*int(time.Since(began)/refreshEvery); polls > most {
		t.Errorf("2,000 calls made %d polls; want at most %d in that time", polls, most)
	}
	put(t, there, topic("shop.close"))
	// a busy machine may exceed its limit
	eventually(t, "a topic that was registered before the call is found", func() bool {
		here.Refresh(t.Context())
		return here.Snapshot().Topics.Get("shop.close") != nil
	})
}

// TestACallerThatLeavesDoesNotEndTheSharedPoll: one client that disconnects must not make the others' topics unknown.
func TestACallerThatLeavesDoesNotEndTheSharedPoll(t *testing.T) {
	dsn := dbtest.SQLite(t)
	here, there := open(t, Options{DSN: dsn, Poll: time.Hour}), open(t, Options{DSN: dsn, Poll: time.Hour})
	type leave struct{}
	if err := here.db.Do(t.Context(), func(tx *gorm.DB) error {
		return tx.Callback().Query().Before("gorm:query").Register("leave", func(tx *gorm.DB) {
			if cancel, ok := tx.Statement.Context.Value(leave{}).(context.CancelFunc); ok {
				cancel()
			}
		})
	}); err != nil {
		t.Fatal(err)
	}
	round := 0
	eventually(t, "the callers that stay find the topic", func() bool { // a busy machine may exceed the poll's limit
		round++
		name := fmt.Sprint("t", round)
		here.Refresh(t.Context()) // the next poll is refreshEvery away, so the callers below share it
		put(t, there, topic(name))
		var missed, stayed atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				here.Refresh(context.WithValue(ctx, leave{}, cancel))
				if ctx.Err() != nil {
					return
				}
				stayed.Add(1)
				if here.Snapshot().Topics.Get(name) == nil {
					missed.Add(1)
				}
			})
		}
		wg.Wait()
		return stayed.Load() > 0 && missed.Load() == 0
	})
}

func TestOtherProcessesFollowWithinASecond(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		a, b := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn})
		changes := b.Subscribe()
		defer changes.End()
		n := 0
		eventually(t, "a topic is seen within a second", func() bool { // a busy machine is sometimes later
			n++
			name := fmt.Sprint("t", n)
			put(t, a, topic(name))
			start := time.Now()
			for b.Snapshot().Topics.Get(name) == nil {
				select {
				case <-changes.Changed:
				case <-time.After(patience):
					t.Fatalf("%s was not seen", name)
				}
			}
			return time.Since(start) <= time.Second
		})
	})
}

func TestNudgePollsAtOnce(t *testing.T) {
	t.Parallel()
	dsn := dbtest.SQLite(t)
	a, b := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn, Poll: time.Hour})
	put(t, a, topic("t"))
	b.Nudge()
	eventually(t, "the topic is seen", func() bool { return b.Snapshot().Topics.Get("t") != nil })
}

func TestTopicsThatDidNotChangeKeepTheirValue(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		put(t, r, topic("a"))
		put(t, r, topic("b"))
		before := r.Snapshot()
		b := topic("b")
		b.Title = "other"
		put(t, r, b)
		if after := r.Snapshot(); after.Topics.Get("a") != before.Topics.Get("a") ||
			after.Topics.Get("b") == before.Topics.Get("b") ||
			before.Topics.Get("b").Title != "" {
			t.Errorf(
				"before %p %p, after %p %p",
				before.Topics.Get("a"),
				before.Topics.Get("b"),
				after.Topics.Get("a"),
				after.Topics.Get("b"),
			)
		}
	})
}

// A restored backup has an older revision than every process has in memory.
func TestARestoredBackupIsFollowed(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn, Poll: 20 * time.Millisecond})
		put(t, r, topic("a"))
		put(t, r, topic("b"))
		for _, statement := range []string{"DELETE FROM topics WHERE name = 'b'", "UPDATE revision SET value = 2"} {
			if err := dbtest.Run(r.db, statement); err != nil {
				t.Fatal(err)
			}
		}
		eventually(
			t,
			"the backup's state is seen",
			func() bool {
				s := r.Snapshot()
				return s.Revision == 2 && s.Topics.Get("b") == nil && s.Topics.Get("a") != nil
			},
		)
	})
}

func TestADamagedTopicStaysAsItWas(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		put(t, r, topic("a"))
		if err := dbtest.Run(r.db, "UPDATE topics SET spec = '{' WHERE name = 'a'"); err != nil {
			t.Fatal(err)
		}
		put(t, r, topic("b"))
		if s := r.Snapshot(); s.Topics.Get("a") == nil || s.Topics.Get("b") == nil || !r.Up() {
			t.Errorf("topics %v, up %v", s.Topics, r.Up())
		}
		put(t, r, topic("a")) // repairs it
		if err := r.DeleteTopic(t.Context(), "me", "a", false); err != nil {
			t.Error(err)
		}
	})
}
