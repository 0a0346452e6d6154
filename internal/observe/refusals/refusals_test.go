package refusals

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func latest(t *testing.T, db *database.DB) Streak {
	t.Helper()
	s, err := Latest(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTheRefusalsOfAllProcessesAddUp, also those that are counted while the process stops, and however many topics
// there are.
func TestTheRefusalsOfAllProcessesAddUp(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		db := dbtest.Open(t, dsn)
		if s := latest(t, db); s != nil || s.Total().N != 0 {
			t.Errorf("nothing was refused: %+v", s)
		}
		for range 2 {
			r := NewRecorder(slog.New(slog.DiscardHandler))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx, db) }()
			for n := range 3 * mostNamed {
				r.Add("shop.close", "down")
				r.Add(fmt.Sprint("rare-", n), "full")
			}
			r.Add("shop.close", "full")
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		s := latest(t, db)
		if total := s.Total(); total.N != 1202 || total.Reason != "full" || total.First.After(total.Last) {
			t.Errorf("the total is %+v", total)
		}
		if c := s.Of("shop.close").Total(); c.N != 600 || c.Reason != "down" {
			t.Errorf("the topic's is %+v", c)
		}
		if len(s) > mostNamed+2 {
			t.Errorf("%d names are kept", len(s))
		}
	})
}

// TestAStreakEnds after ten minutes without a refusal. While the database is away, nothing is lost.
func TestAStreakEnds(t *testing.T) {
	db := dbtest.Open(t, dbtest.SQLite(t))
	r := NewRecorder(slog.New(slog.DiscardHandler))
	ago := func(d time.Duration) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last = r.last.Add(-d)
		for k, c := range r.counts {
			c.First, c.Last = c.First.Add(-d), c.Last.Add(-d)
			r.counts[k] = c
		}
	}
	away, cancel := context.WithCancel(t.Context())
	cancel()
	r.Add("a", "down")
	r.save(away, db) // fails
	ago(gap - time.Minute)
	r.Add("a", "down")
	<-r.unsaved
	r.save(t.Context(), db)
	if c := latest(t, db).Total(); c.N != 2 || c.Last.Sub(c.First) < gap-2*time.Minute {
		t.Errorf("the streak is %+v", c)
	}
	ago(gap + time.Minute)
	r.save(t.Context(), db)
	r.Add("b", "readonly")
	r.save(t.Context(), db)
	if s := latest(t, db); s.Total().N != 1 || s.Of("b").Total().Reason != "readonly" {
		t.Errorf("the streak is %+v", s)
	}
}

func TestRefusalsAreStoredWhileTheProcessRuns(t *testing.T) {
	db := dbtest.Open(t, dbtest.SQLite(t))
	r := NewRecorder(slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, db) }()
	for n := range int64(2) {
		r.Add("a", "down")
		wait.For(t, "the count to be stored", func() bool { return latest(t, db).Total().N == n+1 })
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRefusalsAreSaid(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Streak{
		"6262 pushes were refused (503), because no shard accepted them; most: a (6000), b (200), c (60)": {
			{Topic: "b", Reason: "down", N: 200}, {Topic: "a", Reason: "down", N: 5999}, {Topic: "d", Reason: "down", N: 1},
			{Topic: "a", Reason: "full", N: 1}, {Topic: "c", Reason: "down", N: 60}, {Reason: "down", N: 1}},
		"1 push was refused (503), because Redis was out of memory: a (1)":      {{Topic: "a", Reason: "full", N: 1}},
		"9 pushes were refused (503), because the journal could not be written": {{Reason: "journal", N: 9}},
	} {
		if got := s.Says().Error(); got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}
