package registry

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAGlanceTellsOnlyWhatIsCertain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	write := func(name, text string, age time.Duration) {
		t.Helper()
		at := time.Now().Add(-age).Truncate(time.Millisecond).Add(time.Microsecond)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	look := func(what string, was glance, want bool) glance {
		t.Helper()
		g := glanceAt(path)
		if got := g.tells(was); got != want {
			t.Errorf("%s: nothing has changed: %v", what, got)
		}
		return g
	}
	g := look("at first", glance{}, false)
	g = look("while there is no file", g, false)
	write(path, "database", time.Hour)
	g = look("a new file", g, false)
	g = look("nothing since", g, true)
	write(path+"-wal", "log", time.Minute)
	g = look("a log beside it", g, false)
	g = look("nothing since", g, true)
	write(path+"-wal", "LOG", time.Minute-time.Second)
	g = look("as long a log, written again", g, false)
	write(path+"-wal", "LOG", 20*time.Millisecond)
	g = look("the log again", g, false)
	look("written just now: the next write could have the same time", g, false)
	write(path+"-wal", "LOG", time.Minute)
	g = look("the log again", g, false)
	old := g
	old.at = old.at.Add(-glanceFor)
	look("too long ago", old, false)
	second := time.Now().Add(-time.Minute).Truncate(time.Second)
	if err := os.Chtimes(path, second, second); err != nil {
		t.Fatal(err)
	}
	g = look("a file system that counts seconds", g, false)
	look("a file system that counts seconds", g, false)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	look("the file is gone", g, false)
}

// A change that a glance missed would be seen only ten seconds later. The log of 300 changes begins anew several times.
func TestNoChangeIsMissedByGlances(t *testing.T) {
	dsn := newSQLite(t)
	a, b := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn, Poll: time.Millisecond})
	for i := range 300 {
		name, start := fmt.Sprint("t", i), time.Now()
		put(t, a, topic(name))
		eventually(t, name+" is seen", func() bool { return b.Snapshot().Topics[name] != nil })
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("%s was seen after %s", name, took)
		}
		if i%30 == 0 {
			time.Sleep(glanceAfter + 20*time.Millisecond) // glances count only then
		}
	}
}
