package jobs

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

const (
	foundMost    = 8   // of each kind
	searchStep   = 500 // jobs per call to the queue
	searchTopics = 250 // topics per call
	searchAtOnce = 100 * time.Millisecond
	searchOn     = 2 * time.Second // how long a shown page keeps searching, and a search for the id alone
)

// place is a page of the admin that the search finds.
type place struct{ Path, Key, Role string }

var places = []place{
	{"/", "nav.overview", "viewer"}, {"/topics", "nav.topics", "viewer"},
	{"/schedules", "nav.schedules", "viewer"}, {"/push", "nav.push", "operator"},
	{"/dead", "nav.dead", "viewer"}, {"/deliveries", "nav.deliveries", "viewer"},
	{"/tasks", "nav.tasks", "viewer"}, {"/shards", "nav.shards", "viewer"},
	{"/alerts", "nav.alerts", "viewer"}, {"/alerts/settings", "alerts.settings_title", "admin"},
	{"/processes", "nav.processes", "viewer"}, {"/access", "nav.access", "admin"}, {"/audit", "nav.audit", "viewer"},
	{"/account", "nav.account", "viewer"},
}

type searchData struct {
	Text      string
	Group     bool // there is a group of that name
	Places    []place
	Topics    []string
	Schedules []string
	Jobs      []*store.Job
	Some      bool // not all jobs were searched
	cut       bool // not all topics were searched for the id
	More      bool // the page keeps searching
	Whole     bool // it is a whole page, which also searches the journals
	Away      string
}

// searchPage finds pages, topics, schedules, a group, and jobs by id or prefix of an id; htmx calls it while the user
// types. It redirects to an unambiguous topic, schedule or job. It shows quick results at once, and the page then keeps
// searching.
func (h *Handler) searchPage(c echo.Context) error {
	d := searchData{Text: strings.TrimSpace(c.QueryParam("id"))}
	typing := page.IsFragment(c)
	d.Whole = !typing || c.QueryParam("on") != ""
	if d.Text == "" {
		if typing {
			return h.Pages.Fragment(c, "partials/found", d)
		}
		return h.Pages.Redirect(c, "/topics")
	}
	d.Group = h.isGroup(c.Request().Context(), d.Text)
	known := h.Registry.Snapshot()
	isTopic, isSchedule := known.Topics.Get(d.Text) != nil, known.Schedules.Get(d.Text) != nil
	switch {
	case typing || d.Group || isTopic && isSchedule:
	case isTopic:
		return h.Pages.Redirect(c, h.Pages.Below("/topics", d.Text))
	case isSchedule:
		return h.Pages.Redirect(c, h.Pages.Below("/schedules", d.Text))
	}
	on := typing && c.QueryParam("on") != ""
	if err := h.findJobs(c.Request().Context(), &d, on); err != nil {
		d.Away = h.Texts.Explain(c, err)
	}
	d.More = d.Some && !typing
	h.findNames(c, &d)
	if typing {
		return h.Pages.Fragment(c, "partials/found", d)
	}
	alone := len(d.Jobs) == 1 && !d.Group && len(d.Topics)+len(d.Schedules)+len(d.Places) == 0 && d.Away == "" && !d.cut
	if alone && d.Jobs[0].ID == d.Text {
		return h.Pages.Redirect(c, h.Pages.Below("/topics", d.Jobs[0].Topic, "jobs", d.Jobs[0].ID))
	}
	return h.Pages.Render(c, http.StatusOK, "search", d)
}

// Exact reports whether a job with the id itself was found.
func (d searchData) Exact() bool {
	return slices.ContainsFunc(d.Jobs, func(j *store.Job) bool { return j.ID == d.Text })
}

// findNames finds topics, schedules and pages.
func (h *Handler) findNames(c echo.Context, d *searchData) {
	text := strings.ToLower(d.Text)
	for name, t := range h.Registry.Snapshot().Topics.All() {
		if len(d.Topics) < foundMost && strings.Contains(name+" "+strings.ToLower(t.Title), text) {
			d.Topics = append(d.Topics, name)
		}
	}
	for name := range h.Registry.Snapshot().Schedules.All() {
		if len(d.Schedules) < foundMost && strings.Contains(name, text) {
			d.Schedules = append(d.Schedules, name)
		}
	}
	for _, p := range places {
		if strings.Contains(strings.ToLower(h.Texts.T(c, p.Key)), text) {
			d.Places = append(d.Places, p)
		}
	}
}

// isGroup reports whether a group has jobs, or is closed, as far as the shards answer.
func (h *Handler) isGroup(ctx context.Context, name string) bool {
	if store.CheckID(name) != nil {
		return false
	}
	g, _ := h.Queue.Group(ctx, name, everyTopic, 0) // findJobs says which shards do not answer
	return g.Counts != queue.GroupCounts{} || !g.ClosedUntil.IsZero()
}

// findJobs finds the jobs with an id, and, as time allows, jobs whose ids begin with it. When the page keeps searching,
// it searches all topics for the id itself.
func (h *Handler) findJobs(ctx context.Context, d *searchData, on bool) error {
	until := h.Now().Add(searchAtOnce)
	for some := range slices.Chunk(h.Registry.Snapshot().Topics.Names(), searchTopics) {
		if d.cut = !on && h.Now().After(until); d.cut {
			d.Some = true
			return nil
		}
		refs := make([]store.Ref, len(some))
		for i, topic := range some {
			refs[i] = store.Ref{Topic: topic, ID: d.Text}
		}
		exact, err := h.Queue.Find(ctx, refs)
		for _, j := range exact {
			if j != nil {
				d.Jobs = append(d.Jobs, j)
			}
		}
		if err != nil {
			return err
		}
	}
	if on {
		until = h.Now().Add(searchOn)
	}
	counts := h.Counts.Counts(ctx)
	for _, state := range []store.State{store.Dead, store.Running, store.Ready, store.Delayed} {
		for _, topic := range page.SortedKeys(counts.Topics) {
			n := counts.Topics[topic]
			if n.Of(state) == 0 {
				continue
			}
			err := h.findPrefix(d, until, func(cursor string) ([]store.Job, string, error) {
				return h.Queue.List(ctx, topic, state, cursor, searchStep)
			})
			if err != nil || len(d.Jobs) >= foundMost || d.Some {
				return err
			}
		}
	}
	for _, topic := range h.Registry.Snapshot().Topics.Names() {
		err := h.findPrefix(d, until, func(cursor string) ([]store.Job, string, error) {
			return h.Queue.ListFinished(ctx, topic, d.Text, cursor, foundMost)
		})
		if err != nil || len(d.Jobs) >= foundMost || d.Some {
			return err
		}
	}
	return nil
}

// findPrefix searches a list until time is up or it has found enough.
func (h *Handler) findPrefix(
	d *searchData, until time.Time, list func(cursor string) ([]store.Job, string, error),
) error {
	for cursor := ""; ; {
		if d.Some = h.Now().After(until); d.Some {
			return nil
		}
		jobs, next, err := list(cursor)
		if err != nil {
			return err
		}
		for i := range jobs {
			if strings.HasPrefix(jobs[i].ID, d.Text) && jobs[i].ID != d.Text && len(d.Jobs) < foundMost {
				d.Jobs = append(d.Jobs, &jobs[i])
			}
		}
		if cursor = next; cursor == "" || len(d.Jobs) >= foundMost {
			return nil
		}
	}
}
