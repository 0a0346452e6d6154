package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodeSchedule decodes a schedule from JSON on top of the defaults. A null field counts as missing, but for the body.
// It is validated when it is stored, because `every` may count from its creation. Errors are joined *FieldErrors.
func DecodeSchedule(name string, data []byte) (*Schedule, error) {
	members, err := objectMembers(data)
	if err != nil {
		return nil, errors.Join(ValidTopicName(name), err)
	}
	s := NewSchedule(name)
	errs := append(decodeMembers(members, s.fields(), scheduleFieldNames), ValidTopicName(name))
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

// fields returns the fields of a schedule by their exact names.
func (s *Schedule) fields() map[string]field {
	const anInstant = "kind.instant"
	fields := map[string]field{
		"topic":        {into: value(&s.Topic), kind: aText},
		"cron":         {into: value(&s.Cron), kind: aText},
		"every":        {into: value(&s.Every), kind: aDuration},
		"time_zone":    {into: value(&s.TimeZone), kind: aText},
		"start_at":     {into: instant(&s.StartAt), kind: anInstant},
		"end_at":       {into: instant(&s.EndAt), kind: anInstant},
		"body":         {into: anyJSON(&s.Body), null: true},
		"priority":     {into: value(&s.Priority), kind: aText},
		"headers":      {into: headersInto(&s.Headers), kind: aTextTable, secret: true},
		"jitter":       {into: value(&s.Jitter), kind: aDuration},
		"missed":       {into: value(&s.Missed), kind: aText},
		"max_late":     {into: value(&s.MaxLate), kind: aDuration},
		"overlap":      {into: value(&s.Overlap), kind: aText},
		"state":        {into: value(&s.State), kind: aText},
		"paused_until": {into: instant(&s.PausedUntil), kind: anInstant},
		"name":         {into: isName(s.Name, s.otherName), kind: aText},
	}
	// The API returns these fields, so it also accepts them. They change nothing.
	for _, told := range toldOfSchedules {
		fields[told] = field{into: func([]byte) error { return nil }}
	}
	return fields
}

// toldOfSchedules are the fields that only the server sets, and tells.
var toldOfSchedules = []string{"shard", "created_at", "updated_at", "next", "last", "left_out", "unavailable"}

func (s *Schedule) otherName(name string) error {
	return Malformed("name", "field.other_schedule", name, s.Name)
}

func instant(to *time.Time) func([]byte) error {
	return func(b []byte) (err error) {
		text := string(b)
		if jsontext.Value(b).Kind() == '"' {
			if err := json.Unmarshal(b, &text); err != nil {
				return err
			}
		}
		*to, err = ParseInstant(text)
		return err
	}
}

func anyJSON(to *json.RawMessage) func([]byte) error {
	return func(b []byte) error {
		*to = b
		return nil
	}
}

// Fields returns the fields of the definition as JSON, without those that the server sets.
func (s *Schedule) Fields() (fields map[string]json.RawMessage) {
	c := *s
	c.StartAt, c.EndAt, c.PausedUntil = s.StartAt.UTC(), s.EndAt.UTC(), s.PausedUntil.UTC()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(c) // cannot fail: JSON can represent every value
	_ = json.Unmarshal(b.Bytes(), &fields)
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool {
		return slices.Contains([]string{"name", "revision", "made_by"}, name) || slices.Contains(toldOfSchedules, name)
	})
	return fields
}

// DifferingScheduleFields returns the names of the fields in which two definitions differ, sorted. Of bodies it
// compares the values, not how they are written.
func DifferingScheduleFields(a, b *Schedule) []string {
	ours, theirs := a.Fields(), b.Fields()
	for _, fields := range []map[string]json.RawMessage{ours, theirs} {
		if body, err := decoded(fields["body"]); err == nil {
			fields["body"] = json.RawMessage(encoded(body))
		}
	}
	return differing(ours, theirs)
}
