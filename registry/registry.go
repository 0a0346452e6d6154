package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	_ "modernc.org/sqlite" // the pure Go driver "sqlite"

	"github.com/wakecall/wakecall/migrations"
)

// Errors of the registry.
var (
	ErrUnavailable = errors.New("the registry's database cannot be reached")
	ErrNoTopic     = errors.New("no such topic")
	ErrNoShard     = errors.New("no such shard")
	ErrNoToken     = errors.New("no such token")
	ErrNoUser      = errors.New("no such user")
	ErrExists      = errors.New("it exists already")
	ErrSchemaOlder = errors.New("the registry's schema is older than this wakecall: run `wakecall migrate up`")
	ErrSchemaNewer = migrations.ErrSchemaNewer
)

// Options of a Registry.
type Options struct {
	DSN          string // sqlite:PATH or mysql://user:pw@tcp(host:3306)/database
	SnapshotFile string // where the last snapshot is kept; empty: nowhere
	Migrate      bool   // bring an older schema up to date
	Poll         time.Duration
	Logger       *slog.Logger
	Announce     func(ctx context.Context, revision int64) // called after every change made here; may be nil
}

// Registry is the database of topics, shards, tokens and users, and a snapshot of it in memory. Its methods may be called from any goroutine.
type Registry struct {
	opts    Options
	db      *gorm.DB
	sql     *sql.DB
	dialect migrations.Dialect
	snap    atomic.Pointer[Snapshot]
	up      atomic.Bool
	nudge   chan struct{}

	mu          sync.Mutex
	subscribers map[chan struct{}]struct{}
	checked     bool // the schema was found to be right
	unkept      bool // the snapshot is newer than its file
}

const (
	defaultPoll = 500 * time.Millisecond
	dialTimeout = 3 * time.Second
	opTimeout   = 4 * time.Second
)

// Open connects and loads a snapshot. Where the database does not answer, the snapshot file serves until it does.
func Open(o Options) (*Registry, error) {
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{opts: o, nudge: make(chan struct{}, 1), subscribers: map[chan struct{}]struct{}{}}
	if err := r.connect(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), migrateTimeout)
	defer cancel()
	err := r.start(ctx)
	if err == nil {
		return r, nil
	}
	if errors.Is(err, ErrUnavailable) {
		if s, ferr := readSnapshot(o.SnapshotFile); ferr == nil {
			o.Logger.Warn("the registry's database cannot be reached; working with its last snapshot", "dsn", MaskDSN(o.DSN), "error", err)
			r.publish(s)
			return r, nil
		}
	}
	_ = r.sql.Close()
	return nil, fmt.Errorf("registry %s: %w", MaskDSN(o.DSN), err)
}

const migrateTimeout = 2 * time.Minute

func (r *Registry) connect() error {
	kind, rest, _ := strings.Cut(r.opts.DSN, ":")
	var dialector gorm.Dialector
	switch kind {
	case "sqlite":
		if err := os.MkdirAll(filepath.Dir(rest), 0o700); err != nil {
			return fmt.Errorf("registry %s: %w", r.opts.DSN, err)
		}
		if f, err := os.OpenFile(rest, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
			return fmt.Errorf("registry %s: %w", r.opts.DSN, err)
		} else if err := f.Close(); err != nil {
			return fmt.Errorf("registry %s: %w", r.opts.DSN, err)
		}
		r.dialect = migrations.SQLite
		dsn := "file:" + rest + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
		dialector = sqlite.Dialector{DriverName: "sqlite", DSN: dsn}
	case "mysql":
		db, err := openMySQL(strings.TrimPrefix(rest, "//"))
		if err != nil {
			return fmt.Errorf("registry %s: %w", MaskDSN(r.opts.DSN), err)
		}
		r.dialect = migrations.MySQL
		dialector = mysql.New(mysql.Config{Conn: db, SkipInitializeWithVersion: true})
	default:
		return fmt.Errorf("registry: %q is neither sqlite:PATH nor mysql://user:password@tcp(host:3306)/database", MaskDSN(r.opts.DSN))
	}
	db, err := gorm.Open(dialector, &gorm.Config{
		Logger: logger.Discard, DisableAutomaticPing: true, TranslateError: true, NowFunc: func() time.Time { return time.Now().UTC() },
	})
	if err != nil {
		return fmt.Errorf("registry %s: %w", MaskDSN(r.opts.DSN), err)
	}
	r.db = db
	if r.sql, err = db.DB(); err != nil {
		return fmt.Errorf("registry %s: %w", MaskDSN(r.opts.DSN), err)
	}
	r.sql.SetMaxOpenConns(4)
	r.sql.SetMaxIdleConns(2)
	r.sql.SetConnMaxIdleTime(5 * time.Minute)
	r.sql.SetConnMaxLifetime(30 * time.Minute)
	return nil
}

