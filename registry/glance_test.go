package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

// A change that a glance missed would be seen only ten seconds later.
func TestNoChangeIsMissedByGlances(t *testing.T) {
	t.Parallel()
	dsn := dbtest.SQLite(t)
	a, b := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn, Poll: time.Millisecond})
	for i := range 100 {
		name, start := fmt.Sprint("t", i), time.Now()
		put(t, a, topic(name))
		eventually(t, name+" is seen", func() bool { return b.Snapshot().Topics[name] != nil })
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("%s was seen after %s", name, took)
		}
	}
}

func TestAGlanceTellsWhetherSomebodyCommitted(t *testing.T) {
	t.Parallel()
	dsn := dbtest.SQLite(t)
	here, there := open(t, Options{DSN: dsn, Poll: time.Hour}), open(t, Options{DSN: dsn, Poll: time.Hour})
	g := glance{r: here}
	defer g.close()
	look := func(when string, want bool) {
		t.Helper()
		if got := g.nothingNew(t.Context()); got != want {
			t.Errorf("%s: nothing is new: %v", when, got)
		}
	}
	look("at first", false)
	look("then", true)
	put(t, there, topic("theirs"))
	look("after a change by another process", false)
	look("then", true)
	put(t, here, topic("ours"))
	look("after a change of its own, over another connection", false)
	look("then", true)
	g.at = g.at.Add(-glanceFor)
	look("after a while", false)
	look("then", true)
	g.close()
	look("over another connection", false)
	look("then", true)
	here.up.Store(false)
	look("while the database counts as away", false)
}
