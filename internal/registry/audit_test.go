package registry

import (
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/test/dbtest"
)

// TestAuditIsPruned: entries older than AuditKeep are deleted by later changes, and only these. A deleted topic stays
// known as deleted.
func TestAuditIsPruned(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn, AuditKeep: time.Hour})
		put(t, r, topic("deleted"))
		if err := r.DeleteTopic(t.Context(), "me", "deleted", false); err != nil {
			t.Fatal(err)
		}
		for i := range 3 * pruned {
			put(t, r, topic(fmt.Sprintf("old%d", i)))
		}
		err := r.db.Do(t.Context(), func(tx *gorm.DB) error {
			return tx.Model(&AuditEntry{}).Where("1 = 1").Update("at", time.Now().UTC().Add(-61*time.Minute)).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			put(t, r, topic(fmt.Sprintf("new%d", i)))
		}
		list, err := r.Audit(t.Context(), AuditFilter{Limit: 10 * pruned})
		if err != nil || len(list) != 5 || list[4].Object != "topic/new0" {
			t.Errorf("%d entries are left, %v", len(list), err)
		}
		for name, want := range map[string]bool{"deleted": true, "new0": false, "unknown": false} {
			if deleted, err := r.TopicDeleted(t.Context(), name); err != nil || deleted != want {
				t.Errorf("%s: deleted %v, %v", name, deleted, err)
			}
		}
	})
}
