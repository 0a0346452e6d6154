package admin

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// capacity is how many callbacks a second can be made, and how that is known.
type capacity struct {
	Rate float64 // callbacks a second; 0: nothing is known
	From string  // limit, flight or measured: which of the following is the least

	Limit float64 // the topic's rate limit; 0: none

	Flight      float64 // what max_in_flight allows at the mean time of a call; 0: not limited, or not known
	MaxInFlight int
	Mean        time.Duration
	Calls       int // of which that is the mean

	Measured float64       // the highest rate kept up in the history; 0: none is known
	Over     time.Duration // for so long
	At       time.Time
	Full     bool // jobs were waiting then, so it was all that could be done; else nobody asked for more
}

// measuredSpans are those whose slots are a minute and longer: what was kept up, not what a moment saw.
var measuredSpans = []string{"3h", "24h", "7d"}

// measure reads the highest rate of callbacks in the history of a series, of a minute, ten or an hour.
func (a *Admin) measure(ctx context.Context, series string) (c capacity) {
	if a.opts.Pages.History == nil {
		return c
	}
	for _, span := range measuredSpans {
		if p, err := a.opts.Pages.History.Series(ctx, series, span); err == nil {
			c.learn(p)
		}
	}
	return c
}

func (c *capacity) learn(p history.Points) {
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
		c.Full = value("ready", i) > rate // more than a second's work
	}
}

// decide takes the least of what is known.
func (c *capacity) decide() {
	for _, is := range []struct {
		from string
		rate float64
	}{{"limit", c.Limit}, {"flight", c.Flight}, {"measured", c.Measured}} {
		if is.rate > 0 && (c.Rate == 0 || is.rate < c.Rate) {
			c.Rate, c.From = is.rate, is.from
		}
	}
}

// Sure says whether more cannot be done. What was measured while nothing waited may be less than that.
func (c capacity) Sure() bool { return c.From != "measured" || c.Full }

// topicCapacity is that of a topic, from its limits and its history.
func (a *Admin) topicCapacity(ctx context.Context, t *registry.Topic) capacity {
	c := a.measure(ctx, t.Name)
	c.Limit, c.MaxInFlight = t.RateLimit, t.MaxInFlight
	if act := a.opts.Pages.Activity; t.MaxInFlight > 0 && act != nil {
		var sum float64
		attempts, _ := act.Attempts(ctx, t.Name, attemptsShown) // what could be read of them
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
	c.decide()
	return c
}

// prediction is how late what falls due will be called.
type prediction struct {
	Late time.Duration // the worst
	At   time.Duration // from now, of those due then
	Over time.Duration // from now until nothing is late any more; 0: not within the day
}

// lateFrom is what is worth a warning.
const lateFrom = time.Minute

// IsLate says whether somebody should be told.
func (p prediction) IsLate() bool { return p.Late >= lateFrom }

// Minutes are how many the last job will be late.
func (p prediction) Minutes() int64 { return int64(math.Ceil(p.Late.Minutes())) }

// predict carries what cannot be called over, from minute to minute for an hour, then for the rest of the day with each hour's jobs spread evenly
// over it. waiting is what is due already.
func predict(f *queue.Forecast, waiting int64, rate float64) (p prediction) {
	if rate <= 0 {
		return p
	}
	left := float64(waiting)
	p.see(0, left/rate)
	for m := range 60 * len(f.Hours) {
		due := float64(f.Hours[m/60]) / 60
		if m < len(f.Minutes) {
			due = float64(f.Minutes[m])
		}
		left = max(0, left+due-60*rate)
		p.see(time.Duration(m+1)*time.Minute, left/rate)
	}
	return p
}

func (p *prediction) see(at time.Duration, seconds float64) {
	late := time.Duration(min(seconds, (365*24*time.Hour).Seconds()) * float64(time.Second))
	switch {
	case late > p.Late:
		p.Late, p.At, p.Over = late, at, 0
	case late == 0 && p.Late > 0 && p.Over == 0:
		p.Over = at
	}
}

// lateTopic is a topic whose jobs will wait.
type lateTopic struct {
	Name     string
	Capacity capacity
	Late     prediction
}

// outlook is the forecast of all topics together.
type outlook struct {
	Forecast queue.Forecast
	Capacity capacity
	Late     prediction
	Waiting  int64 // due already
	Topics   []lateTopic
	Asked    int // topics, of
	Of       int // those with jobs
	Chart    chart
}

// outlookBook keeps the outlook for a while: it asks Redis once a topic.
type outlookBook struct {
	mu   sync.Mutex
	at   time.Time
	last *outlook
}

const (
	outlookFresh  = time.Minute
	outlookTopics = 300 // with the most jobs
	outlookShown  = 10
	outlookLimit  = 10 * time.Second
)

// lookAhead makes the outlook, at most once in a while for all who ask.
func (a *Admin) lookAhead(ctx context.Context) (*outlook, error) {
	b := &a.overview.outlooks
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && a.opts.Now().Sub(b.at) < outlookFresh {
		return b.last, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outlookLimit)
	defer cancel()
	stats, err := a.allStats(ctx)
	if err != nil && len(stats) == 0 {
		return nil, err
	}
	o := &outlook{Capacity: a.measure(ctx, history.AllTopics)}
	o.Capacity.decide()
	names := a.busiest(stats, o)
	for _, name := range names {
		if err := a.addTopic(ctx, o, name, stats[name]); err != nil {
			return nil, err
		}
	}
	o.Late = predict(&o.Forecast, o.Waiting, o.Capacity.Rate)
	slices.SortFunc(o.Topics, func(x, y lateTopic) int { return cmp.Compare(y.Late.Late, x.Late.Late) })
	o.Topics = o.Topics[:min(outlookShown, len(o.Topics))]
	b.at, b.last = a.opts.Now(), o
	return o, nil
}

// busiest are the topics that call somebody and have most to call.
func (a *Admin) busiest(stats map[string]queue.Stats, o *outlook) []string {
	topics := a.registry.Snapshot().Topics
	var names []string
	for name, s := range stats {
		if t := topics[name]; t != nil && t.State == registry.TopicActive && s.Delayed+s.Ready > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(stats[y].Delayed+stats[y].Ready, stats[x].Delayed+stats[x].Ready), cmp.Compare(x, y))
	})
	o.Of, o.Asked = len(names), min(len(names), outlookTopics)
	return names[:o.Asked]
}

