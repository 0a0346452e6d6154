package page

import (
	"math"
	"time"
)

// Strip is the line of totals on every page. Numbers that are not known are negative.
type Strip struct {
	Delayed, Ready, Running, Retrying, Dead int64
	SuccessRate                             float64 // of the last minutes, 0 to 1; NaN: no attempts
	LatenessP95                             time.Duration
	Unattended                              bool // jobs are ready, and nobody takes any: the alert no_consumer
}

// Known reports whether a number is.
func (s *Strip) Known(n int64) bool { return n >= 0 }

// HasRate reports whether there were attempts.
func (s *Strip) HasRate() bool { return !math.IsNaN(s.SuccessRate) }

func (b *Base) lastStrip() *Strip { return b.strip.Load() }
