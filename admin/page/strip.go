package page

import (
	"math"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Strip is the line of totals on every page.
type Strip struct {
	store.Stats
	Made        time.Time
	Known       bool      // Stats has been read
	Old         bool      // Stats are from an earlier read
	At          time.Time // time of that read
	Missing     []string  // shards that do not answer
	SuccessRate float64   // recent success rate, 0 to 1; NaN: no attempts
	LatenessP99 time.Duration
	Wrong       map[string]int // number of problems, by the entry in the menu
	Urgent      []string       // entries where somebody has to act
	Unattended  bool           // jobs are ready and nobody takes them: the alert no_consumer
}

// stripFresh is how long a page may use a strip computed for another page. Strips are computed while pages are open.
const stripFresh = 10 * time.Second

// currentStrip returns nil when no page was open recently, because the numbers would be old.
func (p *Pages) currentStrip() *Strip {
	s := p.strip.Load()
	if s == nil || p.Now().Sub(s.Made) > stripFresh {
		return nil
	}
	return s
}

// HasRate reports whether there were attempts.
func (s *Strip) HasRate() bool { return !math.IsNaN(s.SuccessRate) }
