package server

import (
	"errors"
	"math"
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Limits of a push's fields.
const (
	minTTR              = 100 * time.Millisecond
	maxContentTypeBytes = 127
)

func checkID(field, id string) error {
	if err := queue.CheckID(id); err != nil {
		return badField(field, "%s", err)
	}
	return nil
}

// idOf decodes a value that must be the id of a push.
func idOf(field string, v jsontext.Value) (string, error) {
	id, err := textOf(field, v)
	if err == nil && id == "" {
		return "", badField(field, "empty; leave it out to have one made")
	}
	if err == nil {
		err = checkID(field, id)
	}
	return id, err
}

// durationOf decodes a value that must be a Go duration in text or a number of seconds.
func durationOf(field string, v jsontext.Value) (time.Duration, error) {
	if kind := v.Kind(); kind != '0' && kind != '"' {
		return 0, wrongType(field, `a duration like "30m" or a number of seconds`, v)
	}
	var d registry.Duration
	err := d.UnmarshalJSON(v)
	switch {
	case errors.Is(err, registry.ErrTooLarge):
		return 0, outOfRange(field, "%s is too long", clip(string(v)))
	case err != nil:
		return 0, badField(field, "%s", err)
	}
	return d.Std(), nil
}

func delayOf(field string, v jsontext.Value) (time.Duration, error) {
	d, err := durationOf(field, v)
	switch {
	case err != nil:
		return 0, err
	case d < 0:
		return 0, outOfRange(field, "%s is negative; 0s is now", d)
	case d > queue.MaxDelay:
		return 0, outOfRange(field, "more than 10 years")
	}
	if rest := d % time.Millisecond; rest != 0 {
		d += time.Millisecond - rest // never early
	}
	return d, nil
}

// ttrOf decodes a value that must be a TTR, up to most.
func ttrOf(field string, v jsontext.Value, most time.Duration) (time.Duration, error) {
	d, err := durationOf(field, v)
	if err == nil && (d < minTTR || d > most) {
		err = outOfRange(field, "%s is not between %s and %s", d, minTTR, most)
	}
	return d.Truncate(time.Millisecond), err
}

// instantOf decodes a value that must be RFC 3339 in text or Unix milliseconds.
func instantOf(field string, v jsontext.Value) (time.Time, error) {
	if v.Kind() == '0' {
		ms, err := parseInteger(field, string(v))
		if err != nil {
			return time.Time{}, err
		}
		return checkInstant(field, time.UnixMilli(ms))
	}
	if v.Kind() != '"' {
		return time.Time{}, wrongType(field, "an RFC 3339 text or Unix milliseconds", v)
	}
	text, err := textOf(field, v)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, badField(field, "%q is not an instant; write it like 2030-01-31T08:00:00Z", clip(text))
	}
	return checkInstant(field, t)
}

// checkInstant limits a due time. The queue checks the limit again by Redis's clock.
func checkInstant(field string, t time.Time) (time.Time, error) {
	if time.Until(t) > queue.MaxDelay {
		return time.Time{}, outOfRange(field, "more than 10 years ahead")
	}
	if t.Year() < 1 {
		t = time.Unix(0, 0) // any time in the past will do
	}
	return ceilMillis(t), nil
}

// ceilMillis rounds up to milliseconds, since a job must never be early.
func ceilMillis(t time.Time) time.Time {
	down := t.Truncate(time.Millisecond)
	if down.Equal(t) {
		return t
	}
	return down.Add(time.Millisecond)
}

// integerOf decodes a value that must be an integer.
func integerOf(field string, v jsontext.Value, low, high int) (int, error) {
	if v.Kind() != '0' {
		return 0, wrongType(field, "a number", v)
	}
	return parseBounded(field, string(v), low, high)
}

// parseInteger accepts 3, 3.0 and 3e2: JSON has one kind of number.
func parseInteger(field, number string) (int64, error) {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	switch {
	case math.IsInf(f, 0) || math.Abs(f) >= math.MaxInt64:
		return 0, outOfRange(field, "%s is too large", clip(number))
	case err != nil || f != math.Trunc(f):
		return 0, badField(field, "expected an integer, got %s", clip(number))
	}
	return int64(f), nil
}

