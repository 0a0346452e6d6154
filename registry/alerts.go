package registry

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/wakecall/wakecall/database"
)

// Alert is something that is, or was, wrong.
type Alert struct {
	ID         uint64     `json:"id"`
	Key        string     `json:"key"` // what it is about: one alert of a key is open at a time
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
	RemindedAt time.Time  `json:"reminded_at"` // the last time that somebody was told
	Count      int        `json:"count"`       // how often it was seen
}

// AlertDelivery is one message about an alert to one recipient.
type AlertDelivery struct {
	ID        uint64    `json:"id"`
	AlertID   uint64    `json:"alert_id"`
	At        time.Time `json:"at"`
	Channel   string    `json:"channel"`
	Recipient string    `json:"recipient"`
	Subject   string    `json:"subject"`
	State     string    `json:"state"` // waiting, retrying, sent, failed
	Tries     int       `json:"tries"`
	Error     string    `json:"error,omitempty"`
}

type (
	alertRow struct {
		ID         uint64 `gorm:"primaryKey"`
		OpenKey    *string
		AlertKey   string
		Kind       string
		Severity   string
		Subject    string
		Topic      string
		Shard      string
		Detail     string
		Host       string
		BeganAt    time.Time
		LastSeenAt time.Time
		EndedAt    *time.Time
		RemindedAt time.Time
		Seen       int
	}
	deliveryRow struct {
		ID        uint64 `gorm:"primaryKey"`
		AlertID   uint64
		At        time.Time
		Channel   string
		Recipient string
		Subject   string
		State     string
		Tries     int
		Error     string
	}
)

type toldRow struct {
	Topic string `gorm:"primaryKey"`
	Died  int64
}

func (toldRow) TableName() string { return "told_deaths" }

func (alertRow) TableName() string    { return "alerts" }
func (deliveryRow) TableName() string { return "alert_deliveries" }

func (a *alertRow) alert() Alert {
	alert := Alert{
		ID: a.ID, Key: a.AlertKey, Kind: a.Kind, Severity: a.Severity, Subject: a.Subject, Topic: a.Topic, Shard: a.Shard, Detail: a.Detail,
		Host: a.Host, BeganAt: a.BeganAt.UTC(), LastSeenAt: a.LastSeenAt.UTC(), RemindedAt: a.RemindedAt.UTC(), Count: a.Seen,
	}
	if a.EndedAt != nil {
		at := a.EndedAt.UTC()
		alert.EndedAt = &at
	}
	return alert
}

// What alerts keep of texts, in characters.
const (
	maxAlertKey     = 191
	maxAlertSubject = 255
	maxAlertDetail  = 4000
)

// RaiseAlert notes that something is wrong. raised says that it is new: of several hosts that see it, one is told so. The alert comes back
// as it is stored.
func (r *Registry) RaiseAlert(ctx context.Context, a Alert) (stored Alert, raised bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	at := database.Now()
	key := database.Clip(a.Key, maxAlertKey)
	row := alertRow{
		OpenKey: &key, AlertKey: key, Kind: a.Kind, Severity: a.Severity, Subject: database.Clip(a.Subject, maxAlertSubject), Topic: a.Topic, Shard: a.Shard,
		Detail: database.Clip(a.Detail, maxAlertDetail), Host: database.Clip(a.Host, maxActor), BeganAt: at, LastSeenAt: at, RemindedAt: at, Seen: 1,
	}
	db := r.db.Gorm(ctx)
	res := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
	if res.Error != nil {
		return a, false, r.db.Classify(res.Error)
	}
	if res.RowsAffected > 0 {
		return row.alert(), true, r.finds(db, row.ID, row.Host)
	}
	var open alertRow
	found, err := database.Find(db, &open, "open_key", key)
	if err := r.db.Classify(err); err != nil || !found { // it ended meanwhile; the next look raises it anew
		return a, false, err
	}
	if err := r.finds(db, open.ID, row.Host); err != nil { // first, so that nobody ends it now
		return a, false, err
	}
	res = db.Model(&alertRow{}).Where("open_key = ?", key).
		Updates(map[string]any{"last_seen_at": at, "detail": row.Detail, "severity": row.Severity, "seen": gorm.Expr("seen + 1")})
	if res.Error != nil || res.RowsAffected == 0 {
		return a, false, r.db.Classify(res.Error)
	}
	open.LastSeenAt, open.Detail, open.Severity = at, row.Detail, row.Severity
	open.Seen++
	return open.alert(), false, nil
}

// finderLife is how long a host is taken to find an alert after it said so.
const finderLife = 90 * time.Second

func (r *Registry) finds(db *gorm.DB, id uint64, host string) error {
	return r.db.Classify(db.Exec("REPLACE INTO alert_finders (alert_id, host, seen_at) VALUES (?, ?, "+r.db.Clock()+")", id, host).Error)
}

