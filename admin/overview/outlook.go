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
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// lateTopic is a topic whose jobs will be late.
type lateTopic struct {
	Name string
	At   time.Time // due time of the jobs that will wait longest
	Late figures.Prediction
}

// outlook is the combined forecast of all topics.
type outlook struct {
	Forecast queue.Forecast
	Capacity figures.Capacity
	Late     figures.Prediction
	Waiting  int64       // already due
	Topics   []lateTopic // late topics with known limits, the latest first
	More     int         // further late topics
	At       time.Time   // when it was computed; zero: unknown
	Old      bool        // no shard has answered since then
	Asked    int         // topics in the forecast
	Of       int         // topics with jobs
	Chart    figures.Chart
}

// outlookCache caches the outlook: computing it takes a call to Redis for each topic.
type outlookCache struct {
	mu   sync.Mutex
	at   time.Time
	last *outlook
}

const (
	outlookFresh  = time.Minute
	outlookRetry  = 10 * time.Second // after no shard answered
	outlookTopics = 300              // the topics with the most jobs
	outlookShown  = 3
	outlookLimit  = 10 * time.Second
)

// currentOutlook returns the outlook, computed at most once a minute for all requests. While no shard answers, it
// returns the last one.
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
	stats := counts.Topics
	o := &outlook{At: h.Now(), Capacity: h.Figures.Measure(ctx, history.AllTopics)}
	o.Capacity.Decide()
	names := h.busiest(stats, o)
	for _, name := range names {
		if err := h.addTopic(ctx, o, name, stats[name]); err != nil {
			return nil, err
		}
	}
	o.Late = figures.Predict(&o.Forecast, o.Waiting, o.Capacity.Rate)
	slices.SortFunc(o.Topics, func(x, y lateTopic) int { return cmp.Compare(y.Late.Late, x.Late.Late) })
	o.More = max(0, len(o.Topics)-outlookShown)
	o.Topics = o.Topics[:len(o.Topics)-o.More]
	return o, nil
}

// busiest returns the active topics with the most jobs to call. It includes pull topics if the rate at which workers
// can take their jobs is known.
func (h *Handler) busiest(stats map[string]queue.Stats, o *outlook) []string {
	topics := h.Registry.Snapshot().Topics
	var names []string
	for name, s := range stats {
		if t := topics.Get(name); t != nil && t.State == registry.TopicActive && s.Delayed+s.Ready > 0 &&
			(t.Delivery != registry.DeliveryPull || t.RateLimit > 0) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(stats[y].Delayed+stats[y].Ready, stats[x].Delayed+stats[x].Ready), cmp.Compare(x, y))
	})
	o.Of, o.Asked = len(names), min(len(names), outlookTopics)
	return names[:o.Asked]
}

func (h *Handler) addTopic(ctx context.Context, o *outlook, name string, s queue.Stats) error {
	f, err := h.Queue.Forecast(ctx, name)
	if err != nil && f.Now.IsZero() { // no shard answered
		return err
	}
	t := h.Registry.Snapshot().Topics.Get(name)
	if t == nil {
		return nil
	}
	if t.Delivery != registry.DeliveryPull { // no dispatcher calls jobs that wait for workers
		o.add(&f, s.Ready)
	}
	c := h.Figures.TopicCapacity(ctx, t)
	if p := figures.Predict(&f, s.Ready, c.Rate); p.IsLate() && c.Sure() {
		o.Topics = append(o.Topics, lateTopic{name, f.Now.Add(p.At), p})
	}
	return nil
}

// add adds the forecast of a topic.
func (o *outlook) add(f *queue.Forecast, ready int64) {
	o.Waiting += ready
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