func (a *Admin) addTopic(ctx context.Context, o *outlook, name string, s queue.Stats) error {
	f, err := a.queue.Forecast(ctx, name)
	if err != nil && !queue.IsPartial(err) {
		return err
	}
	o.Waiting += s.Ready
	if o.Forecast.Now.Before(f.Now) {
		o.Forecast.Now = f.Now
	}
	for i, n := range f.Minutes {
		o.Forecast.Minutes[i] += n
	}
	for i, n := range f.Hours {
		o.Forecast.Hours[i] += n
	}
	t := a.registry.Snapshot().Topics[name]
	if t == nil {
		return nil
	}
	c := a.topicCapacity(ctx, t)
	if p := predict(&f, s.Ready, c.Rate); p.IsLate() && c.Sure() {
		o.Topics = append(o.Topics, lateTopic{name, c, p})
	}
	return nil
}

// outlookPart answers the part of the overview that looks ahead.
func (a *Admin) outlookPart(c echo.Context) error {
	o, err := a.lookAhead(c.Request().Context())
	if err != nil {
		return err
	}
	shown := *o
	shown.Chart = a.forecastChart(c, o.Forecast.Now, time.Minute, o.Forecast.Minutes[:], o.Capacity.Rate)
	return a.fragment(c, "partials/outlook", &shown)
}

func (a *Admin) fillForecast(c echo.Context, d *topicData) error {
	ctx := c.Request().Context()
	f, err := a.queue.Forecast(ctx, d.Name)
	if err != nil && !queue.IsPartial(err) {
		return err
	}
	if err != nil {
		d.Away = err.Error()
	}
	d.Forecast = &f
	d.Capacity = a.topicCapacity(ctx, d.Topic)
	d.Late = predict(&f, d.Live.Totals.Ready, d.Capacity.Rate)
	d.Minutes = a.forecastChart(c, f.Now, time.Minute, f.Minutes[:], d.Capacity.Rate)
	d.Hours = a.forecastChart(c, f.Now, time.Hour, f.Hours[:], d.Capacity.Rate)
	d.Peak = slices.Max(f.Minutes[:])
	return nil
}

func (a *Admin) forecastChart(c echo.Context, from time.Time, step time.Duration, counts []int64, rate float64) chart {
	due := chartLine{Label: a.t(c, "forecast.falls_due"), Color: "blue"}
	limit := chartLine{Label: a.t(c, "forecast.capacity"), Color: "red", Dash: true}
	d := chart{Time: a.t(c, "charts.time")}
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

func (a *Admin) outlookRoutes(g *echo.Group) {
	g.GET("/overview/ahead", func(c echo.Context) error {
		if !isFragment(c) {
			return c.Redirect(http.StatusFound, a.path("/"))
		}
		return a.outlookPart(c)
	})
}
