package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/registry"
)

const (
	tasksShown = 50
	tasksEvery = time.Second

	leaseNameLimit = 56 // bytes of a host's name in that of a lease
)

func (a *Admin) tasksRoutes(g *echo.Group) {
	a.tasks = append(a.tasks, a.runner().run)
	g.GET("/tasks", a.tasksPage)
	g.GET("/tasks/:id", a.taskPage)
	g.POST("/tasks/:id/cancel", a.need(registry.RoleOperator, a.taskCancel))
	a.live("tasks", tasksEvery, "partials/tasks_rows", func(ctx context.Context, _ string) (any, error) {
		return a.runner().store.ListTasks(ctx, tasksShown)
	})
	a.live("task", tasksEvery, "partials/task_progress", func(ctx context.Context, id string) (any, error) {
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return nil, ErrNoTask
		}
		return a.taskView(ctx, n)
	})
}

// runner is made at its first use; routes are registered by one goroutine before anything is served.
func (a *Admin) runner() *taskRunner {
	if a.overview.runner == nil {
		a.overview.runner = newTaskRunner(a.opts.Pages.Tasks, a.host(), a.log, a.opts.Now)
		if lead := a.opts.Pages.Lead; lead != nil {
			host := a.host()
			host = host[:min(len(host), leaseNameLimit)]
			holder := fmt.Sprintf("%s/%d", host, os.Getpid())
			a.overview.runner.lead = func(ctx context.Context) (bool, error) { return lead(ctx, "tasks/"+host, holder, taskLease) }
		}
	}
	return a.overview.runner
}

func (a *Admin) tasksPage(c echo.Context) error {
	list, err := a.runner().store.ListTasks(c.Request().Context(), tasksShown)
	if err != nil {
		return err
	}
	return a.render(c, http.StatusOK, "tasks", list)
}

// taskView is what a task's page shows: what it is about beside how far it is.
type taskView struct {
	*Task
	About redriveParams
	Bulk  *bulkParams // of a task on all jobs of a topic that match; nil otherwise
}

func (a *Admin) taskView(ctx context.Context, id uint64) (*taskView, error) {
	t, err := a.runner().store.GetTask(ctx, id)
	if errors.Is(err, ErrNoTask) {
		return nil, echo.NewHTTPError(http.StatusNotFound, err.Error())
	}
	if err != nil {
		return nil, err
	}
	v := &taskView{Task: t}
	if strings.HasPrefix(t.Kind, bulkKind) {
		v.Bulk = &bulkParams{}
		_ = json.Unmarshal(t.Params, v.Bulk) // what it wrote itself
		return v, nil
	}
	_ = json.Unmarshal(t.Params, &v.About) // other kinds have other ones, and show what fits
	return v, nil
}

func taskID(c echo.Context) (uint64, error) {
	id, err := strconv.ParseUint(c.Param("id"), 10, 64)
	if err != nil {
		return 0, echo.ErrNotFound
	}
	return id, nil
}

func (a *Admin) taskPage(c echo.Context) error {
	id, err := taskID(c)
	if err != nil {
		return err
	}
	v, err := a.taskView(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return a.render(c, http.StatusOK, "task", v)
}

func (a *Admin) taskCancel(c echo.Context) error {
	id, err := taskID(c)
	if err != nil {
		return err
	}
	if err := a.runner().store.CancelTask(c.Request().Context(), actor(c), id); err != nil {
		return err
	}
	a.flash(c, "info", "tasks.cancelling")
	return a.redirect(c, a.below("/tasks", strconv.FormatUint(id, 10)))
}
