package jobs

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/queue"
)

func (h *Handler) deadRoutes(g *echo.Group) {
	g.GET("/dead", h.deadPage)
	g.GET("/dead/count", h.deadCount)
	g.POST("/dead/redrive", page.Need(account.RoleOperator, h.deadRedrive))
	g.POST("/dead/delete", page.Need(account.RoleOperator, h.deadDelete))
	g.POST("/dead/selected", page.Need(account.RoleOperator, h.deadSelected))
}

const (
	deadShown      = 50 // of one topic
	deadTopics     = 20 // topics whose jobs are shown together
	deadPerTopic   = 20
	deadListLimit  = 100
	defaultRate    = 10
	defaultStopPct = 20
)

// deadTopic is a topic with dead jobs.
type deadTopic struct {
	Name string
	Dead int64
}

// deadJob is a dead job with its last outcome.
type deadJob struct {
	queue.Job
	Last   string
	Status int
}

type deadData struct {
	Topics  []deadTopic // topics with dead jobs, most jobs first
	Jobs    []deadJob
	Pager   page.Pager
	Partial bool     // only the newest of each topic are shown
	Away    string   // why some jobs could not be listed
	Reasons []string // choices of the filter
	Errors  []deadGroup
	Running []bulk.Task // tasks on dead jobs
	Chosen  deadChosen
	figures.Counts
}

// Most returns the topics with the most dead jobs.
func (d *deadData) Most(n int) []deadTopic { return d.Topics[:min(n, len(d.Topics))] }

// deadChosen are the jobs that the filter selects.
type deadChosen struct {
	Filter  bulk.Filter
	Topics  []deadTopic // topics with selected jobs, most jobs first
	Jobs    int64
	AtLeast bool // the count is incomplete
	Later   bool // the count is still running
	Known   bool
}

// Narrow reports whether the filter excludes any dead job.
func (d deadChosen) Narrow() bool { return d.Filter.Topic != "" || d.Filter.Narrow() }

// Fields returns the filter as form fields.
func (d deadChosen) Fields() map[string]string { return filterFields(d.Filter) }

const topicsNamed = 5 // topics listed in a confirmation

// Names returns the topics with the most selected jobs.
func (d deadChosen) Names() string {
	var names []string
	for _, t := range d.Topics[:min(topicsNamed, len(d.Topics))] {
		names = append(names, fmt.Sprintf("%s (%s)", t.Name, page.Num(t.Dead)))
	}
	if len(d.Topics) > topicsNamed {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// deadGroup counts the shown jobs with the same last error.
type deadGroup struct {
	Text  string
	Count int
}

// readDeadFilter reads the filter from the form. An error concerns its times.
func readDeadFilter(c echo.Context) (bulk.Filter, error) {
	form, _ := c.FormParams() // of a malformed request, the fields that could be read
	f, err := readFilter(form, page.Zone(c))
	f.State = queue.Dead
	return f, err
}

func (h *Handler) deadPage(c echo.Context) error {
	ctx := c.Request().Context()
	f, _ := readDeadFilter(c) // a malformed time is ignored, as the page shows
	d := deadData{Counts: h.Counts.Counts(ctx), Reasons: []string{"attempts", "gone", "expired", "lease"}}
	d.Topics = deadTopicsOf(d.Counts, "")
	d.Chosen = h.chosen(ctx, d.Counts, f, h.Patience)
	d.Chosen.Later, d.Chosen.AtLeast = d.Chosen.AtLeast, false
	if d.Known() {
		if err := h.deadJobs(ctx, c, &d); err != nil {
			return err
		}
	}
	d.Errors = groupDead(d.Jobs)
	d.Running = h.deadTasks(ctx)
	return h.Pages.Render(c, http.StatusOK, "dead", &d)
}

// deadTopicsOf returns the topics with dead jobs, or only the one given. Topics of a namespace are counted under its
// name.
func deadTopicsOf(counts figures.Counts, only string) (list []deadTopic) {
	for name, s := range counts.Topics {
		if s.Dead > 0 && (only == "" || only == name) {
			list = append(list, deadTopic{name, s.Dead})
		}
	}
	sortDead(list)
	return list
}

func sortDead(list []deadTopic) {
	slices.SortFunc(list, func(x, y deadTopic) int {
		return cmp.Or(cmp.Compare(y.Dead, x.Dead), strings.Compare(x.Name, y.Name))
	})
}

// chosen counts the jobs that a filter selects, within a time limit.
func (h *Handler) chosen(ctx context.Context, counts figures.Counts, f bulk.Filter, limit time.Duration) deadChosen {
	d := deadChosen{Filter: f, Known: counts.Known() && !counts.Old()}
	until := time.Now().Add(limit)
	topics := deadTopicsOf(counts, f.Topic)
	member := h.Registry.Snapshot().Namespace(f.Topic) != nil
	if member {
		topics = []deadTopic{{Name: f.Topic}}
	}
	for i, t := range topics {
		if d.AtLeast = d.AtLeast || i > 0 && f.Narrow() && time.Now().After(until); d.AtLeast {
			break
		}
		if f.Narrow() || member {
			m := matching{Topic: t.Name, Filter: f}
			h.count(ctx, &m, time.Until(until))
			t.Dead, d.AtLeast = m.Count, d.AtLeast || m.AtLeast
		}
		if t.Dead > 0 {
			d.Topics = append(d.Topics, t)
			d.Jobs += t.Dead
		}
	}
	sortDead(d.Topics)
	return d
}

// deadCount renders the part of the page with the number of jobs and the actions on them.
func (h *Handler) deadCount(c echo.Context) error {
	ctx := c.Request().Context()
	f, _ := readDeadFilter(c)
	return h.Pages.Fragment(c, "dead#chosen", h.chosen(ctx, h.Counts.Counts(ctx), f, countLimit))
}

// deadTasks returns the open tasks on dead jobs.
func (h *Handler) deadTasks(ctx context.Context) []bulk.Task {
	list, err := h.Tasks.Store.ListTasks(ctx, tasksShown)
	if err != nil {
		h.Log.Debug("list the tasks on dead jobs", "error", err)
	}
	return slices.DeleteFunc(list, func(t bulk.Task) bool { return !t.Open() || t.Params.Filter.State != queue.Dead })
}

func (h *Handler) deadJobs(ctx context.Context, c echo.Context, d *deadData) error {
	f := d.Chosen.Filter
	until := time.Now().Add(h.Patience)
	if f.Topic != "" {
		jobs, next, err := h.matching(ctx, f, f.Topic, c.QueryParam("cursor"), deadShown, until)
		d.Jobs, d.Pager = newDeadJobs(jobs), page.CursorPager(c, next)
		return err
	}
	for _, t := range d.Most(deadTopics) {
		jobs, next, err := h.matching(ctx, f, t.Name, "", deadPerTopic, until)
		if err != nil {
			d.Away = h.Texts.Explain(c, err)
			continue
		}
		d.Partial = d.Partial || next != ""
		d.Jobs = append(d.Jobs, newDeadJobs(jobs)...)
	}
	slices.SortFunc(d.Jobs, func(x, y deadJob) int { return y.DeadAt.Compare(x.DeadAt) })
	d.Partial = d.Partial || len(d.Topics) > deadTopics || len(d.Jobs) > deadListLimit
	d.Jobs = d.Jobs[:min(deadListLimit, len(d.Jobs))]
	return nil
}

func newDeadJobs(jobs []queue.Job) []deadJob {
	list := make([]deadJob, len(jobs))
	for i := range jobs {
		list[i] = deadJob{Job: jobs[i], Last: bulk.LastError(&jobs[i])}
		if n := len(jobs[i].History); n > 0 {
			list[i].Status = jobs[i].History[n-1].Status
		}
	}
	return list
}

func groupDead(jobs []deadJob) []deadGroup {
	counts := map[string]int{}
	for _, j := range jobs {
		counts[j.Last]++
	}
	var list []deadGroup
	for text, n := range counts {
		list = append(list, deadGroup{text, n})
	}
	slices.SortFunc(list, func(a, b deadGroup) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.Text, b.Text))
	})
	return list[:min(6, len(list))]
}

