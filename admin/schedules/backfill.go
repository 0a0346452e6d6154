package schedules

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
)

type backfillData struct {
	*registry.Schedule
	Form        page.Form
	Errors      map[string]string
	Most        int
	Asked       bool        // Occurrences are those of the period
	Occurrences []time.Time // by the clocks of the schedule's zone
}

func (h *Handler) backfillPage(c echo.Context, s *registry.Schedule) error {
	now := h.Now().In(page.Zone(c)).Truncate(time.Minute)
	f := page.Form{"from": page.MinuteText(now.AddDate(0, 0, -1)), "to": page.MinuteText(now)}
	f["overlap"] = string(registry.OverlapAllow)
	return h.renderBackfill(c, http.StatusOK, backfillData{Schedule: s, Form: f})
}

func (h *Handler) renderBackfill(c echo.Context, status int, d backfillData) error {
	d.Most = recurring.MaxBackfill
	return h.Pages.Render(c, status, "schedule_backfill", d)
}

// backfill shows the occurrences of a period, and pushes them once the user has seen that.
func (h *Handler) backfill(c echo.Context, s *registry.Schedule) error {
	d := backfillData{Schedule: s, Form: page.ReadForm(c)}
	b, did, err := h.tryBackfill(c, s, d.Form)
	if err != nil {
		fields, rest := h.Texts.FieldErrors(c, refusal(s, err))
		if rest != nil {
			return rest
		}
		d.Errors = fields
		return h.renderBackfill(c, http.StatusUnprocessableEntity, d)
	}
	if b.DryRun {
		d.Asked, d.Occurrences = true, inZone(zoneOf(s), did.Occurrences)
		return h.renderBackfill(c, http.StatusOK, d)
	}
	err = h.note(c, "backfill", s.Name, map[string]any{
		"from": b.From.UTC(), "to": b.To.UTC(), "pushed": did.Pushed, "existing": did.There, "left_out": did.LeftOut,
	})
	return h.done(c, s.Name, err, "schedules.backfilled", page.Num(did.Pushed), page.Num(did.There),
		page.Num(did.LeftOut))
}

// tryBackfill does what the form says, unless the audit trail could not have it.
func (h *Handler) tryBackfill(
	c echo.Context, s *registry.Schedule, f page.Form,
) (b recurring.Backfill, did *recurring.Backfilled, err error) {
	var fromErr, toErr error
	b.From, fromErr = f.Minute("from", page.Zone(c))
	b.To, toErr = f.Minute("to", page.Zone(c))
	if err := errors.Join(fromErr, toErr); err != nil {
		return b, nil, err
	}
	b.Overlap, b.DryRun = registry.Overlap(f["overlap"]), f["sure"] == ""
	if !b.DryRun && !h.Registry.Up() {
		return b, nil, registry.ErrUnavailable
	}
	did, err = h.Schedules.Backfill(context.WithoutCancel(c.Request().Context()), s.Name, b)
	return b, did, err
}
