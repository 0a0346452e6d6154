package registry

import (
	"errors"
	"strings"

	"github.com/wakecall/wakecall/internal/log/printable"
)

// DecodeSchedule decodes a schedule from JSON on top of the defaults. A null field counts as missing, but for the body.
// It is validated when it is stored, because `every` may count from its creation. Errors are joined *FieldErrors.
func DecodeSchedule(name string, data []byte) (*Schedule, error) {
	members, err := objectMembers(data)
	if err != nil {
		return nil, errors.Join(ValidTopicName(name), err)
	}
	s := NewSchedule(name)
	fields := s.fields()
	errs := []error{ValidTopicName(name)}
	for _, m := range members {
		decode, ok := fields[m.name]
		switch {
		case m.name == "body":
			s.Body = []byte(m.value)
		case !ok:
			errs = append(errs, Malformed(printable.Clip(m.name, 64), "field.unknown", scheduleFieldNames))
		default:
			errs = append(errs, m.decode(decode))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &s, nil
}

// scheduleFieldNames are the fields that a client may set.
var scheduleFieldNames = strings.Join([]string{
	"topic", "cron", "every", "time_zone", "start_at", "end_at", "body", "priority", "headers", "jitter", "missed",
	"max_late", "overlap", "state", "paused_until",
}, ", ")

// fields returns the fields of a schedule by their exact names, without the body.
func (s *Schedule) fields() map[string]field {
	const instant = "kind.instant"
	fields := map[string]field{
		"topic":        {into: value(&s.Topic), kind: aText},
		"cron":         {into: value(&s.Cron), kind: aText},
		"every":        {into: value(&s.Every), kind: aDuration},
		"time_zone":    {into: value(&s.TimeZone), kind: aText},
		"start_at":     {into: value(&s.StartAt), kind: instant},
		"end_at":       {into: value(&s.EndAt), kind: instant},
		"priority":     {into: value(&s.Priority), kind: aText},
		"headers":      {into: value(&s.Headers), kind: aTextTable, secret: true},
		"jitter":       {into: value(&s.Jitter), kind: aDuration},
		"missed":       {into: value(&s.Missed), kind: aText},
		"max_late":     {into: value(&s.MaxLate), kind: aDuration},
		"overlap":      {into: value(&s.Overlap), kind: aText},
		"state":        {into: value(&s.State), kind: aText},
		"paused_until": {into: value(&s.PausedUntil), kind: instant},
		"name": {into: func(b []byte) error {
			name := s.Name
			if err := value(&name)(b); err != nil || name == s.Name {
				return err
			}
			return Malformed("name", "field.other_schedule", name, s.Name)
		}, kind: aText},
	}
	// The API returns these fields, so it also accepts them. They change nothing.
	for _, told := range []string{"shard", "created_at", "updated_at", "next", "last", "left_out", "unavailable"} {
		fields[told] = field{into: func([]byte) error { return nil }}
	}
	return fields
}
