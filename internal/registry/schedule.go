package registry

import (
	"context"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/wakecall/wakecall/internal/schedule"
	"github.com/wakecall/wakecall/internal/schedule/calendar"
)

// Schedule is a recurring job. Its JSON form is that of the API. Missing fields take the defaults of NewSchedule.
type Schedule struct {
	Name     string            `json:"name"`
	Topic    string            `json:"topic"`
	Cron     string            `json:"cron,omitzero"`  // five fields, in TimeZone
	Every    Duration          `json:"every,omitzero"` // instead, counted from StartAt, or else from CreatedAt
	TimeZone string            `json:"time_zone"`
	StartAt  time.Time         `json:"start_at,omitzero"`
	EndAt    time.Time         `json:"end_at,omitzero"` // no occurrence from then on
	Body     json.RawMessage   `json:"body"`
	Priority string            `json:"priority,omitzero"` // empty: the topic's
	Headers  map[string]string `json:"headers,omitzero"`
	Jitter   Duration          `json:"jitter"`
	Missed   schedule.Missed   `json:"missed"`
	MaxLate  Duration          `json:"max_late,omitzero"` // 0: see schedule.Policy
	Overlap  Overlap           `json:"overlap"`
	State    TopicState        `json:"state"` // active or paused

	PausedUntil time.Time `json:"paused_until,omitzero"` // a pause ends by itself; zero: it does not

	// Where its cursor and its occurrences are, chosen when it is made.
	Shard     string    `json:"shard"`
	Revision  int64     `json:"revision,omitzero"` // of this definition: the cursor refuses others
	MadeBy    uint64    `json:"made_by,omitzero"`  // the token; 0: a user of the admin, or the command line
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// IsPaused reports whether no occurrence is pushed at an instant.
func (s *Schedule) IsPaused(at time.Time) bool {
	return s.State == TopicPaused && (s.PausedUntil.IsZero() || s.PausedUntil.After(at))
}

// Overlap is what happens to an occurrence while the one before it has not ended.
type Overlap string

// What happens to an occurrence then.
const (
	OverlapSkip    Overlap = "skip"    // it is left out
	OverlapReplace Overlap = "replace" // the one before is deleted, or if it runs, not retried
	OverlapAllow   Overlap = "allow"   // it is pushed
)

// ScheduleEdit returns the new definition; nil deletes it. was is nil if there is none. ErrUnchanged as an error
// changes nothing.
type ScheduleEdit func(was *Schedule) (*Schedule, error)

// PlaceSchedule tells the schedule's shard a change before it is committed. Its error ends the change.
type PlaceSchedule func(ctx context.Context, was, now *Schedule) error

// Bounds of a schedule's fields.
const (
	maxEvery     = 366 * 24 * time.Hour
	maxJitter    = 24 * time.Hour
	maxLateBound = 31 * 24 * time.Hour
)

// NewSchedule returns a schedule with every default. The topic, the times and the body are missing.
func NewSchedule(name string) Schedule {
	return Schedule{
		Name: name, TimeZone: "UTC", Missed: schedule.MissedLast, Overlap: OverlapSkip, State: TopicActive,
	}
}

// Rule returns when the occurrences are. Errors: *FieldError.
func (s *Schedule) Rule() (*calendar.Rule, error) {
	if (s.Cron == "") == (s.Every == 0) {
		return nil, Malformed("cron", "field.cron_or_every")
	}
	var rule *calendar.Rule
	var err error
	if s.Cron != "" {
		rule, err = calendar.Parse(s.Cron, s.TimeZone)
	} else {
		rule, err = calendar.Every(s.Every.Std(), s.anchor())
	}
	if err != nil {
		return nil, s.ruleError(err)
	}
	return rule.Within(s.StartAt, s.EndAt), nil
}

// ruleError returns the error of a rule, which is that of the zone if it is not about the expression.
func (s *Schedule) ruleError(err error) error {
	field := "time_zone"
	if _, ok := errors.AsType[*calendar.Error](err); ok {
		field = "cron"
	} else if s.Cron == "" {
		field = "every"
	}
	return OutOfRange(field, "field.rule", err.Error())
}

func (s *Schedule) anchor() time.Time {
	if s.StartAt.IsZero() {
		return s.CreatedAt
	}
	return s.StartAt
}

// Policy returns what decides about the occurrences. Errors: *FieldError.
func (s *Schedule) Policy() (*schedule.Policy, error) {
	rule, err := s.Rule()
	if err != nil {
		return nil, err
	}
	return &schedule.Policy{
		Name: s.Name, Rule: rule, Missed: s.Missed, MaxLate: s.MaxLate.Std(), Jitter: s.Jitter.Std(),
	}, nil
}

// Validate checks every field that does not depend on the topic. Errors: *FieldError, joined.
func (s *Schedule) Validate() error {
	rule, err := s.Rule()
	return errors.Join(
		validName(s.Name), validTopicOf(s.Topic), err, s.validBounds(), s.validBody(),
		oneOf("priority", s.Priority, "", "high", "normal", "low"), ValidHeaders(s.Headers),
		between("every", s.Every, 0, maxEvery), s.validJitter(rule), between("max_late", s.MaxLate, 0, maxLateBound),
		oneOf("missed", s.Missed, schedule.MissedLast, schedule.MissedSkip, schedule.MissedAll),
		ValidOverlap(s.Overlap),
		oneOf("state", s.State, TopicActive, TopicPaused),
	)
}

// ValidOverlap refuses an unknown overlap.
func ValidOverlap(o Overlap) error {
	return oneOf("overlap", o, OverlapSkip, OverlapReplace, OverlapAllow)
}

func validTopicOf(name string) error {
	if !topicName.MatchString(name) {
		return Malformed("topic", "field.name", name)
	}
	return nil
}

func (s *Schedule) validBounds() error {
	if !s.EndAt.IsZero() && !s.EndAt.After(s.anchor()) {
		return OutOfRange("end_at", "field.end_at")
	}
	if s.Every > 0 && !s.StartAt.Truncate(time.Second).Equal(s.StartAt) {
		return OutOfRange("start_at", "field.whole_seconds")
	}
	return nil
}

func (s *Schedule) validBody() error {
	if !json.Valid(s.Body) || !utf8.Valid(s.Body) {
		return Malformed("body", "field.body_required")
	}
	return nil
}

// validJitter refuses a jitter that could change the order of two occurrences. The distance from one to the next is
// that of the first two from the schedule's beginning on.
func (s *Schedule) validJitter(rule *calendar.Rule) error {
	if rule == nil || s.Jitter == 0 {
		return between("jitter", s.Jitter, 0, maxJitter)
	}
	most := maxJitter
	if two := rule.Between(s.anchor(), s.anchor().Add(2*maxEvery), 2); len(two) == 2 {
		most = min(most, two[1].Sub(two[0])-time.Millisecond)
	}
	return between("jitter", s.Jitter, 0, most)
}
