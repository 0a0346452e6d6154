package topics

import (
	"cmp"
	"context"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
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
	Search, State, Sort, Count string
	States                     []string
	Lines                      []topicLine
	Pager                      page.Pager
	All                        int
	Counts                     figures.Counts
	Stored                     figures.Stored // the success rates
	Query                      string         // query of the live rows
	alerts                     map[string]*alert.Alert
}

// Head is a column that the list can be sorted by. Numbers are sorted highest first; -NAME reverses the order.
type Head struct {
	By, Label string
	Number    bool
	Wide      bool // only shown on wide screens
}

// Heads returns the columns. Those that a phone shows without scrolling come first.
func (d topicsData) Heads() []Head {
	return []Head{
		{"name", "common.topic", false, false}, {"health", "topics.health", false, false},
		{"ready", "common.ready", true, false}, {"dead", "common.dead", true, false},
		{"success", "topics.success", true, false}, {"p99", "topics.p99", true, false},
		{"oldest", "topics.oldest", true, false}, {"", "topics.recent", false, false},
		{"pushed", "topics.pushed", true, false}, {"delivered", "topics.delivered", true, false},
		{"failed", "topics.failed", true, false}, {"deleted", "topics.deleted", true, true},
		{"delayed", "common.delayed", true, false}, {"running", "common.running", true, false},
	}
}

// Order returns how a column is sorted now: ascending, descending or not.
func (d topicsData) Order(h Head) string {
	switch {
	case strings.TrimPrefix(d.Sort, "-") != h.By:
		return ""
	case h.Number == (d.Sort == h.By):
		return "descending"
	}
	return "ascending"
}

// Sorted returns the query for the order that a click on a column selects.
func (d topicsData) Sorted(h Head) template.URL {
	next := h.By
	if d.Sort == h.By {
		next = "-" + h.By
	}
	return template.URL(url.Values{"q": {d.Search}, "state": {d.State}, "count": {d.Count}, "sort": {next}}.Encode())
}

