package schedules

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
)

// backfillForm is a period as typed.
type backfillForm struct{ From, To, Overlap string }

type backfillData struct {
	*registry.Schedule
	Form     backfillForm
	Errors   map[string]string
	Overlaps []string
	Most     int
	Would    *recurring.Backfilled // what a backfill would do; nil: the period is still to be chosen
	Moments  []moment
}

func (h *Handler) backfillPage(c echo.Context, name string) error {
	s := h.Registry.Snapshot().Schedules.Get(name)
	if s == nil {
		return fmt.Errorf("%.80q: %w", name, registry.ErrNoSchedule)
	}
	now := h.Now().In(page.Zone(c)).Truncate(time.Minute)
	f := backfillForm{
		From: page.MinuteText(now.AddDate(0, 0, -1)), To: page.MinuteText(now), Overlap: string(registry.OverlapAllow),
	}
	return h.renderBackfill(c, http.StatusOK, backfillData{Schedule: s, Form: f})
}

func (h *Handler) renderBackfill(c echo.Context, status int, d backfillData) error {
	d.Most = recurring.MaxBackfill
	d.Overlaps = []string{
		string(registry.OverlapAllow), string(registry.OverlapSkip), string(registry.OverlapReplace),
	}
	return h.Pages.Render(c, status, "schedule_backfill", d)
}

// backfill says what a backfill would do, and does it once the user has seen that.
func (h *Handler) backfill(c echo.Context, name string) error {
	s := h.Registry.Snapshot().Schedules.Get(name)
	if s == nil {
		return fmt.Errorf("%.80q: %w", name, registry.ErrNoSchedule)
	}
	d := backfillData{Schedule: s, Form: backfillForm{c.FormValue("from"), c.FormValue("to"), c.FormValue("overlap")}}
	sure := c.FormValue("sure") != ""
	if sure && !h.Registry.Up() {
		return registry.ErrUnavailable
	}
	b, err := d.Form.read(c)
	ctx := context.WithoutCancel(c.Request().Context())
	if err == nil {
		b.DryRun = !sure
		d.Would, err = h.Schedules.Backfill(ctx, name, b)
	}
	if err != nil {
		fields, rest := h.Texts.FieldErrors(c, h.refusal(name, err))
		if rest != nil {
			return rest
		}
		d.Errors = fields
		return h.renderBackfill(c, http.StatusUnprocessableEntity, d)
	}
	if !sure {
		d.Moments = momentsOf(s, d.Would.Occurrences)
		return h.renderBackfill(c, http.StatusOK, d)
	}
	if err := h.noteBackfill(ctx, page.Actor(c), name, b, d.Would); err != nil {
		return err
	}
	return h.done(c, name, nil, "schedules.backfilled", page.Num(d.Would.Pushed), page.Num(d.Would.There),
		page.Num(d.Would.LeftOut))
}

func (f backfillForm) read(c echo.Context) (b recurring.Backfill, err error) {
	var fromErr, toErr error
	if b.From, fromErr = page.Minute(f.From, page.Zone(c)); fromErr != nil || b.From.IsZero() {
		fromErr = page.FieldError("from", "field.time", f.From)
	}
	if b.To, toErr = page.Minute(f.To, page.Zone(c)); toErr != nil || b.To.IsZero() {
		toErr = page.FieldError("to", "field.time", f.To)
	}
	b.Overlap = registry.Overlap(f.Overlap)
	return b, errors.Join(fromErr, toErr)
}

// auditedBackfill is a backfill in the audit trail.
type auditedBackfill struct {
	From    any `json:"from"`
	To      any `json:"to"`
	Pushed  int `json:"pushed"`
	There   int `json:"existing,omitzero"`
	LeftOut int `json:"left_out,omitzero"`
}

func (h *Handler) noteBackfill(
	ctx context.Context, actor, name string, b recurring.Backfill, did *recurring.Backfilled,
) error {
	return h.note(ctx, actor, "backfill", name, auditedBackfill{}, auditedBackfill{
		From: b.From.UTC(), To: b.To.UTC(), Pushed: did.Pushed, There: did.There, LeftOut: did.LeftOut,
	})
}
