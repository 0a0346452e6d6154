package jobs

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
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/bulk"
	"github.com/wakecall/wakecall/queue"
)

func (h *Handler) deadRoutes(g *echo.Group) {
	g.GET("/dead", h.deadPage)
	g.POST("/dead/redrive", h.Need(account.RoleOperator, h.deadRedrive))
	g.POST("/dead/delete", h.Need(account.RoleOperator, h.deadDelete))
	g.POST("/dead/selected", h.Need(account.RoleOperator, h.deadSelected))
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

// deadJob is a dead job with its last outcome.
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
	Pager   page.Pager
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

// readDeadFilter reads the filter of the form and ignores malformed times.
func readDeadFilter(c echo.Context) bulk.Filter {
	form, _ := c.FormParams()
	f, _ := readFilter(form)
	f.State = queue.Dead
	return f
}

func (h *Handler) deadPage(c echo.Context) error {
	ctx := c.Request().Context()
	d := deadData{Filter: readDeadFilter(c), Reasons: []string{"attempts", "gone", "expired", "lease"}}
	d.Form = filterFields(d.Filter)
	d.Form["topic"] = d.Filter.Topic
	stats, err := h.queue.Stats(ctx, page.TopicNames(h.Snapshot()))
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
	if err := h.deadJobs(ctx, c, &d); err != nil {
		return err
	}
	d.Errors = groupDead(d.Jobs)
	return h.Render(c, http.StatusOK, "dead", d)
}

func (h *Handler) deadJobs(ctx context.Context, c echo.Context, d *deadData) error {
	if d.Filter.Topic != "" {
		jobs, next, err := h.deadOf(ctx, d.Filter, d.Filter.Topic, c.QueryParam("cursor"), deadShown, deadScanned)
		if err != nil {
			return err
		}
		d.Jobs, d.Pager = jobs, page.CursorPager(c, next)
		return nil
	}
	for _, t := range d.Topics[:min(deadTopics, len(d.Topics))] {
		jobs, next, err := h.deadOf(ctx, d.Filter, t.Name, "", deadPerTopic, deadPerTopicScanned)
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

// deadOf reads a bounded number of a topic's dead jobs and returns those that match.
func (h *Handler) deadOf(
	ctx context.Context, f bulk.Filter, topic, cursor string, want, scan int,
) ([]deadJob, string, error) {
	var list []deadJob
	for seen := 0; ; {
		jobs, next, err := h.queue.List(ctx, topic, queue.Dead, cursor, want)
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

func (h *Handler) deadRedrive(c echo.Context) error {
	return h.startDead(c, bulk.KindRedrive, bulk.Params{
		Filter: readDeadFilter(c), Staged: c.FormValue("staged") != "",
		Rate:      formNumber(c, "rate", defaultRate, 0, 100_000),
		StopAbove: formNumber(c, "stop_above", defaultStopPct, 0, 100) / 100,
	})
}

func (h *Handler) deadDelete(c echo.Context) error {
	return h.startDead(c, bulk.KindDeleteDead, bulk.Params{Filter: readDeadFilter(c)})
}

func (h *Handler) startDead(c echo.Context, kind string, p bulk.Params) error {
	if p.Filter.Topic != "" && h.Snapshot().Topics.Get(p.Filter.Topic) == nil {
		return echo.NewHTTPError(http.StatusBadRequest, h.T(c, "dead.no_topic", p.Filter.Topic))
	}
	id, err := h.runner.Start(c.Request().Context(), page.Actor(c), kind, p)
	if err != nil {
		return err
	}
	return h.Redirect(c, h.Below("/tasks", id))
}

// deadSelected acts on the jobs whose boxes are checked, values TOPIC/ID.
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
		h.Flash(c, "warning", "topic.none_checked")
		return h.Back(c, "/dead")
	}
	do, done := bulk.Action{Do: bulk.Retry}, "dead.redriven"
	if c.FormValue("do") == bulk.Delete {
		do.Do, done = bulk.Delete, "dead.deleted"
	}
	total := int64(0)
	for topic, ids := range byTopic {
		r, err := bulk.Apply(c.Request().Context(), h.queue, topic, ids, do)
		total += r.Done
		if text := r.Error; err != nil || text != "" {
			h.FlashText(c, "danger", cmp.Or(text, fmt.Sprint(err)))
			break
		}
	}
	h.Flash(c, "success", done, total)
	return h.Back(c, "/dead")
}
