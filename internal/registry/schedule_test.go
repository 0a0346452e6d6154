package registry

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSchedulesAreValidated(t *testing.T) {
	good := func() Schedule {
		s := NewSchedule("report")
		s.Topic, s.Cron, s.Body, s.CreatedAt = "reports", "0 8 * * 1-5", []byte(`{}`), time.Now()
		return s
	}
	for name, c := range map[string]struct {
		change      func(*Schedule)
		field, says string // empty: valid
	}{
		"as it is":        {func(*Schedule) {}, "", ""},
		"every":           {func(s *Schedule) { s.Cron, s.Every = "", Duration(time.Minute) }, "", ""},
		"both":            {func(s *Schedule) { s.Every = Duration(time.Minute) }, "cron", "exactly one"},
		"neither":         {func(s *Schedule) { s.Cron = "" }, "cron", "exactly one"},
		"half a second":   {func(s *Schedule) { s.Cron, s.Every = "", Duration(time.Second/2) }, "every", "1s"},
		"a wrong field":   {func(s *Schedule) { s.Cron = "0 25 * * *" }, "cron", "column 3"},
		"an unknown zone": {func(s *Schedule) { s.TimeZone = "Mars/Base" }, "time_zone", "Mars/Base"},
		"a name":          {func(s *Schedule) { s.Name = "A b" }, "name", "not a valid name"},
		"a topic":         {func(s *Schedule) { s.Topic = "shop.*" }, "topic", "not a valid name"},
		"an early end":    {func(s *Schedule) { s.EndAt = s.CreatedAt }, "end_at", "after"},
		"no body":         {func(s *Schedule) { s.Body = nil }, "body", "required"},
		"a long jitter": {func(s *Schedule) { s.Cron, s.Jitter = "*/5 * * * *", Duration(5*time.Minute) },
			"jitter", "4m59"},
		"overlap":  {func(s *Schedule) { s.Overlap = "queue" }, "overlap", "replace"},
		"missed":   {func(s *Schedule) { s.Missed = "some" }, "missed", "last"},
		"a header": {func(s *Schedule) { s.Headers = map[string]string{"Wakecall-Id": "1"} }, "headers", "set by"},
		"offline":  {func(s *Schedule) { s.State = TopicOffline }, "state", "paused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			c.change(&s)
			err := s.Validate()
			var field *FieldError
			switch {
			case c.field == "" && err != nil:
				t.Error(err)
			case c.field != "" && (!errors.As(err, &field) || field.Field != c.field || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v; want %s: …%s…", err, c.field, c.says)
			}
		})
	}
}
