package alert

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Delivery is one message about an alert to one recipient.
type Delivery struct {
	ID        uint64    `json:"id"`
	AlertID   uint64    `json:"alert_id"`
	At        time.Time `json:"at"`
	Channel   string    `json:"channel"`
	Recipient string    `json:"recipient"`
	Subject   string    `json:"subject"`
	State     string    `json:"state"`
	Tries     int       `json:"tries"`
	Error     string    `json:"error,omitempty"`
}

// States of a Delivery. Sent and Failed are final.
const (
	Waiting  = "waiting"
	Retrying = "retrying"
	Sent     = "sent"
	Failed   = "failed"
)

// QueuedDelivery is a message that waits to be sent.
type QueuedDelivery struct {
	Delivery `gorm:"embedded"`
	Message  string // JSON of a Message
}

// TableName returns the table that stores Delivery rows.
func (Delivery) TableName() string { return "alert_deliveries" }

// clipped returns d with its texts truncated to the size of their columns.
func (d Delivery) clipped() Delivery {
	d.Channel, d.Recipient = database.Clip(d.Channel, 64), database.Clip(d.Recipient, 255)
	d.Subject, d.Error = database.Clip(d.Subject, maxSubject), database.Clip(d.Error, maxDetail)
	return d
}

const (
	// deliveriesKept is how many messages are kept.
	deliveriesKept = 5000
	// holdTime is how long a process has to send a message before another process may. TakeDeliveries extends it.
	holdTime = 2 * time.Minute
)

// AddDelivery stores a message that does not have to be sent any more.
func (s *Store) AddDelivery(ctx context.Context, d Delivery) error {
	return s.db.Do(ctx, func(tx *gorm.DB) error {
		row := d.clipped()
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		return pruneDeliveries(tx, row.ID)
	})
}

// pruneDeliveries deletes old messages, once per hundred new ones.
func pruneDeliveries(tx *gorm.DB, last uint64) error {
	if last%100 != 0 || last <= deliveriesKept {
		return nil
	}
	if err := tx.Exec("DELETE FROM alert_outbox WHERE delivery_id <= ?", last-deliveriesKept).Error; err != nil {
		return err
	}
	return tx.Where("id <= ?", last-deliveriesKept).Delete(&Delivery{}).Error
}

// QueueDelivery stores a message that holder is going to send, and returns its ID.
func (s *Store) QueueDelivery(ctx context.Context, holder string, d QueuedDelivery) (id uint64, err error) {
	row := d.Delivery.clipped()
	// One transaction: if a hanging server completes statements after the caller gave up, it must not queue the message
	// twice.
	err = s.db.Change(ctx, func(tx *gorm.DB) error {
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		const insert = "INSERT INTO alert_outbox (delivery_id, message, holder, held_until) VALUES (?, ?, ?, "
		return tx.Exec(insert+s.db.Clock()+" + ?)",
			row.ID, d.Message, database.Clip(holder, maxKey), holdTime.Milliseconds()).Error
	})
	if err != nil {
		return 0, err
	}
	return row.ID, s.db.Do(ctx, func(tx *gorm.DB) error { return pruneDeliveries(tx, row.ID) })
}

// NoteDelivery updates a queued message. A final state removes it from the queue.
func (s *Store) NoteDelivery(ctx context.Context, d Delivery) error {
	return s.db.Do(ctx, func(tx *gorm.DB) error {
		row := d.clipped()
		err := tx.Model(&Delivery{}).Where("id = ?", d.ID).
			Updates(map[string]any{"at": row.At, "state": row.State, "tries": row.Tries, "error": row.Error}).Error
		if err != nil || (d.State != Sent && d.State != Failed) {
			return err
		}
		return tx.Exec("DELETE FROM alert_outbox WHERE delivery_id = ?", d.ID).Error
	})
}

// TakeDeliveries returns the messages that holder has to send: its own, and those of processes that have stopped.
func (s *Store) TakeDeliveries(ctx context.Context, holder string) ([]QueuedDelivery, error) {
	holder = database.Clip(holder, maxKey)
	var list []QueuedDelivery
	err := s.db.Do(ctx, func(tx *gorm.DB) error {
		clock := s.db.Clock()
		take := "UPDATE alert_outbox SET holder = ?, held_until = " + clock + " + ? WHERE holder = ? OR held_until < " + clock
		if err := tx.Exec(take, holder, holdTime.Milliseconds(), holder).Error; err != nil {
			return err
		}
		return tx.Table("alert_outbox").Select("alert_deliveries.*, alert_outbox.message").
			Joins("JOIN alert_deliveries ON id = delivery_id").Where("holder = ?", holder).
			Order("id").Limit(database.MaxLimit).Scan(&list).Error
	})
	return list, err
}

// LeaveDeliveries lets another process send what holder has not sent.
func (s *Store) LeaveDeliveries(ctx context.Context, holder string) error {
	return s.db.Do(ctx, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE alert_outbox SET held_until = 0 WHERE holder = ?", database.Clip(holder, maxKey)).Error
	})
}

// ListDeliveries returns messages, newest first.
func (s *Store) ListDeliveries(ctx context.Context, limit int) ([]Delivery, error) {
	return database.List[Delivery](ctx, s.db, func(tx *gorm.DB) *gorm.DB {
		return tx.Order("id DESC").Limit(database.Limit(limit))
	})
}
