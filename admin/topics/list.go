package topics

import (
	"context"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// No topic is named "-", so these routes hide none.
func (h *Handler) topicsRoutes(g *echo.Group) {
	g.GET("/topics", h.topicsPage)
	g.GET("/topics/-/new", page.Need(account.RoleAdmin, h.newTopicPage))
	g.POST("/topics/-/new", page.Need(account.RoleAdmin, h.createTopic))
	h.yamlRoutes(g)
	g.GET("/topics/check/name", page.Need(account.RoleAdmin, h.checkName))
	g.POST("/topics/check/retry_if", page.Need(account.RoleAdmin, h.checkRetryIf))
	g.POST("/topics/check/retry", page.Need(account.RoleAdmin, h.previewRetry))
	h.Hub.Register("topics", topicsEvery, "partials/topics_rows", func(ctx context.Context, query string) (any, error) {
		q, err := url.ParseQuery(query)
		return h.listTopics(ctx, q), err
	})
}

const topicsEvery = 3 * time.Second

type topicsData struct {
	Search, State, Owner, Count string
	States, Owners              []string
	Order                       list.Order[*topicLine]
	Lines                       []topicLine
	Pager                       list.Pager
	All                         int
	Counts                      figures.Counts
	Stored                      figures.Stored // the success rates
	Query                       string         // query of the live rows
	alerts                      map[string]*alert.Alert
}

// topicLine is a topic in the list.
type topicLine struct {
	*registry.Topic
	Note             registry.TopicNote
	Totals           *figures.TopicTotals
	Stats            store.Stats
	Open             bool          // its breaker is open
	Limited          bool          // whether it is open is known
	Alert            *alert.Alert  // the open alert about it; nil: none
	limit            time.Duration // how late it may be; 0: no limit
	figures.Answered               // for Stats
	*figures.Vitals
	count string
}

// Late reports whether a job has waited longer than the topic may be late.
func (l topicLine) Late() bool { return l.limit > 0 && l.Stats.OldestReady > l.limit }

// Moved returns the shown counters: today's, or those of all time.
func (l topicLine) Moved() observe.Totals {
	if l.count == "total" {
		return l.Totals.Total
	}
	return l.Totals.Today
}

// P99 returns the lateness of the topic's jobs in the figures' Window, in milliseconds; nil: unknown, or no jobs.
func (l topicLine) P99() *float64 { return l.Vitals.Late(l.Stats) }

// States of health, most severe first. Their texts are topics.health_NAME.
var healths = []string{
	"breaker", "no_worker", "no_consumer", "failing", "shard_down", "alert", "late", "paused", "offline", "unknown",
	"few_attempts", "healthy",
}

const (
	failingLeast = 5   // attempts
	failingShare = 0.5 // share of failed attempts

	workerWait = 30 * time.Second // a waiting worker takes a ready job at once, a busy one while it has a lease
)

// Health returns the most severe problem of a topic. Where the current state cannot be read, the topic's alert decides,
// which stays open for some minutes after the problem ends.
func (l topicLine) Health() string {
	switch {
	case l.State != registry.TopicActive:
		return string(l.State)
	case l.Open, !l.Limited && l.alerted("breaker"):
		return "breaker"
	case l.alerted("no_worker") && l.mayWait(), l.noWorker():
		return "no_worker"
	case l.alerted("no_consumer") && l.mayWait():
		return "no_consumer"
	case !l.Recovered && !l.Few() && l.Success < 1-failingShare, l.Read.Old && l.alerted("topic_failing"):
		return "failing"
	case len(l.Missing) > 0:
		return "shard_down"
	case l.otherwiseCritical():
		return "alert"
	case l.Late():
		return "late"
	case !l.Known(), l.Read.Old && math.IsNaN(l.Success):
		return "unknown"
	case l.Few() && l.Success < 1-failingShare:
		return "few_attempts"
	}
	return "healthy"
}

// Few reports whether there were too few attempts to judge the topic by their share of success.
func (l topicLine) Few() bool { return l.Attempts < failingLeast }

// Succeeded returns how many attempts succeeded.
func (l topicLine) Succeeded() int64 { return int64(math.Round(l.Success * float64(l.Attempts))) }

// alerted reports whether an alert about the topic with a cause of this kind is open.
func (l topicLine) alerted(kind string) bool { return l.Alert != nil && l.Alert.Has(kind) }

// mayWait reports whether jobs may be waiting that nobody reserves.
func (l topicLine) mayWait() bool {
	return !l.Known() || len(l.Missing) > 0 || l.Stats.Ready > 0 && l.Stats.Running == 0
}

// noWorker reports whether no worker reserves the ready jobs of a pull topic, too few or too recent for an alert.
func (l topicLine) noWorker() bool {
	return l.Delivery == registry.DeliveryPull && l.Stats.Ready > 0 && l.Stats.Running == 0 &&
		l.Stats.OldestReady > workerWait
}

// otherwiseCritical reports whether the open alert has a critical cause without a health state of its own.
func (l topicLine) otherwiseCritical() bool {
	return l.Alert != nil && slices.ContainsFunc(l.Alert.Causes, func(c alert.Cause) bool {
		return c.Severity == alert.Critical && !slices.Contains([]string{"breaker", "no_worker", "no_consumer"}, c.Kind)
	})
}

// worst sorts the most severe problem first, and of these the one that affects the most jobs.
func (l topicLine) worst() list.Key {
	at := slices.Index(healths, l.Health())
	if at == len(healths)-1 {
		return list.Key{float64(at)} // rows without a problem do not move
	}
	return list.Key{float64(at), -float64(l.Stats.Ready + l.Stats.Dead)}
}

const topicsEach = 50

// columns returns the columns. Those that a phone shows without scrolling come first.
func columns() []column {
	number := func(by, label string, of func(*topicLine) int64) column {
		return column{By: by, Label: label, Number: true, Key: list.Highest(of)}
	}
	return []column{
		{By: "name", Label: "common.topic"},
		{By: "health", Label: "topics.health", Key: func(l *topicLine) list.Key {
			return l.worst()
		}},
		number("ready", "common.ready", func(l *topicLine) int64 { return l.Stats.Ready }),
		number("dead", "common.dead", func(l *topicLine) int64 { return l.Stats.Dead }),
		{By: "success", Label: "topics.success", Number: true, Key: func(l *topicLine) list.Key {
			return list.Key{-unknownLast(l.Success), -float64(l.Attempts)}
		}},
		{By: "p99", Label: "topics.p99", Number: true,
			Key: func(l *topicLine) list.Key { return list.Key{-orZero(l.P99())} }},
		number("oldest", "topics.oldest", func(l *topicLine) int64 { return int64(l.Stats.OldestReady) }),
		{Label: "topics.recent"},
		number("pushed", "topics.pushed", func(l *topicLine) int64 { return l.Moved().Pushed }),
		number("delivered", "topics.delivered", func(l *topicLine) int64 { return l.Moved().Delivered }),
		number("failed", "topics.failed", func(l *topicLine) int64 { return l.Moved().Failed }),
		{By: "deleted", Label: "topics.deleted", Number: true, Wide: true,
			Key: list.Highest(func(l *topicLine) int64 { return l.Moved().Deleted })},
		number("delayed", "common.delayed", func(l *topicLine) int64 { return l.Stats.Delayed }),
		number("running", "common.running", func(l *topicLine) int64 { return l.Stats.Running }),
	}
}

type column = list.Column[*topicLine]

func unknownLast(share float64) float64 {
	if math.IsNaN(share) {
		return -1
	}
	return share
}

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func (h *Handler) topicsPage(c echo.Context) error {
	return h.Pages.Render(c, http.StatusOK, "topics", h.listTopics(c.Request().Context(), c.QueryParams()))
}

// listTopics returns a page of the list. Values that the list is not sorted by are read only for the shown topics.
func (h *Handler) listTopics(ctx context.Context, q url.Values) *topicsData {
	if !q.Has("sort") {
		q = maps.Clone(q)
		q.Set("sort", "health")
	}
	d := &topicsData{Search: strings.TrimSpace(q.Get("q")), State: q.Get("state"), Owner: q.Get("owner"),
		Count: q.Get("count"), States: topicStates, Counts: h.Figures.Counts(ctx),
		alerts: h.Figures.OpenAlerts(ctx).ByTopic(), Query: q.Encode(), Order: list.NewOrder(columns(), q)}
	topics := h.matchingTopics(d)
	d.Pager = list.Numbered(q, len(topics), topicsEach)
	var shown []*topicLine
	if d.Order.Column.Key == nil { // by name
		if d.Order.Down {
			slices.Reverse(topics)
		}
		shown = h.newLines(list.Shown(d.Pager, topics), d)
	} else {
		lines := h.newLines(topics, d)
		h.fillJudged(ctx, lines, d.Order.Column.By)
		shown = list.Shown(d.Pager, list.SortBy(lines, d.Order.Column.Key, d.Order.Down))
	}
	h.fillTotals(ctx, shown)
	h.fillVitals(ctx, shown)
	for _, l := range shown {
		l.Note = h.Registry.Snapshot().Notes.Get(l.Name)
		d.Lines = append(d.Lines, *l)
	}
	d.Stored = h.Figures.Stored()
	return d
}

// fillJudged reads the values that the list is sorted by.
func (h *Handler) fillJudged(ctx context.Context, lines []*topicLine, key string) {
	switch key {
	case "pushed", "delivered", "failed", "deleted":
		h.fillTotals(ctx, busiest(lines))
	case "health", "success", "p99":
		h.fillVitals(ctx, busiest(lines))
	}
}

// topicsJudged is the number of topics whose health or totals are read for sorting.
const topicsJudged = 1000

// busiest returns the topics with the most jobs, if there are very many.
func busiest(lines []*topicLine) []*topicLine {
	if len(lines) <= topicsJudged {
		return lines
	}
	return list.SortBy(lines, list.Highest(func(l *topicLine) int64 { return l.Stats.Jobs() }), false)[:topicsJudged]
}

var topicStates = []string{string(registry.TopicActive), string(registry.TopicPaused), string(registry.TopicOffline)}

// matchingTopics returns the topics that the search selects, by name.
func (h *Handler) matchingTopics(d *topicsData) []*registry.Topic {
	s := h.Registry.Snapshot()
	d.All = s.Topics.Len()
	words := strings.Fields(strings.ToLower(d.Search))
	topics, owners := make([]*registry.Topic, 0, d.All), map[string]bool{}
	for name, t := range s.Topics.All() {
		if t.Owner != "" {
			owners[t.Owner] = true
		}
		if d.State != "" && string(t.State) != d.State || d.Owner != "" && t.Owner != d.Owner {
			continue
		}
		if len(words) == 0 {
			topics = append(topics, t)
			continue
		}
		address, _, _ := strings.Cut(t.CallbackURL, "?") // the query is for admins
		text := strings.ToLower(name + " " + t.Title + " " + t.Owner + " " + address)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			topics = append(topics, t)
		}
	}
	d.Owners = page.SortedKeys(owners)
	return topics
}

