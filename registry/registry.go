package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/migrations"
)

// Options of a Registry.
type Options struct {
	DSN          string // sqlite:PATH or mysql://user:pw@tcp(host:3306)/database
	SnapshotFile string // where the last snapshot is kept; empty: nowhere
	Migrate      bool   // bring an older schema up to date
	Poll         time.Duration
	Logger       *slog.Logger
	SecretKey    []byte                                    // for what is kept encrypted, see LoadSecretKey; nil: nothing such can be stored or read
	Announce     func(ctx context.Context, revision int64) // called after every change made here; may be nil
}

// Registry is the database of topics, shards, tokens and users, and a snapshot of it in memory. Its methods may be called from any goroutine.
type Registry struct {
	opts       Options
	address    *address
	db         *gorm.DB
	sql        *sql.DB
	snap       atomic.Pointer[Snapshot]
	up         atomic.Bool
	nudge      chan struct{}
	refreshing sync.Mutex // of refreshed: those who wait for a look share it
	refreshed  time.Time

	loading chan struct{} // has room for one: loads follow each other, so that none publishes an older state than the one before

	mu          sync.Mutex
	subscribers map[chan struct{}]struct{}
	checked     bool // the schema was found to be right
	unkept      bool // the snapshot is newer than its file
	keepFailed  bool // and the last attempt to write it failed
}

const (
	defaultPoll = time.Second
	// opTimeout bounds everything that somebody waits for.
	opTimeout      = 4 * time.Second
	migrateTimeout = 2 * time.Minute
)

// Open connects and loads a snapshot. Where the database does not answer, the snapshot file serves until it does.
// Errors: ErrUnavailable when there is no such file either, ErrSchemaOlder, ErrSchemaNewer.
func Open(o Options) (*Registry, error) {
	r, err := connect(o)
	if err != nil {
		return nil, err
	}
	removeLeftovers(o.SnapshotFile)
	ctx, cancel := context.WithTimeout(context.Background(), migrateTimeout)
	defer cancel()
	if err = r.start(ctx); err == nil {
		return r, nil
	}
	if errors.Is(err, ErrUnavailable) {
		if err = r.startWithout(err); err == nil {
			return r, nil
		}
	}
	_ = r.sql.Close()
	return nil, fmt.Errorf("registry %s: %w", MaskDSN(o.DSN), err)
}

// OpenSchema connects for Migrate and MigrationStatus only: the schema may be of any version.
func OpenSchema(dsn string) (*Registry, error) {
	r, err := connect(Options{DSN: dsn})
	if err != nil {
		return nil, err
	}
	if err := r.Ping(context.Background()); err != nil {
		_ = r.sql.Close()
		return nil, fmt.Errorf("registry %s: %w", MaskDSN(dsn), err)
	}
	return r, nil
}

// connect prepares the connections. A MySQL need not be there for that.
func connect(o Options) (r *Registry, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("registry %s: %w", MaskDSN(o.DSN), err)
		}
	}()
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r = &Registry{opts: o, nudge: make(chan struct{}, 1), loading: make(chan struct{}, 1), subscribers: map[chan struct{}]struct{}{}}
	if r.address, err = parseDSN(o.DSN); err != nil {
		return nil, err
	}
	if r.sql, err = r.address.open(); err != nil {
		return nil, err
	}
	if r.db, err = r.address.gorm(r.sql); err != nil {
		_ = r.sql.Close()
		return nil, err
	}
	return r, nil
}

// start checks (or mends) the schema and loads the first snapshot.
func (r *Registry) start(ctx context.Context) error {
	if err := r.Ping(ctx); err != nil {
		return err
	}
	if err := r.mendSchema(ctx); err != nil {
		return err
	}
	return r.load(ctx)
}

// startWithout begins with the snapshot that an earlier run kept.
func (r *Registry) startWithout(cause error) error {
	file := r.opts.SnapshotFile
	if file == "" {
		return cause
	}
	s, err := readSnapshot(file)
	if err != nil {
		return fmt.Errorf("%w; and without it there is no start, since no snapshot can be had from an earlier one (%w)", cause, err)
	}
	r.opts.Logger.Warn("the registry's database cannot be reached; working with its last snapshot, changes are refused until it is back",
		"dsn", MaskDSN(r.opts.DSN), "snapshot", file, "revision", s.Revision, "error", cause)
	r.publish(s)
	return nil
}

// mendSchema is checkSchema, and brings the schema up to date where Options.Migrate says so.
func (r *Registry) mendSchema(ctx context.Context) error {
	err := r.checkSchema(ctx)
	if !errors.Is(err, ErrSchemaOlder) || !r.opts.Migrate {
		return err
	}
	if _, err := r.Migrate(ctx); err != nil {
		return err
	}
	return r.checkSchema(ctx)
}

// checkSchema sees that the schema is the one this binary knows, until it was.
func (r *Registry) checkSchema(ctx context.Context) error {
	r.mu.Lock()
	checked := r.checked
	r.mu.Unlock()
	if checked {
		return nil
	}
	steps, err := r.MigrationStatus(ctx)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if !s.Applied {
			return fmt.Errorf("%w (step %d is missing)", ErrSchemaOlder, s.Version)
		}
	}
	r.mu.Lock()
	r.checked = true
	r.mu.Unlock()
	return nil
}

// Migrate brings the schema up to date and says how many steps it took. Several hosts may do so at once.
func (r *Registry) Migrate(ctx context.Context) (int, error) {
	db, err := r.address.openPatient()
	if err != nil {
		return 0, r.wrap(err)
	}
	n, err := migrations.Up(ctx, db, r.address.dialect)
	return n, errors.Join(r.wrap(err), db.Close())
}

// MigrationStatus lists the schema's steps.
func (r *Registry) MigrationStatus(ctx context.Context) ([]migrations.Step, error) {
	steps, err := migrations.Status(ctx, r.sql, r.address.dialect)
	return steps, r.wrap(err)
}

// Close keeps the snapshot and ends the connections. Run must have ended.
func (r *Registry) Close() error {
	r.keep()
	return r.sql.Close()
}

// Ping asks the database whether it is there.
func (r *Registry) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	return r.wrap(r.sql.PingContext(ctx))
}

// Up says whether the last that was heard of the database was good.
func (r *Registry) Up() bool { return r.up.Load() }
