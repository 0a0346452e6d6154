package page

import (
	"math"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// Strip is the line of totals on every page.
type Strip struct {
	queue.Stats
	Made        time.Time
	Known       bool      // Stats are not just zeros
	Old         bool      // they are of an earlier time
	At          time.Time // which is this
	Missing     []string  // shards that do not answer
	SuccessRate float64   // of the last minutes, 0 to 1; NaN: no attempts
	LatenessP95 time.Duration
	Wrong       map[string]int // how much is wrong, by the entry of the menu that shows it
	Unattended  bool           // jobs are ready, and nobody takes any: the alert no_consumer
}

// stripFresh is how long a page begins with a strip that was made for another page. It is made while pages are open.
const stripFresh = 10 * time.Second

// currentStrip is nil when nobody had a page open lately: its numbers would be old.
func (b *Base) currentStrip() *Strip {
	s := b.strip.Load()
	if s == nil || b.Now().Sub(s.Made) > stripFresh {
		return nil
	}
	return s
}

// HasRate reports whether there were attempts.
func (s *Strip) HasRate() bool { return !math.IsNaN(s.SuccessRate) }
