package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/database"
	"github.com/wakecall/wakecall/seal"
)

// Options of a Registry.
type Options struct {
	DSN          string // sqlite:PATH or mysql://user:pw@tcp(host:3306)/database
	SnapshotFile string // where the last snapshot is kept; empty: nowhere
	Migrate      bool   // bring an older schema up to date
	Poll         time.Duration
	Logger       *slog.Logger
	SecretKey    seal.Key                                  // for what is stored encrypted
	Announce     func(ctx context.Context, revision int64) // called after every change made here; may be nil
}

// Registry is the database of topics, shards and tokens, and a snapshot of it in memory. Its methods may be called
// from any goroutine.
type Registry struct {
	opts  Options
	db    *database.DB
	snap  atomic.Pointer[Snapshot]
	nudge chan struct{}

	refreshing sync.Mutex // of refreshed: concurrent calls of Refresh share one poll
	refreshed  time.Time  // when the last one began

	// loading has room for one: loads follow each other, so that none publishes an older state than the one before.
	loading chan struct{}

	mu          sync.Mutex
	subscribers map[*Subscription]struct{}

	unkept     chan struct{} // has one when the snapshot is newer than its file
	keepFailed bool          // the last attempt to write it failed
}

const (
	defaultPoll    = time.Second
	migrateTimeout = 2 * time.Minute
)

// Open connects and loads a snapshot. If the database does not answer, the snapshot file serves until it does.
// Errors: ErrUnavailable when there is no such file either, ErrSchemaOlder, ErrSchemaNewer, ErrOtherKey.
func Open(o Options) (*Registry, error) {
	r, err := connect(o)
	if err != nil {
		return nil, err
	}
	removeLeftovers(o.SnapshotFile)
	unread := r.readFile()
	ctx, cancel := context.WithTimeout(context.Background(), migrateTimeout)
	defer cancel()
	if err = r.start(ctx); errors.Is(err, ErrUnavailable) {
		err = r.startWithout(err, unread)
	}
	if err != nil {
		_ = r.db.Close()
		return nil, fmt.Errorf("registry %s: %w", r.db, err)
	}
	return r, nil
}

// connect prepares the connections. A MySQL server need not be up for that.
func connect(o Options) (*Registry, error) {
	o.Poll = cmp.Or(o.Poll, defaultPoll)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	db, err := database.Open(o.DSN, o.SecretKey)
	if err != nil {
		return nil, err
	}
	return &Registry{
		opts: o, db: db, nudge: make(chan struct{}, 1), loading: make(chan struct{}, 1),
		subscribers: map[*Subscription]struct{}{}, unkept: make(chan struct{}, 1),
	}, nil
}

// start checks the schema, or brings it up to date, and loads the first snapshot.
func (r *Registry) start(ctx context.Context) error {
	if err := r.db.Ping(ctx); err != nil {
		return err
	}
	if err := r.migrate(ctx); err != nil {
		return err
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	return r.checkKey(ctx)
}

// migrate brings an older schema up to date if Options.Migrate says so. Otherwise it is an error.
func (r *Registry) migrate(ctx context.Context) error {
	err := r.db.CheckSchema(ctx)
	if !errors.Is(err, ErrSchemaOlder) || !r.opts.Migrate {
		return err
	}
	if _, err := r.db.Migrate(ctx); err != nil {
		return err
	}
	return r.db.CheckSchema(ctx)
}

// readFile begins with the snapshot that an earlier run kept, so that only what changed since is read from the
// database.
func (r *Registry) readFile() error {
	if r.opts.SnapshotFile == "" {
		return nil
	}
	s, err := readSnapshot(r.opts.SnapshotFile)
	if err == nil {
		r.publish(s, nil)
	}
	return err
}

// startWithout goes on with the snapshot that an earlier run kept, unless it could not be read.
func (r *Registry) startWithout(cause, unread error) error {
	s, file := r.snap.Load(), r.opts.SnapshotFile
	switch {
	case unread != nil:
		return fmt.Errorf("%w, and there is no snapshot of an earlier run to start with (%w)", cause, unread)
	case s == nil:
		return cause
	}
	r.opts.Logger.Warn("the registry's database cannot be reached; working with its last snapshot, changes are refused "+
		"until it is back", "dsn", r.db.String(), "snapshot", file, "revision", s.Revision, "error", cause)
	return nil
}

// Close keeps the snapshot and closes the connections. Run must have ended.
func (r *Registry) Close() error {
	select {
	case <-r.unkept:
		r.keep()
	default:
	}
	return r.db.Close()
}

// DB is the database itself, for packages that keep something beside the registry.
func (r *Registry) DB() *database.DB { return r.db }

// Ping checks whether the database answers.
func (r *Registry) Ping(ctx context.Context) error { return r.db.Ping(ctx) }

// Up reports whether the last operation found the database answering.
func (r *Registry) Up() bool { return r.db.Up() }
