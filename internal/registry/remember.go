package registry

import (
	"encoding/json"
	"time"
)

// Remember is how long a topic's finished jobs are kept; 0: not at all.
type Remember Duration

// RememberLast keeps a topic's last finished jobs. It is the default.
const RememberLast Remember = -1

// Bounds of Remember when it is a duration.
const (
	minRemember = time.Second
	maxRemember = 30 * 24 * time.Hour
)

const lastText = "last"

func (r Remember) String() string {
	switch r {
	case 0:
		return "0"
	case RememberLast:
		return lastText
	}
	return Duration(r).String()
}

// MarshalText writes "last", "0" or a duration.
func (r Remember) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalJSON reads "last", 0, or a duration as text or in seconds.
func (r *Remember) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil && s == lastText {
		*r = RememberLast
		return nil
	}
	var d Duration
	if err := d.UnmarshalJSON(b); err != nil {
		return err
	}
	if d < 0 { // must not be read as "last"
		d = Duration(min(d.Std(), -time.Second))
	}
	*r = Remember(d)
	return nil
}

func (r Remember) valid() error {
	if r == 0 || r == RememberLast {
		return nil
	}
	return between("remember", Duration(r), minRemember, maxRemember)
}
