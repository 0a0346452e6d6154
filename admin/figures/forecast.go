package figures

import (
	"context"
	"math"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
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

	Measured float64       // the highest sustained rate in the history, so more may be possible; 0: unknown
	Over     time.Duration // how long that rate was sustained
	At       time.Time
}

// measuredSpans are the spans with slots of a minute or longer, which show sustained rates instead of short peaks.
var measuredSpans = []string{"3h", "24h", "7d"}

// Measure finds the highest rate of callbacks in the history of a series, over a minute, ten minutes or an hour.
func (h *Handler) Measure(ctx context.Context, series string) (c Capacity) {
	for _, span := range measuredSpans {
		p, _ := h.readSeries(ctx, series, span) // not kept: there may be 300 topics
		c.learn(p)
	}
	return c
}

func (c *Capacity) learn(p history.Points) {
	value := func(name string, i int) float64 {
		if list := p.Values[name]; i < len(list) && list[i] != nil {
			return *list[i]
		}
		return 0
	}
	for i, at := range p.Times {
		rate := value("delivered", i) + value("failed", i) + value("snoozed", i)
		if rate <= c.Measured {
			continue
		}
		c.Measured, c.Over, c.At = rate, time.Duration(p.Step)*time.Second, time.Unix(at, 0).UTC()
	}
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

// TopicCapacity returns the capacity of a topic, from its limits and its history.
func (h *Handler) TopicCapacity(ctx context.Context, t *registry.Topic) Capacity {
	c := h.Measure(ctx, t.Name)
	c.Limit, c.MaxInFlight = t.RateLimit, t.MaxInFlight
	if t.MaxInFlight > 0 {
		var sum float64
		attempts, _ := h.Activity.Attempts(ctx, t.Name, AttemptsShown) // on an error: those that could be read
		for _, at := range attempts {
			if at.TookMS > 0 {
				sum += at.TookMS
				c.Calls++
			}
		}
		if c.Calls > 0 {
			c.Mean = time.Duration(sum / float64(c.Calls) * float64(time.Millisecond))
			c.Flight = float64(t.MaxInFlight) / c.Mean.Seconds()
		}
	}
	c.Decide()
	return c
}

// Prediction is how late the jobs that fall due will be called.
type Prediction struct {
	Late time.Duration // the greatest lateness, if jobs fall due evenly and the whole rate is used
	Most time.Duration // the same, if each minute's jobs fall due at its start and steadyShare of the rate is used
	At   time.Duration // from now until the due time of these latest jobs
	Over time.Duration // from now until nothing is late anymore; 0: not within the day
}

// steadyShare is the share of a limit that is always used: a topic at its limit waits slightly longer between two calls
// than it has to.
const steadyShare = 0.9

// lateFrom is the lateness from which a warning is shown.
const lateFrom = time.Minute

// IsLate reports whether to show a warning.
func (p Prediction) IsLate() bool { return p.Late >= lateFrom }

// Least and Minutes return bounds, in minutes, for how late the last job will be.
func (p Prediction) Least() int64   { return int64(p.Late.Minutes()) }
func (p Prediction) Minutes() int64 { return int64(math.Ceil(p.Most.Minutes())) }

// Predict computes the backlog minute by minute for an hour, then for the rest of the day with each hour's jobs spread
// evenly over it. waiting is the number of jobs that are already due.
func Predict(f *queue.Forecast, waiting int64, rate float64) (p Prediction) {
	if rate <= 0 {
		return p
	}
	left, steady := float64(waiting), steadyShare*rate
	most := left
	p.see(0, left/rate, most/steady)
	for m := range 60 * len(f.Hours) {
		due := float64(f.Hours[m/60]) / 60
		if m < len(f.Minutes) {
			due = float64(f.Minutes[m])
		}
		left, most = max(0, left+due-60*rate), most+due
		p.see(time.Duration(m+1)*time.Minute, left/rate, most/steady)
		most = max(0, most-60*steady)
	}
	return p
}

func (p *Prediction) see(at time.Duration, least, most float64) {
	span := func(seconds float64) time.Duration {
		return time.Duration(min(seconds, (365*24*time.Hour).Seconds()) * float64(time.Second))
	}
	late := span(least)
	switch {
	case late > p.Late:
		p.Late, p.Most, p.At, p.Over = late, span(most), at, 0
	case late == 0 && p.Late > 0 && p.Over == 0:
		p.Over = at
	}
}

func (h *Handler) ForecastChart(
	c echo.Context, from time.Time, step time.Duration, counts []int64, rate float64,
) Chart {
	due := chartLine{Label: h.Texts.T(c, "forecast.falls_due"), Color: "blue"}
	limit := chartLine{Label: h.Texts.T(c, "forecast.capacity"), Color: "red", Dash: true}
	d := Chart{Time: h.Texts.T(c, "charts.time")}
	most := rate * step.Seconds()
	for i, n := range counts {
		d.At = append(d.At, from.Add(time.Duration(i)*step).Unix())
		v := float64(n)
		due.Values = append(due.Values, &v)
		limit.Values = append(limit.Values, &most)
	}
	d.Series = []chartLine{due}
	if rate > 0 {
		d.Series = append(d.Series, limit)
	}
	return d
}

const AttemptsShown = 100
