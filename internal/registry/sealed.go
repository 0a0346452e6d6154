package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// mapSecrets returns a copy of a topic with f applied to its secret texts: the values of credential headers, the query
// of its callback URL, and its signing secrets.
func (t *Topic) mapSecrets(f func(text string) (string, error)) (*Topic, error) {
	if !t.hasSecrets() {
		return t, nil
	}
	next := *t
	var errs []error
	apply := func(text string) string {
		text, err := f(text)
		errs = append(errs, err)
		return text
	}
	next.Headers = maps.Clone(t.Headers)
	for name, value := range t.Headers {
		if isCredential(name) {
			next.Headers[name] = apply(value)
		}
	}
	if address, query, asked := strings.Cut(t.CallbackURL, "?"); asked {
		next.CallbackURL = address + "?" + apply(query)
	}
	next.Secrets = slices.Clone(t.Secrets)
	for i, s := range t.Secrets {
		next.Secrets[i] = apply(s)
	}
	return &next, errors.Join(errs...)
}

func (t *Topic) hasSecrets() bool {
	for name := range t.Headers {
		if isCredential(name) {
			return true
		}
	}
	return len(t.Secrets) > 0 || strings.Contains(t.CallbackURL, "?")
}

func (t *Topic) seal(key seal.Key) (*Topic, error) {
	return t.mapSecrets(func(text string) (string, error) { return key.Seal("topic/"+t.Name, text) })
}

func (t *Topic) open(key seal.Key) (*Topic, error) {
	return t.mapSecrets(func(text string) (string, error) { return openText(key, "topic/"+t.Name, text) })
}

// openText returns a text unchanged if it is not sealed: addresses without secrets are stored in the clear.
func openText(key seal.Key, object, text string) (string, error) {
	if !seal.Sealed(text) {
		return text, nil
	}
	return key.Open(object, text)
}

// Masked returns the topic with fingerprints instead of secrets, for people who may not change it.
func (t *Topic) Masked() *Topic {
	masked, _ := t.mapSecrets(func(text string) (string, error) { // fingerprint never fails
		if text == "" {
			return "", nil
		}
		return seal.Fingerprint(text), nil
	})
	return masked
}

// unmask restores the stored secrets where a client sends their fingerprints.
func (t *Topic) unmask(was *Topic) error {
	if was == nil {
		was = &Topic{}
	}
	shown := was.Masked()
	t.Headers = maps.Clone(t.Headers)
	for name, value := range t.Headers {
		switch {
		case !isCredential(name) || !seal.IsFingerprint(value):
		case value != shown.Headers[name]:
			return Malformed("headers", "field.masked_header", name)
		default:
			t.Headers[name] = was.Headers[name]
		}
	}
	if _, query, _ := strings.Cut(t.CallbackURL, "?"); seal.IsFingerprint(query) {
		if t.CallbackURL != shown.CallbackURL {
			return Malformed("callback_url", "field.masked_query")
		}
		t.CallbackURL = was.CallbackURL
	}
	return nil
}

// sealedShard returns the row of a shard, with its URL sealed if it contains a password.
func sealedShard(key seal.Key, s Shard) (row *shardRow, err error) {
	url := s.URL
	if MaskURL(url) != url {
		url, err = key.Seal("shard/"+s.Name, url)
	}
	row = &shardRow{s.Name, seal.Column(url), string(s.State), s.Identity, s.Former}
	return row, err
}

// shard returns the shard of a row.
func (r *shardRow) shard(key seal.Key) (Shard, error) {
	url, err := openText(key, "shard/"+r.Name, string(r.URL))
	return Shard{r.Name, url, ShardState(r.State), r.Identity, r.Former}, err
}

// keyCheck is the setting that tells every host whether it has the registry's key.
const (
	keyCheck           = "secret-key"
	sealed   seal.Text = "sealed"
)

// ErrOtherKey is returned on a host whose secret key differs from the registry's.
var ErrOtherKey = database.NewRefusal(
	"secrets are encrypted with a different key from this host's (registry.seal_key, registry.seal_key_file or " +
		"data_dir/secret-key): give it the key of another host or a backup; if there is none left, `wakecall migrate " +
		"forget-secrets` removes what it encrypted, so that it can be entered again",
)

