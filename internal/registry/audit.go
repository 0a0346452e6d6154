package registry

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// AuditEntry describes one change: who changed which object, and its state before and after, as JSON without secrets.
type AuditEntry struct {
	ID     uint64          `json:"id"`
	At     time.Time       `json:"at"`
	Actor  string          `json:"actor"`
	Action string          `json:"action"`
	Object string          `json:"object"`
	Before json.RawMessage `json:"before" gorm:"column:before_state;serializer:text"`
	After  json.RawMessage `json:"after" gorm:"column:after_state;serializer:text"`
}

// TableName returns the table that stores AuditEntry rows.
func (AuditEntry) TableName() string { return "audit" }

// AuditFilter selects entries of the audit trail. A zero field does not restrict the selection.
type AuditFilter struct {
	Object string // such as topic/shop.close, or topic/shop.* for all with this prefix
	Actor  string
	Action string
	Since  time.Time
	Until  time.Time // entries before
	Before uint64    // entries older than the one with this ID
	Limit  int       // 0: 100
}

const (
	maxActor  = 128
	maxObject = 255
)

var likeEscapes = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// Audit returns changes, newest first.
func (r *Registry) Audit(ctx context.Context, f AuditFilter) ([]AuditEntry, error) {
	return database.List[AuditEntry](ctx, r.db, f.query)
}

func (f AuditFilter) query(tx *gorm.DB) *gorm.DB {
	q := tx.Order("id DESC").Limit(database.Limit(f.Limit))
	if prefix, many := strings.CutSuffix(f.Object, "*"); many {
		q, f.Object = q.Where("object LIKE ? ESCAPE '!'", likeEscapes.Replace(prefix)+"%"), ""
	}
	for column, value := range map[string]string{"object = ?": f.Object, "actor = ?": f.Actor, "action = ?": f.Action} {
		if value != "" {
			q = q.Where(column, value)
		}
	}
	for column, at := range map[string]time.Time{"at >= ?": f.Since, "at < ?": f.Until} {
		if !at.IsZero() {
			q = q.Where(column, at)
		}
	}
	if f.Before > 0 {
		q = q.Where("id < ?", f.Before)
	}
	return q
}

// pruned is how many entries a change deletes at most, in addition to as many as it writes.
const pruned = 100

// pruneAudit deletes the oldest entries of the audit trail if they are older than keep (0: never). It reads only as
// many as it may delete, so the length of the trail does not matter.
func pruneAudit(tx *gorm.DB, keep time.Duration, written int) error {
	if keep == 0 {
		return nil
	}
	oldest := tx.Table("(?) AS oldest", tx.Model(&AuditEntry{}).Select("id").Order("id").Limit(pruned+written))
	return tx.Where("at < ? AND id IN (?)", database.Now().Add(-keep), oldest.Select("id")).Delete(&AuditEntry{}).Error
}

// visible returns a value as shown in the audit trail, without secrets.
func visible(v any) json.RawMessage {
	switch x := v.(type) {
	case *Topic:
		v = visibleTopic(x)
	case *Schedule:
		if x != nil {
			v = x.masked()
		}
	case *Shard:
		public := *x
		public.URL = MaskURL(x.URL)
		v = public
	case *Token:
		c := *x
		c.Hash = seal.Mask
		v = c
	}
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

// visibleTopic replaces secrets with fingerprints, so that the audit trail shows a rotation.
func visibleTopic(t *Topic) any {
	masked := t.Masked()
	return storedTopic{Topic: masked, Secrets: append([]string{}, masked.Secrets...)}
}

func fingerprints(secrets []string) []string {
	list := make([]string, len(secrets))
	for i, s := range secrets {
		list[i] = seal.Fingerprint(s)
	}
	return list
}

// Seals reports whether a topic has a header whose value is likely to be a secret. Jobs do not replace it.
func (t *Topic) Seals(header string) bool {
	for name := range t.Headers {
		if strings.EqualFold(name, header) {
			return isCredential(name)
		}
	}
	return false
}

// isCredential reports whether a header's value is likely to be a secret. Words may be added, but never removed,
// because values that are already stored sealed must still be opened.
func isCredential(header string) bool {
	name := strings.ToLower(header)
	for _, part := range []string{"auth", "cookie", "token", "secret", "password", "key", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
