package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// duration is a flag with a duration as the API takes it: 1m30s, or a number of seconds.
type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }

// Type returns the name of the value in the help.
func (d *duration) Type() string { return "DURATION" }

// Set parses the flag.
func (d *duration) Set(s string) error {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(seconds) < math.MaxInt64/1e9 {
		*d = duration(math.Round(seconds * 1e9))
		return nil
	}
	std, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q must be a duration such as 90s or 1h30m, or a number of seconds", s)
	}
	*d = duration(std)
	return nil
}
