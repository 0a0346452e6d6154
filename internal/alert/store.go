package alert

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Alert is an incident: a topic, a shard or the installation has, or had, one or more problems.
type Alert struct {
	ID         uint64     `json:"id"`
	Key        string     `json:"key" gorm:"column:alert_key"` // its subject; at most one alert with a key is open
	Kind       string     `json:"kind"`                        // of its most severe cause
	Severity   string     `json:"severity"`
	Topic      string     `json:"topic,omitempty"`
	Shard      string     `json:"shard,omitempty"`
	Host       string     `json:"host"` // the first host that found it
	BeganAt    time.Time  `json:"began_at"`
	LastSeenAt time.Time  `json:"last_seen_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Count      int        `json:"count" gorm:"column:seen"` // how often it was stored
	Causes     []Cause    `json:"causes,omitempty" gorm:"serializer:json"`

	Subject  string   `json:"subject" gorm:"-"` // its title and causes in the language of the messages
	Detail   string   `json:"detail" gorm:"-"`
	Handling Handling `json:"handling,omitzero" gorm:"-"`
}

// Delivery is one message to one recipient.
type Delivery struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	Channel   string    `json:"channel"`
	Recipient string    `json:"recipient"`
	Subject   string    `json:"subject"`
	State     string    `json:"state"`
	Tries     int       `json:"tries"`
	Error     string    `json:"error,omitempty"`
	Message   string    `json:"-"` // JSON of the Message while it waits
}

// States of a Delivery. Sent and Failed are final.
const (
	Waiting  = "waiting"
	Retrying = "retrying"
	Sent     = "sent"
	Failed   = "failed"
)

func (d *Delivery) final() bool { return d.State == Sent || d.State == Failed }

// TableName returns the table that stores Delivery rows.
func (Delivery) TableName() string { return "alert_deliveries" }

// Store stores alerts and messages about them in the registry's database.
type Store struct {
	db  *database.DB
	dir string // of knownFile; empty: none
}

// NewStore returns the store in a database.
func NewStore(db *database.DB) *Store { return &Store{db: db} }

type alertRow struct {
	Alert   `gorm:"embedded"`
	OpenKey *string // the key; nil after the end
}

func (alertRow) TableName() string { return "alerts" }

type receiverRow struct {
	Receiver string    `gorm:"primaryKey"`
	State    *Notified `gorm:"serializer:json"`
}

func (receiverRow) TableName() string { return "alert_receivers" }

const (
	leaseRole      = "alerts"
	waitingMost    = 1000
	readMost       = 20 * database.MaxLimit
	deliveriesKept = 5000
	maxKey         = 191
)

// Sync stores a host's findings, tries to take or extend the lease, and returns the shared state.
func (s *Store) Sync(ctx context.Context, r Report) (sh Shared, err error) {
	if sh.Leads, err = s.db.Lead(ctx, leaseRole, r.Process, leaseTTL); err != nil {
		return sh, err
	}
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		if err := s.report(tx, r); err != nil {
			return err
		}
		if sh.Others, err = s.othersThan(tx, r.Host); err != nil || !sh.Leads {
			return err
		}
		waiting := tx.Where("state IN ?", []string{Waiting, Retrying})
		return waiting.Order("at").Limit(waitingMost).Find(&sh.Waiting).Error
	})
	if err != nil {
		return sh, err
	}
	if sh.Open, err = s.ListAlerts(ctx, Filter{Limit: readMost}); err != nil {
		return sh, err
	}
	rows, err := database.List[receiverRow](ctx, s.db, func(tx *gorm.DB) *gorm.DB { return tx })
	sh.Receivers = map[string]*Notified{}
	for _, row := range rows {
		sh.Receivers[row.Receiver] = row.State
	}
	return sh, err
}

// report replaces the findings of a host.
func (s *Store) report(tx *gorm.DB, r Report) error {
	if len(r.Findings) == 0 {
		return tx.Exec("DELETE FROM alert_reports WHERE host = ?", r.Host).Error
	}
	text, err := json.Marshal(r.Findings)
	if err != nil {
		return err
	}
	row := map[string]any{"host": r.Host, "findings": string(text), "reported_at": gorm.Expr(s.db.Clock())}
	return tx.Table("alert_reports").Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "host"}},
		DoUpdates: clause.AssignmentColumns([]string{"findings", "reported_at"}),
	}).Create(row).Error
}

// othersThan returns the recent findings of the other hosts.
func (s *Store) othersThan(tx *gorm.DB, host string) (list []Finding, err error) {
	var texts []string
	recent := "host <> ? AND reported_at > " + s.db.Clock() + " - ?"
	err = tx.Table("alert_reports").Where(recent, host, reportLife.Milliseconds()).Order("host").
		Pluck("findings", &texts).Error
	for _, text := range texts {
		var findings []Finding
		if err := json.Unmarshal([]byte(text), &findings); err != nil {
			return nil, err
		}
		list = append(list, findings...)
	}
	return list, err
}

// Resign ends the lease of a process.
func (s *Store) Resign(ctx context.Context, process string) error {
	_, err := s.db.Lead(ctx, leaseRole, process, -time.Second)
	return err
}

// Save stores all changes or none, so that a message is stored if and only if its receiver counts as notified. A new
// alert gets its ID only in the store.
func (s *Store) Save(ctx context.Context, c *Changes) error {
	return s.db.Change(ctx, func(tx *gorm.DB) error {
		for _, a := range c.Alerts {
			row := alertRow{Alert: *a}
			if row.Key = database.Clip(a.Key, maxKey); a.EndedAt == nil {
				row.OpenKey = &row.Key
			}
			if err := database.Upsert(tx).Create(&row).Error; err != nil {
				return err
			}
		}
		for name, n := range c.Receivers {
			if err := database.Upsert(tx).Create(&receiverRow{database.Clip(name, maxKey), n}).Error; err != nil {
				return err
			}
		}
		if len(c.Deliveries) == 0 {
			return nil
		}
		if err := database.Upsert(tx).CreateInBatches(c.Deliveries, database.BatchRows).Error; err != nil {
			return err
		}
		return pruneDeliveries(tx)
	})
}

// pruneDeliveries deletes old messages.
func pruneDeliveries(tx *gorm.DB) error {
	var oldest []time.Time
	err := tx.Model(&Delivery{}).Order("at DESC").Offset(deliveriesKept).Limit(1).Pluck("at", &oldest).Error
	if err != nil || len(oldest) == 0 {
		return err
	}
	return tx.Where("at <= ? AND state IN ?", oldest[0], []string{Sent, Failed}).Delete(&Delivery{}).Error
}

// ListDeliveries returns messages, newest first.
func (s *Store) ListDeliveries(ctx context.Context, limit int) ([]Delivery, error) {
	return database.List[Delivery](ctx, s.db, func(tx *gorm.DB) *gorm.DB {
		return tx.Order("at DESC").Limit(database.Limit(limit))
	})
}

// Filter selects alerts.
type Filter struct {
	Ended    bool      // false: open ones
	From, To time.Time // instead, if there is a To: those that were open at some time between them
	Kind     string    // empty: every kind
	Topic    string    // empty: all
	Shard    string    // empty: all
	Before   uint64    // older than the one with this ID; 0: all
	Limit    int       // 0: 100
	// May reports whether an alert is wanted; nil: all are. Limit counts those, among the newest readMost.
	May func(*Alert) bool
}

// listedRow is an alert joined with its acknowledgement or mute.
type listedRow struct {
	Row     alertRow `gorm:"embedded"`
	Handled Handling `gorm:"embedded;embeddedPrefix:handled_"`
}

// ListAlerts returns open alerts, most severe first, or else the newest first.
func (s *Store) ListAlerts(ctx context.Context, f Filter) ([]Alert, error) {
	list, most := []Alert{}, max(f.Limit, database.Limit(f.Limit))
	if f.May != nil {
		f.Limit = database.MaxLimit
	}
	for range readMost / database.MaxLimit {
		some, err := s.page(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range some {
			if f.may(&some[i]) && len(list) < most {
				list = append(list, some[i])
			}
		}
		if len(some) < database.Limit(f.Limit) || len(list) == most {
			break
		}
		f.Before = some[len(some)-1].ID
	}
	if !f.Ended && f.To.IsZero() {
		slices.SortFunc(list, WorstFirst)
	}
	return list, nil
}

func (f *Filter) may(a *Alert) bool { return f.May == nil || f.May(a) }

// page returns the newest alerts.
func (s *Store) page(ctx context.Context, f Filter) ([]Alert, error) {
	rows, err := database.List[listedRow](ctx, s.db, f.query)
	list := make([]Alert, len(rows))
	for i, row := range rows {
		list[i] = row.Row.Alert
		if row.Handled.Until != nil || row.Handled.Alert == list[i].ID { // an acknowledgement applies to one alert only
			list[i].Handling = row.Handled
		}
	}
	return list, err
}

func (f Filter) query(tx *gorm.DB) *gorm.DB {
	q := tx.Table("alerts").Select("alerts.*, handled_alert, handled_by, handled_why, handled_at, handled_until").
		Joins("LEFT JOIN alert_handled ON alert_handled.alert_key = alerts.alert_key").
		Order("id DESC").Limit(database.Limit(f.Limit))
	switch {
	case !f.To.IsZero():
		q = q.Where("began_at < ? AND (open_key IS NOT NULL OR ended_at > ?)", f.To.UTC(), f.From.UTC())
	case f.Ended:
		q = q.Where("open_key IS NULL")
	default:
		q = q.Where("open_key IS NOT NULL")
	}
	for column, value := range map[string]string{"kind": f.Kind, "topic": f.Topic, "shard": f.Shard} {
		if value != "" {
			q = q.Where(column+" = ?", value)
		}
	}
	if f.Before > 0 {
		q = q.Where("id < ?", f.Before)
	}
	return q
}
