package registry

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Duration is a time.Duration in the form "90s" in text and JSON. From JSON it also accepts a number of seconds.
type Duration time.Duration

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the form that time.ParseDuration reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads "90s", "1h30m", or a number of seconds.
func (d *Duration) UnmarshalText(b []byte) error {
	if d.parse(string(b)) == nil {
		return nil
	}
	return d.parseSeconds(string(b))
}

// UnmarshalJSON reads a text or a number of seconds. Errors: ErrTooLarge, or one that shows the right form.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() != '"' {
		return d.parseSeconds(string(b))
	}
	var short [64]byte
	text, err := jsontext.AppendUnquote(short[:0], b)
	if err != nil {
		return errDuration(b)
	}
	return d.parse(string(text))
}

func (d *Duration) parse(text string) error {
	v, err := time.ParseDuration(text)
	switch {
	case err == nil:
		*d = Duration(v)
		return nil
	case longDuration.MatchString(text):
		return ErrTooLarge
	}
	return errDuration(text)
}

func (d *Duration) parseSeconds(text string) error {
	seconds, err := strconv.ParseFloat(text, 64)
	switch {
	case math.Abs(seconds) > maxNumber: // ±Inf if it does not fit
		return ErrTooLarge
	case err != nil || math.IsNaN(seconds):
		return errDuration(text)
	}
	*d = Duration(math.Round(seconds * float64(time.Second)))
	return nil
}

// ErrTooLarge is returned for a number or duration that is well-formed, but exceeds the range of its type.
var ErrTooLarge = errors.New("out of range")

// maxNumber is far above every limit, but small enough not to overflow an integer or a duration.
const maxNumber = 1e9

// longDuration matches what time.ParseDuration accepts. A text that matches but is rejected is too large.
var longDuration = regexp.MustCompile(`^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// errDuration is returned for a text that is not a duration.
type errDuration string

func (e errDuration) Error() string {
	return fmt.Sprintf("%.40q is not a duration: write it like 90s, 30m or 1h30m", string(e))
}
