package access

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

// flakyStore keeps sessions in memory, and can fail like a database.
type flakyStore struct {
	SessionStore // nil: the other methods are not needed here
	sessions     map[string][]byte
	away         bool
	writes       int
}

func (f *flakyStore) Find(_ context.Context, token string) ([]byte, bool, error) {
	if f.away {
		return nil, false, registry.ErrUnavailable
	}
	data, found := f.sessions[token]
	return data, found, nil
}

func (f *flakyStore) Create(_ context.Context, token string, data []byte, _ time.Time) error {
	if f.away {
		return registry.ErrUnavailable
	}
	f.writes++
	f.sessions[token] = data
	return nil
}

func (f *flakyStore) Update(ctx context.Context, token string, data []byte, expiry time.Time) error {
	if _, found := f.sessions[token]; !found && !f.away {
		return nil
	}
	return f.Create(ctx, token, data, expiry)
}

func (f *flakyStore) Delete(_ context.Context, token string) (bool, error) {
	_, found := f.sessions[token]
	delete(f.sessions, token)
	return found, nil
}