func openMySQL(dsn string) (*sql.DB, error) {
	c, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("the address has not the form mysql://user:password@tcp(host:3306)/database")
	}
	c.ParseTime, c.Loc = true, time.UTC
	c.Timeout, c.ReadTimeout, c.WriteTimeout = dialTimeout, dialTimeout, dialTimeout
	c.Logger = &mysqldriver.NopLogger{} // what matters comes back as an error
	if err := c.Apply(mysqldriver.Charset("utf8mb4", "")); err != nil {
		return nil, err
	}
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// start checks (or mends) the schema and loads the first snapshot.
func (r *Registry) start(ctx context.Context) error {
	if err := r.Ping(ctx); err != nil {
		return err
	}
	if r.opts.Migrate {
		if _, err := migrations.Up(ctx, r.sql, r.dialect); err != nil {
			return r.wrap(err)
		}
	}
	if err := r.checkSchema(ctx); err != nil {
		return err
	}
	return r.load(ctx)
}

func (r *Registry) checkSchema(ctx context.Context) error {
	r.mu.Lock()
	checked := r.checked
	r.mu.Unlock()
	if checked {
		return nil
	}
	steps, err := migrations.Status(ctx, r.sql, r.dialect)
	if err != nil {
		return r.wrap(err)
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

// Migrate brings the schema up to date and says how many steps it took.
func (r *Registry) Migrate(ctx context.Context) (int, error) {
	n, err := migrations.Up(ctx, r.sql, r.dialect)
	return n, r.wrap(err)
}

// MigrationStatus lists the schema's steps.
func (r *Registry) MigrationStatus(ctx context.Context) ([]migrations.Step, error) {
	steps, err := migrations.Status(ctx, r.sql, r.dialect)
	return steps, r.wrap(err)
}

// Close ends the connections.
func (r *Registry) Close() error {
	r.keep()
	return r.sql.Close()
}

// OpenSchema connects for Migrate and MigrationStatus only: the schema may be of any version.
func OpenSchema(dsn string) (*Registry, error) {
	r := &Registry{opts: Options{DSN: dsn, Logger: slog.New(slog.DiscardHandler)}}
	if err := r.connect(); err != nil {
		return nil, err
	}
	if err := r.Ping(context.Background()); err != nil {
		_ = r.sql.Close()
		return nil, fmt.Errorf("registry %s: %w", MaskDSN(dsn), err)
	}
	return r, nil
}

// Ping asks the database whether it is there.
func (r *Registry) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	return r.wrap(r.sql.PingContext(ctx))
}

// Up says whether the last that was heard of the database was good.
func (r *Registry) Up() bool { return r.up.Load() }

// known are errors that say something of the request, not of the database.
var known = []error{
	ErrNoTopic, ErrNoShard, ErrNoToken, ErrNoUser, ErrExists, ErrSchemaNewer, ErrSchemaOlder, ErrUnavailable, context.Canceled, errDone,
}

// wrap makes ErrUnavailable of everything that a database says and that is not known to mean something else.
func (r *Registry) wrap(err error) error {
	if err == nil {
		r.up.Store(true)
		return nil
	}
	for _, k := range known {
		if errors.Is(err, k) {
			return err
		}
	}
	var fe *FieldError
	if errors.As(err, &fe) {
		return err
	}
	r.up.Store(false)
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Run follows changes made elsewhere until ctx is done.
func (r *Registry) Run(ctx context.Context) error {
	wait := r.opts.Poll
	for {
		r.keep()
		select {
		case <-ctx.Done():
			return nil
		case <-r.nudge:
		case <-time.After(wait/2 + rand.N(wait)):
		}
		err := r.follow(ctx)
		if err == nil {
			wait = r.opts.Poll
			continue
		}
		if ctx.Err() == nil && wait == r.opts.Poll {
			r.opts.Logger.Warn("the registry cannot be read; working with its last snapshot", "error", err)
		}
		wait = min(2*wait, 4*time.Second)
	}
}

func (r *Registry) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	was := r.Up()
	var row revisionRow
	if err := r.db.WithContext(ctx).Take(&row, 1).Error; err != nil {
		return r.wrap(err)
	}
	if err := r.checkSchema(ctx); err != nil {
		return err
	}
	if r.up.Store(true); !was {
		r.opts.Logger.Info("the registry answers again")
	}
	if row.Value == r.Snapshot().Revision {
		return nil
	}
	return r.load(ctx)
}

// Nudge makes Run look at once.
func (r *Registry) Nudge() {
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// Snapshot is the last state that was seen. It never blocks.
func (r *Registry) Snapshot() *Snapshot {
	if s := r.snap.Load(); s != nil {
		return s
	}
	return &Snapshot{}
}

// Subscribe gives a channel that ticks after new snapshots, and the way to end that.
func (r *Registry) Subscribe() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	r.mu.Lock()
	r.subscribers[c] = struct{}{}
	r.mu.Unlock()
	return c, func() {
		r.mu.Lock()
		delete(r.subscribers, c)
		r.mu.Unlock()
	}
}

// load reads everything in one transaction and publishes it.
func (r *Registry) load(ctx context.Context) error {
	s := &Snapshot{Topics: map[string]*Topic{}, Tokens: map[string]*Token{}, Shards: []Shard{}}
	err := r.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return s.read(tx) }, &sql.TxOptions{ReadOnly: r.dialect == migrations.MySQL})
	if err != nil {
		return r.wrap(err)
	}
	r.publish(s)
	r.mu.Lock()
	r.unkept = true
	r.mu.Unlock()
	return nil
}

