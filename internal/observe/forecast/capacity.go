package forecast

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/observe/history"
)

// Capacity is how many deliveries a second can be made, and the source of that number.
type Capacity struct {
	Rate float64 // deliveries a second; 0: none, or unknown
	From string  // deliveries, limit, flight or measured: which of the following values it is

	Deliveries float64 // in the last whole minute, if that says what can be done; negative: it does not
	Share      float64 // of the recent calls that succeeded; 1 if there were none

	Limit float64 // the topic's rate limit; 0: none

	Flight      float64 // what max_in_flight allows at the mean time of a call; 0: unlimited or unknown
	MaxInFlight int
	Mean        time.Duration
	Calls       int // the calls behind Mean

	Measured float64       // the highest rate in the history while jobs waited, so more may be possible; 0: unknown
	Over     time.Duration // how long that rate was sustained
	At       time.Time
}

// Decide sets Rate: to what is delivered now, at most what the limits allow, or else to what they allow of the calls
// that succeed. Without either it is the measured rate, which is a hint and not part of a forecast.
func (c *Capacity) Decide() {
	limit := c.Limit
	c.From = "limit"
	if c.Flight > 0 && (limit == 0 || c.Flight < limit) {
		limit, c.From = c.Flight, "flight"
	}
	switch c.Rate = limit * c.Share; {
	case c.Deliveries >= 0 && (limit == 0 || c.Deliveries < limit):
		c.Rate, c.From = c.Deliveries, "deliveries"
	case c.Deliveries >= 0:
		c.Rate = limit
	case limit == 0:
		c.Rate, c.From = c.Measured, "measured"
	}
}

// rate returns the rate of a forecast; 0: none, or unknown.
func (c Capacity) rate() float64 {
	if c.From == "measured" {
		return 0
	}
	return c.Rate
}

// measuredSpans are the spans with slots of a minute or longer, which show sustained rates instead of short peaks.
var measuredSpans = []string{"3h", "24h", "7d"}

// Measure finds the highest rate of deliveries in the history of a series, over a minute, ten minutes or an hour in
// which jobs always waited. A rate at which nothing waited says nothing about what is possible.
func (c *Capacity) Measure(ctx context.Context, h History, series string) {
	for _, span := range measuredSpans {
		if p, err := h.Series(ctx, series, span); err == nil {
			c.learn(p)
		}
	}
	c.Decide()
}

func (c *Capacity) learn(p history.Points) {
	for i, at := range p.Times {
		rate := p.Value("delivered", i)
		if rate <= c.Measured || !full(p, i) {
			continue
		}
		c.Measured, c.Over, c.At = rate, time.Duration(p.Step)*time.Second, time.Unix(at, 0).UTC()
	}
}

// full reports whether jobs waited during a whole slot: the oldest at its end did.
func full(p history.Points, i int) bool { return p.Value("oldest", i) >= float64(1000*p.Step) }
