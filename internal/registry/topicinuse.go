package registry

import (
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
// stay in Redis: a schedule that is made anew has a later revision, and replaces its own.
func deleteSchedulesOf(tx *gorm.DB, topic string, force bool) ([]Changed, error) {
	rows, err := schedulesOf(tx, topic)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	names, changed := make([]string, len(rows)), make([]Changed, len(rows))
	for i := range rows {
		names[i], changed[i].Object = rows[i].Name, scheduleObject(rows[i].Name)
		if was, err := rows[i].schedule(); err == nil {
			changed[i].Before = was
		}
	}
	if !force {
		return nil, &TopicInUseError{topic, names}
	}
	for some := range slices.Chunk(names, someTopics) {
		if err := tx.Where("name IN ?", some).Delete(&scheduleRow{}).Error; err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// schedulesOf is Snapshot.TopicInUse within a change.
func schedulesOf(tx *gorm.DB, topic string) (rows []scheduleRow, err error) {
	prefix, namespace := strings.CutSuffix(topic, "*")
	if !namespace {
		return rows, tx.Where("topic = ?", topic).Order("name").Find(&rows).Error
	}
	below := tx.Where("topic LIKE ? ESCAPE '!'", likeEscapes.Replace(prefix)+"%")
	if err := below.Order("name").Find(&rows).Error; err != nil {
		return nil, err
	}
	applies := map[string]string{} // by topic
	for _, row := range rows {
		if _, known := applies[row.Topic]; known {
			continue
		}
		if applies[row.Topic], err = settingsOf(tx, row.Topic); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(rows, func(row scheduleRow) bool { return applies[row.Topic] != topic }), nil
}
