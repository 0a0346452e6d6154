package server

import (
	"errors"
	"maps"
	"math"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

const maxContentTypeBytes = 127

// jobID is the id of a push.
type jobID string

// UnmarshalText checks the id.
func (i *jobID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return badValue("must not be empty; omit it to generate one")
	}
	if err := store.CheckID(string(text)); err != nil {
		return badValue("%v", err)
	}
	*i = jobID(text)
	return nil
}

func checkID(field, id string) error {
	if err := store.CheckID(id); err != nil {
		return badField(field, "%v", err)
	}
	return nil
}

// Durations are Go durations in text, or numbers of seconds. Each kind has its own limits.
type (
	delay     time.Duration
	ttr       time.Duration // a push is also checked against its topic's limit
	ttl       time.Duration
	retryWait time.Duration
	pullWait  time.Duration
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

func durationBetween(v jsontext.Value, low, high time.Duration) (time.Duration, error) {
	if kind := v.Kind(); kind != jsontext.KindNumber && kind != jsontext.KindString {
		return 0, badValue(`must be a duration like "30m" or a number of seconds, got %s`, kindName(kind))
	}
	var d registry.Duration
	err := d.UnmarshalJSON(v)
	switch {
	case errors.Is(err, registry.ErrTooLarge), err == nil && (d.Std() < low || d.Std() > high):
		return 0, rangeError("must be between %s and %s, got %s", low, limitText(high), clip(string(v)))
	case err != nil:
		return 0, badValue("%v", err)
	}
	return d.Std(), nil
}

func limitText(d time.Duration) string {
	if d == store.MaxDelay {
		return "10 years"
	}
	return d.String()
}

// moment is an instant: RFC 3339 in text, or Unix milliseconds.
type moment time.Time

// UnmarshalJSON rounds up, because a job must never be early.
func (m *moment) UnmarshalJSON(v []byte) error {
	t, err := parseInstant(v)
	if err != nil {
		return err
	}
	if time.Until(t) > store.MaxDelay { // the queue checks it again by Redis's clock
		return rangeError("must be at most 10 years ahead")
	}
	if t.Year() < 1 {
		t = time.Unix(0, 0) // the exact time in the past does not matter
	}
	if down := t.Truncate(time.Millisecond); !down.Equal(t) {
		t = down.Add(time.Millisecond)
	}
	*m = moment(t)
	return nil
}

func parseInstant(v jsontext.Value) (time.Time, error) {
	switch v.Kind() {
	case jsontext.KindNumber:
		ms, err := parseInteger(string(v))
		return time.UnixMilli(ms), err
	case jsontext.KindString:
		text, _ := jsontext.AppendUnquote(nil, v)
		t, err := time.Parse(time.RFC3339Nano, string(text))
		if err != nil {
			return t, badValue("must be an instant like 2030-01-31T08:00:00Z, got %q", clip(string(text)))
		}
		return t, nil
	}
	return time.Time{}, badValue("must be an RFC 3339 string or Unix milliseconds, got %s", kindName(v.Kind()))
}

// integer also accepts 3.0 and 3e2, since JSON has only one kind of number.
type integer int64

func (i *integer) UnmarshalJSON(v []byte) error {
	if kind := jsontext.Value(v).Kind(); kind != jsontext.KindNumber {
		return badValue("must be an integer, got %s", kindName(kind))
	}
	n, err := parseInteger(string(v))
	*i = integer(n)
	return err
}

func parseInteger(number string) (int64, error) {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	switch {
	case math.IsInf(f, 0) || math.Abs(f) >= math.MaxInt64:
		return 0, rangeError("%s is out of range", clip(number))
	case err != nil || f != math.Trunc(f):
		return 0, badValue("must be an integer, got %q", clip(number))
	}
	return int64(f), nil
}

// between checks the value of a field.
func (i integer) between(field string, low, high int) (int, error) {
	if i < integer(low) || i > integer(high) {
		return 0, outOfRange(field, "must be between %d and %d, got %d", low, high, i)
	}
	return int(i), nil
}

// limitOf reads the query parameter limit.
func (c *call) limitOf(standard, most int) (int, error) {
	if !c.query.Has("limit") {
		return standard, nil
	}
	n, err := parseInteger(c.query.Get("limit"))
	if err != nil {
		return 0, problemOf(err).in("limit")
	}
	return integer(n).between("limit", 1, most)
}

// Fields with one of several values.
type (
	priority    store.Priority
	onDuplicate store.OnDuplicate
	order       store.Order
)

var (
	priorities   = map[string]store.Priority{"high": store.High, "normal": store.Normal, "low": store.Low}
	onDuplicates = map[string]store.OnDuplicate{"keep": store.Keep, "replace": store.Replace, "error": store.Refuse}
	orders       = map[string]store.Order{"fair": store.Fair, "listed": store.Listed}
)

func (p *priority) UnmarshalText(text []byte) error {
	return oneOf(text, priorities, (*store.Priority)(p))
}

func (o *onDuplicate) UnmarshalText(text []byte) error {
	return oneOf(text, onDuplicates, (*store.OnDuplicate)(o))
}

func (o *order) UnmarshalText(text []byte) error { return oneOf(text, orders, (*store.Order)(o)) }

func oneOf[T any](text []byte, words map[string]T, value *T) error {
	v, known := words[string(text)]
	if !known {
		known := strings.Join(slices.Sorted(maps.Keys(words)), ", ")
		return badValue("must be one of %s, got %q", known, clip(string(text)))
	}
	*value = v
	return nil
}

// parseContentType validates the media type of a raw body. The default, application/json, is not stored.
func parseContentType(value string) (string, error) {
	value = strings.TrimSpace(value)
	if value == "" || value == "application/json" {
		return "", nil
	}
	const field = "Content-Type"
	if len(value) > maxContentTypeBytes {
		return "", badField(field, "%d bytes; the limit is %d", len(value), maxContentTypeBytes)
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] >= 0x7f {
			return "", badField(field, "must be printable ASCII")
		}
	}
	kind, _, err := mime.ParseMediaType(value)
	if err != nil || !strings.Contains(kind, "/") {
		return "", badField(field, "must be a media type like text/plain, got %q", clip(value))
	}
	return value, nil
}
