package registry

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
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
	if v, err := time.ParseDuration(string(b)); err == nil {
		*d = Duration(v)
		return nil
	}
	seconds, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsNaN(seconds) || math.Abs(seconds) > 1e9 {
		return errDuration(b)
	}
	*d = Duration(seconds * float64(time.Second))
	return nil
}

// errDuration is the error for a text that is not a duration.
type errDuration string

func (e errDuration) Error() string {
	return fmt.Sprintf("%.40q is not a duration: write it like 90s, 30m or 1h30m", string(e))
}

// UnmarshalJSON reads a text or a number of seconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return d.UnmarshalText(b)
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil && s != "0" {
		return errDuration(s)
	}
	return d.UnmarshalText([]byte(s))
}
