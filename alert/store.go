package alert

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/database"
)

// Alert is something that is, or was, wrong.
type Alert struct {
	ID         uint64     `json:"id"`
	Key        string     `json:"key" gorm:"column:alert_key"` // what it is about: one alert of a key is open at a time
	Kind       string     `json:"kind"`
	Severity   string     `json:"severity"`
	Subject    string     `json:"subject"`
	Topic      string     `json:"topic,omitempty"`
	Shard      string     `json:"shard,omitempty"`
	Detail     string     `json:"detail"`
	Host       string     `json:"host"` // that raised it
	BeganAt    time.Time  `json:"began_at"`
	LastSeenAt time.Time  `json:"last_seen_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	RemindedAt time.Time  `json:"reminded_at"`              // when people were last told
	Count      int        `json:"count" gorm:"column:seen"` // how often it was found
}

// Store keeps alerts and messages about them in the registry's database. Hosts agree through
// it on which one of them tells people.
type Store struct{ db *database.DB }

// NewStore returns the store in a database.
func NewStore(db *database.DB) *Store { return &Store{db} }

type alertRow struct {
	Alert   `gorm:"embedded"`
	OpenKey *string // the key; nil after the end
}

func (alertRow) TableName() string { return "alerts" }

func (a *alertRow) alert() Alert {
	alert := a.Alert
	alert.BeganAt, alert.LastSeenAt, alert.RemindedAt = a.BeganAt.UTC(), a.LastSeenAt.UTC(), a.RemindedAt.UTC()
	if a.EndedAt != nil {
		at := a.EndedAt.UTC()
		alert.EndedAt = &at
	}
	return alert
}

// The lengths of columns, in characters.
const (
	maxKey     = 191
	maxHost    = 128
	maxSubject = 255
	maxDetail  = 4000
)

// newAlertRow is the row of an alert that begins.
func newAlertRow(a Alert, at time.Time) alertRow {
	a.Key, a.Subject = database.Clip(a.Key, maxKey), database.Clip(a.Subject, maxSubject)
	a.Detail, a.Host = database.Clip(a.Detail, maxDetail), database.Clip(a.Host, maxHost)
	a.ID, a.BeganAt, a.LastSeenAt, a.RemindedAt, a.EndedAt, a.Count = 0, at, at, at, nil, 1
	return alertRow{Alert: a, OpenKey: &a.Key}
}

// RaiseAlert notes that a host finds something wrong. raised is true if that is new: of several hosts that find it,
// one is told so. The alert is returned as it is stored.
func (s *Store) RaiseAlert(ctx context.Context, a Alert) (stored Alert, raised bool, err error) {
	stored = a
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		row := newAlertRow(a, database.Now())
		res := database.InsertNew(tx).Create(&row)
		if res.Error != nil {
			return res.Error
		}
		if raised = res.RowsAffected > 0; raised {
			stored = row.alert()
			return s.addFinder(tx, row.ID, row.Host)
		}
		return s.raiseAgain(tx, row, &stored)
	})
	return stored, raised, err
}

// raiseAgain updates an open alert. One that ended meanwhile stays ended; the next round raises it again.
func (s *Store) raiseAgain(tx *gorm.DB, row alertRow, stored *Alert) error {
	var open alertRow
	found, err := database.Find(tx, &open, "open_key", *row.OpenKey)
	if err != nil || !found {
		return err
	}
	if err := s.addFinder(tx, open.ID, row.Host); err != nil { // first, so that nobody ends it now
		return err
	}
	res := tx.Model(&alertRow{}).Where("open_key = ?", *row.OpenKey).Updates(map[string]any{
		"last_seen_at": row.LastSeenAt, "detail": row.Detail, "severity": row.Severity, "seen": gorm.Expr("seen + 1"),
	})
	if res.Error != nil || res.RowsAffected == 0 {
		return res.Error
	}
	open.LastSeenAt, open.Detail, open.Severity = row.LastSeenAt, row.Detail, row.Severity
	open.Count++
	*stored = open.alert()
	return nil
}

// finderLife is how long a host counts as finding an alert after it said so.
const finderLife = 90 * time.Second

func (s *Store) addFinder(tx *gorm.DB, id uint64, host string) error {
	return tx.Exec("REPLACE INTO alert_finders (alert_id, host, seen_at) VALUES (?, ?, "+s.db.Clock()+")", id, host).Error
}

// EndAlert notes that a host no longer finds something wrong. The alert ends when no other host found it lately: one
// host is told so. An alert that is returned without having ended is still open.
func (s *Store) EndAlert(ctx context.Context, key, host string, at time.Time) (stored Alert, ended bool, err error) {
	key, host = database.Clip(key, maxKey), database.Clip(host, maxHost)
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		var row alertRow
		if open, err := database.Find(tx, &row, "open_key", key); err != nil || !open {
			return err
		}
		// Not one transaction: of two hosts that stop finding it at once, the later one must see that the other has.
		if err := tx.Exec("DELETE FROM alert_finders WHERE alert_id = ? AND host = ?", row.ID, host).Error; err != nil {
			return err
		}
		if ended, err = s.endUnfound(tx, &row, at); err != nil {
			return err
		}
		if !ended {
			row = alertRow{}
			_, err = database.Find(tx, &row, "open_key", key)
		}
		stored = row.alert()
		return err
	})
	if err != nil {
		return Alert{}, false, err
	}
	return stored, ended, nil
}

// endUnfound ends an open alert that no host finds.
func (s *Store) endUnfound(tx *gorm.DB, row *alertRow, at time.Time) (ended bool, err error) {
	at = at.UTC().Truncate(time.Microsecond)
	found := "EXISTS (SELECT 1 FROM alert_finders WHERE alert_id = alerts.id AND seen_at > " + s.db.Clock() + " - ?)"
	res := tx.Model(&alertRow{}).
		Where("id = ? AND open_key IS NOT NULL AND NOT "+found, row.ID, finderLife.Milliseconds()).
		Updates(map[string]any{"open_key": nil, "ended_at": at})
	if res.Error != nil || res.RowsAffected == 0 {
		return false, res.Error
	}
	row.EndedAt = &at
	return true, tx.Exec("DELETE FROM alert_finders WHERE alert_id = ?", row.ID).Error
}

// ClaimReminder reports whether this host is the one to tell people of an alert again after a time.
func (s *Store) ClaimReminder(
	ctx context.Context, id uint64, after time.Duration, at time.Time,
) (claimed bool, err error) {
	at = at.UTC().Truncate(time.Microsecond)
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		res := tx.Model(&alertRow{}).Where("id = ? AND open_key IS NOT NULL AND reminded_at <= ?", id, at.Add(-after)).
			UpdateColumn("reminded_at", at)
		claimed = res.RowsAffected > 0
		return res.Error
	})
	return claimed, err
}

// Filter selects alerts; zero fields select all.
type Filter struct {
	Open   *bool
	Kind   string
	Topic  string
	Before uint64 // older than the one with this ID
	Limit  int    // 0: 100
}

// ListAlerts lists alerts, the newest first.
func (s *Store) ListAlerts(ctx context.Context, f Filter) ([]Alert, error) {
	return database.List(ctx, s.db, f.query, (*alertRow).alert)
}

func (f Filter) query(tx *gorm.DB) *gorm.DB {
	q := tx.Order("id DESC").Limit(database.Limit(f.Limit))
	if f.Open != nil && *f.Open {
		q = q.Where("open_key IS NOT NULL")
	} else if f.Open != nil {
		q = q.Where("open_key IS NULL")
	}
	if f.Kind != "" {
		q = q.Where("kind = ?", f.Kind)
	}
	if f.Topic != "" {
		q = q.Where("topic = ?", f.Topic)
	}
	if f.Before > 0 {
		q = q.Where("id < ?", f.Before)
	}
	return q
}
