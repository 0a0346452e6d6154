package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

func (a *Admin) topicRoutes(g *echo.Group) {
	operator := func(h echo.HandlerFunc) echo.HandlerFunc { return a.need(account.RoleOperator, h) }
	admin := func(h echo.HandlerFunc) echo.HandlerFunc { return a.need(account.RoleAdmin, h) }
	g.GET("/topics/:topic", a.topicPage)
	g.GET("/topics/:topic/edit", admin(a.editTopicPage))
	g.POST("/topics/:topic/edit", admin(a.saveTopic))
	g.POST("/topics/:topic/pause", operator(a.pauseTopic))
	g.POST("/topics/:topic/resume", operator(func(c echo.Context) error { return a.setTopicState(c, registry.TopicActive, "topic.resumed") }))
	g.POST("/topics/:topic/offline", admin(func(c echo.Context) error { return a.setTopicState(c, registry.TopicOffline, "topic.now_offline") }))
	g.POST("/topics/:topic/secret", admin(a.rotateSecret))
	g.POST("/topics/:topic/secret/drop", admin(a.dropOldSecret))
	g.POST("/topics/:topic/secret/overlap", admin(a.setOverlap))
	g.POST("/topics/:topic/delete", admin(a.deleteTopic))
	g.POST("/topics/:topic/jobs", operator(a.bulkJobs))
	a.bulkRoutes(g)
	g.POST("/topics/:topic/errors/clear", operator(a.clearErrors))
	a.testRoutes(g)
	a.live("topic", topicEvery, "partials/topic_live", func(ctx context.Context, name string) (any, error) { return a.topicLive(ctx, name), nil })
}

const topicEvery = 2 * time.Second

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// topicOf is the topic that the path names.
func (a *Admin) topicOf(c echo.Context) (*registry.Topic, error) {
	name := param(c, "topic")
	t := a.registry.Snapshot().Topics[name]
	if t == nil {
		return nil, fmt.Errorf("%.80q: %w", name, registry.ErrNoTopic)
	}
	return t, nil
}

// topicLive is what changes while the page is open.
type topicLive struct {
	Name   string
	Totals queue.TopicTotals
	Limits queue.TopicLimits
	Open   bool      // its breaker
	Until  time.Time // when the older of its two secrets is dropped; zero: not by itself
	Away   string
}

// Success is the share of attempts that delivered, of today; negative without one.
func (l *topicLive) Success() float64 {
	all := l.Totals.Today.Delivered + l.Totals.Today.Failed
	if all == 0 {
		return -1
	}
	return float64(l.Totals.Today.Delivered) / float64(all)
}

func (a *Admin) topicLive(ctx context.Context, name string) *topicLive {
	l := &topicLive{Name: name}
	totals, err := a.queue.Totals(ctx, []string{name})
	if err != nil {
		l.Away = err.Error()
	}
	l.Totals = totals[name]
	if limits, err := a.queue.TopicLimits(ctx, []string{name}); err == nil {
		l.Limits = limits[name]
		l.Open = l.Limits.BreakerOpen.After(a.opts.Now().Add(-time.Minute))
	}
	if t := a.registry.Snapshot().Topics[name]; t != nil && len(t.Secrets) > 1 {
		l.Until, _ = a.registry.Rotation(ctx, name) // away: the page shows no countdown
	}
	return l
}

type topicData struct {
	*registry.Topic
	Note      registry.TopicNote
	Tab       string
	Live      *topicLive
	Secret    string // a new one, shown once
	Secrets   int
	Overlaps  []time.Duration
	Steps     []retryStep
	Curl, Go  string
	State     queue.State
	States    []queue.State
	Jobs      []queue.Job
	Matching  matching
	Pager     Pager
	Attempts  []activity.Attempt
	Errors    []queue.ErrorNote
	Ledger    []ledgerDay
	Even      bool
	Living    int64
	Forecast  *queue.Forecast
	Minutes   chart
	Hours     chart
	Peak      int64 // jobs of the fullest minute
	Capacity  capacity
	Late      prediction
	NoHistory bool
	Away      string
	Spans     []string
	Span      string
}

// ledgerDay is what a day brought.
type ledgerDay struct {
	Day string
	queue.Totals
}

// keySecretOf is where a session keeps a new secret until it was shown.
const keySecretOf = "secret/"

