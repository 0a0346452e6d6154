package alert

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Alert is an incident: a topic, a shard or the installation has, or had, one or more problems.
type Alert struct {
	ID         uint64     `json:"id"`
	Key        string     `json:"key" gorm:"column:alert_key"` // its subject: at most one alert with a key is open
	Kind       string     `json:"kind"`                        // of its most severe cause
	Severity   string     `json:"severity"`
	Subject    string     `json:"subject"` // its title and details in the language of the messages
	Topic      string     `json:"topic,omitempty"`
	Shard      string     `json:"shard,omitempty"`
	Detail     string     `json:"detail"`
	Host       string     `json:"host"` // the host that raised it
	BeganAt    time.Time  `json:"began_at"`
	LastSeenAt time.Time  `json:"last_seen_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	RemindedAt time.Time  `json:"-"`                        // used by earlier versions
	Count      int        `json:"count" gorm:"column:seen"` // how often it was found
	Causes     []Cause    `json:"causes,omitempty" gorm:"-"`
	Handling   Handling   `json:"handling,omitzero" gorm:"-"`
}

// Store stores alerts and messages about them in the registry's database. Hosts agree through it on which of them
// notifies people.
type Store struct{ db *database.DB }

// NewStore returns the store in a database.
func NewStore(db *database.DB) *Store { return &Store{db} }

type alertRow struct {
	Alert   `gorm:"embedded"`
	OpenKey *string // the key; nil after the end
}

func (alertRow) TableName() string { return "alerts" }

// listedRow is an alert joined with the columns about it in other tables.
type listedRow struct {
	Row     alertRow `gorm:"embedded"`
	Stored  string   // causes
	Handled Handling `gorm:"embedded;embeddedPrefix:handled_"`
}

func (l *listedRow) alert() Alert {
	a := l.Row.Alert
	_ = json.Unmarshal([]byte(l.Stored), &a.Causes) // empty for alerts of an earlier version
	for i := range a.Causes {
		a.Causes[i].Host = "" // for the store only
	}
	if l.Handled.Until != nil || l.Handled.Alert == a.ID { // an acknowledgement applies to one alert only
		a.Handling = l.Handled
	}
	return a
}

// Lengths of columns, in characters.
const (
	maxKey     = 191
	maxHost    = 128
	maxSubject = 255
	maxDetail  = 4000
)

// newAlertRow returns the row of a new alert.
func newAlertRow(a Alert, at time.Time) alertRow {
	a.Key, a.Subject = database.Clip(a.Key, maxKey), database.Clip(a.Subject, maxSubject)
	a.Detail, a.Host = database.Clip(a.Detail, maxDetail), database.Clip(a.Host, maxHost)
	if a.BeganAt = a.BeganAt.UTC().Truncate(time.Microsecond); a.BeganAt.IsZero() {
		a.BeganAt = at
	}
	a.ID, a.LastSeenAt, a.RemindedAt, a.EndedAt, a.Count = 0, at, at, nil, 1
	return alertRow{Alert: a, OpenKey: &a.Key}
}

// RaiseAlert stores that a host finds a problem. It returns the alert as stored: if another host has raised one with
// the same key, that alert.
func (s *Store) RaiseAlert(ctx context.Context, a Alert) (stored Alert, err error) {
	stored = a
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		row := newAlertRow(a, database.Now())
		res := database.InsertNew(tx).Create(&row)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected > 0 {
			stored = row.Alert
			return s.noteFinder(tx, row.ID, row.Host, causesOf(&row))
		}
		return s.raiseAgain(tx, row, &stored)
	})
	return stored, err
}

// raiseAgain updates an open alert. If it has ended meanwhile, it stays ended; the next round raises a new one.
func (s *Store) raiseAgain(tx *gorm.DB, row alertRow, stored *Alert) error {
	var open alertRow
	found, err := database.Find(tx, &open, "open_key", *row.OpenKey)
	if err != nil || !found {
		return err
	}
	causes, err := s.withOthers(tx, open.ID, &row)
	if err != nil {
		return err
	}
	if err := s.noteFinder(tx, open.ID, row.Host, causes); err != nil { // first, so that no other host ends it now
		return err
	}
	kind, severity := row.Kind, row.Severity
	if len(causes) > 0 && causes[0].Host != row.Host {
		kind, severity = causes[0].Kind, causes[0].Severity
	}
	res := tx.Model(&alertRow{}).Where("open_key = ?", *row.OpenKey).Updates(map[string]any{
		"last_seen_at": row.LastSeenAt, "kind": kind, "severity": severity, "subject": row.Subject,
		"detail": row.Detail, "seen": gorm.Expr("seen + 1"),
	})
	if res.Error != nil || res.RowsAffected == 0 {
		return res.Error
	}
	now := row.Alert
	now.ID, now.Host, now.BeganAt, now.Count = open.ID, open.Host, open.BeganAt, open.Count+1
	*stored = now
	return nil
}

// finderLife is how long a host counts as a finder of an alert after its last report.
const finderLife = 90 * time.Second

// causesOf returns the causes that a host reports, with its name.
func causesOf(row *alertRow) []Cause {
	causes := slices.Clone(row.Causes)
	for i := range causes {
		causes[i].Host = row.Host
	}
	return causes
}

// withOthers returns the causes that a host reports, and those that only other hosts still find: a host that does not
// reach a shard and one that only finds it slow must not overwrite each other, or people are notified each time.
func (s *Store) withOthers(tx *gorm.DB, id uint64, row *alertRow) ([]Cause, error) {
	var finders, texts []string
	const recent = "alert_id = ? AND host <> ? AND seen_at > "
	err := tx.Table("alert_finders").Where(recent+s.db.Clock()+" - ?", id, row.Host, finderLife.Milliseconds()).
		Pluck("host", &finders).Error
	if err == nil {
		err = tx.Table("alert_causes").Where("alert_id = ?", id).Pluck("causes", &texts).Error
	}
	if err != nil {
		return nil, err
	}
	causes := causesOf(row)
	for _, text := range texts {
		var stored []Cause
		_ = json.Unmarshal([]byte(text), &stored) // of another version: this host's causes are stored
		for _, c := range stored {
			same := func(x Cause) bool { return x.Kind == c.Kind }
			if slices.Contains(finders, c.Host) && !slices.ContainsFunc(causes, same) {
				causes = append(causes, c)
			}
		}
	}
	slices.SortStableFunc(causes, worstFirst)
	return causes, nil
}

// noteFinder stores that a host finds an alert, and the causes that are found.
func (s *Store) noteFinder(tx *gorm.DB, id uint64, host string, found []Cause) error {
	causes, err := json.Marshal(found)
	if err != nil {
		return err
	}
	if err := tx.Exec("REPLACE INTO alert_causes (alert_id, causes) VALUES (?, ?)", id, string(causes)).Error; err != nil {
		return err
	}
	const finder = "REPLACE INTO alert_finders (alert_id, host, seen_at) VALUES (?, ?, "
	return tx.Exec(finder+s.db.Clock()+")", id, host).Error
}

// EndAlert stores that a host no longer finds a problem, and reports whether the alert is over. It ends when no other
// host has found it recently.
func (s *Store) EndAlert(ctx context.Context, key, host string, at time.Time) (over bool, err error) {
	key, host = database.Clip(key, maxKey), database.Clip(host, maxHost)
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		var row alertRow
		open, err := database.Find(tx, &row, "open_key", key)
		if over = !open; err != nil || over {
			return err
		}
		// Not one transaction: when two hosts stop finding the alert at once, the later one must see that the other has
		// stopped.
		if err := tx.Exec("DELETE FROM alert_finders WHERE alert_id = ? AND host = ?", row.ID, host).Error; err != nil {
			return err
		}
		over, err = s.endUnfound(tx, row.ID, at)
		return err
	})
	return over, err
}

// endUnfound ends an open alert that no host finds.
func (s *Store) endUnfound(tx *gorm.DB, id uint64, at time.Time) (ended bool, err error) {
	found := "EXISTS (SELECT 1 FROM alert_finders WHERE alert_id = alerts.id AND seen_at > " + s.db.Clock() + " - ?)"
	res := tx.Model(&alertRow{}).
		Where("id = ? AND open_key IS NOT NULL AND NOT "+found, id, finderLife.Milliseconds()).
		Updates(map[string]any{"open_key": nil, "ended_at": at.UTC().Truncate(time.Microsecond)})
	if res.Error != nil || res.RowsAffected == 0 {
		return false, res.Error
	}
	return true, tx.Exec("DELETE FROM alert_finders WHERE alert_id = ?", id).Error
}

// Filter selects alerts. A zero field does not restrict the selection.
type Filter struct {
	Open   *bool
	Kind   string
	Topic  string
	Before uint64 // older than the one with this ID
	Limit  int    // 0: 100
}

// ListAlerts returns alerts, newest first, or open alerts, most severe first.
func (s *Store) ListAlerts(ctx context.Context, f Filter) ([]Alert, error) {
	rows, err := database.List[listedRow](ctx, s.db, f.query)
	list := make([]Alert, len(rows))
	for i := range rows {
		list[i] = rows[i].alert()
	}
	if f.Open != nil && *f.Open {
		slices.SortFunc(list, WorstFirst)
	}
	return list, err
}

func (f Filter) query(tx *gorm.DB) *gorm.DB {
	q := tx.Table("alerts").
		Select("alerts.*, causes AS stored, handled_alert, handled_by, handled_why, handled_at, handled_until").
		Joins("LEFT JOIN alert_causes ON alert_id = id").
		Joins("LEFT JOIN alert_handled ON alert_handled.alert_key = alerts.alert_key").
		Order("id DESC").
		Limit(database.Limit(f.Limit))
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
