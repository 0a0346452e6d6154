package registry

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

// TestWhatAnotherProcessRegisteredIsFoundWhenAskedFor, without waiting for the next look.
func TestWhatAnotherProcessRegisteredIsFoundWhenAskedFor(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		here, there := open(t, Options{DSN: dsn, Poll: time.Hour}), open(t, Options{DSN: dsn, Poll: time.Hour})
		put(t, there, topic("shop.close"))
		if here.Snapshot().Topics["shop.close"] != nil {
			t.Fatal("it is there already")
		}
		here.Refresh(t.Context())
		if here.Snapshot().Topics["shop.close"] == nil {
			t.Error("it is not found")
		}
	})
}

// TestAnOlderSnapshotDoesNotReplaceANewerOne: the processes of a host share the file, and some end without having heard of the last change.
func TestAnOlderSnapshotDoesNotReplaceANewerOne(t *testing.T) {
	t.Parallel()
	dsn, file := dbtest.SQLite(t), filepath.Join(t.TempDir(), "snapshot.json")
	slow, err := Open(Options{DSN: dsn, Migrate: true, SnapshotFile: file})
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
	if s, err := readSnapshot(file); err != nil || s.Topics["shop.close"] == nil {
		t.Errorf("the file has lost the topic: %+v, %v", s, err)
	}
}
