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

// DecodeSchedule decodes a schedule from JSON on top of the defaults, and validates it. A null field counts as missing,
// except the body. Errors are joined *FieldErrors.
func DecodeSchedule(name string, data []byte) (*Schedule, error) {
	members, err := objectMembers(data)
	if err != nil {
		return nil, errors.Join(validName(name), err)
	}
	s := NewSchedule(name)
	errs := decodeMembers(members, s.fields(), scheduleFieldNames)
	if err := errors.Join(append(errs, s.Validate())...); err != nil {
		return nil, err
	}
	return &s, nil
}

// scheduleFieldNames are the fields that a client may set.
var scheduleFieldNames = strings.Join([]string{
	"topic", "cron", "every", "time_zone", "start_at", "end_at", "body", "priority", "headers", "jitter", "missed",
	"max_late", "overlap", "state",
}, ", ")

// fields returns the fields of a schedule by their exact names.
func (s *Schedule) fields() map[string]field {
	fields := map[string]field{
		"topic":     {into: value(&s.Topic), kind: aText},
		"cron":      {into: value(&s.Cron), kind: aText},
		"every":     {into: value(&s.Every), kind: aDuration},
		"time_zone": {into: value(&s.TimeZone), kind: aText},
		"start_at":  {into: instant(&s.StartAt), kind: "kind.instant"},
		"end_at":    {into: instant(&s.EndAt), kind: "kind.instant"},
		"body":      {into: anyJSON(&s.Body), null: true},
		"priority":  {into: value(&s.Priority), kind: aText},
		"headers":   {into: headersInto(&s.Headers), kind: aTextTable, secret: true},
		"jitter":    {into: value(&s.Jitter), kind: aDuration},
		"missed":    {into: value(&s.Missed), kind: aText},
		"max_late":  {into: value(&s.MaxLate), kind: aDuration},
		"overlap":   {into: value(&s.Overlap), kind: aText},
		"state":     {into: value(&s.State), kind: aText},
		"name":      {into: isName(s.Name), kind: aText},
	}
	// The API returns these fields, so it also accepts them. They change nothing.
	for _, told := range toldOfSchedules {
		fields[told] = field{into: func([]byte) error { return nil }}
	}
	return fields
}

// toldOfSchedules are the fields that only the server sets.
var toldOfSchedules = []string{
	"paused_until", "shard", "revision", "made_by", "created_at", "updated_at", "next", "last", "left_out", "unavailable",
}

func instant(to *time.Time) func([]byte) error {
	return func(b []byte) error {
		text := string(b)
		if jsontext.Value(b).Kind() == '"' {
			if err := json.Unmarshal(b, &text); err != nil {
				return err
			}
		}
		t, err := ParseInstant(text)
		*to = t.UTC()
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
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // cannot fail: JSON can represent every value
	_ = json.Unmarshal(b.Bytes(), &fields)
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool {
		return name == "name" || slices.Contains(toldOfSchedules, name)
	})
	return fields
}

// DifferingScheduleFields returns the names of the fields in which two definitions differ, sorted.
func DifferingScheduleFields(a, b *Schedule) []string { return differing(a.Fields(), b.Fields()) }
