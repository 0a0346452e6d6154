package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// maxWait is the longest pause between two polls while the database is unavailable.
const maxWait = 4 * time.Second

// Run follows changes made elsewhere and stores the snapshot on disk, until ctx is done. It reads the revision's row
// once per Options.Poll, and immediately after Nudge. While the database is unavailable, it waits up to maxWait.
func (r *Registry) Run(ctx context.Context) error {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	keeping.Go(func() { r.keepOn(ctx) })
	wait := r.opts.Poll
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.nudge:
		case <-time.After(spread(wait)):
		}
		err := r.finishStart(ctx, r.follow(ctx))
		if err == nil {
			wait = r.opts.Poll
			continue
		}
		if ctx.Err() == nil && wait == r.opts.Poll {
			r.opts.Logger.Warn("cannot read the registry; continuing with the last snapshot", "dsn", r.db.String(),
				"error", err)
		}
		wait = min(2*wait, max(maxWait, r.opts.Poll))
	}
}

// spread shortens a pause by up to a fifth, so that processes do not all poll at the same moment.
func spread(pause time.Duration) time.Duration { return pause - rand.N(pause/5+1) }

// finishStart completes the start of a process that began without the database. If the schema is older, it migrates it.
// Nothing else migrates after Open.
func (r *Registry) finishStart(ctx context.Context, err error) error {
	if !errors.Is(err, ErrSchemaOlder) {
		return err
	}
	if err := r.migrate(ctx); err != nil {
		return err
	}
	return r.follow(ctx)
}

// follow loads the changes since the last poll.
func (r *Registry) follow(ctx context.Context) error {
	was := r.Up()
	if err := r.db.CheckSchema(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	var row revisionRow
	if err := r.db.Do(ctx, func(tx *gorm.DB) error { return tx.Take(&row, 1).Error }); err != nil {
		return err
	}
	if !was {
		r.opts.Logger.Info("registry's database available again", "dsn", r.db.String())
	}
	if was && row.Value == r.Snapshot().Revision {
		return nil
	}
	return r.load(ctx)
}

const (
	refreshLimit = 500 * time.Millisecond
	refreshEvery = 20 * time.Millisecond
)

// Refresh polls immediately. Callers use it for a name that is unknown here but may just have been registered
// elsewhere. Concurrent callers share one poll per refreshEvery, but each gets a poll that began after its call. While
// the database is unavailable, Refresh does nothing.
func (r *Registry) Refresh(ctx context.Context) {
	came := time.Now()
	select {
	case r.refreshing <- struct{}{}:
		defer func() { <-r.refreshing }()
	case <-ctx.Done():
		return
	}
	if !r.Up() || r.refreshed.After(came) {
		return
	}
	if !pause.For(ctx, time.Until(r.refreshed.Add(refreshEvery))) {
		return
	}
	r.refreshed = time.Now()
	// A caller that leaves must not end the poll that the others wait for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshLimit)
	defer cancel()
	if err := r.follow(ctx); err != nil && ctx.Err() == nil {
		r.opts.Logger.Debug("cannot read the registry", "error", err)
	}
}

// Nudge makes Run poll immediately.
func (r *Registry) Nudge() {
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// Snapshot returns the last state read. It never blocks.
func (r *Registry) Snapshot() *Snapshot {
	if s := r.snap.Load(); s != nil {
		return s
	}
	return &Snapshot{}
}
