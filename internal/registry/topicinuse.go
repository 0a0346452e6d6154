package registry

import (
	"errors"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/message"
)

// TopicInUseError refuses to delete a topic that schedules use.
type TopicInUseError struct {
	Topic     string
	Schedules []string
}

const maxNamed = 10

func (e *TopicInUseError) message() message.Message {
	names := strings.Join(e.Schedules[:min(maxNamed, len(e.Schedules))], ", ")
	if more := len(e.Schedules) - maxNamed; more > 0 {
		return message.New("field.topic_in_use_more", e.Topic, names, more)
	}
	return message.New("field.topic_in_use", e.Topic, names)
}

func (e *TopicInUseError) Error() string { return e.message().Error() }
func (e *TopicInUseError) Unwrap() error { return e.message() }

// Refusal marks the error as one about the request, not about the database.
func (e *TopicInUseError) Refusal() {}

// TopicInUse returns a *TopicInUseError if schedules use a topic: it, or as a namespace, its settings.
func (s *Snapshot) TopicInUse(name string) error {
	var names []string
	for _, schedule := range s.Schedules.All() {
		if t := s.TopicOrNamespace(schedule.Topic); t != nil && t.Name == name {
			names = append(names, schedule.Name)
		}
	}
	if names == nil {
		return nil
	}
	return &TopicInUseError{name, names}
}

// deleteSchedulesOf deletes the schedules that use a topic. Without force it refuses if there are any. Their cursors
// stay in Redis, where nothing uses them: a new schedule of the same name replaces the cursor.
func (r *Registry) deleteSchedulesOf(tx *gorm.DB, topic string, force bool) (changed []Changed, err error) {
	s, _, err := r.read(tx, 1)
	if err != nil {
		return nil, err
	}
	err = s.TopicInUse(topic)
	used, is := errors.AsType[*TopicInUseError](err)
	if !is || !force {
		return nil, err
	}
	for _, name := range used.Schedules {
		changed = append(changed, Changed{Object: scheduleObject(name), Before: s.Schedules.Get(name)})
	}
	for some := range slices.Chunk(used.Schedules, someTopics) {
		if err := tx.Where("name IN ?", some).Delete(&scheduleRow{}).Error; err != nil {
			return nil, err
		}
	}
	return changed, nil
}