// EndAlert notes that a host does not find something wrong any more. When no other host lately did, it ended: one host is told so. An alert
// that comes back without having ended is open still.
func (r *Registry) EndAlert(ctx context.Context, key, host string, at time.Time) (stored Alert, ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	key = database.Clip(key, maxAlertKey)
	db := r.db.Gorm(ctx)
	var row alertRow
	open, err := database.Find(db, &row, "open_key", key)
	if err := r.db.Classify(err); err != nil || !open {
		return Alert{}, false, err
	}
	// Not one transaction: of two hosts that leave at once, the later one must see that the other has left.
	if err := db.Exec("DELETE FROM alert_finders WHERE alert_id = ? AND host = ?", row.ID, database.Clip(host, maxActor)).Error; err != nil {
		return Alert{}, false, r.db.Classify(err)
	}
	at = at.UTC().Truncate(time.Microsecond)
	foundBy := "EXISTS (SELECT 1 FROM alert_finders WHERE alert_id = alerts.id AND seen_at > " + r.db.Clock() + " - ?)"
	res := db.Model(&alertRow{}).Where("id = ? AND open_key = ? AND NOT "+foundBy, row.ID, key, finderLife.Milliseconds()).
		Updates(map[string]any{"open_key": nil, "ended_at": at})
	if res.Error != nil {
		return Alert{}, false, r.db.Classify(res.Error)
	}
	if res.RowsAffected > 0 {
		row.EndedAt = &at
		return row.alert(), true, r.db.Classify(db.Exec("DELETE FROM alert_finders WHERE alert_id = ?", row.ID).Error)
	}
	row = alertRow{}
	_, err = database.Find(db, &row, "open_key", key)
	return row.alert(), false, r.db.Classify(err)
}

// ClaimReminder says whether this host is the one to tell of an alert again, every so often.
func (r *Registry) ClaimReminder(ctx context.Context, id uint64, every time.Duration, at time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	at = at.UTC().Truncate(time.Microsecond)
	res := r.db.Gorm(ctx).Model(&alertRow{}).Where("id = ? AND open_key IS NOT NULL AND reminded_at <= ?", id, at.Add(-every)).
		UpdateColumn("reminded_at", at)
	return res.RowsAffected > 0, r.db.Classify(res.Error)
}

// AlertFilter chooses alerts; zero fields choose all.
type AlertFilter struct {
	Open   *bool
	Kind   string
	Topic  string
	Before uint64 // older than the one with this ID
	Limit  int    // 0: 100
}

// ListAlerts lists alerts, the newest first.
func (r *Registry) ListAlerts(ctx context.Context, f AlertFilter) ([]Alert, error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	if f.Limit <= 0 {
		f.Limit = defaultAuditLimit
	}
	q := r.db.Gorm(ctx).Order("id DESC").Limit(min(f.Limit, maxAuditLimit))
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
	var rows []alertRow
	if err := r.db.Classify(q.Find(&rows).Error); err != nil {
		return nil, err
	}
	list := make([]Alert, len(rows))
	for i := range rows {
		list[i] = rows[i].alert()
	}
	return list, nil
}

// deliveriesKept is how many messages the registry remembers.
const deliveriesKept = 5000

func newDelivery(d AlertDelivery) deliveryRow {
	return deliveryRow{
		ID: d.ID, AlertID: d.AlertID, At: d.At.UTC(), Channel: database.Clip(d.Channel, 64), Recipient: database.Clip(d.Recipient, 255), Subject: database.Clip(d.Subject, 255),
		State: d.State, Tries: d.Tries, Error: database.Clip(d.Error, maxAlertDetail),
	}
}

// AddDelivery remembers a message that nobody has to send any more.
func (r *Registry) AddDelivery(ctx context.Context, d AlertDelivery) error {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	row := newDelivery(d)
	db := r.db.Gorm(ctx)
	if err := db.Create(&row).Error; err != nil {
		return r.db.Classify(err)
	}
	return r.pruneDeliveries(db, row.ID)
}

func (r *Registry) pruneDeliveries(db *gorm.DB, last uint64) error {
	if last%100 != 0 || last <= deliveriesKept {
		return nil
	}
	if err := db.Exec("DELETE FROM alert_outbox WHERE delivery_id <= ?", last-deliveriesKept).Error; err != nil {
		return r.db.Classify(err)
	}
	return r.db.Classify(db.Where("id <= ?", last-deliveriesKept).Delete(&deliveryRow{}).Error)
}

// WaitingDelivery is a message that is to be sent.
type WaitingDelivery struct {
	AlertDelivery
	Message string // JSON
}

// deliveryHold is how long a process has to send a message before another one may: it renews that with TakeDeliveries.
const deliveryHold = 2 * time.Minute

// QueueDelivery remembers a message that holder sends, and gives it an id.
func (r *Registry) QueueDelivery(ctx context.Context, holder string, d WaitingDelivery) (id uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	row := newDelivery(d.AlertDelivery)
	// One transaction: statements that a hanging server carries out after all, when nobody waits any more, must not queue it once more.
	err = r.db.Gorm(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		return tx.Exec("INSERT INTO alert_outbox (delivery_id, message, holder, held_until) VALUES (?, ?, ?, "+r.db.Clock()+" + ?)",
			row.ID, d.Message, database.Clip(holder, maxAlertKey), deliveryHold.Milliseconds()).Error
	})
	if err != nil {
		return 0, r.db.Classify(err)
	}
	return row.ID, r.pruneDeliveries(r.db.Gorm(ctx), row.ID)
}

