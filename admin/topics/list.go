package topics

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

func (h *Handler) topicsRoutes(g *echo.Group) {
	g.GET("/topics", h.topicsPage)
	g.GET("/topics/new", h.Need(account.RoleAdmin, h.newTopicPage))
	g.POST("/topics/new", h.Need(account.RoleAdmin, h.createTopic))
	h.yamlRoutes(g)
	g.GET("/topics/check/name", h.Need(account.RoleAdmin, h.checkName))
	g.POST("/topics/check/retry_if", h.Need(account.RoleAdmin, h.checkRetryIf))
	g.POST("/topics/check/retry", h.Need(account.RoleAdmin, h.previewRetry))
}

type topicsData struct {
	Search, State, Sort string
	States              []string
	Lines               []topicLine
	Pager               page.Pager
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

func (h *Handler) topicsPage(c echo.Context) error {
	ctx := c.Request().Context()
	d := topicsData{Search: strings.TrimSpace(c.QueryParam("q")), State: c.QueryParam("state"),
		Sort: c.QueryParam("sort"), States: topicStates}
	lines := h.matchingTopics(&d)
	by := topicSorts[d.Sort]
	if by == nil {
		d.Sort, by = "name", topicSorts["name"]
	}
	if d.Sort != "name" && d.Sort != "state" && d.Sort != "changed" {
		stats, err := h.figures.AllStats(ctx)
		if err != nil {
			d.Away = err.Error()
		}
		for i := range lines {
			lines[i].stats = stats[lines[i].Name]
		}
	}
	slices.SortFunc(lines, func(x, y topicLine) int { return cmp.Or(by(x, y), strings.Compare(x.Name, y.Name)) })
	d.Pager = page.NewPager(c, len(lines), topicsEach)
	d.Lines = page.PageOf(d.Pager, lines)
	if err := h.fillTotals(ctx, d.Lines); err != nil {
		d.Away = err.Error()
	}
	return h.Render(c, http.StatusOK, "topics", d)
}

var topicStates = []string{string(registry.TopicActive), string(registry.TopicPaused), string(registry.TopicOffline)}

func (h *Handler) matchingTopics(d *topicsData) []topicLine {
	s := h.Snapshot()
	d.All = s.Topics.Len()
	words := strings.Fields(strings.ToLower(d.Search))
	var lines []topicLine
	for name, t := range s.Topics.All() {
		if d.State != "" && string(t.State) != d.State {
			continue
		}
		text := strings.ToLower(name + " " + t.Title + " " + t.Owner + " " + t.CallbackURL)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			lines = append(lines, topicLine{Topic: t, Note: s.Notes.Get(name)})
		}
	}
	return lines
}

// fillTotals reads the numbers of the topics that are shown, and of no others.
func (h *Handler) fillTotals(ctx context.Context, lines []topicLine) error {
	names := make([]string, len(lines))
	for i := range lines {
		names[i] = lines[i].Name
	}
	totals, err := h.queue.Totals(ctx, names)
	for i := range lines {
		lines[i].Totals = totals[lines[i].Name]
	}
	return err
}