// keep writes the last snapshot to its file. Run does so between looks, so that many changes cost one write.
func (r *Registry) keep() {
	r.mu.Lock()
	unkept := r.unkept
	r.unkept = false
	r.mu.Unlock()
	if !unkept {
		return
	}
	if err := writeSnapshot(r.opts.SnapshotFile, r.Snapshot()); err != nil {
		r.opts.Logger.Warn("the registry's snapshot cannot be kept; a restart without the database would fail", "error", err)
	}
}

func (s *Snapshot) read(tx *gorm.DB) error {
	var rev revisionRow
	var topics []topicRow
	var shards []shardRow
	var tokens []tokenRow
	err := errors.Join(tx.Take(&rev, 1).Error, tx.Find(&topics).Error, tx.Order("name").Find(&shards).Error, tx.Find(&tokens).Error)
	if err != nil {
		return err
	}
	s.Revision = rev.Value
	for i := range topics {
		t, err := topics[i].topic()
		if err != nil {
			return err
		}
		s.Topics[t.Name] = t
	}
	for _, row := range shards {
		s.Shards = append(s.Shards, Shard{Name: row.Name, URL: row.URL, State: ShardState(row.State)})
	}
	for i := range tokens {
		s.Tokens[tokens[i].Hash] = tokens[i].token()
	}
	return nil
}

// publish makes s the snapshot, unless a newer one was there first. Topics that did not change keep their value, so that what
// was compiled for them stays valid.
func (r *Registry) publish(s *Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.snap.Load()
	if old != nil {
		if old.Revision > s.Revision && r.Up() {
			return
		}
		for name, t := range s.Topics {
			if o := old.Topics[name]; o != nil && o.UpdatedAt.Equal(t.UpdatedAt) {
				s.Topics[name] = o
			}
		}
	}
	r.snap.Store(s)
	for c := range r.subscribers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
