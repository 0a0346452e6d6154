package registry

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/database"
)

// Changed is what a change reports to the audit trail: the object, and how it was before and after.
type Changed struct {
	Object        string
	Before, After any
}

// Change makes a change, its audit entry and the next revision in one transaction, and shows it in the snapshot
// before it returns. ErrUnchanged from do makes none of them. Packages whose rows are not in the snapshot use it for
// the audit trail.
func (r *Registry) Change(
	ctx context.Context, actor, action, object string, do func(tx *gorm.DB, c *Changed) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	if err := r.db.CheckSchema(ctx); err != nil {
		return err
	}
	err := r.db.Change(ctx, func(tx *gorm.DB) error {
		// The revision's row comes first: changes wait for each other here, so none deadlocks.
		if err := tx.Model(&revisionRow{}).Where("id = 1").UpdateColumn("value", gorm.Expr("value + 1")).Error; err != nil {
			return err
		}
		c := Changed{Object: object}
		if err := do(tx, &c); err != nil {
			return err
		}
		object := database.Clip(c.Object, maxObject)
		if err := logChange(tx, object); err != nil {
			return err
		}
		return tx.Create(&auditRow{
			At: database.Now(), Actor: database.Clip(actor, maxActor), Action: action, Object: object,
			BeforeState: visible(c.Before), AfterState: visible(c.After),
		}).Error
	})
	if err != nil && !errors.Is(err, ErrUnchanged) {
		return err
	}
	if err := r.load(ctx); err != nil {
		r.Nudge() // it is stored; the snapshot follows
		return nil
	}
	if err == nil && r.opts.Announce != nil {
		r.opts.Announce(ctx, r.Snapshot().Revision)
	}
	return nil
}

// doOnce raises a flag of the revision's row. It is ErrUnchanged if the flag was raised before.
func doOnce(tx *gorm.DB, flag string) error {
	res := tx.Model(&revisionRow{}).Where("id = 1 AND "+flag+" = 0").UpdateColumn(flag, 1)
	if res.Error == nil && res.RowsAffected == 0 {
		return ErrUnchanged
	}
	return res.Error
}
