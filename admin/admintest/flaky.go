package admintest

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/admin/access"
	"github.com/wakecall/wakecall/internal/registry"
)

// FlakyStore is the registry's store with a database that can fail.
type FlakyStore struct {
	access.SessionStore
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
