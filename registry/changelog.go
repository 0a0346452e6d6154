package registry

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
)

// changeRow says what a revision changed. It is written in the transaction that makes the revision.
type changeRow struct {
	Revision int64 `gorm:"primaryKey"`
	Mark     string
	Object   string
}

func (changeRow) TableName() string { return "change_log" }

const (
	keptChanges = 10_000      // rows of the change log
	mostChanges = 500         // more at once are read by reading everything
	fullEvery   = time.Minute // after which everything is read again when something changed: for rows that somebody edited by hand
)

// logChange notes what the revision that this transaction makes changes, over a row of the same number that a restored backup left.
func logChange(tx *gorm.DB, object string) error {
	if err := tx.Exec("REPLACE INTO change_log (revision, mark, object) SELECT value, ?, ? FROM revision WHERE id = 1", rand.Text(), object).Error; err != nil {
		return err
	}
	return tx.Exec("DELETE FROM change_log WHERE revision <= (SELECT value FROM revision WHERE id = 1) - ?", keptChanges).Error
}

// changesSince lists the objects that changed after base, up to the revision. It is false where the log does not lead from one to the other:
// too much has changed, an older wakecall wrote, or base is of another history than the database.
func changesSince(tx *gorm.DB, base *Snapshot, revision int64) (objects []string, mark string, complete bool, err error) {
	n := revision - base.Revision
	if base.mark == "" || n < 0 || n > mostChanges || time.Since(base.fullAt) > fullEvery {
		return nil, "", false, nil
	}
	var rows []changeRow
	if err := tx.Where("revision >= ? AND revision <= ?", base.Revision, revision).Order("revision").Find(&rows).Error; err != nil {
		return nil, "", false, err
	}
	if int64(len(rows)) != n+1 || rows[0].Mark != base.mark {
		return nil, "", false, nil
	}
	for _, row := range rows[1:] {
		objects = append(objects, row.Object)
	}
	return objects, rows[n].Mark, true, nil
}

// markOf is the mark of a revision; empty when an older wakecall made it.
func markOf(tx *gorm.DB, revision int64) (string, error) {
	var row changeRow
	_, err := take(tx, &row, "revision", revision)
	return row.Mark, err
}

// update brings a copy of base up to the revision by reading what changed. It is nil where that cannot be known.
func (r *Registry) update(tx *gorm.DB, base *Snapshot, revision int64) (*Snapshot, error) {
	objects, mark, complete, err := changesSince(tx, base, revision)
	if err != nil || !complete {
		return nil, err
	}
	s := *base
	s.Revision, s.mark, s.readAt = revision, mark, time.Now()
	topics := map[string]bool{}
	tables := map[string]bool{}
	for _, object := range objects {
		switch kind, name, _ := strings.Cut(object, "/"); kind {
		case "topic":
			topics[name] = true
		case "shard", "token", "setting":
			tables[kind] = true
		case "user", "task": // not in the snapshot
		default: // several at once
			return nil, nil
		}
	}
	reads := map[string]func(*gorm.DB, *Snapshot) error{"shard": readShards, "token": readTokens, "setting": readSettings}
	for kind := range tables { // small, and changed rarely
		if err := reads[kind](tx, &s); err != nil {
			return nil, err
		}
	}
	return &s, r.updateTopics(tx, &s, slices.Collect(maps.Keys(topics)))
}

// updateTopics reads some topics again, and what is noted of them. Those that are gone go.
func (r *Registry) updateTopics(tx *gorm.DB, s *Snapshot, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var topics []topicRow
	var notes []noteRow
	if err := tx.Where("name IN ?", names).Find(&topics).Error; err != nil {
		return err
	}
	if err := tx.Where("topic IN ?", names).Find(&notes).Error; err != nil {
		return err
	}
	s.Topics, s.Notes = maps.Clone(s.Topics), maps.Clone(s.Notes)
	for _, name := range names {
		delete(s.Topics, name)
		delete(s.Notes, name)
	}
	for i := range topics {
		r.readTopic(&topics[i], s)
	}
	for i := range notes {
		s.Notes[notes[i].Topic] = notes[i].note()
	}
	return nil
}
