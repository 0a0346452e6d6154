package registry

import (
	"encoding/json"
	"time"
)

// DecodeSchedule decodes a schedule from JSON on top of the defaults. A null field counts as missing, but for the body.
// It is validated when it is stored, because `every` may count from its creation. Errors are joined *FieldErrors.
func DecodeSchedule(name string, data []byte) (*Schedule, error) {
	s := NewSchedule(name)
	err := decodeObject(name, data, s.fields(), func() error { return ValidTopicName(name) })
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// fields returns the fields of a schedule with their exact names.
func (s *Schedule) fields() []field {
	fields := []field{
		{name: "topic", into: value(&s.Topic), kind: aText},
		{name: "cron", into: value(&s.Cron), kind: aText},
		{name: "every", into: value(&s.Every), kind: aDuration},
		{name: "time_zone", into: value(&s.TimeZone), kind: aText},
		{name: "start_at", into: instant(&s.StartAt), kind: anInstant},
		{name: "end_at", into: instant(&s.EndAt), kind: anInstant},
		{name: "body", into: value(&s.Body), null: true},
		{name: "priority", into: value(&s.Priority), kind: aText},
		{name: "headers", into: headersInto(&s.Headers), kind: aTextTable, secret: true},
		{name: "jitter", into: value(&s.Jitter), kind: aDuration},
		{name: "missed", into: value(&s.Missed), kind: aText},
		{name: "max_late", into: value(&s.MaxLate), kind: aDuration},
		{name: "overlap", into: value(&s.Overlap), kind: aText},
		{name: "state", into: value(&s.State), kind: aText},
		{name: "paused_until", into: instant(&s.PausedUntil), kind: anInstant},
		{name: "name", into: isName(s.Name), kind: aText, told: true},
	}
	for _, name := range toldOfSchedules {
		fields = append(fields, field{name: name, into: func([]byte) error { return nil }, told: true})
	}
	return fields
}

// toldOfSchedules are the fields that only the server sets, and tells.
var toldOfSchedules = []string{"shard", "created_at", "updated_at", "next", "last", "left_out", "unavailable"}

func instant(to *time.Time) func([]byte) error {
	return func(b []byte) error {
		text := string(b)
		_ = json.Unmarshal(b, &text) // a number stays as it is
		at, err := ParseInstant(text)
		*to = at.UTC()
		return err
	}
}

// Fields returns the fields of the definition as JSON, without those that the server sets.
func (s *Schedule) Fields() map[string]json.RawMessage {
	return fieldsOf(s, append([]string{"name", "revision", "made_by"}, toldOfSchedules...)...)
}
