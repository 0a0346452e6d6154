package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// Options configure a Registry.
type Options struct {
	DSN          string // sqlite:PATH, mysql://… or postgres://…
	SnapshotFile string // where to keep the last snapshot; empty: nowhere
	Migrate      Migrate
	Poll         time.Duration
	AuditKeep    time.Duration // how long entries of the audit trail are kept; 0: forever
	Logger       *slog.Logger
	SecretKey    seal.Key                                  // encrypts and decrypts stored secrets
	Announce     func(ctx context.Context, revision int64) // called after every change made here; may be nil
}

// Migrate says which schemas Open migrates.
type Migrate uint8

// Which schemas are migrated.
const (
	MigrateNone  Migrate = iota
	MigrateEmpty         // an empty database gets a schema; one that processes use stays as it is
	MigrateOlder         // also an older schema
)

// Registry is the database of topics, shards and tokens, and a snapshot of it in memory. Its methods may be called
// from any goroutine.
type Registry struct {
	opts  Options
	db    *database.DB
	snap  atomic.Pointer[Snapshot]
	nudge chan struct{}

	refreshing chan struct{} // has a capacity of one, and guards refreshed: concurrent calls of Refresh share one poll
	refreshed  time.Time     // when the last poll began

	// loading has a capacity of one, so that loads run one after the other, and none publishes an older state than the
	// last.
	loading chan struct{}

	mu          sync.Mutex
	subscribers map[*Subscription]struct{}

	unkept     chan struct{} // holds a value if the snapshot is newer than its file
	keepFailed bool          // the last write of the file failed
}

const (
	defaultPoll    = time.Second
	migrateTimeout = 2 * time.Minute
)

// Open connects and loads a snapshot. If the database does not answer, the snapshot file is used until it does. Errors:
// ErrUnavailable if there is no snapshot file either, ErrSchemaOlder, ErrSchemaNewer, ErrOtherKey.
func Open(o Options) (*Registry, error) {
	r, err := connect(o)
	if err != nil {
		return nil, err
	}
	if o.SnapshotFile != "" {
		_ = disk.RemoveUnfinished(filepath.Dir(o.SnapshotFile), time.Now()) // what stays is tried at the next start
	}
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

// connect prepares the connections. A server need not be up yet.
func connect(o Options) (*Registry, error) {
	o.Poll = cmp.Or(o.Poll, defaultPoll)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	db, err := database.Open(o.DSN, o.SecretKey)
	if err != nil {
		return nil, err
	}
	return &Registry{
		opts: o, db: db, nudge: make(chan struct{}, 1), loading: make(chan struct{}, 1),
		refreshing:  make(chan struct{}, 1),
		subscribers: map[*Subscription]struct{}{}, unkept: make(chan struct{}, 1),
	}, nil
}

// start checks the schema, or migrates it, and loads the first snapshot.
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

// migrate checks the schema, and migrates it as Options.Migrate says. Otherwise it returns an error.
func (r *Registry) migrate(ctx context.Context) error {
	err := r.db.CheckSchema(ctx)
	if !errors.Is(err, ErrSchemaOlder) || r.opts.Migrate == MigrateNone {
		return err
	}
	migrate := r.db.Migrate
	if r.opts.Migrate == MigrateEmpty {
		migrate = r.db.Create
	}
	if _, err := migrate(ctx); err != nil {
		return err
	}
	return r.db.CheckSchema(ctx)
}

// readFile loads the snapshot written by an earlier run, so that only later changes must be read from the database.
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

// startWithout continues with the snapshot written by an earlier run, unless it could not be read.
func (r *Registry) startWithout(cause, unread error) error {
	s, file := r.snap.Load(), r.opts.SnapshotFile
	switch {
	case unread != nil:
		return fmt.Errorf("%w, and there is no snapshot from an earlier run (%w)", cause, unread)
	case s == nil:
		return cause
	}
	r.opts.Logger.Warn("registry's database unreachable; continuing with the last snapshot, changes are "+
		"refused "+
		"until it is back", "dsn", r.db.String(), "snapshot", file, "revision", s.Revision, "error", cause)
	return nil
}

// Close writes the snapshot to its file and closes the connections. Run must have returned.
func (r *Registry) Close() error {
	select {
	case <-r.unkept:
		r.keep()
	default:
	}
	return r.db.Close()
}

// DB returns the database handle, for packages with their own tables.
func (r *Registry) DB() *database.DB { return r.db }

// Ping checks that the database answers.
func (r *Registry) Ping(ctx context.Context) error { return r.db.Ping(ctx) }

// Up reports whether the database answered the last operation.
func (r *Registry) Up() bool { return r.db.Up() }
