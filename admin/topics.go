package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

func (a *Admin) topicsRoutes(g *echo.Group) {
	g.GET("/topics", a.topicsPage)
	g.GET("/topics/new", a.need(account.RoleAdmin, a.newTopicPage))
	g.POST("/topics/new", a.need(account.RoleAdmin, a.createTopic))
	a.yamlRoutes(g)
	g.GET("/topics/check/name", a.checkName)
	g.POST("/topics/check/retry_if", a.checkRetryIf)
	g.POST("/topics/check/retry", a.previewRetry)
}

// topicsQueue is what this group and those of one topic, jobs and pushes need of the queue beside what all pages do.
type topicsQueue interface {
	Totals(ctx context.Context, topics []string) (map[string]queue.TopicTotals, error)
	Forecast(ctx context.Context, topic string) (queue.Forecast, error)
	TopicLimits(ctx context.Context, topics []string) (map[string]queue.TopicLimits, error)
	Find(ctx context.Context, id string, topics []string) ([]*queue.Job, error)
	Get(ctx context.Context, topic, id string) (*queue.Job, error)
	List(ctx context.Context, topic string, state queue.State, cursor string, limit int) ([]queue.Job, string, error)
	Push(ctx context.Context, p queue.Push) queue.Result
	Change(ctx context.Context, topic, id string, change queue.Change) (*queue.Job, error)
	Delete(ctx context.Context, topic, id string) error
	RunNow(ctx context.Context, topic, id string) (*queue.Job, error)
	DropTopic(ctx context.Context, topic string) (int, error)
}

// topicsRegistry is what they need of the registry.
type topicsRegistry interface {
	PutTopic(ctx context.Context, actor string, t registry.Topic) (created bool, err error)
	DeleteTopic(ctx context.Context, actor, name string) error
	SetPauseReason(ctx context.Context, actor, topic, reason string) error
	RotateSecret(ctx context.Context, actor, topic, secret string, until time.Time) error
	SetRotation(ctx context.Context, actor, topic string, until time.Time) error
	Rotation(ctx context.Context, topic string) (time.Time, error)
}

// TopicActivity is what lately happened to a topic's calls; *activity.Reader is one.
type TopicActivity interface {
	Attempts(ctx context.Context, topic string, limit int) ([]activity.Attempt, error)
	Errors(ctx context.Context, topic string) ([]queue.ErrorNote, error)
	ClearErrors(ctx context.Context, topic string) error
}

// TopicsParts are what else they work with.
type TopicsParts struct {
	Activity TopicActivity // nil: the pages show none
	Caller   TopicCaller   // nil: no test callbacks
}

// statsBook remembers the counts of all topics for a moment: sorting 5,000 topics by one asks Redis once, not for every click.
type statsBook struct {
	mu  sync.Mutex
	at  time.Time
	all map[string]queue.Stats
}

const statsFresh = 3 * time.Second

func (a *Admin) allStats(ctx context.Context) (map[string]queue.Stats, error) {
	b := &a.counted
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all != nil && a.opts.Now().Sub(b.at) < statsFresh {
		return b.all, nil
	}
	all, err := a.queue.Stats(ctx, a.topicNames())
	if err != nil && !queue.IsPartial(err) {
		return nil, err
	}
	b.all, b.at = all, a.opts.Now()
	return all, err
}

type topicsData struct {
	Search, State, Sort string
	States              []string
	Lines               []topicLine
	Pager               Pager
	All                 int
	Away                string // why numbers are missing
}

// topicLine is a topic in the list.
type topicLine struct {
	*registry.Topic
	Note   registry.TopicNote
	Totals queue.TopicTotals
	stats  queue.Stats
}

const topicsEach = 50

var topicSorts = map[string]func(x, y topicLine) int{
	"name":    func(x, y topicLine) int { return strings.Compare(x.Name, y.Name) },
	"state":   func(x, y topicLine) int { return strings.Compare(string(x.State), string(y.State)) },
	"delayed": func(x, y topicLine) int { return cmp.Compare(y.stats.Delayed, x.stats.Delayed) },
	"ready":   func(x, y topicLine) int { return cmp.Compare(y.stats.Ready, x.stats.Ready) },
	"running": func(x, y topicLine) int { return cmp.Compare(y.stats.Running, x.stats.Running) },
	"dead":    func(x, y topicLine) int { return cmp.Compare(y.stats.Dead, x.stats.Dead) },
	"changed": func(x, y topicLine) int { return y.UpdatedAt.Compare(x.UpdatedAt) },
}

func (a *Admin) topicsPage(c echo.Context) error {
	ctx := c.Request().Context()
	d := topicsData{Search: strings.TrimSpace(c.QueryParam("q")), State: c.QueryParam("state"), Sort: c.QueryParam("sort"), States: topicStates}
	lines := a.matchingTopics(&d)
	by := topicSorts[d.Sort]
	if by == nil {
		d.Sort, by = "name", topicSorts["name"]
	}
	if d.Sort != "name" && d.Sort != "state" && d.Sort != "changed" {
		stats, err := a.allStats(ctx)
		if err != nil {
			d.Away = err.Error()
		}
		for i := range lines {
			lines[i].stats = stats[lines[i].Name]
		}
	}
	slices.SortFunc(lines, func(x, y topicLine) int { return cmp.Or(by(x, y), strings.Compare(x.Name, y.Name)) })
	d.Pager = pager(c, len(lines), topicsEach)
	d.Lines = pageOf(d.Pager, lines)
	if err := a.fillTotals(ctx, d.Lines); err != nil {
		d.Away = err.Error()
	}
	return a.render(c, http.StatusOK, "topics", d)
}

var topicStates = []string{string(registry.TopicActive), string(registry.TopicPaused), string(registry.TopicOffline)}

func (a *Admin) matchingTopics(d *topicsData) []topicLine {
	s := a.registry.Snapshot()
	d.All = len(s.Topics)
	words := strings.Fields(strings.ToLower(d.Search))
	var lines []topicLine
	for name, t := range s.Topics {
		if d.State != "" && string(t.State) != d.State {
			continue
		}
		text := strings.ToLower(name + " " + t.Title + " " + t.Owner + " " + t.CallbackURL)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			lines = append(lines, topicLine{Topic: t, Note: s.Notes[name]})
		}
	}
	return lines
}

// fillTotals reads the numbers of the topics that are shown, and of no others.
func (a *Admin) fillTotals(ctx context.Context, lines []topicLine) error {
	names := make([]string, len(lines))
	for i := range lines {
		names[i] = lines[i].Name
	}
	totals, err := a.queue.Totals(ctx, names)
	for i := range lines {
		lines[i].Totals = totals[lines[i].Name]
	}
	return err
}
