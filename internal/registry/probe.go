package registry

import (
	"context"

	"gorm.io/gorm"
)

// NoteProbe stores in the audit trail that somebody lets a topic's breaker probe its endpoint now. Errors: ErrNoTopic,
// ErrUnavailable.
func (r *Registry) NoteProbe(ctx context.Context, actor, topic string) error {
	return r.Change(ctx, actor, "probe", "topic/"+topic, func(tx *gorm.DB, _ *Changed) error {
		return findTopic(tx, &topicRow{}, topic)
	})
}
