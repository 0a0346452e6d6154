package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/store"
)

func (h *Handler) deadRoutes(g *echo.Group) {
	g.GET("/dead", h.deadPage)
	g.POST("/dead/redrive", page.Need(account.RoleOperator, h.deadRedrive))
	g.POST("/dead/delete", page.Need(account.RoleOperator, h.deadDelete))
	g.POST("/dead/selected", page.Need(account.RoleOperator, h.deadSelected))
}

const (
	deadShown      = 50 // a page has fewer than twice as many
	deadErrors     = 6
	deadKinds      = 1000 // different errors that are counted
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
	store.Job
	Last   string
	Status int
}

type deadData struct {
	Topics  []deadTopic // topics with dead jobs, most jobs first
	Jobs    []deadJob
	Pager   list.Pager
	Away    string   // why some jobs could not be listed
	Reasons []string // choices of the filter
	Errors  []deadGroup
	Sampled int64       // jobs whose errors were counted, if they are not all; else 0
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
	Later   bool // another request continues
	Held    *held
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

// deadGroup counts the selected jobs with the same last error.
type deadGroup struct {
	Text  string
	Count int
}

// readDeadFilter reads the filter from the form; it filters ids by prefix. An error concerns the times or the status.
func readDeadFilter(c echo.Context) (bulk.Filter, error) {
	form, _ := c.FormParams() // of a malformed request, the fields that could be read
	f, err := readFilter(form, page.Zone(c))
	f.State = store.Dead
	if f.ID != "" && !strings.HasPrefix(f.ID, "^") {
		f.ID = "^" + f.ID
	}
	return f, err
}

// deadPage lists and counts the jobs that the filter selects. If that takes too long for a page, a second request
// continues. It replaces list and count together, as does a change of the filter, so they always agree.
func (h *Handler) deadPage(c echo.Context) error {
	ctx := c.Request().Context()
	f, _ := readDeadFilter(c) // malformed values are ignored, as the page shows
	d := deadData{Counts: h.Counts.Counts(ctx), Reasons: []string{"attempts", "gone", "expired", "lease"}}
	d.Topics = deadTopicsOf(d.Counts)
	d.Chosen = deadChosen{Filter: f}
	part := page.IsFragment(c)
	limit := h.Patience
	if part {
		limit = countLimit
	}
	if err := h.findDead(c, &d, time.Now().Add(limit)); err != nil {
		return err
	}
	d.Chosen.Later = d.Chosen.AtLeast && !part
	d.Running = h.deadTasks(ctx)
	if part {
		c.Response().Header().Set("HX-Reswap", "none") // swap only the parts that the form names
		return h.Pages.Parts(c, "dead", &d)
	}
	return h.Pages.Render(c, http.StatusOK, "dead", &d)
}

// findDead lists a page of the selected jobs, and counts them all.
func (h *Handler) findDead(c echo.Context, d *deadData, until time.Time) error {
	names := h.deadNames(d.Chosen.Filter, d.Counts)
	cut, err := h.listDead(c, d, names, until)
	if err != nil {
		return err
	}
	s := h.surveyDead(c.Request().Context(), d.Chosen.Filter, names, until)
	d.Errors = s.groups()
	if !s.complete {
		d.Sampled = s.jobs()
		if whole, ok := wholeTopics(d.Chosen.Filter, names, d.Counts); ok {
			s.topics, s.complete = whole, true
		}
	}
	sortDead(s.topics)
	d.Chosen.Topics, d.Chosen.Jobs, d.Chosen.AtLeast = s.topics, s.jobs(), !s.complete || cut
	var topics []string
	for _, t := range s.topics {
		topics = append(topics, t.Name)
	}
	d.Chosen.Held = h.heldOf(c.Request().Context(), topics)
	return nil
}

// deadTopicsOf returns the topics with dead jobs. Topics of a namespace are counted under its name.
func deadTopicsOf(counts figures.Counts) (list []deadTopic) {
	for name, s := range counts.Topics {
		if s.Dead > 0 {
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

// fewTopics is how many topics are searched regardless of their counts, which may be seconds old.
const fewTopics = 100

// deadNames returns the filter's topics. If there are many, it leaves out those that have no dead jobs.
func (h *Handler) deadNames(f bulk.Filter, counts figures.Counts) []string {
	s := h.Registry.Snapshot()
	names := f.Topics(s)
	if len(names) <= fewTopics || !counts.Complete() {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return counts.Topics[name].Dead == 0 && s.Namespace(name) == nil
	})
}

// listDead lists selected jobs, topic by topic, until there are enough or time is up; cut: it is. A cursor is a topic
// and, after a space, the queue's cursor in it.
func (h *Handler) listDead(c echo.Context, d *deadData, names []string, until time.Time) (cut bool, err error) {
	first, cursor, ok := strings.Cut(c.QueryParam("cursor"), " ")
	if first != "" && !ok {
		return false, fmt.Errorf("cursor %.60q: %w", first, store.ErrCursor)
	}
	d.Pager = list.ByCursor(c.QueryParams(), "")
	for _, name := range names {
		if name < first {
			continue
		}
		if name != first {
			cursor = ""
		}
		for again := true; again; again = cursor != "" {
			if full := len(d.Jobs) >= deadShown; full || cut {
				d.Pager = list.ByCursor(c.QueryParams(), name+" "+cursor)
				return cut && !full, nil
			}
			var jobs []store.Job
			jobs, cursor, err = d.Chosen.Filter.List(
				c.Request().Context(), h.Queue, h.Registry.Snapshot(), name, cursor, deadShown)
			if errors.Is(err, store.ErrCursor) {
				return false, err
			}
			if err != nil {
				d.Away = h.Texts.Explain(c, err)
			}
			d.Jobs = append(d.Jobs, newDeadJobs(jobs)...)
			cut = time.Now().After(until)
		}
	}
	return false, nil
}

// deadSurvey counts the selected jobs by topic and by error.
type deadSurvey struct {
	topics   []deadTopic
	errors   map[string]int
	complete bool
}

func (s *deadSurvey) jobs() (n int64) {
	for _, t := range s.topics {
		n += t.Dead
	}
	return n
}

func (s *deadSurvey) add(topic string, jobs []store.Job) {
	if len(jobs) == 0 {
		return
	}
	if n := len(s.topics); n == 0 || s.topics[n-1].Name != topic {
		s.topics = append(s.topics, deadTopic{Name: topic})
	}
	s.topics[len(s.topics)-1].Dead += int64(len(jobs))
	for i := range jobs {
		text := bulk.LastError(&jobs[i])
		if _, known := s.errors[text]; known || len(s.errors) < deadKinds {
			s.errors[text]++
		}
	}
}

// groups returns the most frequent errors.
func (s *deadSurvey) groups() (list []deadGroup) {
	for text, n := range s.errors {
		list = append(list, deadGroup{text, n})
	}
	slices.SortFunc(list, func(a, b deadGroup) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.Text, b.Text))
	})
	return list[:min(deadErrors, len(list))]
}