// checkKey fails if this host cannot read the registry's secrets. The first host registers its key as the registry's. A
// host with another key starts as long as there are no secrets, and stores none.
func (r *Registry) checkKey(ctx context.Context) error {
	if len(r.db.Key) == 0 {
		return nil
	}
	_, found := r.Snapshot().Settings[keyCheck]
	if !found && r.opts.Migrate == MigrateNone {
		return nil // nothing is encrypted yet, and nothing is to be changed
	}
	if !found {
		if err := r.noteKey(ctx, keyNote{actor: "first start", object: "setting/" + keyCheck}); err != nil {
			return err
		}
	}
	var state seal.Text
	_, err := r.Snapshot().Setting(keyCheck, &state)
	if errors.Is(err, seal.ErrKey) {
		return r.withOtherKey(ctx)
	}
	return err
}

// CheckKey returns ErrOtherKey if the registry's secrets are encrypted with another key.
func (s *Snapshot) CheckKey(key seal.Key) error {
	check, found := s.Settings[keyCheck]
	if !found {
		return nil
	}
	if _, err := key.OpenJSON("setting/"+keyCheck, check); err != nil {
		return ErrOtherKey
	}
	return nil
}

// withOtherKey starts a host whose key differs from the registry's.
func (r *Registry) withOtherKey(ctx context.Context) error {
	var topics int64
	var shards []shardRow
	err := r.db.Do(ctx, func(tx *gorm.DB) error {
		return errors.Join(tx.Model(&topicRow{}).Where("spec LIKE ?", `%u0000sealed:%`).Count(&topics).Error,
			tx.Find(&shards).Error)
	})
	if err != nil {
		return err
	}
	if topics > 0 || slices.ContainsFunc(shards, func(s shardRow) bool { return seal.Sealed(string(s.URL)) }) {
		return ErrOtherKey
	}
	r.opts.Logger.Error("this host's secret key differs from the registry's, so it can neither store nor read " +
		"secrets; give it the key of another host (registry.seal_key or data_dir/secret-key), and restart")
	r.db.Key = nil
	return nil
}

// keyNote describes a change of the keyCheck setting.
type keyNote struct {
	actor, object string
	replace       bool // even if written with another key
	after         any  // shown in the audit trail
}

func (r *Registry) noteKey(ctx context.Context, n keyNote) error {
	open, err := json.Marshal(sealed)
	if err != nil {
		return err
	}
	check, err := r.db.Key.SealJSON("setting/"+keyCheck, open)
	if err != nil {
		return err
	}
	return r.Change(ctx, n.actor, "seal", n.object, func(tx *gorm.DB, c *Changed) error {
		if found, err := database.Find(tx, &settingRow{}, "name", keyCheck); err != nil {
			return err
		} else if found && !n.replace {
			return ErrUnchanged // another host was first
		}
		c.After = n.after
		return database.Upsert(tx).Create(&settingRow{keyCheck, string(check), database.Now()}).Error
	})
}

// reseal stores topics and shards again, sealed with this key, and returns how many had secrets. Secrets that it cannot
// open are removed and counted in lost. The topics themselves do not change, so processes need not read them again.
func (r *Registry) reseal(ctx context.Context, lost *Forgotten) (n int, err error) {
	var names []string
	var shards []shardRow
	err = r.db.Do(ctx, func(tx *gorm.DB) error {
		return errors.Join(tx.Model(&topicRow{}).Pluck("name", &names).Error, tx.Find(&shards).Error)
	})
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(names, rowsAtOnce) {
		before, done := *lost, 0
		err := r.db.Change(ctx, func(tx *gorm.DB) (err error) {
			*lost = before // when it is repeated
			done, err = r.resealTopics(tx, chunk, lost)
			return err
		})
		if err != nil {
			return n, err
		}
		n += done
	}
	for i := range shards {
		before := *lost
		err := r.db.Change(ctx, func(tx *gorm.DB) error {
			*lost = before
			return r.resealShard(tx, &shards[i], lost)
		})
		if err != nil {
			return n, err
		}
	}
	return n + len(shards), nil
}

