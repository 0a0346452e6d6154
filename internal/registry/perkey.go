package registry

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// PerKey limits the calls of the jobs of each key.
type PerKey struct {
	MaxInFlight  int     `json:"max_in_flight"` // 1: one job after the other
	RateLimit    float64 `json:"rate_limit"`    // a second, counted from the end of the call before; 0: no limit
	SkipRetrying bool    `json:"skip_retrying"` // a job that waits for its retry does not hold up the others of its key
}

const (
	perKeyField     = "per_key"
	maxKeysInFlight = 1000
)

// perKeyInto decodes the limits of keys on top of the defaults.
func perKeyInto(to **PerKey) func([]byte) error {
	return func(b []byte) error {
		if jsontext.Value(b).Kind() != '{' {
			return errors.New("not an object")
		}
		members, err := objectMembers(b)
		if err != nil {
			return err
		}
		for i := range members {
			members[i].name = perKeyField + "." + members[i].name
		}
		k := &PerKey{MaxInFlight: 1}
		*to = k
		return errors.Join(decodeMembers(members, []field{
			{name: perKeyField + ".max_in_flight", into: whole(&k.MaxInFlight), kind: aWhole},
			{name: perKeyField + ".rate_limit", into: number(&k.RateLimit), kind: aNumber},
			{name: perKeyField + ".skip_retrying", into: value(&k.SkipRetrying), kind: aBoolean},
		})...)
	}
}

// valid allows a rate only for one job at a time: it is counted from the end of the job before.
func (k *PerKey) valid() error {
	if k == nil {
		return nil
	}
	const limit = perKeyField + ".rate_limit"
	if k.RateLimit > 0 && k.MaxInFlight > 1 {
		return OutOfRange(limit, "field.key_rate")
	}
	return errors.Join(count(perKeyField+".max_in_flight", k.MaxInFlight, 1, maxKeysInFlight),
		validRate(limit, k.RateLimit))
}