// formNumber reads a number from a form, within bounds.
func formNumber(c echo.Context, name string, fallback, low, high float64) float64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(c.FormValue(name)), 64)
	if err != nil || n != n {
		return fallback
	}
	return min(max(n, low), high)
}

func (h *Handler) deadRedrive(c echo.Context) error {
	return h.startDead(c, bulk.Params{
		Action:    bulk.Action{Do: bulk.Retry},
		Staged:    c.FormValue("staged") != "",
		Rate:      formNumber(c, "rate", defaultRate, 0, 100_000),
		StopAbove: formNumber(c, "stop_above", defaultStopPct, 0, 100) / 100,
	})
}

func (h *Handler) deadDelete(c echo.Context) error {
	return h.startDead(c, bulk.Params{Action: bulk.Action{Do: bulk.Delete}})
}

// startDead starts a task on the dead jobs that the form selects, if its whole filter is valid.
func (h *Handler) startDead(c echo.Context, p bulk.Params) (err error) {
	if p.Filter, err = readDeadFilter(c); err != nil {
		return h.refuse(c, err, "/dead")
	}
	if p.Filter.Topic != "" && h.Registry.Snapshot().Topic(p.Filter.Topic) == nil {
		return echo.NewHTTPError(http.StatusBadRequest, h.Texts.T(c, "dead.no_topic", p.Filter.Topic))
	}
	id, err := h.Tasks.Start(c.Request().Context(), page.Actor(c), p)
	if err != nil {
		return h.refuse(c, err, "/dead?"+filterQuery(p.Filter))
	}
	return h.Pages.Redirect(c, h.Pages.Below("/tasks", id))
}

// deadSelected acts on the jobs whose boxes are checked, with values TOPIC/ID.
func (h *Handler) deadSelected(c echo.Context) error {
	form, err := c.FormParams()
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest)
	}
	byTopic := map[string][]string{}
	for _, value := range form["job"] {
		topic, id, ok := strings.Cut(value, "/")
		if ok {
			byTopic[topic] = append(byTopic[topic], id)
		}
	}
	if len(byTopic) == 0 {
		h.Flashes.Add(c, "warning", "topic.none_checked")
		return h.Pages.Back(c, "/dead")
	}
	do := bulk.Action{Do: form.Get("do")}
	var all bulk.Result
	for topic, ids := range byTopic {
		r, err := bulk.Apply(c.Request().Context(), h.Queue, topic, ids, do, queue.Dead)
		if err != nil {
			return h.refuse(c, err, "/dead")
		}
		all.Add(r)
	}
	h.flashResult(c, all, len(form["job"]))
	return h.Pages.Back(c, "/dead")
}