// NoteDelivery changes what is remembered of a queued message; sent and failed are final.
func (r *Registry) NoteDelivery(ctx context.Context, d AlertDelivery) error {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	row := newDelivery(d)
	db := r.db.Gorm(ctx)
	err := db.Model(&deliveryRow{}).Where("id = ?", d.ID).
		Updates(map[string]any{"at": row.At, "state": row.State, "tries": row.Tries, "error": row.Error}).Error
	if err == nil && (d.State == "sent" || d.State == "failed") {
		err = db.Exec("DELETE FROM alert_outbox WHERE delivery_id = ?", d.ID).Error
	}
	return r.db.Classify(err)
}

// TakeDeliveries lists the messages that holder has to send: its own, and those whose holder is gone, which are its own from now on.
func (r *Registry) TakeDeliveries(ctx context.Context, holder string) ([]WaitingDelivery, error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	holder = database.Clip(holder, maxAlertKey)
	db, clock := r.db.Gorm(ctx), r.db.Clock()
	err := db.Exec("UPDATE alert_outbox SET holder = ?, held_until = "+clock+" + ? WHERE holder = ? OR held_until < "+clock,
		holder, deliveryHold.Milliseconds(), holder).Error
	if err != nil {
		return nil, r.db.Classify(err)
	}
	var rows []struct {
		Row     deliveryRow `gorm:"embedded"`
		Message string
	}
	err = db.Table("alert_outbox").Select("alert_deliveries.*, alert_outbox.message").Joins("JOIN alert_deliveries ON id = delivery_id").
		Where("holder = ?", holder).Order("id").Limit(maxAuditLimit).Scan(&rows).Error
	if err := r.db.Classify(err); err != nil {
		return nil, err
	}
	list := make([]WaitingDelivery, len(rows))
	for i, row := range rows {
		list[i] = WaitingDelivery{row.Row.delivery(), row.Message}
	}
	return list, nil
}

// LeaveDeliveries lets another process send what holder has not sent.
func (r *Registry) LeaveDeliveries(ctx context.Context, holder string) error {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	return r.db.Classify(r.db.Gorm(ctx).Exec("UPDATE alert_outbox SET held_until = 0 WHERE holder = ?", database.Clip(holder, maxAlertKey)).Error)
}

func (d *deliveryRow) delivery() AlertDelivery {
	return AlertDelivery{d.ID, d.AlertID, d.At.UTC(), d.Channel, d.Recipient, d.Subject, d.State, d.Tries, d.Error}
}

// ListDeliveries lists messages, the newest first.
func (r *Registry) ListDeliveries(ctx context.Context, limit int) ([]AlertDelivery, error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	var rows []deliveryRow
	if err := r.db.Classify(r.db.Gorm(ctx).Order("id DESC").Limit(min(max(limit, 1), maxAuditLimit)).Find(&rows).Error); err != nil {
		return nil, err
	}
	list := make([]AlertDelivery, len(rows))
	for i := range rows {
		list[i] = rows[i].delivery()
	}
	return list, nil
}

// Deaths is how many jobs of a topic have died, ever.
type Deaths struct {
	Count int64
	Fell  bool // it was higher: the topic began anew, or a shard lost it. Else a lower count than the one known is only an older one
}

// ClaimDeaths says how many deaths nobody was told of yet; of several hosts one gets each. The first call ever only learns the counts. With
// an error what was claimed before it comes back too.
func (r *Registry) ClaimDeaths(ctx context.Context, counts map[string]Deaths) (news map[string]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	db := r.db.Gorm(ctx)
	var rows []toldRow
	if err := r.db.Classify(db.Find(&rows).Error); err != nil {
		return nil, err
	}
	told := map[string]int64{}
	for _, row := range rows {
		told[row.Topic] = row.Died
	}
	if _, begun := told[""]; !begun {
		return nil, r.beginDeaths(db, counts)
	}
	news = map[string]int64{}
	for topic, now := range counts {
		before := told[topic]
		if now.Count == before || (now.Count < before && !now.Fell) {
			continue
		}
		if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&toldRow{Topic: topic}).Error; err != nil {
			return news, r.db.Classify(err)
		}
		res := db.Model(&toldRow{}).Where("topic = ? AND died = ?", topic, before).Update("died", now.Count)
		if res.Error != nil {
			return news, r.db.Classify(res.Error)
		}
		if res.RowsAffected > 0 && now.Count > before {
			news[topic] = now.Count - before
		}
	}
	return news, nil
}

func (r *Registry) beginDeaths(db *gorm.DB, counts map[string]Deaths) error {
	rows := []toldRow{{}} // its topic is empty: the counts have begun
	for topic, n := range counts {
		rows = append(rows, toldRow{topic, n.Count})
	}
	return r.db.Classify(db.Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(rows, sampleRows).Error)
}
