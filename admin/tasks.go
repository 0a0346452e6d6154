package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/bulk"
)

const (
	tasksShown = 50
	tasksEvery = time.Second

	leaseNameLimit = 56 // bytes of a host's name in that of a lease
)

func (a *Admin) tasksRoutes(g *echo.Group) {
	a.tasks = append(a.tasks, a.runner().Run)
	g.GET("/tasks", a.tasksPage)
	g.GET("/tasks/:id", a.taskPage)
	g.POST("/tasks/:id/cancel", a.need(account.RoleOperator, a.taskCancel))
	a.live("tasks", tasksEvery, "partials/tasks_rows", func(ctx context.Context, _ string) (any, error) {
		return a.runner().Tasks(ctx, tasksShown)
	})
	a.live("task", tasksEvery, "partials/task_progress", func(ctx context.Context, id string) (any, error) {
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return nil, bulk.ErrNoTask
		}
		return a.taskView(ctx, n)
	})
}

// runner is made at its first use; routes are registered by one goroutine before anything is served.
func (a *Admin) runner() *bulk.Runner {
	if a.overview.runner == nil {
		a.overview.runner = bulk.NewRunner(bulk.Options{
			Store: a.opts.Pages.Tasks, Queue: a.queue, Topics: a.topicNames, Patience: a.outcomePatience,
			Dir: a.opts.Pages.WorkDir, Host: a.host(), Lead: a.leadTasks(), Log: a.log, Now: a.opts.Now,
		})
	}
	return a.overview.runner
}

// leadTasks asks for the lease on this host's tasks; nil: there is one process.
func (a *Admin) leadTasks() func(context.Context, time.Duration) (bool, error) {
	lead := a.opts.Pages.Lead
	if lead == nil {
		return nil
	}
	host := a.host()
	host = host[:min(len(host), leaseNameLimit)]
	holder := fmt.Sprintf("%s/%d", host, os.Getpid())
	return func(ctx context.Context, ttl time.Duration) (bool, error) {
		return lead(ctx, "tasks/"+host, holder, ttl)
	}
}

// stagePatience is how long a stage of a re-drive waits for its outcomes, beside the topic's TTR.
const stagePatience = 2 * time.Minute

func (a *Admin) outcomePatience(topic string) time.Duration {
	if t := a.registry.Snapshot().Topics[topic]; t != nil {
		return stagePatience + t.TTR.Std()
	}
	return stagePatience
}

func (a *Admin) tasksPage(c echo.Context) error {
	list, err := a.runner().Tasks(c.Request().Context(), tasksShown)
	if err != nil {
		return err
	}
	return a.render(c, http.StatusOK, "tasks", list)
}

// taskView is what a task's page shows.
type taskView struct{ *bulk.Task }

// ByForm reports whether the task is on dead jobs that a form of the dead letters chose, rather than on jobs of a topic.
func (v taskView) ByForm() bool { return v.Kind == bulk.KindRedrive || v.Kind == bulk.KindDeleteDead }

// ShiftText is how far due times move, with a sign.
func (v taskView) ShiftText() string {
	if v.About.Shift < 0 {
		return "−" + duration(-v.About.Shift)
	}
	return "+" + duration(v.About.Shift)
}

func (a *Admin) taskView(ctx context.Context, id uint64) (*taskView, error) {
	t, err := a.runner().Task(ctx, id)
	if errors.Is(err, bulk.ErrNoTask) {
		return nil, echo.NewHTTPError(http.StatusNotFound, err.Error())
	}
	if err != nil {
		return nil, err
	}
	return &taskView{t}, nil
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
	if err := a.runner().Cancel(c.Request().Context(), actor(c), id); err != nil {
		return err
	}
	a.flash(c, "info", "tasks.cancelling")
	return a.redirect(c, a.below("/tasks", strconv.FormatUint(id, 10)))
}
