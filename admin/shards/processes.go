package shards

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/master"
)

func (h *Handler) processesRoutes(g *echo.Group) {
	tree := func(ctx context.Context, arg string) (any, error) { return h.processTree(ctx, arg == "edit"), nil }
	h.Hub.Register("processes", 3*time.Second, "partials/processes", tree)
	g.GET("/processes", h.processesPage)
	g.POST("/processes/reload", page.Need(account.RoleAdmin, h.reload))
	g.POST("/processes/restart", page.Need(account.RoleOperator, h.restart))
}

type processesData struct {
	Tree              processTree
	Changed, Defaults []conf.Setting // keys that are set, and the others
}

// processTree lists the running processes, or why they are unknown.
type processTree struct {
	*master.Tree
	Lines   []processLine
	Missing bool   // the master does not answer
	Problem string // another error
	CanEdit bool
}

type processLine struct {
	master.Process
	master.Status
}

// Color returns the color for the state.
func (l processLine) Color() string {
	switch l.State {
	case "running", "adopted":
		return "green"
	case "starting":
		return "blue"
	}
	return "red"
}

// Busy reports whether the process makes callbacks.
func (l processLine) Busy() bool { return l.InFlight != nil }

// Managed reports whether the master can restart the process, which is every process except its redis-server.
func (l processLine) Managed() bool { return l.Role != "redis-server" }

const psLimit = 5 * time.Second

func (h *Handler) processTree(ctx context.Context, edit bool) processTree {
	ctx, cancel := context.WithTimeout(ctx, psLimit)
	defer cancel()
	tree, err := h.Master.Ps(ctx)
	if errors.Is(err, master.ErrNoMaster) {
		return processTree{Missing: true}
	}
	if err != nil {
		return processTree{Problem: err.Error()}
	}
	t := processTree{Tree: tree, CanEdit: edit}
	for _, p := range tree.Processes {
		t.Lines = append(t.Lines, processLine{p, p.Reported()})
	}
	return t
}

func (h *Handler) processesPage(c echo.Context) error {
	data := processesData{Tree: h.processTree(c.Request().Context(),
		page.Reaches(page.Viewer(c).Role, account.RoleOperator))}
	if page.Reaches(page.Viewer(c).Role, account.RoleOperator) {
		for _, s := range h.Config.Effective() {
			if s.Source == "default" {
				data.Defaults = append(data.Defaults, s)
			} else {
				data.Changed = append(data.Changed, s)
			}
		}
	}
	return h.Pages.Render(c, http.StatusOK, "processes", data)
}

func (h *Handler) reload(c echo.Context) error {
	h.Log.Info("reload requested", "user", page.Viewer(c).Name)
	return h.ordered(c, "processes.reloaded", h.Master.Reload)
}

func (h *Handler) restart(c echo.Context) error {
	role := c.FormValue("role")
	number, _ := strconv.Atoi(c.FormValue("number")) // 0: the only one of its role
	h.Log.Info("restart requested", "user", page.Viewer(c).Name, "role", role, "number", number)
	return h.ordered(c, "processes.restarted", func(ctx context.Context) error {
		return h.Master.Restart(ctx, role, number)
	})
}

const (
	orderLimit = 2 * time.Minute
	orderWait  = 2 * time.Second
)

// ordered sends the master a request and waits briefly for the outcome. The request continues afterwards: if it
// replaces this process, the answer must be sent first.
func (h *Handler) ordered(c echo.Context, done string, order func(context.Context) error) error {
	result := make(chan error, 1)
	if !h.Hub.Spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, orderLimit)
		defer cancel()
		result <- order(ctx)
	}) {
		return echo.NewHTTPError(http.StatusServiceUnavailable)
	}
	select {
	case err := <-result:
		if err != nil {
			h.Flashes.AddError(c, err)
		} else {
			h.Flashes.Add(c, "success", done)
		}
	case <-time.After(orderWait):
		h.Flashes.Add(c, "info", "processes.under_way")
	case <-h.Hub.Done():
		h.Flashes.Add(c, "info", "processes.under_way")
	}
	return h.Pages.Redirect(c, "/processes")
}
