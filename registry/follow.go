package registry

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"reflect"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/migrations"
)

// keepEvery is how often the snapshot is written to its file at most: many changes cost one write.
const keepEvery = time.Second

// maxWait is the longest pause between two looks at a database that is away.
const maxWait = 4 * time.Second

// Run follows changes made elsewhere and keeps the snapshot on disk, until ctx is done. It reads the revision's row once per
// Options.Poll, and at once after Nudge; while the database is away it waits up to maxWait.
func (r *Registry) Run(ctx context.Context) error {
	wait := r.opts.Poll
	var kept time.Time
	for {
		pause := spread(wait)
		if due := keepEvery - time.Since(kept); due > 0 {
			pause = min(pause, due)
		} else if r.keep() {
			kept = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.nudge:
		case <-time.After(pause):
		}
		err := r.finishStart(ctx, r.follow(ctx))
		if err == nil {
			wait = r.opts.Poll
			continue
		}
		if ctx.Err() == nil && wait == r.opts.Poll {
			r.opts.Logger.Warn("the registry cannot be read; working with its last snapshot", "dsn", MaskDSN(r.opts.DSN), "error", err)
		}
		wait = min(2*wait, max(maxWait, r.opts.Poll))
	}
}

// spread shortens a pause by up to a fifth, so that processes do not poll at the same moment.
func spread(pause time.Duration) time.Duration { return pause - rand.N(pause/5+1) }

// finishStart completes the start of a process that began without the database and now finds an older schema: it brings it up
// to date. Nothing else migrates after Open.
func (r *Registry) finishStart(ctx context.Context, err error) error {
	if !errors.Is(err, ErrSchemaOlder) || !r.opts.Migrate {
		return err
	}
	if _, err := r.Migrate(ctx); err != nil {
		return err
	}
	return r.follow(ctx)
}

// follow loads what changed since the last look.
func (r *Registry) follow(ctx context.Context) error {
	was := r.Up()
	if err := r.checkSchema(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	var row revisionRow
	if err := r.wrap(r.db.WithContext(ctx).Take(&row, 1).Error); err != nil {
		return err
	}
	if !was {
		r.opts.Logger.Info("the registry's database answers again", "dsn", MaskDSN(r.opts.DSN))
	}
	if was && row.Value == r.Snapshot().Revision {
		return nil
	}
	return r.load(ctx)
}

// Looks that somebody waits for.
const (
	refreshLimit = 500 * time.Millisecond
	refreshEvery = 20 * time.Millisecond // so that names that nobody registered cost the database little
)

// Refresh looks for changes now: for what was asked for and is unknown here, but may have been registered elsewhere a moment ago. It does nothing
// while the database is away.
func (r *Registry) Refresh(ctx context.Context) {
	if !r.Up() {
		return
	}
	r.refreshing.Lock()
	defer r.refreshing.Unlock()
	if time.Since(r.refreshed) < refreshEvery {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, refreshLimit)
	defer cancel()
	if err := r.follow(ctx); err != nil && ctx.Err() == nil {
		r.opts.Logger.Debug("the registry could not be looked at", "error", err)
	}
	r.refreshed = time.Now()
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

// load reads everything in one transaction and publishes it. What it publishes is the database's state, even with an older revision
// than the last one: somebody restored a backup.
func (r *Registry) load(ctx context.Context) error {
	select {
	case r.loading <- struct{}{}:
	case <-ctx.Done():
		return r.wrap(ctx.Err())
	}
	defer func() { <-r.loading }()
	var s *Snapshot
	err := r.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		s, err = r.read(tx)
		return err
	}, r.readOnly())
	if err != nil {
		return r.wrap(err)
	}
	if last := r.Snapshot(); s.mark != "" && s.mark == last.mark && s.fullAt.Equal(last.fullAt) {
		return nil // nothing changed
	}
	r.publish(s)
	r.mu.Lock()
	r.unkept = true
	r.mu.Unlock()
	return nil
}

