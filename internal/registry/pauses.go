package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Pause is why and until when a topic is paused. A zero Until sets no end.
type Pause struct {
	Reason string
	Until  time.Time
}

// paused is a pause in the audit trail.
type paused struct {
	State       TopicState `json:"state"`
	PauseReason string     `json:"pause_reason,omitempty"`
	PausedUntil time.Time  `json:"paused_until,omitzero"`
}

func newPaused(state TopicState, n *noteRow) paused {
	note := n.note()
	return paused{state, note.PauseReason, note.PausedUntil}
}

// PauseTopic pauses a topic, or changes why and until when it is paused. EndPauses resumes it at the end. Errors:
// *FieldError, ErrNoTopic, ErrOffline, ErrUnavailable.
func (r *Registry) PauseTopic(ctx context.Context, actor, topic string, p Pause) error {
	if err := ValidReason(p.Reason); err != nil {
		return err
	}
	return r.changeState(ctx, actor, "pause", topic, func(t *Topic, note *noteRow) error {
		switch {
		case t.State == TopicOffline:
			return fmt.Errorf("topic %s: %w", topic, ErrOffline)
		case t.State == TopicPaused && note.PauseReason == p.Reason && note.note().PausedUntil.Equal(p.Until):
			return ErrUnchanged
		}
		t.State = TopicPaused
		at := database.Now()
		note.PauseReason, note.PausedBy, note.PausedAt = p.Reason, database.Clip(actor, maxActor), &at
		if note.PausedUntil = nil; !p.Until.IsZero() {
			until := p.Until.UTC()
			note.PausedUntil = &until
		}
		return nil
	})
}

// ResumeTopic makes a paused or offline topic active. Errors: ErrNoTopic, ErrUnavailable.
func (r *Registry) ResumeTopic(ctx context.Context, actor, topic string) error {
	return r.resume(ctx, actor, topic, func(t *Topic, _ *noteRow) bool { return t.State != TopicActive })
}

func (r *Registry) resume(ctx context.Context, actor, topic string, wanted func(*Topic, *noteRow) bool) error {
	return r.changeState(ctx, actor, "resume", topic, func(t *Topic, note *noteRow) error {
		if !wanted(t, note) {
			return ErrUnchanged
		}
		t.State = TopicActive
		note.PauseReason, note.PausedBy, note.PausedAt, note.PausedUntil = "", "", nil, nil
		return nil
	})
}

// changeState stores what change makes of a topic and its note.
func (r *Registry) changeState(
	ctx context.Context, actor, action, topic string, change func(*Topic, *noteRow) error,
) error {
	return r.Change(ctx, actor, action, "topic/"+topic, func(tx *gorm.DB, c *Changed) error {
		var row topicRow
		if err := findTopic(tx, &row, topic); err != nil {
			return err
		}
		t, err := row.topic(r.db.Key)
		if err != nil {
			return err
		}
		note := noteRow{Topic: topic}
		if _, err := database.Find(tx, &note, "topic", topic); err != nil {
			return err
		}
		was := t.State
		c.Before = newPaused(was, &note)
		if err := change(t, &note); err != nil {
			return err
		}
		c.After = newPaused(t.State, &note)
		if err := database.Upsert(tx).Create(&note).Error; err != nil || t.State == was {
			return err
		}
		t.UpdatedAt = database.Now()
		next, err := newTopicRow(r.db.Key, t)
		if err != nil {
			return err
		}
		return database.Upsert(tx).Create(next).Error
	})
}

// EndPauses resumes the topics whose pause has ended, as the actor "end of pause". If several hosts call it at once,
// only one resumes them. It asks the database only if the snapshot has some.
func (r *Registry) EndPauses(ctx context.Context, at time.Time) error {
	var errs []error
	for topic, note := range r.Snapshot().Notes.All() {
		if !note.pauseEnds(at) {
			continue
		}
		err := r.resume(ctx, "end of pause", topic, func(t *Topic, now *noteRow) bool {
			return t.State == TopicPaused && now.note().pauseEnds(at) // not yet resumed, and not extended
		})
		if err != nil && !errors.Is(err, ErrNoTopic) {
			errs = append(errs, fmt.Errorf("resume topic %s: %w", topic, err))
		}
	}
	return errors.Join(errs...)
}

// NextPauseEnd returns when the next pause ends by itself; zero: none does.
func (s *Snapshot) NextPauseEnd() (next time.Time) {
	for _, note := range s.Notes.All() {
		if until := note.PausedUntil; !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	return next
}

func (n TopicNote) pauseEnds(at time.Time) bool {
	return !n.PausedUntil.IsZero() && !n.PausedUntil.After(at)
}
