package overview

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/master"
)

func (h *Handler) overviewRoutes(g *echo.Group) {
	g.GET("/", h.overviewPage)
	h.outlookRoutes(g)
	live := func(ctx context.Context, _ string) (any, error) { return h.overviewLive(ctx), nil }
	h.Hub.Register("overview", overviewEvery, "partials/overview_live", live)
	h.Hub.Register("overview_parts", overviewEvery, "partials/overview_parts", live)
}

const (
	overviewEvery = 3 * time.Second
	recent        = 5 * time.Minute // the time that lateness and shares describe
)

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
	token := "$(cat " + h.TokenFile + ")"
	g.Curl = page.CurlLine(h.APIURL, topic, token, `{"body":{"hello":"world"},"delay":"5s"}`)
	return g
}

// overviewLive is the part of the page that changes by itself.
type overviewLive struct {
	Problems  issues
	Now       *rates // nil: there is no history yet
	Shards    []*shards.ShardView
	Tree      *master.Tree
	Shares    []share
	Busy      bool // there were recent pushes, or there are jobs
	CheckedAt time.Time
	alerts    []alert.Alert // open alerts, including muted ones
}

// rates are the rates of the last ten seconds, and sums over the last quarter of an hour.
type rates struct {
	Pushed, Delivered, Failed, Retried float64
	P50, P99                           *float64
	Sums                               map[string]int64
}

// share is a priority's actual and configured share of the reserved jobs.
type share struct {
	Name          string
	Jobs          int64
	Actual, Wants float64
}

// Percent returns the share for a bar.
func (s share) Percent() int { return int(100 * s.Actual) }

// roleSummary sums up the processes of a role.
type roleSummary struct {
	Name                     string
	Count, Running, Restarts int
	RSS                      int64
}

// Roles sums up the processes by role, the master first.
func (o *overviewLive) Roles() []roleSummary {
	list := []roleSummary{{Name: "master", Count: 1, Running: 1, RSS: o.Tree.RSS}}
	for _, p := range o.Tree.Processes {
		i := slices.IndexFunc(list, func(r roleSummary) bool { return r.Name == p.Role })
		if i < 0 {
			i, list = len(list), append(list, roleSummary{Name: p.Role})
		}
		r := &list[i]
		r.Count++
		r.Restarts += p.Restarts
		r.RSS += p.RSS
		if p.State != "waiting" {
			r.Running++
		}
	}
	return list
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
	o.Now = h.currentRates(ctx)
	o.Shares = h.shares(ctx)
	o.Tree, _ = h.Master.Ps(ctx) // without a master: shown as a problem
	o.alerts = h.openAlerts(ctx)
	o.Problems = h.issues(o)
	h.addImpact(ctx, o.Problems.List)
	o.Busy = h.busy(o)
	return o
}

func (h *Handler) busy(o *overviewLive) bool {
	if o.Now != nil && o.Now.Sums["pushed"] > 0 {
		return true
	}
	return slices.ContainsFunc(o.Shards, func(s *shards.ShardView) bool { return s.Health.Jobs > 0 || s.Down() })
}

func (h *Handler) currentRates(ctx context.Context) *rates {
	p, err := h.History.Series(ctx, history.AllTopics, history.Spans()[0])
	if err != nil {
		return nil
	}
	last := func(name string) *float64 {
		values := p.Values[name]
		for _, back := range []int{1, 2} { // the newest sample may not be stored yet
			if len(values) >= back && values[len(values)-back] != nil {
				return values[len(values)-back]
			}
		}
		return nil
	}
	if last("pushed") == nil {
		return nil
	}
	number := func(name string) float64 {
		if v := last(name); v != nil {
			return *v
		}
		return 0
	}
	return &rates{
		Pushed: number("pushed"), Delivered: number("delivered"), Failed: number("failed"), Retried: number("retried"),
		P50: last("p50"), P99: last("p99"), Sums: p.Sums,
	}
}

func (h *Handler) shares(ctx context.Context) []share {
	counts, err := h.Queue.ReserveCounts(ctx, h.Now().Add(-recent))
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
