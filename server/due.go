package server

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule/calendar"
)

// dueRequest has the fields of a request that say when jobs are due.
type dueRequest struct {
	Delay    field[delay]    `json:"delay"`
	DueAt    field[dueTime]  `json:"due_at"`
	TimeZone field[timeZone] `json:"time_zone"` // of a local DueAt
}

// dueTime is an instant or, before checkTime, a local time.
type dueTime struct {
	moment
	local   time.Time // as if it were of UTC
	isLocal bool
}

// UnmarshalJSON reads the time.
func (d *dueTime) UnmarshalJSON(v []byte) error {
	if jsontext.Value(v).Kind() == jsontext.KindString {
		text, _ := jsontext.AppendUnquote(nil, v)
		if d.local, d.isLocal = registry.ParseLocal(string(text)); d.isLocal {
			return nil
		}
	}
	return d.moment.UnmarshalJSON(v)
}

type timeZone struct{ *time.Location }

// UnmarshalText reads the IANA name of a time zone.
func (z *timeZone) UnmarshalText(text []byte) (err error) {
	if z.Location, err = calendar.Zone(string(text)); err != nil {
		return rangeError("%v", err)
	}
	return nil
}

// checkTime checks the fields against each other, and makes a local time an instant.
func (r *dueRequest) checkTime() error {
	due := &r.DueAt.value
	switch {
	case r.Delay.given && r.DueAt.given:
		return badField("due_at", "must not be combined with delay")
	case due.isLocal && !r.TimeZone.given:
		return outOfRange("due_at", "must end with Z or an offset from UTC, such as 2030-01-31T08:00:00Z; a local time "+
			"needs time_zone")
	case !due.isLocal && r.TimeZone.given:
		return badField("time_zone", "only with a local time as due_at, such as 2030-01-31T08:00:00")
	case !due.isLocal:
		return nil
	}
	at, err := checkedMoment(calendar.At(due.local, r.TimeZone.value.Location))
	if err != nil {
		return problemOf(err).in("due_at")
	}
	due.moment = at
	return nil
}
