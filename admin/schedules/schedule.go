package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule/calendar"
	"github.com/wakecall/wakecall/internal/store"
)

const scheduleEvery = 3 * time.Second

// scheduleView is the part of a schedule's page that changes while it is open.
type scheduleView struct {
	*recurring.View
	Paused   bool // now
	Words    message.Message
	Clocks   clocks
	ZoneData string // the release of the time zones
	Upcoming []moment
	Last     []store.Occurrence // newest first
	LeftOut  []leftOut          // nil: unknown
}

// leftOut is how many occurrences were left out for a reason.
type leftOut struct {
	Reason string
	N      int
}

// reasons are why occurrences are left out. Their texts are schedules.left_REASON and schedules.why_REASON.
var reasons = []string{"late", "overlap", "paused", "limit", "edited"}

func (h *Handler) view(ctx context.Context, name string) (*scheduleView, error) {
	v, err := h.Schedules.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &scheduleView{View: v, Paused: v.IsPaused(h.Now()), Words: inWords(v.Schedule), ZoneData: calendar.ZoneData(),
		Upcoming: momentsOf(v.Schedule, v.Next)}
	if rule, err := v.Rule(); err == nil {
		d.Clocks = clocksOf(v.Schedule, rule, h.Now())
	}
	if v.Err != nil {
		return d, nil
	}
	cursor := cmp.Or(v.Cursor, &store.Cursor{}) // there is none yet
	d.Last = slices.Clone(cursor.Last)
	slices.Reverse(d.Last)
	for _, reason := range reasons {
		d.LeftOut = append(d.LeftOut, leftOut{reason, cursor.LeftOut[reason]})
	}
	return d, nil
}

func (h *Handler) schedulePage(c echo.Context, name string) error {
	d, err := h.view(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return h.Pages.Render(c, http.StatusOK, "schedule", d)
}

// done shows an outcome on the schedule's page. A refusal of the change is shown there, too.
func (h *Handler) done(c echo.Context, name string, err error, key string, args ...any) error {
	switch {
	case err == nil:
		h.Flashes.Add(c, "success", key, append([]any{name}, args...)...)
	case errors.As(err, new(*registry.FieldError)):
		h.Flashes.AddError(c, err)
	default:
		return err
	}
	return h.Pages.Redirect(c, h.Pages.Below("/schedules", name))
}

func (h *Handler) pause(c echo.Context, name string) error {
	until, err := page.Minute(c.FormValue("until"), page.Zone(c))
	if err != nil {
		err = page.FieldError("until", "field.time", c.FormValue("until"))
	} else {
		_, err = h.Schedules.Pause(c.Request().Context(), page.Actor(c), name, until)
	}
	return h.done(c, name, err, "schedules.paused")
}

func (h *Handler) resume(c echo.Context, name string) error {
	_, err := h.Schedules.Resume(c.Request().Context(), page.Actor(c), name, c.FormValue("catch_up") != "")
	return h.done(c, name, err, "schedules.resumed")
}

func (h *Handler) remove(c echo.Context, name string) error {
	if err := h.Schedules.Delete(c.Request().Context(), page.Actor(c), name); err != nil {
		return err
	}
	h.Flashes.Add(c, "success", "schedules.deleted", name)
	return h.Pages.Redirect(c, "/schedules")
}

// run pushes a job now, also when the browser leaves. The audit trail has its id, so it is written afterwards; while
// its database is unavailable, nothing is run here.
func (h *Handler) run(c echo.Context, name string) error {
	if !h.Registry.Up() {
		return registry.ErrUnavailable
	}
	ctx := context.WithoutCancel(c.Request().Context())
	job, err := h.Schedules.Run(ctx, name)
	if err == nil {
		err = h.note(ctx, page.Actor(c), "run", name, map[string]any{"job": nil}, map[string]any{"job": job.ID})
	}
	if err != nil {
		return h.done(c, name, h.refusal(name, err), "")
	}
	return h.done(c, name, nil, "schedules.ran", job.ID)
}

// refusal returns an error as one that the user can do something about, if it is.
func (h *Handler) refusal(name string, err error) error {
	if s := h.Registry.Snapshot().Schedules.Get(name); s != nil && errors.Is(err, recurring.ErrTopicOffline) {
		return page.FieldError("", "field.offline", s.Topic)
	}
	return err
}

// note writes an entry of the audit trail.
func (h *Handler) note(ctx context.Context, actor, action, name string, before, after any) error {
	err := h.Registry.Change(ctx, actor, action, "schedule/"+name, func(_ *gorm.DB, c *registry.Changed) error {
		c.Before, c.After = before, after
		return nil
	})
	if err != nil {
		return fmt.Errorf("note %s of schedule %s: %w", action, name, err)
	}
	return nil
}
