package registry

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/seal"
)

// load brings the snapshot up to date in one transaction. It publishes the database's state even when its revision is
// lower than the last one, which means that a backup was restored.
func (r *Registry) load(ctx context.Context) error {
	select {
	case r.loading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.loading }()
	var s *Snapshot
	var topics []string
	err := r.db.Read(ctx, func(tx *gorm.DB) (err error) {
		s, topics, err = r.read(tx, 0)
		return err
	})
	if err != nil {
		return err
	}
	if s.mark != "" && s.mark == r.Snapshot().mark {
		return nil // nothing changed
	}
	r.publish(s, topics)
	r.mustKeep()
	return nil
}

// read builds a snapshot from the last one and the change log, or from all tables. It also returns the names of the
// topics that may have changed. begun is 1 within a change, which is not in the change log yet, otherwise 0.
func (r *Registry) read(tx *gorm.DB, begun int64) (*Snapshot, []string, error) {
	var rev revisionRow
	if err := tx.Take(&rev, 1).Error; err != nil {
		return nil, nil, err
	}
	if base := r.snap.Load(); base != nil {
		if s, topics, err := r.update(tx, base, rev.Value-begun); s != nil || err != nil {
			return s, topics, err
		}
	}
	s, err := r.readAll(tx, rev.Value-begun)
	if err != nil {
		return nil, nil, err
	}
	return s, changedTopics(r.Snapshot().Topics, s.Topics), nil
}

func (r *Registry) readAll(tx *gorm.DB, revision int64) (*Snapshot, error) {
	s := &Snapshot{Revision: revision, readAt: time.Now()}
	s.Topics, s.Notes, s.Schedules = s.Topics.edit(), s.Notes.edit(), s.Schedules.edit()
	var err error
	if s.mark, err = markOf(tx, revision); err != nil {
		return nil, err
	}
	for _, read := range []func(*gorm.DB, *Snapshot) error{
		r.readShards, readTokens, readSettings, r.readSchedules,
	} {
		if err := read(tx, s); err != nil {
			return nil, err
		}
	}
	return s, r.readTopics(tx, tx, s)
}

// readTopics reads the topics and notes selected by the two queries into s. It does so row by row, because there may be
// many.
func (r *Registry) readTopics(topics, notes *gorm.DB, s *Snapshot) error {
	err := eachRow(topics.Model(&topicRow{}).Select("name", "spec", "created_at", "updated_at"),
		func(scan scanner) error {
			var row topicRow
			if err := scan(&row.Name, &row.Spec, &row.CreatedAt, &row.UpdatedAt); err != nil {
				return err
			}
			r.readTopic(&row, s)
			return nil
		})
	if err != nil {
		return err
	}
	notes = notes.Model(&noteRow{}).
		Select("topic", "pause_reason", "paused_by", "paused_at", "paused_until", "secrets_changed_at")
	return eachRow(notes, func(scan scanner) error {
		var row noteRow
		err := scan(&row.Topic, &row.PauseReason, &row.PausedBy, &row.PausedAt, &row.PausedUntil, &row.SecretsChangedAt)
		if err == nil {
			s.Notes.tree.Set(row.Topic, row.note())
		}
		return err
	})
}

type scanner = func(into ...any) error

func eachRow(query *gorm.DB, read func(scanner) error) error {
	rows, err := query.Rows()
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := read(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readTopic keeps the pointer of a topic that did not change, so that what callers compiled for it remains valid. A
// damaged topic keeps its last valid state, so that the snapshot can follow all others.
func (r *Registry) readTopic(row *topicRow, s *Snapshot) {
	was := r.Snapshot().Topics.Get(row.Name)
	t, err := row.topic(r.db.Key)
	switch {
	case errors.Is(err, seal.ErrKey):
		if t, _ = row.withoutSecrets(); was == nil || !was.Locked {
			r.opts.Logger.Error("topic secrets are encrypted with another key; this host does not make its callbacks",
				"topic", row.Name)
		}
	case err != nil:
		t = was
		r.opts.Logger.Error("stored topic is invalid; keeping its last valid state; save the topic again",
			"topic", row.Name, "error", err)
	}
	if was != nil && reflect.DeepEqual(was, t) {
		t = was
	}
	if t != nil {
		s.Topics.tree.Set(row.Name, t)
	}
}

// changedTopics returns the names of the topics that differ between two tables.
func changedTopics(old, now Table[*Topic]) []string {
	var names []string
	for name, t := range now.All() {
		if old.Get(name) != t {
			names = append(names, name)
		}
	}
	for name := range old.All() {
		if now.Get(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

func (r *Registry) readShards(tx *gorm.DB, s *Snapshot) error {
	var rows []shardRow
	if err := tx.Order("name").Find(&rows).Error; err != nil {
		return err
	}
	s.Shards = []Shard{}
	for i := range rows {
		shard, err := rows[i].shard(r.db.Key)
		if err != nil {
			r.opts.Logger.Error("shard URL is encrypted with another key; this host does not use the shard",
				"shard", shard.Name)
		}
		s.Shards = append(s.Shards, shard)
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
	return readQuotas(tx, s)
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

// publish makes s the current snapshot, and notifies the subscribers of the topics that may have changed.
func (r *Registry) publish(s *Snapshot, topics []string) {
	s.key = r.db.Key
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snap.Store(s)
	for sub := range r.subscribers {
		sub.add(topics)
	}
}

// Subscription announces new snapshots.
type Subscription struct {
	Changed  <-chan struct{} // receives after a new snapshot
	tick     chan struct{}
	registry *Registry
	topics   map[string]struct{} // may have changed since the last call of Topics; guarded by Registry.mu
}

// Subscribe starts a subscription with the next snapshot.
func (r *Registry) Subscribe() *Subscription {
	tick := make(chan struct{}, 1)
	sub := &Subscription{Changed: tick, tick: tick, registry: r, topics: map[string]struct{}{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers[sub] = struct{}{}
	return sub
}

func (s *Subscription) add(topics []string) {
	for _, name := range topics {
		s.topics[name] = struct{}{}
	}
	select {
	case s.tick <- struct{}{}:
	default:
	}
}

// Topics returns the names of the topics that may have changed since the last call, and the current snapshot.
func (s *Subscription) Topics() ([]string, *Snapshot) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	names := slices.Collect(maps.Keys(s.topics))
	clear(s.topics)
	return names, s.registry.Snapshot()
}

// End ends the subscription.
func (s *Subscription) End() {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	delete(s.registry.subscribers, s)
}
