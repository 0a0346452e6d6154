package forecast

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/observe/history"
)

// Capacity is how many callbacks per second can be made, and the source of that number.
type Capacity struct {
	Rate float64 // callbacks a second; 0: unknown
	From string  // limit, flight or measured: which of the following values it is

	Limit float64 // the topic's rate limit; 0: none

	Flight      float64 // what max_in_flight allows at the mean time of a call; 0: unlimited or unknown
	MaxInFlight int
	Mean        time.Duration
	Calls       int // the calls behind Mean

	Measured float64       // the highest rate in the history while jobs waited, so more may be possible; 0: unknown
	Over     time.Duration // how long that rate was sustained
	At       time.Time
}

// measuredSpans are the spans with slots of a minute or longer, which show sustained rates instead of short peaks.
var measuredSpans = []string{"3h", "24h", "7d"}

// Measure finds the highest rate of callbacks in the history of a series, over a minute, ten minutes or an hour in
// which jobs always waited. A rate at which nothing waited says nothing about what is possible.
func Measure(ctx context.Context, h History, series string) (c Capacity) {
	for _, span := range measuredSpans {
		if p, err := h.Series(ctx, series, span); err == nil {
			c.learn(p)
		}
	}
	return c
}

func (c *Capacity) learn(p history.Points) {
	for i, at := range p.Times {
		rate := value(p, "delivered", i) + value(p, "failed", i) + value(p, "snoozed", i)
		if rate <= c.Measured || !full(p, i) {
			continue
		}
		c.Measured, c.Over, c.At = rate, time.Duration(p.Step)*time.Second, time.Unix(at, 0).UTC()
	}
}

// full reports whether jobs waited during a whole slot: the oldest at its end did.
func full(p history.Points, i int) bool { return value(p, "oldest", i) >= float64(1000*p.Step) }

func value(p history.Points, name string, i int) float64 {
	if list := p.Values[name]; i < len(list) && list[i] != nil {
		return *list[i]
	}
	return 0
}

// Decide sets Rate to the lower of the topic's limits, or to the measured rate, which is only a hint, if there is no
// limit.
func (c *Capacity) Decide() {
	c.Rate, c.From = c.Limit, "limit"
	if c.Flight > 0 && (c.Rate == 0 || c.Flight < c.Rate) {
		c.Rate, c.From = c.Flight, "flight"
	}
	if c.Rate == 0 {
		c.Rate, c.From = c.Measured, "measured"
	}
}

// Sure reports whether a configured limit caps the rate, so that the value is not just a measurement.
func (c Capacity) Sure() bool { return c.From != "measured" }
