package jobs

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/list"
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
	g.POST("/tasks/:id/continue", page.Need(account.RoleOperator, h.taskContinue))
	h.Hub.Register("tasks", tasksEvery, "partials/tasks_rows", func(ctx context.Context, _ string) (any, error) {
		return h.Tasks.ListTasks(ctx, tasksShown)
	})
	h.Hub.Register("task", tasksEvery, "partials/task_progress", func(ctx context.Context, id string) (any, error) {
		n, ok := list.ID(id)
		if !ok {
			return nil, bulk.ErrNoTask
		}
		return h.Tasks.GetTask(ctx, n)
	})
}

func (h *Handler) tasksPage(c echo.Context) error {
	list, err := h.Tasks.ListTasks(c.Request().Context(), tasksShown)
	if err != nil {
		return err
	}
	return h.Pages.Render(c, http.StatusOK, "tasks", list)
}

// task returns the task that the path names.
func (h *Handler) task(c echo.Context) (*bulk.Task, error) {
	id, ok := list.ID(c.Param("id"))
	if !ok {
		return nil, echo.ErrNotFound
	}
	return h.Tasks.GetTask(c.Request().Context(), id)
}

func (h *Handler) taskPage(c echo.Context) error {
	t, err := h.task(c)
	if err != nil {
		return err
	}
	return h.Pages.Render(c, http.StatusOK, "task", t)
}

func (h *Handler) taskCancel(c echo.Context) error {
	t, err := h.task(c)
	if err != nil {
		return err
	}
	text := "tasks.has_ended"
	if t.Open() {
		text = "tasks.cancelling"
		if err := h.Tasks.CancelTask(c.Request().Context(), page.Actor(c), t.ID); err != nil {
			return err
		}
	}
	h.Flashes.Add(c, "info", text)
	return h.Pages.Redirect(c, h.Pages.Below("/tasks", strconv.FormatUint(t.ID, 10)))
}

// taskContinue starts a task with what a re-drive that ended early has left.
func (h *Handler) taskContinue(c echo.Context) error {
	t, err := h.task(c)
	if err != nil {
		return err
	}
	below := h.Pages.Below("/tasks", strconv.FormatUint(t.ID, 10))
	if !t.Stuck() {
		h.Flashes.Add(c, "info", "tasks.has_ended")
		return h.Pages.Redirect(c, below)
	}
	next, err := h.Tasks.Start(c.Request().Context(), page.Actor(c), t.Rest())
	if err != nil {
		return h.refuse(c, err, below)
	}
	return h.Pages.Redirect(c, h.Pages.Below("/tasks", next))
}
