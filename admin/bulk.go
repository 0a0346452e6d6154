package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/bulk"
	"github.com/wakecall/wakecall/registry"
)

func (a *Admin) bulkRoutes(g *echo.Group) {
	g.GET("/topics/:topic/matching", a.countMatching)
	g.POST("/topics/:topic/matching", a.need(account.RoleOperator, a.startBulk))
}

const (
	matchAtOnce = 100 * time.Millisecond // of looking for one page of those that match
	countAtOnce = 150 * time.Millisecond // see Admin.patience
	countPage   = 1000
	countLimit  = 30 * time.Second
)

// matching is how many jobs the filter is about.
type matching struct {
	Topic   string
	Filter  bulk.Filter
	Form    map[string]string
	Actions []string
	Problem *bulk.LocalizedError // what is wrong with the filter
	Count   int64
	Counted bool // false: it is being asked for
	AtLeast bool // it was not counted to the end
	Query   string
}

func newMatching(topic string, f bulk.Filter) matching {
	m := matching{Topic: topic, Filter: f, Form: filterFields(f), Actions: bulk.Actions(f.State)}
	q := url.Values{}
	for name, value := range m.Form {
		if value != "" {
			q.Set(name, value)
		}
	}
	m.Query = q.Encode()
	return m
}

// fillMatching lists a page of the jobs that match, and counts them all if that is quick.
func (a *Admin) fillMatching(c echo.Context, d *topicData) error {
	query := c.QueryParams()
	query.Set("state", string(d.State))
	f, err := readTopicFilter(d.Name, query)
	d.Matching = newMatching(d.Name, f)
	if errors.As(err, &d.Matching.Problem) {
		return nil
	}
	if err := a.matchingPage(c, d, f); err != nil {
		return err
	}
	if !f.Narrow() {
		d.Matching.Count, d.Matching.Counted = d.Count(d.State), true
		return nil
	}
	a.count(c.Request().Context(), &d.Matching, a.patience)
	d.Matching.Counted = !d.Matching.AtLeast
	return nil
}

// matchingPage looks for jobs that match for a bounded time; fewer than twice jobsEach are found.
func (a *Admin) matchingPage(c echo.Context, d *topicData, f bulk.Filter) error {
	until := time.Now().Add(matchAtOnce)
	for cursor := c.QueryParam("cursor"); ; {
		jobs, next, err := a.queue.List(c.Request().Context(), d.Name, d.State, cursor, jobsEach)
		if err != nil {
			return err
		}
		for i := range jobs {
			if f.Match(&jobs[i]) {
				d.Jobs = append(d.Jobs, jobs[i])
			}
		}
		cursor = next
		if cursor == "" || !f.Narrow() || len(d.Jobs) >= jobsEach || time.Now().After(until) {
			d.Pager = cursorPager(c, cursor)
			return nil
		}
	}
}

// count counts what matches, as long as it may.
func (a *Admin) count(ctx context.Context, m *matching, limit time.Duration) {
	until := time.Now().Add(limit)
	m.Count, m.AtLeast = 0, false
	for cursor := ""; ; {
		jobs, next, err := a.queue.List(ctx, m.Topic, m.Filter.State, cursor, countPage)
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

// countMatching answers the part of the page that counts, where that takes long.
func (a *Admin) countMatching(c echo.Context) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	f, err := readTopicFilter(t.Name, c.QueryParams())
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, err.Error())
	}
	m := newMatching(t.Name, f)
	a.count(c.Request().Context(), &m, countLimit)
	m.Counted = true
	return a.fragment(c, "topic#counted", m)
}

// startBulk leaves what is to be done with all that match to the task runner.
func (a *Admin) startBulk(c echo.Context) error {
	t, form, err := a.topicForm(c)
	if err != nil {
		return err
	}
	p, err := readBulk(t.Name, form)
	if err != nil {
		return a.refuse(c, err)
	}
	id, err := a.runner().Start(c.Request().Context(), actor(c), bulk.KindJobs(p.Do), p)
	if err != nil {
		return a.refuse(c, err)
	}
	return a.redirect(c, a.below("/tasks", id))
}

// topicForm is the topic of a request and the form that came with it.
func (a *Admin) topicForm(c echo.Context) (*registry.Topic, url.Values, error) {
	t, err := a.topicOf(c)
	if err != nil {
		return nil, nil, err
	}
	form, err := c.FormParams()
	if err != nil {
		return nil, nil, echo.NewHTTPError(http.StatusBadRequest)
	}
	return t, form, nil
}

func readBulk(topic string, form url.Values) (p bulk.Params, err error) {
	p.Do = form.Get("do")
	if p.Filter, err = readTopicFilter(topic, form); err != nil || p.Do != bulk.Due {
		return p, err
	}
	p.At, p.Shift, err = readDue(form)
	return p, err
}

// refuse says what is wrong with a form in the page that it came from.
func (a *Admin) refuse(c echo.Context, err error) error {
	var localized *bulk.LocalizedError
	if !errors.As(err, &localized) {
		return err
	}
	a.flash(c, "warning", localized.Key, localized.Args...)
	return a.back(c, "/topics")
}

// bulkJobs does something with the jobs that are checked, at most a page of them.
func (a *Admin) bulkJobs(c echo.Context) error {
	t, form, err := a.topicForm(c)
	if err != nil {
		return err
	}
	ids := form["job"]
	ids = ids[:min(len(ids), countPage)]
	if len(ids) == 0 {
		a.flash(c, "warning", "topic.none_checked")
		return a.back(c, "/topics")
	}
	do := bulk.Action{Do: form.Get("do")}
	if do.Do == bulk.Due {
		if do.At, do.Shift, err = readDue(form); err != nil {
			return a.refuse(c, err)
		}
	}
	result, err := bulk.Apply(c.Request().Context(), a.queue, t.Name, ids, do)
	if err != nil {
		return a.refuse(c, err)
	}
	a.tell(c, result, len(ids))
	return a.back(c, "/topics")
}

// tell says what came of the jobs that were checked.
func (a *Admin) tell(c echo.Context, r bulk.Result, of int) {
	if r.Error != "" {
		a.flashText(c, "danger", r.Error)
	}
	if skipped := r.Skipped() + r.Failed; skipped > 0 {
		a.flash(c, "warning", "bulk.not_all", r.Done, of, r.Running, r.Gone+r.Moved, r.Failed)
		return
	}
	a.flash(c, "success", "topic.acted", r.Done, of)
}