func parseBounded(field, number string, low, high int) (int, error) {
	n, err := parseInteger(field, number)
	if err != nil {
		return 0, err
	}
	if n < int64(low) || n > int64(high) {
		return 0, outOfRange(field, "%d is not between %d and %d", n, low, high)
	}
	return int(n), nil
}

// The meanings of texts, for oneOf.
var (
	priorities  = map[string]queue.Priority{"high": queue.High, "normal": queue.Normal, "low": queue.Low}
	onDuplicate = map[string]queue.OnDuplicate{"keep": queue.Keep, "replace": queue.Replace, "error": queue.Refuse}
	orders      = map[string]queue.Order{"fair": queue.Fair, "listed": queue.Listed}
)

// oneOf decodes a value that must be one of some texts; names lists them.
func oneOf[T any](field string, v jsontext.Value, meaning map[string]T, names string) (T, error) {
	text, err := textOf(field, v)
	value, known := meaning[text]
	if err == nil && !known {
		err = badField(field, "%q is not %s", clip(text), names)
	}
	return value, err
}

// parseContentType validates the media type of a raw body. The default, application/json, is not stored.
func parseContentType(value string) (string, error) {
	value = strings.TrimSpace(value)
	if value == "" || value == "application/json" {
		return "", nil
	}
	if len(value) > maxContentTypeBytes {
		return "", badField("Content-Type", "%d bytes; the limit is %d", len(value), maxContentTypeBytes)
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] >= 0x7f {
			return "", badField("Content-Type", "only printable ASCII is allowed")
		}
	}
	kind, _, err := mime.ParseMediaType(value)
	if err != nil || !strings.Contains(kind, "/") {
		return "", badField("Content-Type", "%q is not a media type like text/plain", clip(value))
	}
	return value, nil
}

// ttlOf decodes a value that must be a time to live.
func ttlOf(field string, v jsontext.Value) (time.Duration, error) {
	d, err := durationOf(field, v)
	if err == nil && (d < time.Millisecond || d > queue.MaxDelay) {
		err = outOfRange(field, "%s is not between 1ms and 10 years", d)
	}
	return d.Truncate(time.Millisecond), err
}

// headersOf decodes a value that must be headers of one job, with the limits for a topic's headers.
func headersOf(field string, v jsontext.Value) (map[string]string, error) {
	headers := map[string]string{}
	if v.Kind() != '{' {
		return nil, wrongType(field, "an object of texts", v)
	}
	err := decode(v, func(d *decoder) error {
		return d.object("an object of texts", func(d *decoder, token jsontext.Token) error {
			name := token.String()
			value, err := d.ReadValue()
			if err != nil {
				return err
			}
			if _, twice := headers[name]; twice {
				return badField(field, "%q is a duplicate", clip(name))
			}
			headers[name], err = textOf(field, value)
			return err
		})
	})
	if err == nil {
		err = registry.ValidHeaders(headers)
	}
	return headers, err
}

// waitsOf decodes a value that must be waits between attempts, with the limits for a topic's waits.
func waitsOf(field string, v jsontext.Value) ([]time.Duration, error) {
	var waits []time.Duration
	err := decode(v, func(d *decoder) error {
		return d.array(field, func() error {
			v, err := d.ReadValue()
			if err != nil {
				return err
			}
			wait, err := durationOf(field, v)
			switch {
			case err != nil:
				return err
			case len(waits) == queue.MaxWaits:
				return outOfRange(field, "more than %d entries; the last one repeats", queue.MaxWaits)
			case wait < 0 || wait > registry.MaxRetryWait:
				return outOfRange(field, "%s is not between 0s and %s", wait, registry.MaxRetryWait)
			}
			waits = append(waits, wait)
			return nil
		})
	})
	return waits, err
}
