package jobs

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/bulk"
)

const (
	tasksShown = 50
	tasksEvery = time.Second
)

func (h *Handler) tasksRoutes(g *echo.Group) {
	g.GET("/tasks", h.tasksPage)
	g.GET("/tasks/:id", h.taskPage)
	g.POST("/tasks/:id/cancel", page.Need(account.RoleOperator, h.taskCancel))
	h.Hub.Register("tasks", tasksEvery, "partials/tasks_rows", func(ctx context.Context, _ string) (any, error) {
		return h.Tasks.Tasks(ctx, tasksShown)
	})
	h.Hub.Register("task", tasksEvery, "partials/task_progress", func(ctx context.Context, id string) (any, error) {
		n, ok := page.ID(id)
		if !ok {
			return nil, bulk.ErrNoTask
		}
		return h.taskView(ctx, n)
	})
}

func (h *Handler) tasksPage(c echo.Context) error {
	list, err := h.Tasks.Tasks(c.Request().Context(), tasksShown)
	if err != nil {
		return err
	}
	return h.Pages.Render(c, http.StatusOK, "tasks", list)
}

// taskView is what a task's page shows.
type taskView struct{ *bulk.Task }

// ByForm reports whether the task is about dead jobs selected on the dead-letter page, rather than jobs of one topic.
func (v taskView) ByForm() bool { return v.Kind == bulk.KindRedrive || v.Kind == bulk.KindDeleteDead }

func (h *Handler) taskView(ctx context.Context, id uint64) (*taskView, error) {
	t, err := h.Tasks.Task(ctx, id)
	if errors.Is(err, bulk.ErrNoTask) {
		return nil, echo.NewHTTPError(http.StatusNotFound, err.Error())
	}
	if err != nil {
		return nil, err
	}
	return &taskView{t}, nil
}

func taskID(c echo.Context) (uint64, error) {
	id, ok := page.ID(c.Param("id"))
	if !ok {
		return 0, echo.ErrNotFound
	}
	return id, nil
}

func (h *Handler) taskPage(c echo.Context) error {
	id, err := taskID(c)
	if err != nil {
		return err
	}
	v, err := h.taskView(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return h.Pages.Render(c, http.StatusOK, "task", v)
}

func (h *Handler) taskCancel(c echo.Context) error {
	id, err := taskID(c)
	if err != nil {
		return err
	}
	t, err := h.taskView(c.Request().Context(), id)
	if err != nil {
		return err
	}
	said := "tasks.has_ended"
	if t.Open() {
		said = "tasks.cancelling"
		if err := h.Tasks.Cancel(c.Request().Context(), page.Actor(c), id); err != nil {
			return err
		}
	}
	h.Flashes.Add(c, "info", said)
	return h.Pages.Redirect(c, h.Pages.Below("/tasks", strconv.FormatUint(id, 10)))
}