// surveyDead reads the selected jobs until time is up.
func (h *Handler) surveyDead(ctx context.Context, f bulk.Filter, names []string, until time.Time) *deadSurvey {
	s := &deadSurvey{errors: map[string]int{}}
	failed := false
	for i, name := range names {
		for cursor, again := "", true; again; again = cursor != "" {
			if (i > 0 || cursor != "") && time.Now().After(until) {
				return s
			}
			var jobs []store.Job
			var err error
			jobs, cursor, err = f.List(ctx, h.Queue, h.Registry.Snapshot(), name, cursor, countPage)
			failed = failed || err != nil
			s.add(name, jobs)
		}
	}
	s.complete = !failed
	return s
}

// wholeTopics returns the known counts of a filter that selects all dead jobs of its topics.
func wholeTopics(f bulk.Filter, names []string, counts figures.Counts) (list []deadTopic, ok bool) {
	for _, name := range names {
		s, counted := counts.Topics[name]
		if f.Narrow() || !counted || !f.Covers(name) || !counts.Complete() {
			return nil, false
		}
		list = append(list, deadTopic{name, s.Dead})
	}
	return list, true
}

// deadTasks returns the open tasks on dead jobs.
func (h *Handler) deadTasks(ctx context.Context) []bulk.Task {
	list, err := h.Tasks.ListTasks(ctx, tasksShown)
	if err != nil {
		h.Log.Debug("list the tasks on dead jobs", "error", err)
	}
	return slices.DeleteFunc(list, func(t bulk.Task) bool { return !t.Open() || t.Params.Filter.State != store.Dead })
}

func newDeadJobs(jobs []store.Job) []deadJob {
	list := make([]deadJob, len(jobs))
	for i := range jobs {
		list[i] = deadJob{Job: jobs[i], Last: bulk.LastError(&jobs[i])}
		if n := len(jobs[i].History); n > 0 {
			list[i].Status = jobs[i].History[n-1].Status
		}
	}
	return list
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
	if p.Filter.Topic != "" && len(p.Filter.Topics(h.Registry.Snapshot())) == 0 {
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
		r, err := bulk.Apply(c.Request().Context(), h.Queue, topic, ids, do, store.Dead)
		if err != nil {
			return h.refuse(c, err, "/dead")
		}
		all.Add(r)
	}
	h.flashResult(c, all, len(form["job"]))
	return h.Pages.Back(c, "/dead")
}
