package registry

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Changed describes a change for the audit trail: the object, and its state before and after.
type Changed struct {
	Object        string
	Before, After any

	last func(ctx context.Context) error // called before the commit, when everything else is stored; may be nil
}

// Change stores a change, its audit entry and the next revision in one transaction. When Change returns, the local
// snapshot includes the change. If do returns ErrUnchanged, nothing is stored. Packages whose rows are not in the
// snapshot use Change for the audit trail.
func (r *Registry) Change(
	ctx context.Context, actor, action, object string, do func(tx *gorm.DB, c *Changed) error,
) error {
	return r.changes(ctx, actor, action, func(tx *gorm.DB) ([]Changed, error) {
		c := Changed{Object: object}
		err := do(tx, &c)
		return []Changed{c}, err
	})
}

// changes is like Change for several changes at once, each with its own audit entry and revision.
func (r *Registry) changes(
	ctx context.Context, actor, action string, do func(tx *gorm.DB) ([]Changed, error),
) error {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	if err := r.db.CheckSchema(ctx); err != nil {
		return err
	}
	err := r.db.Change(ctx, func(tx *gorm.DB) error {
		// The revision's row is locked first. All changes wait for each other here, so they cannot deadlock.
		if err := addToRevision(tx, 1); err != nil {
			return err
		}
		list, err := do(tx)
		switch {
		case err != nil:
			return err
		case len(list) == 0:
			return ErrUnchanged
		}
		for i := range list {
			list[i].Object = database.Clip(list[i].Object, maxObject)
		}
		if err := logChanges(tx, list); err != nil {
			return err
		}
		if err := auditChanges(tx, database.Clip(actor, maxActor), action, list); err != nil {
			return err
		}
		if err := pruneAudit(tx, r.opts.AuditKeep, len(list)); err != nil {
			return err
		}
		return callLast(ctx, list)
	})
	if err != nil && !errors.Is(err, ErrUnchanged) {
		return err
	}
	if err := r.load(ctx); err != nil {
		r.Nudge() // the change is stored; Run updates the snapshot
		return nil
	}
	if err == nil && r.opts.Announce != nil {
		r.opts.Announce(ctx, r.Snapshot().Revision)
	}
	return nil
}

func callLast(ctx context.Context, list []Changed) error {
	for _, c := range list {
		if c.last == nil {
			continue
		}
		if err := c.last(ctx); err != nil {
			return err
		}
	}
	return nil
}

func addToRevision(tx *gorm.DB, n int) error {
	return tx.Model(&revisionRow{}).Where("id = 1").UpdateColumn("value", gorm.Expr("value + ?", n)).Error
}

func auditChanges(tx *gorm.DB, actor, action string, list []Changed) error {
	at := database.Now()
	rows := make([]AuditEntry, len(list))
	for i, c := range list {
		rows[i] = AuditEntry{
			At: at, Actor: actor, Action: action, Object: c.Object, Before: visible(c.Before), After: visible(c.After),
		}
	}
	return tx.CreateInBatches(rows, rowsAtOnce).Error
}

// doOnce sets a flag in the revision's row. It returns ErrUnchanged if the flag was already set.
func doOnce(tx *gorm.DB, flag string) error {
	res := tx.Model(&revisionRow{}).Where("id = 1 AND "+flag+" = 0").UpdateColumn(flag, 1)
	if res.Error == nil && res.RowsAffected == 0 {
		return ErrUnchanged
	}
	return res.Error
}