// topicLine is a topic in the list.
type topicLine struct {
	*registry.Topic
	Note             registry.TopicNote
	Totals           *figures.TopicTotals
	Stats            queue.Stats
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
func (l topicLine) Moved() queue.Totals {
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
	"healthy",
}

const (
	failingLeast = 5   // attempts
	failingShare = 0.5 // share of failed attempts
)

// Health returns the most severe problem of a topic. What cannot be read now is judged by its alert, which stays open
// for some minutes after its end.
func (l topicLine) Health() string {
	switch {
	case l.State != registry.TopicActive:
		return string(l.State)
	case l.Open, !l.Limited && l.alerted("breaker"):
		return "breaker"
	case l.alerted("no_worker") && l.mayWait():
		return "no_worker"
	case l.alerted("no_consumer") && l.mayWait():
		return "no_consumer"
	case l.Success == 0, l.Attempts >= failingLeast && l.Success < 1-failingShare,
		l.Read.Old && l.alerted("topic_failing"):
		return "failing"
	case len(l.Missing) > 0:
		return "shard_down"
	case l.otherwiseCritical():
		return "alert"
	case l.Late():
		return "late"
	case !l.Known(), l.Read.Old && math.IsNaN(l.Success):
		return "unknown"
	}
	return "healthy"
}

// alerted reports whether an alert about the topic with a cause of this kind is open.
func (l topicLine) alerted(kind string) bool { return l.Alert != nil && l.Alert.Has(kind) }

// mayWait reports whether jobs wait that nobody reserves, as far as is known.
func (l topicLine) mayWait() bool {
	return !l.Known() || len(l.Missing) > 0 || l.Stats.Ready > 0 && l.Stats.Running == 0
}

// otherwiseCritical reports whether an alert is open with a critical cause that has no state of health of its own.
func (l topicLine) otherwiseCritical() bool {
	return l.Alert != nil && slices.ContainsFunc(l.Alert.Causes, func(c alert.Cause) bool {
		return c.Severity == alert.Critical && !slices.Contains([]string{"breaker", "no_worker", "no_consumer"}, c.Kind)
	})
}

const topicsEach = 50

// sortKey is the key that a list is sorted by: lowest first, equal keys by name.
type sortKey [2]float64

// topicSorts are the columns except the name, by which the topics are already sorted.
var topicSorts = map[string]func(*topicLine) sortKey{
	"health":    func(l *topicLine) sortKey { return sortKey{float64(slices.Index(healths, l.Health()))} },
	"success":   func(l *topicLine) sortKey { return sortKey{-unknownLast(l.Success), -float64(l.Attempts)} },
	"p99":       func(l *topicLine) sortKey { return sortKey{-orZero(l.P99())} },
	"oldest":    highest(func(l *topicLine) int64 { return int64(l.Stats.OldestReady) }),
	"pushed":    highest(func(l *topicLine) int64 { return l.Moved().Pushed }),
	"delivered": highest(func(l *topicLine) int64 { return l.Moved().Delivered }),
	"failed":    highest(func(l *topicLine) int64 { return l.Moved().Failed }),
	"deleted":   highest(func(l *topicLine) int64 { return l.Moved().Deleted }),
	"delayed":   highest(func(l *topicLine) int64 { return l.Stats.Delayed }),
	"ready":     highest(func(l *topicLine) int64 { return l.Stats.Ready }),
	"running":   highest(func(l *topicLine) int64 { return l.Stats.Running }),
	"dead":      highest(func(l *topicLine) int64 { return l.Stats.Dead }),
}

func highest(of func(*topicLine) int64) func(*topicLine) sortKey {
	return func(l *topicLine) sortKey { return sortKey{-float64(of(l))} }
}

// sortedBy sorts lines that are in the order of their names. It computes each key once: there may be 100,000.
func sortedBy(lines []*topicLine, key func(*topicLine) sortKey, down bool) []*topicLine {
	type place struct {
		key sortKey
		at  int
	}
	places := make([]place, len(lines))
	for i, l := range lines {
		k := key(l)
		if down {
			k = sortKey{-k[0], -k[1]}
		}
		places[i] = place{k, i}
	}
	slices.SortFunc(places, func(x, y place) int {
		return cmp.Or(cmp.Compare(x.key[0], y.key[0]), cmp.Compare(x.key[1], y.key[1]), cmp.Compare(x.at, y.at))
	})
	sorted := make([]*topicLine, len(lines))
	for i, p := range places {
		sorted[i] = lines[p.at]
	}
	return sorted
}

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
	d := &topicsData{Search: strings.TrimSpace(q.Get("q")), State: q.Get("state"), Sort: q.Get("sort"),
		Count: q.Get("count"), States: topicStates, Counts: h.Figures.Counts(ctx),
		alerts: h.Figures.OpenAlerts(ctx).ByTopic()}
	d.Query = url.Values{"q": {d.Search}, "state": {d.State}, "sort": {d.Sort}, "count": {d.Count},
		"page": {q.Get("page")}}.Encode()
	topics := h.matchingTopics(d)
	key, down := strings.CutPrefix(d.Sort, "-")
	by := topicSorts[key]
	if by == nil && key != "name" {
		d.Sort, down = "name", false
	}
	d.Pager = page.NewPager(q.Get("page"), len(topics), topicsEach)
	var shown []*topicLine
	if by == nil { // already in order
		if down {
			slices.Reverse(topics)
		}
		shown = h.newLines(page.PageOf(d.Pager, topics), d)
	} else {
		lines := h.newLines(topics, d)
		h.fillJudged(ctx, lines, key)
		shown = page.PageOf(d.Pager, sortedBy(lines, by, down))
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
	return sortedBy(lines, highest(func(l *topicLine) int64 { return l.Stats.Jobs() }), false)[:topicsJudged]
}

var topicStates = []string{string(registry.TopicActive), string(registry.TopicPaused), string(registry.TopicOffline)}

// matchingTopics returns the topics that the search selects, by name.
func (h *Handler) matchingTopics(d *topicsData) []*registry.Topic {
	s := h.Registry.Snapshot()
	d.All = s.Topics.Len()
	words := strings.Fields(strings.ToLower(d.Search))
	topics := make([]*registry.Topic, 0, d.All)
	for name, t := range s.Topics.All() {
		if d.State != "" && string(t.State) != d.State {
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
func (h *Handler) isOpen(l queue.TopicLimits) bool {
	return l.BreakerOpen.After(h.Now().Add(-time.Minute))
}
