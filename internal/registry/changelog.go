package registry

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// changeRow stores what a revision changed. It is written in the transaction that increments the revision.
type changeRow struct {
	Revision int64 `gorm:"primaryKey"`
	Mark     string
	Object   string
}

func (changeRow) TableName() string { return "change_log" }

const (
	keptChanges = 10_000 // rows of the change log; a process that missed more reads everything
	someTopics  = 1000   // rows per query
)

// logChanges records what this transaction changes, in one row per revision. It overwrites rows with the same revision,
// which a restored backup may have left behind.
func logChanges(tx *gorm.DB, list []Changed) error {
	if err := addToRevision(tx, len(list)-1); err != nil {
		return err
	}
	var rev revisionRow
	if err := tx.Take(&rev, 1).Error; err != nil {
		return err
	}
	rows := make([]changeRow, len(list))
	for i, c := range list {
		rows[i] = changeRow{Revision: rev.Value - int64(len(list)-1-i), Mark: rand.Text(), Object: c.Object}
	}
	if err := database.Upsert(tx).CreateInBatches(rows, database.BatchRows).Error; err != nil {
		return err
	}
	return tx.Where("revision <= ?", rev.Value-keptChanges).Delete(&changeRow{}).Error
}

// changesSince returns the objects that changed after base, up to the revision. complete is false if the log has a gap
// between the two: too much has changed, or base belongs to a different history than the database.
func changesSince(
	tx *gorm.DB, base *Snapshot, revision int64,
) (objects []string, mark string, complete bool, err error) {
	n := revision - base.Revision
	if base.mark == "" || n < 0 || n >= keptChanges {
		return nil, "", false, nil
	}
	var rows []changeRow
	between := tx.Where("revision >= ? AND revision <= ?", base.Revision, revision)
	if err := between.Order("revision").Find(&rows).Error; err != nil {
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

// markOf returns the mark of a revision, or "" if it is not in the change log.
func markOf(tx *gorm.DB, revision int64) (string, error) {
	var row changeRow
	_, err := database.Find(tx, &row, "revision", revision)
	return row.Mark, err
}

// update returns a copy of base, updated to the revision by reading what changed, and the names of the changed topics.
// The copy is nil if the change log is not complete.
func (r *Registry) update(tx *gorm.DB, base *Snapshot, revision int64) (*Snapshot, []string, error) {
	objects, mark, complete, err := changesSince(tx, base, revision)
	if err != nil || !complete {
		return nil, nil, err
	}
	s := *base
	s.Revision, s.mark, s.readAt = revision, mark, time.Now()
	changed := map[string][]string{}
	for _, object := range slices.Compact(slices.Sorted(slices.Values(objects))) {
		kind, name, _ := strings.Cut(object, "/")
		changed[kind] = append(changed[kind], name)
	}
	tables := map[string]func(*gorm.DB, *Snapshot, []string) error{
		"topic": r.updateTopics, "schedule": r.updateSchedules,
		"shard": wholly(r.readShards), "token": wholly(readTokens), "setting": wholly(readSettings),
		"user": nil, "task": nil, // not in the snapshot
	}
	for kind, names := range changed {
		update, known := tables[kind]
		if !known { // several objects at once
			return nil, nil, nil
		}
		if update == nil {
			continue
		}
		if err := update(tx, &s, names); err != nil {
			return nil, nil, err
		}
	}
	return &s, changed["topic"], nil
}

// wholly updates a small table that rarely changes.
func wholly(read func(*gorm.DB, *Snapshot) error) func(*gorm.DB, *Snapshot, []string) error {
	return func(tx *gorm.DB, s *Snapshot, _ []string) error { return read(tx, s) }
}

// updateTopics reads the named topics and their notes again, and removes the topics that no longer exist.
func (r *Registry) updateTopics(tx *gorm.DB, s *Snapshot, names []string) error {
	s.Topics, s.Notes = s.Topics.edit(), s.Notes.edit()
	for _, name := range names {
		s.Topics.tree.Delete(name)
		s.Notes.tree.Delete(name)
	}
	for some := range slices.Chunk(names, someTopics) {
		if err := r.readTopics(tx.Where("name IN ?", some), tx.Where("topic IN ?", some), s); err != nil {
			return err
		}
	}
	return nil
}

// updateSchedules is updateTopics for schedules.
func (r *Registry) updateSchedules(tx *gorm.DB, s *Snapshot, names []string) error {
	s.Schedules = s.Schedules.edit()
	for some := range slices.Chunk(names, someTopics) {
		for _, name := range some {
			s.Schedules.tree.Delete(name)
		}
		if err := r.readSchedules(tx.Where("name IN ?", some), s); err != nil {
			return err
		}
	}
	return nil
}
