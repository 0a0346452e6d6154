package topics

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/jobs"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/observe/refusals"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func (h *Handler) topicRoutes(g *echo.Group) {
	type handler = func(echo.Context, *registry.Topic) error
	operator := func(do handler) echo.HandlerFunc {
		return page.Need(account.RoleOperator, page.WithTopic(h.Registry, do))
	}
	admin := func(do handler) echo.HandlerFunc { return page.Need(account.RoleAdmin, page.WithTopic(h.Registry, do)) }
	g.GET("/topics/:topic", page.WithTopic(h.Registry, h.topicPage))
	g.GET("/topics/:topic/edit", admin(h.editTopicPage))
	g.POST("/topics/:topic/edit", admin(h.saveTopic))
	g.POST("/topics/:topic/pause", operator(h.inState(h.pauseTopic)))
	g.POST("/topics/:topic/probe", operator(h.probeNow))
	g.POST("/topics/:topic/resume", operator(h.inState(h.setTopicState(registry.TopicActive, "topic.resumed"))))
	g.POST("/topics/:topic/offline", admin(h.inState(h.setTopicState(registry.TopicOffline, "topic.now_offline"))))
	g.POST("/topics/:topic/secret", admin(h.asShown(h.rotateSecret)))
	g.POST("/topics/:topic/secret/drop", admin(h.asShown(h.dropOldSecret)))
	g.POST("/topics/:topic/secret/overlap", admin(h.setOverlap))
	g.POST("/topics/:topic/delete", admin(h.deleteTopic))
	g.POST("/topics/:topic/errors/clear", operator(h.clearErrors))
	g.GET("/topics/:topic/test", operator(h.testPage))
	g.POST("/topics/:topic/test", operator(h.testPage))
	h.Hub.Register("topic", topicEvery, "partials/topic_live", func(ctx context.Context, name string) (any, error) {
		t := h.Registry.Snapshot().Topics.Get(name)
		if t == nil {
			return nil, registry.ErrNoTopic
		}
		return h.topicLive(ctx, t), nil
	})
}

const topicEvery = 2 * time.Second

// topicLive is the part of the page that changes while it is open.
type topicLive struct {
	*topicLine
	Limits   observe.TopicLimits
	Refused  refusals.Streak   // of the topic
	Pull     *queue.Workers    // the workers of a pull topic; nil: unknown
	Last     *activity.Attempt // while its breaker is open; nil: unknown
	ProbeDue bool              // the open breaker probes with the next due job
	Until    time.Time         // when the older of its two secrets is dropped; zero: only by hand
}

func (h *Handler) topicLive(ctx context.Context, t *registry.Topic) *topicLive {
	line := h.newLine(t, figures.Counts{}, h.rules())
	totals := h.Figures.Totals(ctx, []string{t.Name})[t.Name]
	line.Totals, line.Note = &totals, h.Registry.Snapshot().Notes.Get(t.Name)
	line.Stats, line.Answered = line.Totals.Stats, line.Totals.Answered
	line.Alert = h.Figures.OpenAlerts(ctx).ByTopic()[t.Name]
	l := &topicLive{topicLine: &line, Refused: h.Figures.RefusedPushes(ctx).Of(t.Name)}
	h.fillVitals(ctx, []*topicLine{&line})
	if limits, err := h.Queue.TopicLimits(ctx, []string{t.Name}); err == nil {
		l.Limits = limits[t.Name]
	}
	if l.Open {
		l.Last = h.lastAnswer(ctx, t.Name)
		l.ProbeDue = !l.Limits.BreakerOpen.After(h.Now())
	}
	if t.Delivery == registry.DeliveryPull {
		if w, err := h.Queue.Workers(ctx, t.Name); err == nil || queue.IsPartial(err) {
			l.Pull = &w
		}
	}
	if len(t.Secrets) > 1 {
		l.Until, _ = h.Secrets.Rotation(ctx, t.Name) // no countdown while the database is unavailable
	}
	return l
}

type topicData struct {
	*registry.Topic
	Note      registry.TopicNote
	Tab       string
	Live      *topicLive
	Secret    string // a new secret, shown once
	Secrets   int
	Schedules int // of the topic
	Overlaps  []time.Duration
	Steps     []retryStep
	Snippets  []snippet
	Snippet   snippet
	State     store.State
	States    []store.State
	jobs.JobList
	Attempts []activity.Attempt
	Errors   []observe.ErrorNote
	Ledger   []ledgerDay
	Even     bool
	Living   int64
	Forecast *observe.Forecast
	Minutes  figures.Chart
	Hours    figures.Chart
	Peak     int64 // jobs in the busiest minute
	Capacity forecast.Capacity
	Answer   forecast.Answer
	Away     string
	Range    figures.Range
}

