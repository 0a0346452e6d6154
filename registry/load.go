package registry

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"gorm.io/gorm"
)

// load brings the snapshot up to date in one transaction. It publishes the database's state even when its revision is
// lower than the last one: then somebody restored a backup.
func (r *Registry) load(ctx context.Context) error {
	select {
	case r.loading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.loading }()
	var s *Snapshot
	err := r.db.Read(ctx, func(tx *gorm.DB) (err error) {
		s, err = r.read(tx)
		return err
	})
	if err != nil {
		return err
	}
	if last := r.Snapshot(); s.mark != "" && s.mark == last.mark && s.fullAt.Equal(last.fullAt) {
		return nil // nothing changed
	}
	r.publish(s)
	r.mu.Lock()
	r.unkept = true
	r.mu.Unlock()
	return nil
}

// read makes a snapshot from the last one and the change log, or from all tables.
func (r *Registry) read(tx *gorm.DB) (*Snapshot, error) {
	var rev revisionRow
	if err := tx.Take(&rev, 1).Error; err != nil {
		return nil, err
	}
	if base := r.snap.Load(); base != nil {
		if s, err := r.update(tx, base, rev.Value); s != nil || err != nil {
			return s, err
		}
	}
	return r.readAll(tx, rev.Value)
}

func (r *Registry) readAll(tx *gorm.DB, revision int64) (*Snapshot, error) {
	at := time.Now()
	s := &Snapshot{Revision: revision, Topics: map[string]*Topic{}, Notes: map[string]TopicNote{}, readAt: at, fullAt: at}
	var err error
	if s.mark, err = markOf(tx, revision); err != nil {
		return nil, err
	}
	for _, read := range []func(*gorm.DB, *Snapshot) error{readShards, readTokens, readSettings} {
		if err := read(tx, s); err != nil {
			return nil, err
		}
	}
	return s, r.readTopics(tx, tx, s)
}

// readTopics reads the topics and notes that two queries select into s.
func (r *Registry) readTopics(topics, notes *gorm.DB, s *Snapshot) error {
	var topicRows []topicRow
	var noteRows []noteRow
	if err := topics.Find(&topicRows).Error; err != nil {
		return err
	}
	if err := notes.Find(&noteRows).Error; err != nil {
		return err
	}
	for i := range topicRows {
		r.readTopic(&topicRows[i], s)
	}
	for i := range noteRows {
		s.Notes[noteRows[i].Topic] = noteRows[i].note()
	}
	return nil
}

// readTopic leaves a topic that somebody damaged as it was, so that it does not keep all others from being followed.
func (r *Registry) readTopic(row *topicRow, s *Snapshot) {
	t, err := row.topic()
	if err != nil {
		t = r.Snapshot().Topics[row.Name]
		r.opts.Logger.Error("a topic in the registry's database cannot be read; it stays as it was last read: save it again",
			"topic", row.Name, "error", err)
	}
	if t != nil {
		s.Topics[row.Name] = t
	}
}

func readShards(tx *gorm.DB, s *Snapshot) error {
	var rows []shardRow
	if err := tx.Order("name").Find(&rows).Error; err != nil {
		return err
	}
	s.Shards = make([]Shard, len(rows))
	for i := range rows {
		s.Shards[i] = rows[i].shard()
	}
	return nil
}

func readTokens(tx *gorm.DB, s *Snapshot) error {
	var rows []tokenRow
	if err := tx.Find(&rows).Error; err != nil {
		return err
	}
	s.Tokens = make(map[string]*Token, len(rows))
	for i := range rows {
		s.Tokens[rows[i].Hash] = rows[i].token()
	}
	return nil
}

func readSettings(tx *gorm.DB, s *Snapshot) error {
	var rows []settingRow
	if err := tx.Find(&rows).Error; err != nil {
		return err
	}
	s.Settings = make(map[string]json.RawMessage, len(rows))
	for _, row := range rows {
		s.Settings[row.Name] = json.RawMessage(row.Value)
	}
	return nil
}

// publish makes s the snapshot. Topics that did not change keep their pointer, so that what was compiled for them
// stays valid.
func (r *Registry) publish(s *Snapshot) {
	s.key = r.db.Key
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.snap.Load(); old != nil {
		for name, t := range s.Topics {
			if o := old.Topics[name]; o != nil && o != t && reflect.DeepEqual(o, t) {
				s.Topics[name] = o
			}
		}
	}
	r.snap.Store(s)
	for c := range r.subscribers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
