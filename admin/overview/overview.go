package overview

import (
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/observe/refusals"
	"github.com/wakecall/wakecall/internal/observe/relays"
	"github.com/wakecall/wakecall/master"
)

func (h *Handler) overviewRoutes(g *echo.Group) {
	g.GET("/", h.overviewPage)
	h.outlookRoutes(g)
	live := func(ctx context.Context, _ string) (any, error) { return h.overviewLive(ctx), nil }
	h.Hub.Register("overview", overviewEvery, "partials/overview_live", live)
	h.Hub.Register("overview_parts", overviewEvery, "partials/overview_parts", live)
}

const overviewEvery = 3 * time.Second

// overviewData is the part of the page that does not change while it is open.
type overviewData struct {
	Live  *overviewLive
	Range figures.Range
	Start *gettingStarted // nil: something was already pushed
}

// gettingStarted guides the user to the first topic and the first push.
type gettingStarted struct {
	Topic string // the first topic; empty: none yet
	Curl  string
}

func (h *Handler) overviewPage(c echo.Context) error {
	live := h.overviewLive(c.Request().Context())
	return h.Pages.Render(c, http.StatusOK, "overview", overviewData{
		Live: live, Range: figures.RangeOf(c, h.Now()), Start: h.gettingStarted(live),
	})
}

func (h *Handler) gettingStarted(live *overviewLive) *gettingStarted {
	names := h.Registry.Snapshot().Topics.Names()
	if len(names) > 0 && live.Busy {
		return nil
	}
	g := &gettingStarted{}
	topic := "demo.hello"
	if len(names) > 0 {
		g.Topic, topic = names[0], names[0]
	}
	g.Curl = page.FirstCurl(h.APIURL, topic, h.TokenFile)
	return g
}

// overviewLive is the part of the page that changes by itself.
type overviewLive struct {
	Problems  issues
	Now       *rates             // nil: there is no history yet
	Late      activity.Histogram // of the figures' Window; nil: unknown
	Shards    []*shards.ShardView
	Tree      *master.Tree
	Shares    []share
	Refused   refusals.Streak
	Relays    []relay
	Busy      bool // there were recent pushes, or there are jobs
	CheckedAt time.Time
	alerts    figures.Alerts
}

// rates are sums over the figures' Window, and the rates of its last ten seconds.
type rates struct {
	figures.Stored                     // when the newest were sampled
	Pushed, Delivered, Failed *float64 // nil: unknown
	Sums                      map[string]int64
}

// Success returns the success rate of attempts. NaN: there were none, or it is unknown.
func (r *rates) Success() float64 {
	if r == nil {
		return math.NaN()
	}
	delivered, failed := float64(r.Sums["delivered"]), float64(r.Sums["failed"])
	return delivered / (delivered + failed)
}

// share is a priority's actual and configured share of the reserved jobs.
type share struct {
	Name          string
	Jobs          int64
	Actual, Wants float64
}

// Percent returns the share for a bar.
func (s share) Percent() int { return int(100 * s.Actual) }

// relay is the last report of a relay about its outbox table.
type relay struct {
	*relays.Relay
	State string
}

// overviewLive computes the live part, once for all open pages.
func (h *Handler) overviewLive(ctx context.Context) *overviewLive {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := h.last; o != nil && h.Now().Sub(o.CheckedAt) < overviewEvery/2 {
		return o
	}
	o := h.collect(ctx)
	if ctx.Err() == nil {
		h.last = o
	}
	return o
}

func (h *Handler) collect(ctx context.Context) *overviewLive {
	o := &overviewLive{Shards: h.Shards.ShardViews(ctx), CheckedAt: h.Now()}
	h.Figures.Recount(o.up())
	o.Now, o.Late = h.currentRates(ctx), h.Figures.Lateness(ctx)
	o.Shares = h.shares(ctx)
	o.Refused = h.Figures.RefusedPushes(ctx)
	o.Relays = h.relays(ctx)
	o.Tree, _ = h.Master.Ps(ctx) // without a master: shown as a problem
	o.alerts = h.Figures.OpenAlerts(ctx)
	o.Problems = h.issues(ctx, o)
	o.Busy = h.busy(o)
	return o
}

// relays returns none while the registry's database is away, which is shown as a problem.
func (h *Handler) relays(ctx context.Context) (shown []relay) {
	if h.Relays == nil || !h.Registry.Up() {
		return nil
	}
	list, _ := h.Relays(ctx)
	for i := range list {
		shown = append(shown, relay{&list[i], list[i].State(h.Now())})
	}
	return shown
}

// up returns the names of the shards that answer.
func (o *overviewLive) up() (names []string) {
	for _, s := range o.Shards {
		if s.Health.Up {
			names = append(names, s.Name)
		}
	}
	return names
}

func (h *Handler) busy(o *overviewLive) bool {
	if o.Now != nil && o.Now.Sums["pushed"] > 0 {
		return true
	}
	return slices.ContainsFunc(o.Shards, func(s *shards.ShardView) bool { return s.Health.Jobs > 0 || s.Down() })
}

// ratesOld is the age from which the newest sample is old. One is stored every ten seconds, unless a server is
// unavailable.
const ratesOld = 40 * time.Second

func (h *Handler) currentRates(ctx context.Context) *rates {
	p, stored := h.Figures.Series(ctx, history.AllTopics, history.Spans()[0])
	r := &rates{Stored: stored, Sums: p.Sums}
	if !stored.Known() {
		return r
	}
	newest := -1
	for i, v := range p.Values["pushed"] {
		if v != nil {
			newest = i
		}
	}
	if newest < 0 {
		return nil
	}
	r.At = time.Unix(p.Times[newest], 0)
	if r.Old = h.Now().Sub(r.At) > ratesOld; r.Old {
		return r
	}
	at := func(name string) *float64 {
		if list := p.Values[name]; newest < len(list) {
			return list[newest]
		}
		return nil
	}
	r.Pushed, r.Delivered, r.Failed = at("pushed"), at("delivered"), at("failed")
	return r
}

func (h *Handler) shares(ctx context.Context) []share {
	counts, err := h.Queue.ReserveCounts(ctx, h.Now().Add(-figures.Window))
	total := counts[0] + counts[1] + counts[2]
	if err != nil || total == 0 {
		return nil
	}
	weights := h.Weights
	all := weights[0] + weights[1] + weights[2]
	list := make([]share, len(weights))
	for i, name := range []string{"high", "normal", "low"} {
		list[i] = share{name, counts[i], float64(counts[i]) / float64(total), float64(weights[i]) / float64(all)}
	}
	return list
}
