package schedules

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

const scheduleEvery = 3 * time.Second

// scheduleView is the part of a schedule's page that changes while it is open.
type scheduleView struct {
	*recurring.View
	told
	Paused  bool               // now
	Last    []store.Occurrence // newest first
	LeftOut map[string]int     // by reason
	Reasons []string           // their texts are schedules.left_REASON and schedules.why_REASON
}

func (h *Handler) view(ctx context.Context, name string) (*scheduleView, error) {
	v, err := h.Schedules.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &scheduleView{View: v, Paused: v.IsPaused(h.Now()), Reasons: store.LeftOut}
	d.told, _ = tell(v.Schedule, h.Now()) // an invalid rule has no words
	if v.Cursor != nil {
		d.Last, d.LeftOut = slices.Clone(v.Cursor.Last), v.Cursor.LeftOut
		slices.Reverse(d.Last)
	}
	return d, nil
}

func (h *Handler) schedulePage(c echo.Context, s *registry.Schedule) error {
	d, err := h.view(c.Request().Context(), s.Name)
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

func (h *Handler) pause(c echo.Context, s *registry.Schedule) error {
	until, err := page.ReadForm(c).Minute("until", page.Zone(c))
	if err == nil {
		_, err = h.Schedules.Pause(c.Request().Context(), page.Actor(c), s.Name, until)
	}
	return h.done(c, s.Name, err, "schedules.paused")
}

func (h *Handler) resume(c echo.Context, s *registry.Schedule) error {
	_, err := h.Schedules.Resume(c.Request().Context(), page.Actor(c), s.Name, c.FormValue("catch_up") != "")
	return h.done(c, s.Name, err, "schedules.resumed")
}

func (h *Handler) remove(c echo.Context, s *registry.Schedule) error {
	if err := h.Schedules.Delete(c.Request().Context(), page.Actor(c), s.Name); err != nil {
		return err
	}
	h.Flashes.Add(c, "success", "schedules.deleted", s.Name)
	return h.Pages.Redirect(c, "/schedules")
}

// run pushes a job now, also when the browser leaves. The audit trail has its id, so it is written afterwards; while
// its database is unavailable, nothing is run here.
func (h *Handler) run(c echo.Context, s *registry.Schedule) error {
	if !h.Registry.Up() {
		return registry.ErrUnavailable
	}
	job, err := h.Schedules.Run(context.WithoutCancel(c.Request().Context()), s.Name)
	if err != nil {
		return h.done(c, s.Name, refusal(s, err), "")
	}
	err = h.note(c, "run", s.Name, map[string]any{"job": job.ID})
	return h.done(c, s.Name, err, "schedules.ran", job.ID)
}

// refusal returns an error as one that the user can do something about, if it is.
func refusal(s *registry.Schedule, err error) error {
	if errors.Is(err, recurring.ErrTopicOffline) {
		return page.FieldError("", "field.offline", s.Topic)
	}
	return err
}

// note writes what was done to the audit trail, also when the browser leaves.
func (h *Handler) note(c echo.Context, action, name string, did map[string]any) error {
	ctx := context.WithoutCancel(c.Request().Context())
	before := map[string]any{} // the trail shows what differs
	for name := range did {
		before[name] = nil
	}
	put := func(_ *gorm.DB, changed *registry.Changed) error {
		changed.Before, changed.After = before, did
		return nil
	}
	if err := h.Registry.Change(ctx, page.Actor(c), action, "schedule/"+name, put); err != nil {
		return fmt.Errorf("note %s of schedule %s: %w", action, name, err)
	}
	return nil
}
