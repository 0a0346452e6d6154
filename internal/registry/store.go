package registry

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unique"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// The rows. A topic is stored as JSON, so that a new field needs no migration.
type (
	topicRow struct {
		Name      string `gorm:"primaryKey"`
		Spec      string
		CreatedAt time.Time
		UpdatedAt time.Time
	}
	shardRow struct {
		Name     string `gorm:"primaryKey"`
		URL      seal.Column
		State    string
		Identity string // of its data, whatever the shard is called
		Former   string // earlier names, joined with spaces
	}
	tokenRow struct {
		ID        uint64 `gorm:"primaryKey"`
		Name      string
		Hash      string
		Rights    string // joined with commas
		Topics    string // joined with newlines
		CreatedAt time.Time
		ExpiresAt *time.Time

		LastUsedAt *time.Time // to the minute; written without a revision
	}
	revisionRow struct {
		ID           int `gorm:"primaryKey"`
		Value        int64
		Seeded       int
		Bootstrapped int
	}
)

func (topicRow) TableName() string    { return "topics" }
func (shardRow) TableName() string    { return "shards" }
func (tokenRow) TableName() string    { return "tokens" }
func (revisionRow) TableName() string { return "revision" }

// errSpec is returned for a stored topic that was not written by Wakecall.
var errSpec = database.NewRefusal("the stored value is not a topic")

// storedTopic is a topic with its secrets, which its public JSON omits.
type storedTopic struct {
	*Topic
	Secrets []string `json:"secrets"`
	Locked  bool     `json:"locked,omitempty"` // only in a snapshot
}

// topic returns the topic of a row, with its secrets opened. Errors: seal.ErrKey, errSpec.
func (r *topicRow) topic(key seal.Key) (*Topic, error) {
	t, err := r.stored()
	if err != nil {
		return nil, err
	}
	if t, err = t.open(key); err != nil {
		return nil, fmt.Errorf("read topic %s: %w", r.Name, err)
	}
	return t, nil
}

// stored returns the topic of a row with its secrets still sealed.
func (r *topicRow) stored() (*Topic, error) {
	t := NewTopic(r.Name)
	t.Headers = nil
	spec := struct {
		*Topic
		Newer jsontext.Value `json:",embed"`
	}{Topic: &t}
	if err := jsonv2.Unmarshal([]byte(r.Spec), &spec); err != nil {
		return nil, fmt.Errorf("read topic %s: %w: %w", r.Name, errSpec, err)
	}
	t.newer = spec.Newer
	t.Name, t.CreatedAt, t.UpdatedAt = r.Name, r.CreatedAt, r.UpdatedAt
	t.tidy()
	return &t, nil
}

var noHeaders = map[string]string{}

// tidy saves memory by letting topics share common values.
func (t *Topic) tidy() {
	if len(t.Headers) == 0 {
		t.Headers = noHeaders
	}
	share(&t.Method)
	share(&t.ContentType)
	share(&t.Priority)
	share(&t.State)
	share(&t.Durability)
}

// share makes topics with equal texts share one copy in memory.
func share[S ~string](s *S) { *s = unique.Make(*s).Value() }

// spec returns a topic's JSON as it is stored.
func (t *Topic) spec() ([]byte, error) {
	spec, err := json.Marshal(storedTopic{Topic: t, Secrets: t.Secrets})
	if err == nil && len(t.newer) > 0 {
		spec = append(append(spec[:len(spec)-1], ','), t.newer[1:]...)
	}
	return spec, err
}

// newTopicRow does not store whether a topic is locked, because it only gets topics that could be opened.
func newTopicRow(key seal.Key, t *Topic) (*topicRow, error) {
	sealed, err := t.seal(key)
	if err != nil {
		return nil, fmt.Errorf("store topic %s: %w", t.Name, err)
	}
	spec, err := sealed.spec()
	if err != nil {
		return nil, fmt.Errorf("store topic %s: %w", t.Name, err)
	}
	return &topicRow{Name: t.Name, Spec: string(spec), CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt}, nil
}

func (r *tokenRow) token() *Token {
	t := &Token{
		ID: r.ID, Name: r.Name, Hash: r.Hash, CreatedAt: r.CreatedAt, Topics: strings.Split(r.Topics, "\n"),
		ExpiresAt: r.ExpiresAt,
	}
	for right := range strings.SplitSeq(r.Rights, ",") {
		t.Rights = append(t.Rights, Right(right))
	}
	return t
}
