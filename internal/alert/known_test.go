package alert

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

// TestAlertsAreKnownWithoutTheStore: what begins and ends while it is away, and what was open before.
func TestAlertsAreKnownWithoutTheStore(t *testing.T) {
	t.Parallel()
	db := dbtest.Open(t, dbtest.SQLite(t))
	s := NewStore(db).In(t.TempDir())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.List(t.Context(), Filter{}); err == nil {
		t.Error("nothing is known, and there is no error")
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, ann)
		d.opts.Dir = s.dir
		link := &away{Storage: d.store}
		d.opts.Store = link
		list := []Finding{isLate("before")}
		d.happens = func(time.Duration) []Finding { return list }
		d.pass(t, time.Minute)
		link.is(true)
		list = append(list, down, fails("ended"))
		d.pass(t, time.Minute)
		list = list[:2]
		d.pass(t, time.Minute)
		open, at, err := s.List(t.Context(), Filter{})
		if err != nil || time.Since(at) > 2*defaultEvery || len(open) != 2 || open[0].Shard != "a" ||
			open[1].Topic != "before" {
			t.Errorf("open at %s are %+v, %v", at, open, err)
		}
		ended, _, err := s.List(t.Context(), Filter{Ended: true})
		if err != nil || len(ended) != 1 || ended[0].Topic != "ended" {
			t.Errorf("ended are %+v, %v", ended, err)
		}
	})
}