var topicTabs = []string{"summary", "jobs", "attempts", "ledger", "forecast", "push"}

func (a *Admin) topicPage(c echo.Context) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	d := &topicData{Topic: t, Note: a.registry.Snapshot().Notes[t.Name], Tab: c.QueryParam("tab"), Secrets: len(t.Secrets), Overlaps: overlaps, Live: a.topicLive(ctx, t.Name)}
	if !slices.Contains(topicTabs, d.Tab) {
		d.Tab = topicTabs[0]
	}
	d.Secret = a.sessions.PopString(ctx, keySecretOf+t.Name)
	if err := a.fillTab(c, d); err != nil {
		return err
	}
	return a.render(c, http.StatusOK, "topic", d)
}

func (a *Admin) fillTab(c echo.Context, d *topicData) error {
	ctx := c.Request().Context()
	switch d.Tab {
	case "summary":
		f := formOf(d.Topic)
		d.Steps = retrySteps(f.Retry, f.MaxAttempts)
		d.NoHistory = a.opts.Pages.History == nil
		d.Spans, d.Span = spans(), spanOf(c)
	case "jobs":
		return a.fillJobs(c, d)
	case "attempts":
		return a.fillAttempts(ctx, d)
	case "ledger":
		d.fillLedger()
	case "forecast":
		return a.fillForecast(c, d)
	case "push":
		api := a.opts.Pages.APIURL
		d.Curl = curlLine(api, d.Name, "$WAKECALL_TOKEN", `{"body":{"order":42},"delay":"30m"}`)
		d.Go = goSnippet(api, d.Name)
	}
	return nil
}

var jobStates = []queue.State{queue.Delayed, queue.Ready, queue.Running, queue.Dead}

const jobsEach = 50

func (a *Admin) fillJobs(c echo.Context, d *topicData) error {
	d.States = jobStates
	d.State = queue.State(c.QueryParam("state"))
	if !slices.Contains(jobStates, d.State) {
		d.State = d.fullest()
	}
	return a.fillMatching(c, d)
}

// Count is how many jobs are in a state.
func (d *topicData) Count(s queue.State) int64 {
	n := d.Live.Totals.Stats
	return map[queue.State]int64{queue.Delayed: n.Delayed, queue.Ready: n.Ready, queue.Running: n.Running, queue.Dead: n.Dead}[s]
}

// fullest is the state that a visitor wants to see first: dead jobs want something done, then the one with most jobs.
func (d *topicData) fullest() queue.State {
	best := queue.Delayed
	for _, s := range jobStates {
		if d.Count(s) > d.Count(best) {
			best = s
		}
	}
	if d.Count(queue.Dead) > 0 {
		return queue.Dead
	}
	return best
}

const attemptsShown = 100

func (a *Admin) fillAttempts(ctx context.Context, d *topicData) error {
	if a.opts.Pages.Activity == nil {
		return nil
	}
	var err error
	if d.Attempts, err = a.opts.Pages.Activity.Attempts(ctx, d.Name, attemptsShown); err != nil && !queue.IsPartial(err) {
		return err
	}
	if d.Errors, err = a.opts.Pages.Activity.Errors(ctx, d.Name); err != nil && !queue.IsPartial(err) {
		return err
	}
	return nil
}

func (d *topicData) fillLedger() {
	t := d.Live.Totals
	d.Living = t.Delayed + t.Ready + t.Running + t.Stats.Dead
	d.Even = history.Reading{Totals: t.Total, Living: t.Stats}.Missing() == 0
	d.Ledger = append(d.Ledger, ledgerDay{time.Now().UTC().Format("2006-01-02"), t.Today})
	days := sortedKeys(t.Days)
	slices.Reverse(days)
	for _, day := range days {
		if at, err := time.Parse("20060102", day); err == nil {
			d.Ledger = append(d.Ledger, ledgerDay{at.Format("2006-01-02"), t.Days[day]})
		}
	}
}

// putState stores a topic with another state.
func (a *Admin) putState(c echo.Context, t *registry.Topic, state registry.TopicState) error {
	next := *t
	next.State, next.Secrets = state, nil // nil: those it has
	_, err := a.registry.PutTopic(c.Request().Context(), actor(c), next)
	return err
}

