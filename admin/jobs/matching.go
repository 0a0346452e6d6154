package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func (h *Handler) matchingRoutes(g *echo.Group) {
	g.GET("/topics/:topic/matching", page.WithTopic(h.Registry, h.countMatching))
	g.POST("/topics/:topic/matching", page.Need(account.RoleOperator, page.WithTopic(h.Registry, h.startBulk)))
	g.POST("/topics/:topic/jobs", page.Need(account.RoleOperator, page.WithTopic(h.Registry, h.bulkJobs)))
}

const (
	countPage  = 1000
	countLimit = 30 * time.Second
)

// matching describes a filter and how many jobs match it.
type matching struct {
	Topic   string
	Filter  bulk.Filter
	Form    map[string]string
	Actions []string
	Problem *message.Message // error in the filter
	Count   int64
	Counted bool // false: another request counts
	AtLeast bool // the count is incomplete
	Query   string
}

func newMatching(topic string, f bulk.Filter) matching {
	return matching{
		Topic: topic, Filter: f, Form: filterFields(f), Actions: bulk.Actions(f.State), Query: filterQuery(f),
	}
}

// JobList is a page of matching jobs.
type JobList struct {
	Jobs     []store.Job
	Pager    list.Pager
	Matching matching
	Held     *held // what happens to jobs that are made due now
}

// ListMatching returns a page of the matching jobs, and counts them all if that is quick. all is the number of jobs in
// the state.
func (h *Handler) ListMatching(c echo.Context, topic string, state store.State, all int64) (l JobList, err error) {
	query := c.QueryParams()
	query.Set("state", string(state))
	f, err := readTopicFilter(topic, query, page.Zone(c))
	l.Matching = newMatching(topic, f)
	if errors.As(err, &l.Matching.Problem) {
		return l, nil
	}
	if f.State == store.Finished {
		return l, h.finishedPage(c, &l, f)
	}
	if err := h.matchingPage(c, &l, f); err != nil {
		return l, err
	}
	if f.State == store.Delayed || f.State == store.Dead {
		l.Held = h.heldOf(c.Request().Context(), []string{topic})
	}
	if !f.Narrow() {
		l.Matching.Count, l.Matching.Counted = max(all, int64(len(l.Jobs))), true // all may be old
		return l, nil
	}
	h.count(c.Request().Context(), &l.Matching, h.Patience)
	l.Matching.Counted = !l.Matching.AtLeast
	return l, nil
}

// finishedPage lists finished jobs, whose ids may be filtered by a prefix.
func (h *Handler) finishedPage(c echo.Context, l *JobList, f bulk.Filter) error {
	prefix := strings.TrimPrefix(f.ID, "^")
	jobs, next, err := h.Queue.ListFinished(c.Request().Context(), f.Topic, prefix, c.QueryParam("cursor"), jobsEach)
	l.Jobs, l.Pager = jobs, list.ByCursor(c.QueryParams(), next)
	return err
}

const (
	jobsEach    = 50
	jobsOrdered = 1000 // delayed jobs that are sorted by time: the queue's order is only approximate
)

// orderedPage lists a page of the next jobsOrdered delayed jobs. The cursor is the queue's cursor, ~ and how many of
// these jobs were already listed.
func (h *Handler) orderedPage(c echo.Context, l *JobList, f bulk.Filter) error {
	cursor, shown, _ := strings.Cut(c.QueryParam("cursor"), "~")
	jobs, next, err := h.Queue.List(c.Request().Context(), f.Topic, f.State, cursor, jobsOrdered)
	if err != nil {
		return err
	}
	slices.SortStableFunc(jobs, func(x, y store.Job) int { return x.NextAt.Compare(y.NextAt) })
	from, _ := strconv.Atoi(shown)
	from = min(max(from, 0), len(jobs))
	to := min(from+jobsEach, len(jobs))
	if l.Jobs = jobs[from:to]; to < len(jobs) {
		next = fmt.Sprintf("%s~%d", cursor, to)
	}
	l.Pager = list.ByCursor(c.QueryParams(), next)
	return nil
}

// matchingPage lists fewer than twice jobsEach of the matching jobs.
func (h *Handler) matchingPage(c echo.Context, l *JobList, f bulk.Filter) error {
	if f.State == store.Delayed && !f.Narrow() {
		return h.orderedPage(c, l, f)
	}
	until := time.Now().Add(h.Patience)
	jobs, next, err := h.matching(c.Request().Context(), f, f.Topic, c.QueryParam("cursor"), jobsEach, until)
	if f.State == store.Delayed {
		slices.SortStableFunc(jobs, func(x, y store.Job) int { return x.NextAt.Compare(y.NextAt) })
	}
	l.Jobs, l.Pager = jobs, list.ByCursor(c.QueryParams(), next)
	return err
}

