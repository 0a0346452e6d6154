package alert

import (
	"context"
	"encoding/json"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

type toldRow struct {
	Person  string `gorm:"primaryKey"`
	State   string
	Version int64
}

func (toldRow) TableName() string { return "alert_told" }

// ListTold returns what people were notified about, by person.
func (s *Store) ListTold(ctx context.Context) (map[string]*Told, error) {
	all := func(tx *gorm.DB) *gorm.DB { return tx }
	rows, err := database.List[toldRow](ctx, s.db, all)
	told := make(map[string]*Told, len(rows))
	for _, r := range rows {
		t := &Told{}
		_ = json.Unmarshal([]byte(r.State), t) // if another version wrote it, the person is notified again
		t.version = r.Version
		told[r.Person] = t
	}
	return told, err
}

// SaveTold stores what a person was notified about. When several hosts do so at once, only one of them gets saved.
func (s *Store) SaveTold(ctx context.Context, person string, t *Told) (saved bool, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return false, err
	}
	row := toldRow{database.Clip(person, maxKey), string(text), t.version + 1}
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		var res *gorm.DB
		if t.version == 0 {
			res = database.InsertNew(tx).Create(&row)
		} else {
			res = tx.Model(&toldRow{}).Where("person = ? AND version = ?", row.Person, t.version).
				Updates(map[string]any{"state": row.State, "version": row.Version})
		}
		saved = res.RowsAffected > 0
		return res.Error
	})
	if saved && err == nil {
		t.version++
	}
	return saved, err
}
