package access

import (
	"errors"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

func TestSessionsWorkWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	now := time.Now()
	db := &flakyStore{sessions: map[string][]byte{}}
	s := newSteadyStore(db, func() time.Time { return now })
	ctx := t.Context()
	if err := s.CommitCtx(ctx, "a", []byte("1"), now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	ctx = withOpened(ctx) // of a later request
	if _, found, err := s.FindCtx(ctx, "a"); !found || err != nil {
		t.Fatal(found, err)
	}
	db.away = true
	if err := s.CommitCtx(ctx, "a", []byte("2"), now.Add(2*time.Hour)); err != nil {
		t.Errorf("a change while the database is unavailable: %v", err)
	}
	if data, found, err := s.FindCtx(ctx, "a"); string(data) != "2" || !found || err != nil {
		t.Errorf("found %q, %v, %v", data, found, err)
	}
	if _, _, err := s.FindCtx(ctx, "b"); !errors.Is(err, registry.ErrUnavailable) {
		t.Errorf("an unknown session: %v", err)
	}
	now = now.Add(sessionSteady)
	if _, _, err := s.FindCtx(ctx, "a"); !errors.Is(err, registry.ErrUnavailable) {
		t.Errorf("after a long time: %v", err)
	}
	db.away = false
	if _, err := db.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.FindCtx(ctx, "a"); found || err != nil {
		t.Errorf("a session that was ended elsewhere: %v, %v", found, err)
	}
}