// matching returns a topic's matching jobs, until it has enough or time is up.
func (h *Handler) matching(
	ctx context.Context, f bulk.Filter, topic, cursor string, want int, until time.Time,
) (list []store.Job, next string, err error) {
	for next = cursor; ; {
		var jobs []store.Job
		if jobs, next, err = h.Queue.List(ctx, topic, f.State, next, want); err != nil {
			return nil, "", err
		}
		for i := range jobs {
			if f.Match(&jobs[i]) {
				list = append(list, jobs[i])
			}
		}
		if next == "" || len(list) >= want || time.Now().After(until) {
			return list, next, nil
		}
	}
}

// count counts the matching jobs, within a time limit.
func (h *Handler) count(ctx context.Context, m *matching, limit time.Duration) {
	until := time.Now().Add(limit)
	m.Count, m.AtLeast = 0, false
	for cursor := ""; ; {
		jobs, next, err := h.Queue.List(ctx, m.Topic, m.Filter.State, cursor, countPage)
		if err != nil {
			m.AtLeast = true
			return
		}
		for i := range jobs {
			if m.Filter.Match(&jobs[i]) {
				m.Count++
			}
		}
		if cursor = next; cursor == "" {
			return
		}
		if time.Now().After(until) {
			m.AtLeast = true
			return
		}
	}
}

// countMatching renders the part of the page with the count, when counting takes long.
func (h *Handler) countMatching(c echo.Context, t *registry.Topic) error {
	f, err := readTopicFilter(t.Name, c.QueryParams(), page.Zone(c))
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, h.Texts.Explain(c, err))
	}
	m := newMatching(t.Name, f)
	m.Counted = true
	if f.Narrow() {
		h.count(c.Request().Context(), &m, countLimit)
	} else { // reading all jobs would give the same number
		stats, err := h.Queue.Stats(c.Request().Context(), []string{t.Name})
		m.Count, m.AtLeast = stats[t.Name].Of(f.State), err != nil
	}
	return h.Pages.Fragment(c, "topic#counted", m)
}

// startBulk starts a task on all matching jobs.
func (h *Handler) startBulk(c echo.Context, t *registry.Topic) error {
	form, err := c.FormParams()
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest)
	}
	p, err := readBulk(t.Name, form, page.Zone(c))
	if err != nil {
		return h.refuse(c, err, "/topics")
	}
	id, err := h.Tasks.Start(c.Request().Context(), page.Actor(c), p)
	if err != nil {
		return h.refuse(c, err, "/topics")
	}
	return h.Pages.Redirect(c, h.Pages.Below("/tasks", id))
}

func readBulk(topic string, form url.Values, zone *time.Location) (p bulk.Params, err error) {
	p.Do = form.Get("do")
	if p.Filter, err = readTopicFilter(topic, form, zone); err != nil || p.Do != bulk.Due {
		return p, err
	}
	p.At, p.Shift, err = readDue(form, zone)
	return p, err
}

// refuse shows the error in a form on the page that the form came from, or on the given one.
func (h *Handler) refuse(c echo.Context, err error, from string) error {
	var m message.Message
	if !errors.As(err, &m) {
		return err
	}
	h.Flashes.Add(c, "warning", m.Code, m.Args...)
	return h.Pages.Back(c, from)
}

// bulkJobs acts on the jobs whose boxes are checked, at most one page of them.
func (h *Handler) bulkJobs(c echo.Context, t *registry.Topic) error {
	form, err := c.FormParams()
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest)
	}
	ids := form["job"]
	ids = ids[:min(len(ids), countPage)]
	if len(ids) == 0 {
		h.Flashes.Add(c, "warning", "topic.none_checked")
		return h.Pages.Back(c, "/topics")
	}
	do := bulk.Action{Do: form.Get("do")}
	if do.Do == bulk.Due {
		if do.At, do.Shift, err = readDue(form, page.Zone(c)); err != nil {
			return h.refuse(c, err, "/topics")
		}
	}
	result, err := bulk.Apply(c.Request().Context(), h.Queue, t.Name, ids, do, store.State(form.Get("state")))
	if err != nil {
		return h.refuse(c, err, "/topics")
	}
	h.flashResult(c, result, len(ids))
	return h.Pages.Back(c, "/topics")
}

// flashResult shows the result of an action on the checked jobs.
func (h *Handler) flashResult(c echo.Context, r bulk.Result, of int) {
	if r.Error != "" {
		h.Flashes.AddText(c, "danger", r.Error)
	}
	if skipped := r.Skipped() + r.Failed; skipped > 0 {
		h.Flashes.Add(c, "warning", "bulk.not_all", r.Done, of, r.Running, r.Gone+r.Moved, r.Failed)
		return
	}
	h.Flashes.Add(c, "success", "topic.acted", r.Done, of)
}