func (a *Admin) pauseTopic(c echo.Context) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	if err := a.putState(c, t, registry.TopicPaused); err != nil {
		return err
	}
	if err := a.registry.SetPauseReason(c.Request().Context(), actor(c), t.Name, strings.TrimSpace(c.FormValue("reason"))); err != nil {
		if fields, rest := fieldErrors(err); rest == nil {
			a.flashText(c, "warning", fields["reason"])
			return a.back(c, "/topics")
		}
		return err
	}
	a.flash(c, "success", "topic.paused", t.Name)
	return a.back(c, "/topics")
}

func (a *Admin) setTopicState(c echo.Context, state registry.TopicState, done string) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	if err := a.putState(c, t, state); err != nil {
		return err
	}
	a.flash(c, "success", done, t.Name)
	return a.back(c, "/topics")
}

// rotateSecret puts a new secret before the one in use: callbacks carry both signatures until the old one is dropped.
func (a *Admin) rotateSecret(c echo.Context) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	until, err := a.overlapEnds(c)
	if err != nil {
		return err
	}
	secret := newSigningSecret()
	if err := a.registry.RotateSecret(c.Request().Context(), actor(c), t.Name, secret, until); err != nil {
		return err
	}
	a.sessions.Put(c.Request().Context(), keySecretOf+t.Name, secret)
	return a.redirect(c, a.below("/topics", t.Name))
}

// overlaps are how long two secrets may sign side by side, to choose from.
var overlaps = []time.Duration{time.Hour, 24 * time.Hour, 3 * 24 * time.Hour, 7 * 24 * time.Hour}

// overlapEnds is when an old secret is to be dropped that signs from now for the form's time.
func (a *Admin) overlapEnds(c echo.Context) (time.Time, error) {
	overlap, err := time.ParseDuration(cmp.Or(c.FormValue("overlap"), "24h"))
	if err != nil || overlap <= 0 {
		return time.Time{}, echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf("overlap: %.40q is not a duration such as 24h", c.FormValue("overlap")))
	}
	return a.opts.Now().Add(overlap), nil
}

// setOverlap says from now how long the old secret goes on signing.
func (a *Admin) setOverlap(c echo.Context) error {
	name := param(c, "topic")
	until, err := a.overlapEnds(c)
	if err != nil {
		return err
	}
	if err := a.registry.SetRotation(c.Request().Context(), actor(c), name, until); err != nil {
		return err
	}
	return a.redirect(c, a.below("/topics", name))
}

func (a *Admin) dropOldSecret(c echo.Context) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	next := *t
	next.Secrets = t.Secrets[:min(1, len(t.Secrets))]
	if _, err := a.registry.PutTopic(c.Request().Context(), actor(c), next); err != nil {
		return err
	}
	a.flash(c, "success", "topic.secret_dropped", t.Name)
	return a.redirect(c, a.below("/topics", t.Name))
}

// deleteTopic refuses while jobs live, unless they are to go, too. They go before the topic, so that a failure half-way leaves a topic through
// which the rest can be reached, and once more after it, for what was pushed in between.
func (a *Admin) deleteTopic(c echo.Context) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	stats, err := a.queue.Stats(ctx, []string{t.Name})
	if err != nil {
		return err
	}
	n := stats[t.Name]
	drop := c.FormValue("drop") != ""
	if jobs := n.Delayed + n.Ready + n.Running + n.Dead; jobs > 0 && !drop {
		a.flash(c, "danger", "topic.has_jobs", t.Name, jobs)
		return a.redirect(c, a.below("/topics", t.Name))
	}
	if drop {
		if _, err := a.queue.DropTopic(ctx, t.Name); err != nil {
			return err
		}
	}
	if err := a.registry.DeleteTopic(ctx, actor(c), t.Name); err != nil {
		return err
	}
	if drop {
		if _, err := a.queue.DropTopic(ctx, t.Name); err != nil {
			a.log.Warn("jobs that were pushed while their topic was deleted could not be dropped", "topic", t.Name, "error", err)
		}
	}
	a.flash(c, "success", "topic.deleted", t.Name)
	return a.redirect(c, "/topics")
}

func (a *Admin) clearErrors(c echo.Context) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	if a.opts.Pages.Activity != nil {
		if err := a.opts.Pages.Activity.ClearErrors(c.Request().Context(), t.Name); err != nil {
			return err
		}
	}
	return a.redirect(c, a.below("/topics", t.Name)+"?tab=attempts")
}
