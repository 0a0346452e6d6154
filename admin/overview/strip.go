package overview

import (
	"context"
	"slices"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/alert"
)

const stripEvery = 2 * time.Second

// stripSource registers the live source of the strip.
func (h *Handler) stripSource() {
	h.Hub.Register("strip", stripEvery, "partials/strip", func(ctx context.Context, _ string) (any, error) {
		s := h.Strip(ctx)
		h.Pages.SetStrip(s)
		return s, nil
	})
}

// Strip returns the sums over all topics, and the number of problems.
func (h *Handler) Strip(ctx context.Context) *page.Strip {
	counts, o := h.Figures.Counts(ctx), h.overviewLive(ctx)
	s := &page.Strip{
		Made: h.Now(), Stats: counts.Sum(), Known: counts.Known(), Old: counts.Old(), At: counts.At,
		Missing: counts.Missing, SuccessRate: o.Now.Success(), LatenessP99: -1, Wrong: o.wrong(),
		Unattended: o.has("no_consumer"), Urgent: h.urgent(o),
	}
	s.Wrong["dead"] = int(s.Dead)
	if len(o.Late) > 0 {
		s.LatenessP99 = o.Late.Quantile(0.99)
	}
	return s
}

// has reports whether an alert of a kind is open.
func (o *overviewLive) has(kind string) bool {
	return slices.ContainsFunc(o.alerts.List, func(a alert.Alert) bool { return a.Has(kind) })
}

// wrong returns the number of problems by menu entry.
func (o *overviewLive) wrong() map[string]int {
	wrong := map[string]int{"overview": o.Problems.Count(), "alerts": len(o.alerts.List)}
	for _, s := range o.Shards {
		if s.Down() {
			wrong["shards"]++
		}
	}
	if o.Tree != nil {
		for _, p := range o.Tree.Processes {
			if p.State == "waiting" {
				wrong["processes"]++
			}
		}
	}
	return wrong
}

// urgent returns the menu entries where somebody has to act. Dead jobs alone are no reason.
func (h *Handler) urgent(o *overviewLive) (entries []string) {
	if len(o.Problems.List) > 0 && o.Problems.Color() == alert.Red {
		entries = append(entries, "overview")
	}
	if slices.ContainsFunc(o.alerts.List, func(a alert.Alert) bool { return a.Color(h.Now()) == alert.Red }) {
		entries = append(entries, "alerts")
	}
	return append(entries, "shards", "processes") // counted only if they are down
}
