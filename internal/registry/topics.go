package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// ETag returns a value that is different for every state of a topic, including its secrets.
func (t *Topic) ETag() string {
	spec, err := t.spec()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(spec)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// Fields returns the values of the topic's fields as JSON, without its secrets and times.
func (t *Topic) Fields() map[string]json.RawMessage {
	return fieldsOf(t.Public(), "created_at", "updated_at")
}

func fieldsOf(v any, without ...string) (fields map[string]json.RawMessage) {
	b, _ := json.Marshal(v) // cannot fail: JSON can represent every value
	_ = json.Unmarshal(b, &fields)
	for _, name := range without {
		delete(fields, name)
	}
	return fields
}

// DifferingFields returns the names of the fields in which two topics, or two schedules, differ, sorted. It compares
// the values, not how they are written.
func DifferingFields[T interface {
	Fields() map[string]json.RawMessage
}](a, b T) (names []string) {
	ours, theirs := a.Fields(), b.Fields()
	for _, name := range append(slices.Collect(maps.Keys(ours)), slices.Collect(maps.Keys(theirs))...) {
		if !sameJSON(ours[name], theirs[name]) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Condition reports whether an edit may proceed, given the stored topic, or nil if there is none. If it returns false,
// the edit fails with ErrChanged.
type Condition func(was *Topic) bool

// IfMatch returns the condition that the topic has one of these ETags.
func IfMatch(etags ...string) Condition {
	return func(was *Topic) bool { return was != nil && slices.Contains(etags, was.ETag()) }
}

// IfExists and IfNew are the conditions that the topic exists, and that it does not exist.
func IfExists(was *Topic) bool { return was != nil }
func IfNew(was *Topic) bool    { return was == nil }

func checkConditions(name string, was *Topic, conditions []Condition) error {
	for _, holds := range conditions {
		if !holds(was) {
			return fmt.Errorf("topic %s: %w", name, ErrChanged)
		}
	}
	return nil
}

// PutTopic stores a new or changed topic. Nil Secrets keep the stored ones, empty Secrets remove them. Storing an
// unchanged topic changes nothing. Errors: *FieldError, ErrChanged, ErrUnavailable.
func (r *Registry) PutTopic(
	ctx context.Context,
	actor string,
	t Topic,
	conditions ...Condition,
) (created bool, err error) {
	done, err := r.PutTopics(ctx, actor, []Topic{t}, conditions...)
	return err == nil && done[0] == TopicCreated, err
}

// Done is the outcome of storing a topic.
type Done string

// Outcomes of storing a topic.
const (
	TopicCreated   Done = "created"
	TopicChanged   Done = "changed"
	TopicUnchanged Done = "unchanged"
)

// PutTopics is like PutTopic for several topics with different names. It stores all of them, or none.
func (r *Registry) PutTopics(
	ctx context.Context, actor string, topics []Topic, conditions ...Condition,
) (done []Done, err error) {
	var errs []error
	for i := range topics {
		errs = append(errs, nameError(&topics[i], len(topics), topics[i].Validate()))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	err = r.changes(ctx, actor, "put", func(tx *gorm.DB) ([]Changed, error) {
		stored, err := storedTopics(tx, topics)
		if err != nil {
			return nil, err
		}
		e := edit{key: r.db.Key}
		done = make([]Done, len(topics))
		for i := range topics {
			row, found := stored[topics[i].Name]
			if done[i], err = e.put(topics[i], row, found, conditions); err != nil {
				return nil, err
			}
		}
		return e.changed, e.store(tx, actor)
	})
	return done, err
}

// nameError adds the topic's name to an error if several topics were stored.
func nameError(t *Topic, of int, err error) error {
	if err == nil || of == 1 {
		return err
	}
	return fmt.Errorf("topic %s: %w", printable.Clip(t.Name, 64), err)
}

// storedTopics returns the rows of those topics that exist.
func storedTopics(tx *gorm.DB, topics []Topic) (map[string]*topicRow, error) {
	names := make([]string, len(topics))
	for i := range topics {
		names[i] = topics[i].Name
	}
	stored := map[string]*topicRow{}
	for some := range slices.Chunk(names, someTopics) {
		var rows []*topicRow
		if err := tx.Where("name IN ?", some).Find(&rows).Error; err != nil {
			return nil, err
		}
		for _, row := range rows {
			stored[row.Name] = row
		}
	}
	return stored, nil
}

// edit collects the changes of a transaction, so that any number of topics takes only a few statements.
type edit struct {
	key                    seal.Key
	changed                []Changed
	rows                   []*topicRow
	active                 []string // whose reason for a pause is removed
	stopped                []string // that were paused or taken offline
	newSecrets, oldSecrets []string // whose secrets changed, and whose rotation ends because they have no secrets left
}

func (e *edit) put(t Topic, row *topicRow, found bool, conditions []Condition) (Done, error) {
	c := Changed{Object: "topic/" + t.Name, After: &t}
	t.CreatedAt = database.Now()
	t.UpdatedAt = t.CreatedAt
	var was *Topic
	if found {
		stored, err := row.topic(e.key)
		switch {
		case err == nil:
			was, c.Before, t.CreatedAt, t.newer = stored, stored, stored.CreatedAt, stored.newer
		case !errors.Is(err, errSpec): // a damaged row is replaced, which repairs it
			return "", err
		}
	}
	if err := checkConditions(t.Name, was, conditions); err != nil {
		return "", err
	}
	if err := t.unmask(was); err != nil {
		return "", err
	}
	t.CallbackURL = sentURL(t.CallbackURL)
	if was != nil && t.Secrets == nil {
		t.Secrets = was.Secrets
	}
	if was != nil && sameTopic(&t, was) {
		return TopicUnchanged, nil
	}
	switch {
	case len(t.Secrets) > 0 && (was == nil || !slices.Equal(was.Secrets, t.Secrets)):
		e.newSecrets = append(e.newSecrets, t.Name)
	case len(t.Secrets) == 0 && was != nil:
		e.oldSecrets = append(e.oldSecrets, t.Name)
	}
	switch {
	case t.State == TopicActive && found:
		e.active = append(e.active, t.Name)
	case t.State != TopicActive && (was == nil || was.State != t.State):
		e.stopped = append(e.stopped, t.Name)
	}
	next, err := newTopicRow(e.key, &t)
	if err != nil {
		return "", err
	}
	e.rows, e.changed = append(e.rows, next), append(e.changed, c)
	if found {
		return TopicChanged, nil
	}
	return TopicCreated, nil
}

// rowsAtOnce keeps a statement with large topics below the packet limit of MySQL servers.
const rowsAtOnce = 200

func (e *edit) store(tx *gorm.DB, actor string) error {
	if len(e.rows) == 0 {
		return nil
	}
	for some := range slices.Chunk(e.newSecrets, someTopics) {
		if err := noteSecrets(tx, some...); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(e.oldSecrets, someTopics) {
		if err := forgetRotation(tx, some...); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(e.active, someTopics) {
		if err := tx.Model(&noteRow{}).Where("topic IN ?", some).Updates(notPaused).Error; err != nil {
			return err
		}
	}
	for some := range slices.Chunk(e.stopped, someTopics) {
		if err := noteStopped(tx, actor, some); err != nil {
			return err
		}
	}
	return database.Upsert(tx).CreateInBatches(e.rows, rowsAtOnce).Error
}

// sameTopic reports whether two topics have the same stored form, apart from the time of the update.
func sameTopic(t, was *Topic) bool {
	next := *t
	next.UpdatedAt = was.UpdatedAt
	return sameSpec(&next, was)
}

func sameSpec[T interface{ spec() ([]byte, error) }](a, b T) bool {
	specA, errA := a.spec()
	specB, errB := b.spec()
	return errA == nil && errB == nil && bytes.Equal(specA, specB)
}

// DeleteTopic deletes a topic, and with force the schedules that use it. Errors: ErrNoTopic, ErrChanged,
// *TopicInUseError, ErrUnavailable.
func (r *Registry) DeleteTopic(
	ctx context.Context, actor, name string, force bool, conditions ...Condition,
) error {
	return r.changes(ctx, actor, "delete", func(tx *gorm.DB) ([]Changed, error) {
		c := Changed{Object: "topic/" + name}
		var row topicRow
		if err := findTopic(tx, &row, name); err != nil {
			return nil, err
		}
		was, err := row.topic(r.db.Key)
		if err == nil {
			c.Before = was
		}
		if err := checkConditions(name, was, conditions); err != nil {
			return nil, err
		}
		schedules, err := r.deleteSchedulesOf(tx, name, force)
		if err != nil {
			return nil, err
		}
		err = errors.Join(
			tx.Where("topic = ?", name).Delete(&noteRow{}).Error, forgetRotation(tx, name),
			database.Upsert(tx).Create(&deletedTopic{name}).Error, tx.Delete(&row).Error)
		return append([]Changed{c}, schedules...), err
	})
}

// deletedTopic is a name whose topic was deleted at least once; it may exist again.
type deletedTopic struct {
	Name string `gorm:"primaryKey"`
}

func (deletedTopic) TableName() string { return "deleted_topics" }

// TopicDeleted reports whether a topic that is not in the snapshot was deleted. If not, this is another registry, or an
// old backup. Errors: ErrUnavailable.
func (r *Registry) TopicDeleted(ctx context.Context, name string) (bool, error) {
	if !r.Up() {
		return false, ErrUnavailable
	}
	return r.db.Find(ctx, &deletedTopic{}, "name", name)
}

func findTopic(tx *gorm.DB, row *topicRow, name string) error {
	return database.MustFind(tx, row, "name", name, fmt.Errorf("%.80q: %w", name, ErrNoTopic))
}