// IsNamespace reports whether it is a namespace, whose topics have the jobs.
func (d *topicData) IsNamespace() bool { return registry.IsNamespace(d.Name) }

// ledgerDay holds the counters of a day.
type ledgerDay struct {
	Day string
	observe.Totals
}

// keySecretOf is the prefix of a session's key for a new secret that was not shown yet.
const keySecretOf = "secret/"

var topicTabs = []string{"summary", "jobs", "attempts", "ledger", "forecast", "push"}

func (h *Handler) topicPage(c echo.Context, t *registry.Topic) error {
	ctx := c.Request().Context()
	if !page.May(c, account.RoleAdmin) {
		t = t.Masked()
	}
	d := &topicData{
		Topic: t, Note: h.Registry.Snapshot().Notes.Get(t.Name), Tab: c.QueryParam("tab"), Secrets: len(t.Secrets),
		Overlaps: overlaps, Live: h.topicLive(ctx, t),
	}
	if !slices.Contains(topicTabs, d.Tab) {
		d.Tab = topicTabs[0]
	}
	for _, s := range h.Registry.Snapshot().Schedules.All() {
		if s.Topic == t.Name {
			d.Schedules++
		}
	}
	d.Secret = h.Flashes.TakeSecret(c, keySecretOf+t.Name)
	if err := h.fillTab(c, d); err != nil {
		return err
	}
	return h.Pages.Render(c, http.StatusOK, "topic", d)
}

func (h *Handler) fillTab(c echo.Context, d *topicData) error {
	ctx := c.Request().Context()
	switch d.Tab {
	case "summary":
		f := formOf(d.Topic)
		d.Steps = retrySteps(f["retry"], f["max_attempts"])
		d.Range = figures.RangeOf(c, h.Now())
	case "jobs":
		return h.fillJobs(c, d)
	case "attempts":
		return h.fillAttempts(ctx, d)
	case "ledger":
		d.fillLedger()
	case "forecast":
		return h.fillForecast(c, d)
	case "push":
		api, name := h.APIURL, d.Name
		if d.IsNamespace() {
			name = strings.TrimSuffix(name, "*") + "orders"
		}
		d.Snippets, d.Snippet = snippets, snippetIn(c.QueryParam("in"), api, name)
	}
	return nil
}

var jobStates = []store.State{store.Delayed, store.Ready, store.Running, store.Dead, store.Finished}

func (h *Handler) fillJobs(c echo.Context, d *topicData) error {
	d.States = jobStates
	d.State = store.State(c.QueryParam("state"))
	if !slices.Contains(jobStates, d.State) {
		d.State = d.fullest()
	}
	var err error
	d.JobList, err = h.Jobs.ListMatching(c, d.Name, d.State, d.Count(d.State))
	return err
}

// Count returns the number of jobs in a state.
func (d *topicData) Count(s store.State) int64 { return d.Live.Totals.Stats.Of(s) }

// fullest returns the state to show first: dead jobs, which need attention, else the one with the most jobs.
func (d *topicData) fullest() store.State {
	best := store.Delayed
	for _, s := range jobStates {
		if d.Count(s) > d.Count(best) {
			best = s
		}
	}
	if d.Count(store.Dead) > 0 {
		return store.Dead
	}
	return best
}

func (h *Handler) fillAttempts(ctx context.Context, d *topicData) error {
	var err error
	if d.Attempts, err = h.Activity.Attempts(ctx, d.Name, forecast.AttemptsRead); err != nil &&
		!queue.IsPartial(err) {
		return err
	}
	if d.Errors, err = h.Activity.Errors(ctx, d.Name); err != nil && !queue.IsPartial(err) {
		return err
	}
	return nil
}

func (d *topicData) fillLedger() {
	t := d.Live.Totals
	d.Living = t.Stats.Jobs()
	d.Even = history.Reading{Totals: t.Total, Living: t.Stats}.Missing() == 0
	d.Ledger = append(d.Ledger, ledgerDay{time.Now().UTC().Format("2006-01-02"), t.Today})
	days := page.SortedKeys(t.Days)
	slices.Reverse(days)
	for _, day := range days {
		if at, err := time.Parse("20060102", day); err == nil {
			d.Ledger = append(d.Ledger, ledgerDay{at.Format("2006-01-02"), t.Days[day]})
		}
	}
}
