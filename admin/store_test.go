package admin

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/registry"
)

// FlakyStore is the registry's store with a database that can fail.
type FlakyStore struct {
	page.SessionStore
	Away   bool
	Writes int
}

func (f *FlakyStore) Find(ctx context.Context, token string) ([]byte, bool, error) {
	if f.Away {
		return nil, false, registry.ErrUnavailable
	}
	return f.SessionStore.Find(ctx, token)
}

func (f *FlakyStore) Create(ctx context.Context, token string, data []byte, expiry time.Time) error {
	if f.Away {
		return registry.ErrUnavailable
	}
	f.Writes++
	return f.SessionStore.Create(ctx, token, data, expiry)
}

func (f *FlakyStore) Update(ctx context.Context, token string, data []byte, expiry time.Time) error {
	if f.Away {
		return registry.ErrUnavailable
	}
	f.Writes++
	return f.SessionStore.Update(ctx, token, data, expiry)
}

func TestPagesThatChangeNothingWriteNothing(t *testing.T) {
	t.Parallel()
	db := &FlakyStore{}
	s := open(t, func(o *Options) {
		db.SessionStore = o.SessionStore
		o.SessionStore = db
	}).as("look")
	s.get("/")
	before := db.Writes
	for range 3 {
		s.get("/topics")
	}
	if db.Writes != before {
		t.Errorf("three pages wrote the session %d times", db.Writes-before)
	}
	db.Away = true
	if status, _ := s.get("/topics"); status != 200 {
		t.Errorf("without the sessions' database a page got %d", status)
	}
}

// TestWhatAPageRequestsByItselfIsNoUse: parts of a page and its charts do not prolong the session, so that a page left
// open does not keep it alive.
func TestWhatAPageRequestsByItselfIsNoUse(t *testing.T) {
	t.Parallel()
	db := &FlakyStore{}
	var later atomic.Int64
	s := open(t, func(o *Options) {
		db.SessionStore = o.SessionStore
		o.SessionStore = db
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	}).as("look")
	s.get("/")
	later.Store(int64(time.Hour))
	before := db.Writes
	for name, value := range map[string]string{"HX-Request": "true", "Accept": "application/json"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/charts/rates", nil)
		must(t, err)
		r.Header.Set(name, value)
		if status, _ := s.send(r); status != http.StatusOK || db.Writes != before {
			t.Errorf("with %s: %d, the session was written %d times", name, status, db.Writes-before)
		}
	}
	if s.get("/topics"); db.Writes == before {
		t.Error("a page that the user opens does not prolong the session")
	}
}