// newLines returns lines without the values that are read for shown topics only.
func (h *Handler) newLines(topics []*registry.Topic, d *topicsData) []*topicLine {
	rules, alerts := h.rules(), d.alerts
	all, lines := make([]topicLine, len(topics)), make([]*topicLine, len(topics))
	for i, t := range topics {
		all[i] = h.newLine(t, d.Counts, rules)
		all[i].count, all[i].Alert = d.Count, alerts[t.Name]
		lines[i] = &all[i]
	}
	return lines
}

// rules returns the rules of the alerts. Rules that cannot be read have their defaults.
func (h *Handler) rules() *alert.Rules {
	settings, _ := alert.Read(h.Registry.Snapshot())
	return &settings.Rules
}

func (h *Handler) newLine(t *registry.Topic, counts figures.Counts, rules *alert.Rules) topicLine {
	return topicLine{
		Topic: t, Stats: counts.Topics[t.Name], Answered: counts.Answered,
		Vitals: noVitals, Totals: noTotals, limit: rules.Objective(t),
	}
}

var (
	noVitals = &figures.Vitals{Success: math.NaN()}
	noTotals = &figures.TopicTotals{}
)

func namesOf(lines []*topicLine) []string {
	names := make([]string, len(lines))
	for i := range lines {
		names[i] = lines[i].Name
	}
	return names
}

func (h *Handler) fillTotals(ctx context.Context, lines []*topicLine) {
	totals := h.Figures.Totals(ctx, namesOf(lines))
	for _, l := range lines {
		t := totals[l.Name]
		l.Totals = &t
	}
}

func (h *Handler) fillVitals(ctx context.Context, lines []*topicLine) {
	names := namesOf(lines)
	vitals := h.Figures.Vitals(ctx, names)
	limits, err := h.Queue.TopicLimits(ctx, names)
	for _, l := range lines {
		v := vitals[l.Name]
		l.Vitals, l.Open, l.Limited = &v, h.isOpen(limits[l.Name]), err == nil
	}
}

// isOpen reports whether a breaker is open. A probe may be due now.
func (h *Handler) isOpen(l observe.TopicLimits) bool {
	return l.BreakerOpen.After(h.Now().Add(-time.Minute))
}