// readOnly is a transaction that sees one state of the database and stops no writer.
func (r *Registry) readOnly() *sql.TxOptions {
	if r.address.dialect == migrations.SQLite {
		return &sql.TxOptions{ReadOnly: true}
	}
	return &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
}

// read makes a snapshot: of the last one and what changed since, or else of everything.
func (r *Registry) read(tx *gorm.DB) (*Snapshot, error) {
	var rev revisionRow
	if err := tx.Take(&rev, 1).Error; err != nil {
		return nil, err
	}
	if base := r.snap.Load(); base != nil {
		if s, err := r.update(tx, base, rev.Value); s != nil || err != nil {
			return s, err
		}
	}
	return r.readAll(tx, rev.Value)
}

func (r *Registry) readAll(tx *gorm.DB, revision int64) (*Snapshot, error) {
	at := time.Now()
	s := &Snapshot{Revision: revision, Topics: map[string]*Topic{}, Notes: map[string]TopicNote{}, readAt: at, fullAt: at}
	var topics []topicRow
	var notes []noteRow
	mark, err := markOf(tx, revision)
	for _, err := range []error{err, tx.Find(&topics).Error, tx.Find(&notes).Error, readShards(tx, s), readTokens(tx, s), readSettings(tx, s)} {
		if err != nil {
			return nil, err
		}
	}
	s.mark = mark
	for i := range topics {
		r.readTopic(&topics[i], s)
	}
	for i := range notes {
		s.Notes[notes[i].Topic] = notes[i].note()
	}
	return s, nil
}

func readShards(tx *gorm.DB, s *Snapshot) error {
	var rows []shardRow
	if err := tx.Order("name").Find(&rows).Error; err != nil {
		return err
	}
	s.Shards = make([]Shard, len(rows))
	for i := range rows {
		s.Shards[i] = rows[i].shard()
	}
	return nil
}

func readTokens(tx *gorm.DB, s *Snapshot) error {
	var rows []tokenRow
	if err := tx.Find(&rows).Error; err != nil {
		return err
	}
	s.Tokens = make(map[string]*Token, len(rows))
	for i := range rows {
		s.Tokens[rows[i].Hash] = rows[i].token()
	}
	return nil
}

// readTopic leaves a topic that somebody damaged as it was, so that it does not keep all others from being followed.
func (r *Registry) readTopic(row *topicRow, s *Snapshot) {
	t, err := row.topic()
	if err != nil {
		t = r.Snapshot().Topics[row.Name]
		r.opts.Logger.Error("a topic in the registry's database cannot be read; it stays as it was last seen: save it again",
			"topic", row.Name, "error", err)
	}
	if t != nil {
		s.Topics[row.Name] = t
	}
}

// publish makes s the snapshot. Topics that did not change keep their value, so that what was compiled for them stays valid.
func (r *Registry) publish(s *Snapshot) {
	s.key = r.opts.SecretKey
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.snap.Load(); old != nil {
		for name, t := range s.Topics {
			if o := old.Topics[name]; o != nil && o != t && reflect.DeepEqual(o, t) {
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

// keep writes the last snapshot to its file, if it is not there yet. Run does so between looks.
func (r *Registry) keep() (tried bool) {
	r.mu.Lock()
	unkept := r.unkept
	r.unkept = false
	r.mu.Unlock()
	if !unkept {
		return false
	}
	s := r.Snapshot()
	if laterSnapshot(r.opts.SnapshotFile, s.readAt) {
		return true // another process of this host has read the database since
	}
	err := writeSnapshot(r.opts.SnapshotFile, s)
	r.mu.Lock()
	failedBefore := r.keepFailed
	r.keepFailed = err != nil
	r.unkept = r.unkept || err != nil // until there is room again
	r.mu.Unlock()
	if err != nil && !failedBefore {
		r.opts.Logger.Warn("the registry's snapshot cannot be kept; until it can, a restart without the database begins with an older one",
			"file", r.opts.SnapshotFile, "error", err)
	}
	return true
}
