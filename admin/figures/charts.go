package figures

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/observe/history"
)

// Chart is the data that the admin's script draws.
type Chart struct {
	At     []int64     `json:"at"`
	Series []chartLine `json:"series"`
	Unit   string      `json:"unit,omitempty"`
	Axis   string      `json:"axis,omitempty"` // what the values are, beside their axis
	Time   string      `json:"time"`           // the word for time in the legend
	Note   string      `json:"note,omitempty"` // how old it is: a text in which {0} is the hour and minute of NoteAt
	NoteAt int64       `json:"noteAt,omitempty"`
	None   string      `json:"none,omitempty"` // shown when there are no values; empty: "no data"
}

// Old adds a note that the chart was made at a time.
func (d *Chart) Old(c echo.Context, texts *page.Texts, at, now time.Time) {
	d.Note, d.NoteAt = texts.T(c, "charts.as_of", "{0}", texts.Words(c, now.Sub(at))), at.Unix()
}

type chartLine struct {
	Label  string     `json:"label"`
	Color  string     `json:"color"`
	Values []*float64 `json:"values"`
	Dash   bool       `json:"dash,omitempty"`
}

// line is a column of a series and its appearance. Its label is the text charts.NAME.
type line struct {
	name, color string
	dash        bool
	scale       float64 // 0: as it is
	optional    bool    // omitted when it has no values
}

// chartKind has a unit: of time (ms), of memory, or else the name of the texts charts.unit_NAME, which follows each
// value, and charts.axis_NAME.
type chartKind struct {
	unit  string
	lines []line
}

const mebibyte = 1.0 / (1 << 20)

// chartKinds are the charts that can be drawn of any series: /charts/KIND?series=…&span=…. A column has one color in
// all of them, and none is red: a chart does not say that somebody has to act.
var chartKinds = map[string]chartKind{
	"rates": {"rates", []line{
		{name: "pushed", color: "blue"},
		{name: "delivered", color: "green"},
		{name: "failed", color: "orange"},
		{name: "died", color: "purple", dash: true},
	}},
	"lateness": {"ms", []line{{name: "p50", color: "cyan"}, {name: "p99", color: "indigo"}}},
	"backlog": {"jobs", []line{
		{name: "delayed", color: "azure"},
		{name: "ready", color: "lime"},
		{name: "running", color: "teal"},
		{name: "dead", color: "purple", dash: true},
	}},
	"ping": {"ms", []line{{name: "ping_p50", color: "cyan"}, {name: "ping_p99", color: "indigo"}}},
	"memory": {"MiB", []line{
		{name: "memory", color: "blue", scale: mebibyte},
		{name: "max_memory", color: "secondary", dash: true, scale: mebibyte, optional: true},
	}},
}

// Routes registers the addresses from which charts load their data.
func (h *Handler) Routes(g *echo.Group) {
	g.GET("/charts/marks", h.marksPart)
	g.GET("/charts/:kind", h.chart)
}

// SpanOf returns the selected span of time.
func SpanOf(c echo.Context) string {
	if s := c.QueryParam("span"); slices.Contains(history.Spans(), s) {
		return s
	}
	return history.Spans()[0]
}

func (h *Handler) chart(c echo.Context) error {
	kind, ok := chartKinds[c.Param("kind")]
	if !ok {
		return echo.ErrNotFound
	}
	series := c.QueryParam("series")
	if series == "" {
		series = history.AllTopics
	}
	out := Chart{At: []int64{}, Series: []chartLine{}, Time: h.Texts.T(c, "charts.time")}
	out.Unit, out.Axis = h.units(c, kind.unit)
	p, stored := h.points(c, series)
	switch {
	case !stored.Known():
		out.None = h.Texts.T(c, "common.stored_unknown")
		return c.JSON(http.StatusOK, out)
	case stored.Old:
		out.Old(c, h.Texts, stored.At, h.Now())
	}
	if series != history.AllTopics && !strings.Contains(series, "/") { // a topic
		all, _ := h.points(c, history.AllTopics)
		p = p.WithGaps(all)
	}
	out.At = append([]int64{}, p.Times...)
	for _, l := range kind.lines {
		if l.optional && !slices.ContainsFunc(p.Values[l.name], func(v *float64) bool { return v != nil }) {
			continue
		}
		out.Series = append(out.Series,
			chartLine{h.Texts.T(c, "charts."+l.name), l.color, scaled(p.Values[l.name], l.scale, len(p.Times)), l.dash})
	}
	return c.JSON(http.StatusOK, out)
}

// points reads a series over the range in the address.
func (h *Handler) points(c echo.Context, series string) (history.Points, Stored) {
	ctx, r := c.Request().Context(), RangeOf(c, h.Now())
	if !r.Fixed() {
		return h.Series(ctx, series, r.Span)
	}
	p, err := h.History.Range(ctx, series, r.From, r.To)
	if err != nil {
		h.Log.Debug("read the history", "series", series, "error", err)
		return p, Stored{Old: true}
	}
	return p, Stored{At: h.Now()}
}

// units returns what follows a value in the legend and on the axis, and what stands beside the axis.
func (h *Handler) units(c echo.Context, unit string) (value, axis string) {
	switch unit {
	case "ms":
		return unit, h.Texts.T(c, "charts.axis_time")
	case "MiB":
		return " " + unit, unit
	}
	return h.Texts.T(c, "charts.unit_"+unit), h.Texts.T(c, "charts.axis_"+unit)
}

// scaled multiplies the values, unless by is 0. A column that the series lacks is unknown throughout.
func scaled(values []*float64, by float64, n int) []*float64 {
	if len(values) != n {
		return make([]*float64, n)
	}
	if by == 0 {
		return values
	}
	list := make([]*float64, n)
	for i, v := range values {
		if v != nil {
			x := *v * by
			list[i] = &x
		}
	}
	return list
}
