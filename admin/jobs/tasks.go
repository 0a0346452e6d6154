package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/registry/database"
)

const (
	tasksShown = 50
	tasksEvery = time.Second

	leaseNameLimit = 56 // characters of the host's name in the name of a lease
)

func (h *Handler) tasksRoutes(g *echo.Group) {
	g.GET("/tasks", h.tasksPage)
	g.GET("/tasks/:id", h.taskPage)
	g.POST("/tasks/:id/cancel", h.Need(account.RoleOperator, h.taskCancel))
	h.Live("tasks", tasksEvery, "partials/tasks_rows", func(ctx context.Context, _ string) (any, error) {
		return h.runner.Tasks(ctx, tasksShown)
	})
	h.Live("task", tasksEvery, "partials/task_progress", func(ctx context.Context, id string) (any, error) {
		n, ok := page.ID(id)
		if !ok {
			return nil, bulk.ErrNoTask
		}
		return h.taskView(ctx, n)
	})
}

func (h *Handler) newRunner() *bulk.Runner {
	return bulk.NewRunner(bulk.Options{
		Store: h.Tasks, Queue: h.Queue, Topics: func() []string { return h.Snapshot().Topics.Names() },
		Patience: h.outcomePatience,
		Dir:      h.WorkDir, Host: h.Host, Lead: h.leadTasks, Log: h.Log, Now: h.Now,
	})
}

// leadTasks takes or extends the lease on this host's tasks.
func (h *Handler) leadTasks(ctx context.Context, ttl time.Duration) (bool, error) {
	host := database.Clip(h.Host, leaseNameLimit)
	return h.Lead(ctx, "tasks/"+host, fmt.Sprintf("%s/%d", host, os.Getpid()), ttl)
}

// stagePatience is how long a stage of a re-drive waits for its outcomes, in addition to the topic's TTR.
const stagePatience = 2 * time.Minute

func (h *Handler) outcomePatience(topic string) time.Duration {
	if t := h.Snapshot().Topics.Get(topic); t != nil {
		return stagePatience + t.TTR.Std()
	}
	return stagePatience
}

func (h *Handler) tasksPage(c echo.Context) error {
	list, err := h.runner.Tasks(c.Request().Context(), tasksShown)
	if err != nil {
		return err
	}
	return h.Render(c, http.StatusOK, "tasks", list)
}

// taskView is what a task's page shows.
type taskView struct{ *bulk.Task }

// ByForm reports whether the task is about dead jobs selected on the dead-letter page, rather than jobs of one topic.
func (v taskView) ByForm() bool { return v.Kind == bulk.KindRedrive || v.Kind == bulk.KindDeleteDead }

func (h *Handler) taskView(ctx context.Context, id uint64) (*taskView, error) {
	t, err := h.runner.Task(ctx, id)
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
	return h.Render(c, http.StatusOK, "task", v)
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
		if err := h.runner.Cancel(c.Request().Context(), page.Actor(c), id); err != nil {
			return err
		}
	}
	h.Flash(c, "info", said)
	return h.Redirect(c, h.Below("/tasks", strconv.FormatUint(id, 10)))
}
