package overview

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/store"
)

// topicForecast is the forecast of a topic.
type topicForecast struct {
	Name string
	At   time.Time // due time of the jobs that will wait longest
	forecast.Answer
}

// outlook has the forecasts of all topics. It does not say when all jobs together are cleared: one paused topic would
// make that unknown.
type outlook struct {
	Forecast observe.Forecast
	Capacity forecast.Capacity
	Behind   []topicForecast // topics with a backlog, the oldest first
	Topics   []topicForecast // topics with known limits whose jobs will be late, the latest first
	More     int             // further late topics
	At       time.Time       // when it was computed; zero: unknown
	Old      bool            // no shard has answered since then
	Asked    int             // topics in the forecast
	Of       int             // topics with jobs
	Chart    figures.Chart
}

// outlookCache caches the outlook: computing it takes a call to Redis for each topic.
type outlookCache struct {
	mu   sync.Mutex
	at   time.Time
	last *outlook
}

const (
	outlookFresh  = 20 * time.Second
	outlookRetry  = 10 * time.Second // after no shard answered
	outlookEmpty  = time.Second      // without jobs; it is quickly computed
	outlookTopics = 300              // the topics with the most jobs
	outlookShown  = 3
	outlookLimit  = 10 * time.Second
)

// currentOutlook returns the outlook, computed at most every outlookFresh for all requests, if there are jobs. While no
// shard answers, it returns the last one.
func (h *Handler) currentOutlook(ctx context.Context) *outlook {
	b := &h.outlooks
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && h.Now().Sub(b.at) < outlookFresh {
		return b.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outlookLimit)
	defer cancel()
	o, err := h.computeOutlook(ctx)
	b.at = h.Now()
	if err != nil {
		h.Log.Debug("compute the forecast", "error", err)
		o = &outlook{}
		if b.last != nil {
			*o = *b.last
		}
		o.Old, b.at = true, b.at.Add(outlookRetry-outlookFresh)
	} else if o.Of == 0 {
		b.at = b.at.Add(outlookEmpty - outlookFresh)
	}
	b.last = o
	return o
}

// errUnknown means that the jobs are unknown because no shard answers.
var errUnknown = errors.New("no shard answers")

func (h *Handler) computeOutlook(ctx context.Context) (*outlook, error) {
	counts := h.Figures.Counts(ctx)
	if !counts.Known() || counts.Old() {
		return nil, errUnknown
	}
	o := &outlook{At: h.Now(), Capacity: forecast.Capacity{Deliveries: -1}}
	o.Capacity.Measure(ctx, h.Figures.History, history.AllTopics)
	for _, name := range h.busiest(counts.Topics, o) {
		if err := h.addTopic(ctx, o, name); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(o.Behind, func(x, y topicForecast) int { return cmp.Compare(y.Oldest, x.Oldest) })
	o.Behind = o.Behind[:min(len(o.Behind), outlookShown)]
	slices.SortFunc(o.Topics, func(x, y topicForecast) int { return cmp.Compare(y.Late, x.Late) })
	o.More = max(0, len(o.Topics)-outlookShown)
	o.Topics = o.Topics[:len(o.Topics)-o.More]
	return o, nil
}

// busiest returns the topics with the most jobs to call.
func (h *Handler) busiest(stats map[string]store.Stats, o *outlook) []string {
	var names []string
	for name, s := range stats {
		if s.Delayed+s.Ready > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(stats[y].Delayed+stats[y].Ready, stats[x].Delayed+stats[x].Ready), cmp.Compare(x, y))
	})
	o.Of, o.Asked = len(names), min(len(names), outlookTopics)
	return names[:o.Asked]
}

func (h *Handler) addTopic(ctx context.Context, o *outlook, name string) error {
	t := h.Registry.Snapshot().Topics.Get(name)
	if t == nil {
		return nil
	}
	a, s, err := h.Figures.Forecast(ctx, t)
	if s == nil || s.Due.Now.IsZero() { // no shard answered
		return err
	}
	f := topicForecast{name, s.Due.Now.Add(a.At), a}
	if a.Behind() {
		o.Behind = append(o.Behind, f)
	}
	if a.IsLate() {
		o.Topics = append(o.Topics, f)
	}
	if t.IsCalled() {
		o.add(&s.Due)
	}
	return nil
}

// add adds the jobs of a topic.
func (o *outlook) add(f *observe.Forecast) {
	if o.Forecast.Now.Before(f.Now) {
		o.Forecast.Now = f.Now
	}
	for i, n := range f.Minutes {
		o.Forecast.Minutes[i] += n
	}
	for i, n := range f.Hours {
		o.Forecast.Hours[i] += n
	}
}

// outlookPart renders the forecast on the overview.
func (h *Handler) outlookPart(c echo.Context) error {
	shown := *h.currentOutlook(c.Request().Context())
	o := &shown
	shown.Chart = h.Figures.ForecastChart(c, o.Forecast.Now, time.Minute, o.Forecast.Minutes[:], o.Capacity.Rate)
	if o.Old {
		shown.Chart.Old(c, h.Texts, o.At, h.Now())
	}
	return h.Pages.Fragment(c, "partials/outlook", o)
}

// latePart renders the topics that will be late, for the top of the page.
func (h *Handler) latePart(c echo.Context) error {
	return h.Pages.Fragment(c, "partials/ahead", h.currentOutlook(c.Request().Context()))
}

func (h *Handler) outlookRoutes(g *echo.Group) {
	part := func(render echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !page.IsFragment(c) {
				return c.Redirect(http.StatusFound, h.Pages.Path("/"))
			}
			return render(c)
		}
	}
	g.GET("/overview/ahead", part(h.outlookPart))
	g.GET("/overview/late", part(h.latePart))
}
