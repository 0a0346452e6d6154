package schedules

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func (h *Handler) listRoutes(g *echo.Group) {
	g.GET("/schedules", h.listPage)
	g.GET("/schedules/-/week", h.weekPart)
	live := func(ctx context.Context, query string) (any, error) {
		q, err := url.ParseQuery(query)
		return h.list(ctx, q), err
	}
	h.Hub.Register("schedules", listEvery, "partials/schedules_rows", live)
}

const (
	listEach  = 50
	listEvery = 5 * time.Second
)

type listData struct {
	filter
	Topics  []string
	Order   list.Order[*registry.Schedule]
	Lines   []line
	Pager   list.Pager
	All     int
	Missing []string // shards that do not answer
	Query   string   // of the live rows
}

// line is a schedule in the list.
type line struct {
	*registry.Schedule
	Paused bool // now
	Words  message.Message
	Next   []time.Time       // one, or none
	Last   *store.Occurrence // the newest one; nil: none yet, or unknown
}

// filter selects schedules.
type filter struct{ Search, Topic, State string }

func filterOf(q url.Values) filter {
	return filter{strings.TrimSpace(q.Get("q")), strings.TrimSpace(q.Get("topic")), q.Get("state")}
}

// matching returns the schedules that the filter selects, by name.
func (f filter) matching(all registry.Table[*registry.Schedule], now time.Time) (found []*registry.Schedule) {
	words := strings.Fields(strings.ToLower(f.Search))
	for name, s := range all.All() {
		paused := f.State == string(registry.TopicPaused)
		if f.Topic != "" && f.Topic != s.Topic || f.State != "" && paused != s.IsPaused(now) {
			continue
		}
		text := strings.ToLower(strings.Join([]string{name, s.Topic, s.Cron, s.TimeZone}, " "))
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			found = append(found, s)
		}
	}
	return found
}

func (h *Handler) columns() []list.Column[*registry.Schedule] {
	now := h.Now()
	return []list.Column[*registry.Schedule]{
		{By: "name", Label: "common.name"},
		{Label: "common.topic"},
		{Label: "schedules.rule"},
		{By: "next", Label: "schedules.next", Key: func(s *registry.Schedule) list.Key {
			next := recurring.Next(s, now, 1)
			if len(next) == 0 {
				return list.Key{1}
			}
			return list.Key{0, float64(next[0].Unix())}
		}},
		{Label: "schedules.last"},
		{By: "state", Label: "common.state", Key: func(s *registry.Schedule) list.Key {
			if s.IsPaused(now) {
				return list.Key{0}
			}
			return list.Key{1}
		}},
	}
}

func (h *Handler) listPage(c echo.Context) error {
	d := h.list(c.Request().Context(), c.QueryParams())
	d.Topics = page.TopicNames(h.Registry)
	return h.Pages.Render(c, http.StatusOK, "schedules", d)
}

// list returns a page of the list. Cursors are read for the shown schedules only.
func (h *Handler) list(ctx context.Context, q url.Values) *listData {
	all := h.Registry.Snapshot().Schedules
	now := h.Now()
	d := &listData{filter: filterOf(q), All: all.Len(), Order: list.NewOrder(h.columns(), q), Query: q.Encode()}
	found := d.matching(all, now)
	switch {
	case d.Order.Column.Key != nil:
		found = list.SortBy(found, d.Order.Column.Key, d.Order.Down)
	case d.Order.Down:
		slices.Reverse(found)
	}
	d.Pager = list.Numbered(q, len(found), listEach)
	for _, v := range h.Schedules.States(ctx, list.Shown(d.Pager, found)) {
		s := v.Schedule
		l := line{Schedule: s, Paused: s.IsPaused(now), Words: inWords(s), Next: recurring.Next(s, now, 1)}
		if v.Err != nil && !slices.Contains(d.Missing, s.Shard) {
			d.Missing = append(d.Missing, s.Shard)
		}
		if v.Cursor != nil && len(v.Cursor.Last) > 0 {
			l.Last = &v.Cursor.Last[len(v.Cursor.Last)-1]
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

func (h *Handler) weekPart(c echo.Context) error {
	found := filterOf(c.QueryParams()).matching(h.Registry.Snapshot().Schedules, h.Now())
	return h.Pages.Fragment(c, "partials/schedules_week", newWeek(found, h.Now().In(page.Zone(c))))
}
