package jobs

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Groups is the part of the queue that acts on whole groups.
type Groups interface {
	Group(ctx context.Context, group string, topics []string, limit int) (queue.Group, error)
	CancelGroup(ctx context.Context, group string, topics []string, closeFor time.Duration) (queue.Cancelled, error)
}

func (h *Handler) groupRoutes(g *echo.Group) {
	g.GET("/groups/:group", withGroup(h.groupPage))
	g.POST("/groups/:group", page.Need(account.RoleOperator, withGroup(h.cancelGroup)))
}

const groupJobs = 1000 // that are listed, by due time

// everyTopic is the pattern of the topics that users of the admin may see.
var everyTopic = []string{"*"}

// withGroup wraps a handler for the group that the path names.
func withGroup(h func(c echo.Context, group string) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		group := page.Param(c, "group")
		if store.CheckID(group) != nil {
			return echo.ErrNotFound
		}
		return h(c, group)
	}
}

type groupData struct {
	queue.Group
	Name    string
	Missing []string // shards that did not answer
	Pager   list.Pager
}

// Cancelled returns how many jobs a cancellation deletes.
func (d *groupData) Cancelled() int { return d.Counts.Delayed + d.Counts.Ready + d.Counts.Dead }

// Total returns the number of jobs.
func (d *groupData) Total() int { return d.Cancelled() + d.Counts.Running }

// Known reports whether the counts say anything.
func (d *groupData) Known() bool { return d.Total() > 0 || len(d.Missing) == 0 }

func (h *Handler) groupPage(c echo.Context, group string) error {
	g, err := h.Queue.Group(c.Request().Context(), group, everyTopic, groupJobs)
	if err != nil && !queue.IsPartial(err) {
		return err
	}
	d := groupData{
		Group: g, Name: group, Missing: queue.Missing(err),
		Pager: list.Numbered(c.QueryParams(), len(g.Jobs), jobsEach),
	}
	d.Jobs = list.Shown(d.Pager, g.Jobs)
	return h.Pages.Render(c, http.StatusOK, "group", &d)
}

// cancelGroup cancels a group, also when the browser leaves. The audit trail has the number of deleted jobs, so it is
// written afterwards; while its database is unavailable, no group is cancelled here.
func (h *Handler) cancelGroup(c echo.Context, group string) error {
	here := h.Pages.Below("/groups", group)
	closeFor, err := readClose(c.FormValue("close"))
	if err != nil {
		h.Flashes.AddError(c, err)
		return h.Pages.Redirect(c, here)
	}
	if !h.Registry.Up() {
		return registry.ErrUnavailable
	}
	ctx := context.WithoutCancel(c.Request().Context())
	done, err := h.Queue.CancelGroup(ctx, group, everyTopic, closeFor)
	if err != nil && done.Deleted == 0 {
		return err
	}
	h.flashCancelled(c, group, done, closeFor)
	if err != nil {
		h.Flashes.AddError(c, err)
	}
	if err := h.noteCancelled(ctx, page.Actor(c), group, done, closeFor); err != nil {
		return err
	}
	return h.Pages.Redirect(c, here)
}

// readClose reads for how long to close a group; an empty text: not.
func readClose(text string) (time.Duration, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	var d registry.Duration
	if err := d.UnmarshalText([]byte(text)); err != nil || d.Std() < queue.MinClose || d.Std() > queue.MaxClose {
		return 0, page.FieldError("close", "field.between", text, queue.MinClose, queue.MaxClose)
	}
	return d.Std(), nil
}

func (h *Handler) flashCancelled(c echo.Context, group string, done queue.Cancelled, closeFor time.Duration) {
	h.Flashes.Add(c, "success", "groups.cancelled", page.Num(done.Deleted), group)
	if done.Running > 0 {
		h.Flashes.Add(c, "info", "groups.still_running", page.Num(done.Running))
	}
	if closeFor > 0 {
		h.Flashes.Add(c, "info", "groups.closed", h.Texts.Words(c, closeFor))
	}
	if len(done.Pending) > 0 {
		h.Flashes.Add(c, "warning", "groups.pending", strings.Join(done.Pending, ", "))
	}
}

// auditedGroup is a group in the audit trail.
type auditedGroup struct {
	Jobs         int               `json:"jobs"` // waiting and dead
	StillRunning int               `json:"still_running,omitzero"`
	ClosedFor    registry.Duration `json:"closed_for,omitzero"`
	Pending      []string          `json:"pending,omitzero"`
}

func (h *Handler) noteCancelled(
	ctx context.Context, actor, group string, done queue.Cancelled, closeFor time.Duration,
) error {
	return h.Registry.Change(ctx, actor, "cancel", "group/"+group, func(_ *gorm.DB, c *registry.Changed) error {
		c.Before = auditedGroup{Jobs: done.Deleted}
		c.After = auditedGroup{
			StillRunning: done.Running, ClosedFor: registry.Duration(closeFor), Pending: done.Pending,
		}
		return nil
	})
}
