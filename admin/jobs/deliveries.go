package jobs

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Activity has the recent attempts of a topic, of all hosts; *activity.Reader implements it.
type Activity interface {
	Attempts(ctx context.Context, topic string, limit int) ([]activity.Attempt, error)
}

func (h *Handler) deliveryRoutes(g *echo.Group) { g.GET("/deliveries", h.deliveriesPage) }

const (
	deliveriesEach  = 50
	deliveriesKept  = 1000 // the newest that match, over all topics
	deliveriesRead  = 100  // of one topic on one shard, which keeps this many
	deliveriesLimit = 2 * time.Second
)

// deliveryFilter selects attempts.
type deliveryFilter struct {
	Topic  string  // a name or a pattern; empty: all
	Class  string  // 2xx to 5xx, none for no answer; empty: any
	Slower float64 // the call took at least so many milliseconds
}

var statusClasses = []string{"2xx", "3xx", "4xx", "5xx", "none"}

func (f deliveryFilter) match(a *activity.Attempt) bool {
	class := "none"
	if a.Status > 0 {
		class = strconv.Itoa(a.Status/100) + "xx"
	}
	return (f.Class == "" || f.Class == class) && a.TookMS >= f.Slower
}

type deliveriesData struct {
	Filter   deliveryFilter
	Classes  []string
	Attempts []activity.Attempt
	Pager    list.Pager
	Read, Of int // topics
	Full     bool
	Away     string // why some attempts could not be read
}

// Slower returns the least time as the form shows it.
func (d *deliveriesData) Slower() string {
	if d.Filter.Slower == 0 {
		return ""
	}
	return strconv.FormatFloat(d.Filter.Slower, 'f', -1, 64)
}

// deliveriesPage lists the newest attempts over all topics. It reads what the shards keep of each topic, within a time
// limit, and keeps a bounded number of them.
func (h *Handler) deliveriesPage(c echo.Context) error {
	class := c.QueryParam("status")
	if !slices.Contains(statusClasses, class) {
		class = ""
	}
	d := deliveriesData{Classes: statusClasses, Filter: deliveryFilter{
		Topic: strings.TrimSpace(c.QueryParam("topic")), Class: class,
		Slower: formNumber(c, "slower", 0, 0, float64(registry.MaxPullTTR/time.Millisecond)),
	}}
	names := bulk.Filter{Topic: d.Filter.Topic}.Topics(h.Registry.Snapshot())
	d.Of = len(names)
	until := h.Now().Add(deliveriesLimit)
	for _, name := range names {
		if d.Read > 0 && h.Now().After(until) {
			break
		}
		list, err := h.Activity.Attempts(c.Request().Context(), name, deliveriesRead)
		if err != nil {
			d.Away = h.Texts.Explain(c, err)
			if !queue.IsPartial(err) {
				break
			}
		}
		d.Read++
		d.add(list)
	}
	d.trim()
	d.Pager = list.Numbered(c.QueryParams(), len(d.Attempts), deliveriesEach)
	d.Attempts = list.Shown(d.Pager, d.Attempts)
	return h.Pages.Render(c, http.StatusOK, "deliveries", &d)
}

func (d *deliveriesData) add(list []activity.Attempt) {
	for i := range list {
		if d.Filter.match(&list[i]) {
			d.Attempts = append(d.Attempts, list[i])
		}
	}
	if len(d.Attempts) > 2*deliveriesKept {
		d.trim()
	}
}

// trim keeps the newest attempts.
func (d *deliveriesData) trim() {
	slices.SortStableFunc(d.Attempts, func(a, b activity.Attempt) int { return cmp.Compare(b.StartedAt, a.StartedAt) })
	if len(d.Attempts) > deliveriesKept {
		clear(d.Attempts[deliveriesKept:]) // their answers would stay in memory
		d.Attempts, d.Full = d.Attempts[:deliveriesKept], true
	}
}