// resealTopics locks its rows against concurrent changes, and stores them with one statement. With one statement per
// row, MariaDB took 15 s instead of 5 s for 100,000 topics.
func (r *Registry) resealTopics(tx *gorm.DB, names []string, lost *Forgotten) (n int, err error) {
	var rows []topicRow
	if err := tx.Clauses(clause.Locking{Strength: "UPDATE"}).Where("name IN ?", names).Find(&rows).Error; err != nil {
		return 0, err
	}
	var changed []topicRow
	for i := range rows {
		next, err := r.resealTopic(tx, &rows[i], lost)
		if err != nil {
			return 0, err
		}
		if next != nil {
			changed = append(changed, *next)
		}
	}
	if len(changed) == 0 {
		return 0, nil
	}
	onlySpec := clause.OnConflict{
		Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"spec"}),
	}
	return len(changed), tx.Clauses(onlySpec).Create(&changed).Error
}

// resealTopic returns the row to store for a topic, or nil if it does not change.
func (r *Registry) resealTopic(tx *gorm.DB, row *topicRow, lost *Forgotten) (*topicRow, error) {
	t, err := row.topic(r.db.Key)
	forget := errors.Is(err, seal.ErrKey)
	switch {
	case errors.Is(err, errSpec):
		return nil, nil // a person must repair it
	case forget:
		lost.Topics++
		if t, err = row.withoutSecrets(); err == nil {
			at := database.Now()
			t.Locked, t.State = false, TopicPaused // its endpoint would refuse callbacks
			err = database.Upsert(tx).Create(&noteRow{Topic: t.Name, PauseReason: forgotten, PausedAt: &at}).Error
		}
	}
	if err != nil {
		return nil, err
	}
	if !forget && !t.hasSecrets() {
		return nil, nil
	}
	return newTopicRow(r.db.Key, t)
}

func (r *Registry) resealShard(tx *gorm.DB, row *shardRow, lost *Forgotten) error {
	s, err := row.shard(r.db.Key)
	if errors.Is(err, seal.ErrKey) {
		lost.Shards++
		s, err = Shard{Name: row.Name, State: ShardOffline}, nil
	}
	if err != nil {
		return fmt.Errorf("shard %s: %w", row.Name, err)
	}
	next, err := sealedShard(r.db.Key, s)
	if err != nil {
		return err
	}
	return tx.Model(row).
		Where("url = ?", row.URL).
		UpdateColumns(map[string]any{"url": next.URL, "state": next.State}).
		Error
}

const forgotten = "its secrets are lost: enter its headers, the query of its URL and a signing secret again"

// withoutSecrets returns a topic whose secrets cannot be opened, without them.
func (r *topicRow) withoutSecrets() (*Topic, error) {
	t, err := r.stored()
	if err != nil {
		return nil, err
	}
	t.Locked, t.Secrets = true, nil
	maps.DeleteFunc(t.Headers, func(_, value string) bool { return seal.Sealed(value) })
	if address, query, _ := strings.Cut(t.CallbackURL, "?"); seal.Sealed(query) {
		t.CallbackURL = address
	}
	return t, nil
}

// Forgotten counts what was encrypted with a lost key: topics without their secrets, and shards without their URL.
type Forgotten struct {
	Topics int `json:"topics"`
	Shards int `json:"shards"`
}

// ForgetSecrets replaces the registry's key after it was lost. It removes what was encrypted with the lost key: topics
// are paused without their secrets, shards are offline without a URL. Settings are kept, but their secrets must be
// entered again in the admin.
func ForgetSecrets(ctx context.Context, o Options) (lost Forgotten, err error) {
	r, err := connect(o)
	if err != nil {
		return lost, err
	}
	// The key is replaced last, so that after an interruption hosts still refuse to start, and this can be repeated.
	// The change affects all secrets ("secrets" is not a single object), so every process reads everything again.
	n, err := r.reseal(ctx, &lost)
	if err == nil {
		after := map[string]int{"sealed or forgotten": n}
		err = r.noteKey(ctx, keyNote{actor: "command line", object: "secrets", replace: true, after: after})
	}
	return lost, errors.Join(err, r.db.Close())
}
