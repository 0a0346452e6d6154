package server

import (
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Durations are Go durations in text, or numbers of seconds. Each kind has its own limits.
type (
	delay     time.Duration
	ttr       time.Duration // a push is also checked against its topic's limit
	ttl       time.Duration
	retryWait time.Duration
	pullWait  time.Duration
	shift     time.Duration
)

// UnmarshalJSON rounds up, because a job must never be early.
func (d *delay) UnmarshalJSON(v []byte) error {
	read, err := durationBetween(v, 0, store.MaxDelay)
	if rest := read % time.Millisecond; rest != 0 {
		read += time.Millisecond - rest
	}
	*d = delay(read)
	return err
}

func (d *ttr) UnmarshalJSON(v []byte) error {
	read, err := durationBetween(v, registry.MinTTR, registry.MaxPullTTR)
	*d = ttr(read.Truncate(time.Millisecond))
	return err
}

func (d *ttl) UnmarshalJSON(v []byte) error {
	read, err := durationBetween(v, time.Millisecond, store.MaxDelay)
	*d = ttl(read.Truncate(time.Millisecond))
	return err
}

func (d *retryWait) UnmarshalJSON(v []byte) error {
	read, err := durationBetween(v, 0, registry.MaxRetryWait)
	*d = retryWait(read)
	return err
}

func (d *pullWait) UnmarshalJSON(v []byte) error {
	read, err := durationBetween(v, 0, maxWait)
	*d = pullWait(read)
	return err
}

func (s *shift) UnmarshalJSON(v []byte) error {
	read, err := durationBetween(v, -store.MaxDelay, store.MaxDelay)
	*s = shift(read)
	return err
}

func durationBetween(v jsontext.Value, low, high time.Duration) (time.Duration, error) {
	if kind := v.Kind(); kind != jsontext.KindNumber && kind != jsontext.KindString {
		return 0, badValue(`must be a duration like "30m" or a number of seconds, got %s`, kindName(kind))
	}
	var d registry.Duration
	err := d.UnmarshalJSON(v)
	switch {
	case errors.Is(err, registry.ErrTooLarge), err == nil && (d.Std() < low || d.Std() > high):
		return 0, rangeError("must be between %s and %s, got %s", limitText(low), limitText(high), clip(string(v)))
	case err != nil:
		return 0, badValue("%v", err)
	}
	return d.Std(), nil
}

func limitText(d time.Duration) string {
	switch d {
	case store.MaxDelay:
		return "10 years"
	case -store.MaxDelay:
		return "-10 years"
	}
	return d.String()
}

// moment is an instant: RFC 3339 in text, or Unix milliseconds.
type moment time.Time

// UnmarshalJSON rounds up, because a job must never be early.
func (m *moment) UnmarshalJSON(v []byte) error {
	t, err := parseInstant(v)
	if err == nil {
		*m, err = checkedMoment(t)
	}
	return err
}

// pauseEnd is when a pause ends: an instant, or a duration in text.
type pauseEnd struct {
	moment
	in time.Duration
}

// UnmarshalJSON reads the end.
func (e *pauseEnd) UnmarshalJSON(v []byte) error {
	if jsontext.Value(v).Kind() == jsontext.KindString {
		var d registry.Duration
		if d.UnmarshalJSON(v) == nil {
			read, err := durationBetween(v, time.Millisecond, store.MaxDelay)
			e.in = read
			return err
		}
	}
	return e.moment.UnmarshalJSON(v)
}

// after returns the end, which must be after now.
func (e *pauseEnd) after(now time.Time) (time.Time, error) {
	at := time.Time(e.moment)
	if e.in > 0 {
		at = store.CeilMilli(now.Add(e.in))
	}
	if !at.After(now) {
		return at, outOfRange("until", "must be in the future")
	}
	return at, nil
}

func checkedMoment(t time.Time) (moment, error) {
	switch {
	case registry.IsTooEarly(t):
		return moment{}, rangeError("must not be before 2000")
	case time.Until(t) > store.MaxDelay: // the queue checks it again by Redis's clock
		return moment{}, rangeError("must be at most 10 years ahead")
	}
	return moment(store.CeilMilli(t)), nil
}

func parseInstant(v jsontext.Value) (time.Time, error) {
	var text string
	switch v.Kind() {
	case jsontext.KindNumber:
		ms, err := parseInteger(string(v))
		if err != nil {
			return time.Time{}, err
		}
		text = strconv.FormatInt(ms, 10)
	case jsontext.KindString:
		unquoted, _ := jsontext.AppendUnquote(nil, v)
		text = string(unquoted)
	default:
		return time.Time{}, badValue("must be an RFC 3339 string or Unix milliseconds, got %s", kindName(v.Kind()))
	}
	t, err := registry.ParseInstant(text)
	switch {
	case errors.Is(err, registry.ErrNoInstant):
		return t, badValue("%v, got %q", err, clip(text))
	case err != nil:
		return t, rangeError("%v, got %q", err, clip(text))
	}
	return t, nil
}
