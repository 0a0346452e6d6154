package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/bulk"
	"github.com/wakecall/wakecall/queue"
)

func (a *Admin) deadRoutes(g *echo.Group) {
	g.GET("/dead", a.deadPage)
	g.POST("/dead/redrive", a.need(account.RoleOperator, a.deadRedrive))
	g.POST("/dead/delete", a.need(account.RoleOperator, a.deadDelete))
	g.POST("/dead/selected", a.need(account.RoleOperator, a.deadSelected))
}

const (
	deadShown           = 50   // of one topic
	deadScanned         = 5000 // jobs looked through for one page
	deadTopics          = 20   // topics of which jobs are shown together
	deadPerTopic        = 20
	deadPerTopicScanned = 500
	deadListLimit       = 100
	defaultRate         = 10
	defaultStopPct      = 20
)

// deadTopic is a topic with dead jobs.
type deadTopic struct {
	Name string
	Dead int64
}

// deadJob is a dead job with what came of it last.
type deadJob struct {
	queue.Job
	Last   string
	Status int
}

type deadData struct {
	Filter  bulk.Filter
	Form    map[string]string
	Topics  []deadTopic // those with dead jobs, the most first
	Total   int64
	Jobs    []deadJob
	Pager   Pager
	Partial bool     // only the newest of each topic are shown
	Away    string   // what could not be asked
	Reasons []string // to choose from
	Errors  []deadGroup
}

// Narrow reports whether the filter leaves out any dead job.
func (d deadData) Narrow() bool { return d.Filter.Topic != "" || d.Filter.Narrow() }

// deadGroup counts the jobs shown by their last error.
type deadGroup struct {
	Text  string
	Count int
}

// readDeadFilter takes the filter of the form; what is no time leaves nothing out.
func readDeadFilter(c echo.Context) bulk.Filter {
	form, _ := c.FormParams()
	f, _ := readFilter(form)
	f.State = queue.Dead
	return f
}

func (a *Admin) topicNames() []string {
	topics := a.registry.Snapshot().Topics
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (a *Admin) deadPage(c echo.Context) error {
	ctx := c.Request().Context()
	d := deadData{Filter: readDeadFilter(c), Reasons: []string{"attempts", "gone", "expired", "lease"}}
	d.Form = filterFields(d.Filter)
	d.Form["topic"] = d.Filter.Topic
	stats, err := a.queue.Stats(ctx, a.topicNames())
	if err != nil {
		d.Away = err.Error()
	}
	for name, s := range stats {
		if s.Dead > 0 {
			d.Topics = append(d.Topics, deadTopic{name, s.Dead})
			d.Total += s.Dead
		}
	}
	slices.SortFunc(d.Topics, func(x, y deadTopic) int {
		if x.Dead != y.Dead {
			return int(min(1, max(-1, y.Dead-x.Dead)))
		}
		return strings.Compare(x.Name, y.Name)
	})
	if err := a.deadJobs(ctx, c, &d); err != nil {
		return err
	}
	d.Errors = groupDead(d.Jobs)
	return a.render(c, http.StatusOK, "dead", d)
}

func (a *Admin) deadJobs(ctx context.Context, c echo.Context, d *deadData) error {
	if d.Filter.Topic != "" {
		jobs, next, err := a.deadOf(ctx, d.Filter, d.Filter.Topic, c.QueryParam("cursor"), deadShown, deadScanned)
		if err != nil {
			return err
		}
		d.Jobs, d.Pager = jobs, cursorPager(c, next)
		return nil
	}
	for _, t := range d.Topics[:min(deadTopics, len(d.Topics))] {
		jobs, next, err := a.deadOf(ctx, d.Filter, t.Name, "", deadPerTopic, deadPerTopicScanned)
		if err != nil {
			d.Away = err.Error()
			continue
		}
		d.Partial = d.Partial || next != ""
		d.Jobs = append(d.Jobs, jobs...)
	}
	slices.SortFunc(d.Jobs, func(x, y deadJob) int { return y.DeadAt.Compare(x.DeadAt) })
	d.Partial = d.Partial || len(d.Topics) > deadTopics || len(d.Jobs) > deadListLimit
	d.Jobs = d.Jobs[:min(deadListLimit, len(d.Jobs))]
	return nil
}

// deadOf looks through a bounded number of a topic's dead jobs for those that match.
func (a *Admin) deadOf(ctx context.Context, f bulk.Filter, topic, cursor string, want, scan int) ([]deadJob, string, error) {
	var list []deadJob
	for seen := 0; ; {
		jobs, next, err := a.queue.List(ctx, topic, queue.Dead, cursor, want)
		if err != nil {
			return nil, "", err
		}
		for i := range jobs {
			if f.Match(&jobs[i]) {
				list = append(list, newDeadJob(jobs[i]))
			}
		}
		seen += len(jobs)
		cursor = next
		if cursor == "" || len(list) >= want || seen >= scan || len(jobs) == 0 {
			return list, cursor, nil
		}
	}
}

func newDeadJob(j queue.Job) deadJob {
	d := deadJob{Job: j, Last: bulk.LastError(&j)}
	if n := len(j.History); n > 0 {
		d.Status = j.History[n-1].Status
	}
	return d
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
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return strings.Compare(a.Text, b.Text)
	})
	return list[:min(6, len(list))]
}

// formNumber reads a number of a form within bounds.
func formNumber(c echo.Context, name string, fallback, low, high float64) float64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(c.FormValue(name)), 64)
	if err != nil || n != n {
		return fallback
	}
	return min(max(n, low), high)
}

func (a *Admin) deadRedrive(c echo.Context) error {
	return a.startDead(c, bulk.KindRedrive, bulk.Params{
		Filter: readDeadFilter(c), Staged: c.FormValue("staged") != "",
		Rate: formNumber(c, "rate", defaultRate, 0, 100_000), StopAbove: formNumber(c, "stop_above", defaultStopPct, 0, 100) / 100,
	})
}

func (a *Admin) deadDelete(c echo.Context) error {
	return a.startDead(c, bulk.KindDeleteDead, bulk.Params{Filter: readDeadFilter(c)})
}

func (a *Admin) startDead(c echo.Context, kind string, p bulk.Params) error {
	if p.Filter.Topic != "" && a.registry.Snapshot().Topics[p.Filter.Topic] == nil {
		return echo.NewHTTPError(http.StatusBadRequest, a.t(c, "dead.no_topic", p.Filter.Topic))
	}
	id, err := a.runner().Start(c.Request().Context(), actor(c), kind, p)
	if err != nil {
		return err
	}
	return a.redirect(c, a.below("/tasks", id))
}

// deadSelected acts on the jobs whose boxes are checked, values TOPIC/ID.
func (a *Admin) deadSelected(c echo.Context) error {
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
	do, done := bulk.Action{Do: bulk.Retry}, "dead.redriven"
	if c.FormValue("do") == bulk.Delete {
		do.Do, done = bulk.Delete, "dead.deleted"
	}
	total := int64(0)
	for topic, ids := range byTopic {
		r, err := bulk.Apply(c.Request().Context(), a.queue, topic, ids, do)
		total += r.Done
		if text := r.Error; err != nil || text != "" {
			a.flashText(c, "danger", cmp.Or(text, fmt.Sprint(err)))
			break
		}
	}
	a.flash(c, "success", done, total)
	return a.back(c, "/dead")
}
