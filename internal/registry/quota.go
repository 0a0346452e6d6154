package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Quotas limit what a token may push, together with the tokens that it has made. 0: no limit.
type Quotas struct {
	PushesPerSecond int64 `json:"pushes_per_second,omitzero"`
	WaitingJobs     int64 `json:"waiting_jobs,omitzero"` // delayed, ready and running
}

const maxQuota = 1_000_000_000

// Validate checks the limits.
func (q *Quotas) Validate() error {
	if q == nil {
		return nil
	}
	for field, n := range map[string]int64{
		"quotas.pushes_per_second": q.PushesPerSecond, "quotas.waiting_jobs": q.WaitingJobs,
	} {
		if n < 0 || n > maxQuota {
			return OutOfRange(field, "field.between", n, 0, maxQuota)
		}
	}
	return nil
}

// orNil returns nil for quotas that limit nothing.
func (q *Quotas) orNil() *Quotas {
	if q == nil || *q == (Quotas{}) {
		return nil
	}
	return q
}

// quotaRow has what only some tokens have.
type quotaRow struct {
	TokenID                      uint64 `gorm:"primaryKey;autoIncrement:false"`
	PushesPerSecond, WaitingJobs int64
	MadeBy                       uint64
}

func (quotaRow) TableName() string { return "token_quotas" }

func (r *quotaRow) into(t *Token) {
	t.MadeBy = r.MadeBy
	t.Quotas = (&Quotas{PushesPerSecond: r.PushesPerSecond, WaitingJobs: r.WaitingJobs}).orNil()
}

// readQuotas reads the quotas and makers of tokens that have been read.
func readQuotas(tx *gorm.DB, s *Snapshot) error {
	var rows []quotaRow
	if err := tx.Find(&rows).Error; err != nil {
		return err
	}
	if len(rows) > 0 {
		byID := make(map[uint64]*Token, len(s.Tokens))
		for _, t := range s.Tokens {
			byID[t.ID] = t
		}
		for _, row := range rows {
			if t := byID[row.TokenID]; t != nil {
				row.into(t)
			}
		}
	}
	s.SetLimits()
	return nil
}

func storeQuotas(tx *gorm.DB, t *Token) error {
	row := quotaRow{TokenID: t.ID, MadeBy: t.MadeBy}
	if t.Quotas != nil {
		row.PushesPerSecond, row.WaitingJobs = t.Quotas.PushesPerSecond, t.Quotas.WaitingJobs
	}
	if row == (quotaRow{TokenID: t.ID}) {
		return tx.Delete(&row).Error
	}
	return tx.Save(&row).Error
}

// SetQuotas sets the quotas of a token; nil: none. Errors: *FieldError, ErrNoToken, ErrUnavailable.
func (r *Registry) SetQuotas(ctx context.Context, actor string, id uint64, q *Quotas) error {
	if err := q.Validate(); err != nil {
		return err
	}
	return r.Change(ctx, actor, "put", fmt.Sprint("token/", id), func(tx *gorm.DB, c *Changed) error {
		var row tokenRow
		if err := database.MustFind(tx, &row, "id", id, fmt.Errorf("%d: %w", id, ErrNoToken)); err != nil {
			return err
		}
		before, after := row.token(), row.token()
		var was quotaRow
		if _, err := database.Find(tx, &was, "token_id", id); err != nil {
			return err
		}
		was.into(before)
		was.into(after)
		after.Quotas = q.orNil()
		c.Before, c.After = before, after
		return storeQuotas(tx, after)
	})
}

// SetLimits finds the tokens whose quotas count for each token: its own, and those of its maker.
func (s *Snapshot) SetLimits() {
	s.limited = nil
	byID := map[uint64]*Token{}
	for _, t := range s.Tokens {
		if t.Quotas != nil {
			byID[t.ID] = t
		}
	}
	if len(byID) == 0 {
		return
	}
	s.limited = map[uint64][]*Token{}
	for _, t := range s.Tokens {
		for _, id := range []uint64{t.ID, t.MadeBy} {
			if by := byID[id]; by != nil {
				s.limited[t.ID] = append(s.limited[t.ID], by)
			}
		}
	}
}

// Limits returns the tokens whose quotas count for pushes of a token, by its ID.
func (s *Snapshot) Limits(token uint64) []*Token { return s.limited[token] }

// Limited returns the tokens with quotas.
func (s *Snapshot) Limited() []*Token {
	if s.limited == nil {
		return nil
	}
	return WithQuotas(slices.Collect(maps.Values(s.Tokens)))
}

// WithQuotas returns those of tokens that have quotas.
func WithQuotas(tokens []*Token) []*Token {
	return slices.DeleteFunc(slices.Clone(tokens), func(t *Token) bool { return t.Quotas == nil })
}

// CountedFor returns the tokens that a job of a token counts for while it waits, as its record has them; "": none.
func (s *Snapshot) CountedFor(token uint64) string {
	var ids []string
	for _, t := range s.Limits(token) {
		if t.Quotas.WaitingJobs > 0 {
			ids = append(ids, strconv.FormatUint(t.ID, 10))
		}
	}
	return strings.Join(ids, ",")
}
