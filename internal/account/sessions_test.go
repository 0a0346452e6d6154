package account

import (
	"errors"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

// TestAnEndedSessionStaysEnded: a request that was in progress when its session ended must not restore it.
func TestAnEndedSessionStaysEnded(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		s := NewSessions(dbtest.Open(t, dsn))
		ctx, later := t.Context(), time.Now().Add(time.Hour)
		if err := s.Create(ctx, "a", []byte("1"), later); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(ctx, "a", []byte("2"), later); err == nil {
			t.Error("a session was created over another")
		}
		for range 2 { // the second call changes nothing
			if err := s.Update(ctx, "a", []byte("3"), later); err != nil {
				t.Error(err)
			}
		}
		if data, found, err := s.Find(ctx, "a"); err != nil || !found || string(data) != "3" {
			t.Errorf("a is %q, %v, %v", data, found, err)
		}
		if _, err := s.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(ctx, "a", []byte("4"), later); err != nil {
			t.Error(err)
		}
		if _, found, err := s.Find(ctx, "a"); err != nil || found {
			t.Errorf("an ended session came back: %v, %v", found, err)
		}
	})
}

func TestSessionsEnd(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		s := NewSessions(dbtest.Open(t, dsn))
		ctx, later := t.Context(), time.Now().Add(time.Hour)
		if err := errors.Join(s.Create(ctx, "a", []byte("2"), later),
			s.Create(ctx, "b", []byte("3"), time.Now().Add(-time.Second))); err != nil {
			t.Fatal(err)
		}
		if data, found, err := s.Find(ctx, "a"); err != nil || !found || string(data) != "2" {
			t.Errorf("a is %q, %v, %v", data, found, err)
		}
		if _, found, err := s.Find(ctx, "b"); err != nil || found {
			t.Errorf("an expired session: %v, %v", found, err)
		}
		if all, err := s.All(ctx); err != nil || len(all) != 1 {
			t.Errorf("all sessions: %v, %v", all, err)
		}
		if found, err := s.Delete(ctx, "a"); err != nil || !found {
			t.Fatalf("%v, %v", found, err)
		}
		if found, err := s.Delete(ctx, "a"); err != nil || found {
			t.Errorf("ending it again: %v, %v", found, err)
		}
		if _, found, _ := s.Find(ctx, "a"); found {
			t.Error("the ended session exists")
		}
	})
}
