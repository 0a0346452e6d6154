package access

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry"
)

// users caches users briefly, so that not every request reads the database.
type users struct {
	accounts *account.Store
	now      func() time.Time
	issuer   string // of the users whom the identity provider signs in; empty: nobody may be signed in by it

	mu    sync.Mutex
	known map[string]*account.User // users who may sign in
	at    time.Time                // when they were read
}

const (
	userFresh = 3 * time.Second  // how long a user deleted on another host may continue
	userStale = 10 * time.Minute // the same while the database is unavailable
)

// get returns a user, or nil if the user no longer exists.
func (u *users) get(ctx context.Context, name string) (*account.User, error) {
	u.mu.Lock()
	user, ok := u.known[name]
	age := u.now().Sub(u.at)
	u.mu.Unlock()
	if ok && age < userFresh {
		return user, nil
	}
	list, err := u.list(ctx)
	if errors.Is(err, registry.ErrUnavailable) && ok && age < userStale {
		return user, nil
	}
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known, u.at = map[string]*account.User{}, u.now()
	for i := range list {
		if !list[i].Disabled {
			u.known[list[i].Name] = &list[i]
		}
	}
	return u.known[name], nil
}

// list returns the local users, and those whom the identity provider has signed in.
func (u *users) list(ctx context.Context) ([]account.User, error) {
	list, err := u.accounts.ListUsers(ctx)
	if err != nil || u.issuer == "" {
		return list, err
	}
	others, err := u.accounts.ListProviderUsers(ctx, u.issuer)
	for i := range others {
		list = append(list, *others[i].User())
	}
	return list, err
}

// forget makes the next get read the database, after a change.
func (u *users) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.at = u.now().Add(-userFresh)
}
