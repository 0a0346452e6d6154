package registry

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/wakecall/wakecall/test/dbtest"
)

// TestQuotasCountForTheTokensThatATokenMade, in another process and in the snapshot's file, too.
func TestQuotasCountForTheTokensThatATokenMade(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r, other := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn})
		create := func(name string, by uint64, q *Quotas) *Token {
			t.Helper()
			_, token, err := r.CreateToken(t.Context(), "me", name, []Right{RightPush}, []string{"*"}, nil,
				func(t *Token) { t.MadeBy, t.Quotas = by, q })
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		free := create("free", 0, &Quotas{})
		if free.Quotas != nil || r.Snapshot().Limited() != nil {
			t.Errorf("quotas without limits: %+v", free)
		}
		maker := create("maker", 0, &Quotas{PushesPerSecond: 100})
		child := create("child", maker.ID, &Quotas{WaitingJobs: 7})
		limits := func(s *Snapshot) map[uint64][]uint64 {
			found := map[uint64][]uint64{}
			for _, token := range []*Token{free, maker, child} {
				for _, by := range s.Limits(token.ID) {
					found[token.ID] = append(found[token.ID], by.ID)
				}
			}
			return found
		}
		want := map[uint64][]uint64{maker.ID: {maker.ID}, child.ID: {child.ID, maker.ID}}
		file := filepath.Join(t.TempDir(), "snapshot")
		if err := writeSnapshot(file, r.Snapshot()); err != nil {
			t.Fatal(err)
		}
		stored, err := readSnapshot(file)
		if err != nil {
			t.Fatal(err)
		}
		other.Refresh(t.Context())
		for name, s := range map[string]*Snapshot{"own": r.Snapshot(), "other": other.Snapshot(), "file": stored} {
			if got := limits(s); !reflect.DeepEqual(got, want) || len(s.Limited()) != 2 {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			if got := s.CountedFor(child.ID) + s.CountedFor(maker.ID); got != tokenObject(child)[len("token/"):] {
				t.Errorf("%s: jobs count for %q", name, got)
			}
		}
		if err := r.SetQuotas(t.Context(), "me", maker.ID, &Quotas{WaitingJobs: 1}); err != nil {
			t.Fatal(err)
		}
		if err := r.SetQuotas(t.Context(), "me", child.ID, nil); err != nil {
			t.Fatal(err)
		}
		if got := limits(r.Snapshot()); !reflect.DeepEqual(got, map[uint64][]uint64{
			maker.ID: {maker.ID}, child.ID: {maker.ID},
		}) {
			t.Errorf("changed: %v", got)
		}
		var field *FieldError
		if err := r.SetQuotas(t.Context(), "me", maker.ID, &Quotas{WaitingJobs: -1}); !errors.As(err, &field) {
			t.Errorf("a negative quota: %v", err)
		}
		if err := r.SetQuotas(t.Context(), "me", 999, nil); !errors.Is(err, ErrNoToken) {
			t.Errorf("an unknown token: %v", err)
		}
		if err := r.RevokeToken(t.Context(), "me", maker.ID); err != nil {
			t.Fatal(err)
		}
		if got := r.Snapshot().Limited(); got != nil {
			t.Errorf("after the maker was revoked: %v", got)
		}
	})
}
