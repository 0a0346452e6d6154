package admin

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/history"
)

// chart is what the admin's script draws.
type chart struct {
	At     []int64     `json:"at"`
	Series []chartLine `json:"series"`
	Unit   string      `json:"unit,omitempty"`
	Time   string      `json:"time"` // the word for it, in the legend
}

type chartLine struct {
	Label  string     `json:"label"`
	Color  string     `json:"color"`
	Values []*float64 `json:"values"`
	Dash   bool       `json:"dash,omitempty"`
}

// line is a column of a series and how it looks. Its label is the text charts.NAME.
type line struct {
	name, color string
	dash        bool
	scale       float64
}

type chartKind struct {
	unit  string
	lines []line
}

const mebibyte = 1.0 / (1 << 20)

// chartKinds are the charts that any series can be shown as: /charts/KIND?series=…&span=….
var chartKinds = map[string]chartKind{
	"rates": {"/s", []line{
		{"pushed", "blue", false, 1}, {"delivered", "green", false, 1}, {"failed", "red", false, 1}, {"retried", "orange", true, 1},
		{"died", "purple", true, 1},
	}},
	"lateness": {"ms", []line{{"p50", "cyan", false, 1}, {"p99", "purple", false, 1}}},
	"backlog": {"", []line{
		{"delayed", "blue", false, 1}, {"ready", "orange", false, 1}, {"running", "green", false, 1}, {"dead", "red", true, 1},
	}},
	"ping":   {"ms", []line{{"ping_p50", "cyan", false, 1}, {"ping_p99", "purple", false, 1}}},
	"memory": {" MiB", []line{{"memory", "blue", false, mebibyte}, {"max_memory", "red", true, mebibyte}}},
}

func (a *Admin) chartsRoutes(g *echo.Group) {
	g.GET("/charts/:kind", a.chart)
}

// spans are the lengths of time to choose from.
func spans() []string { return history.Spans() }

// spanOf is the one chosen.
func spanOf(c echo.Context) string {
	if s := c.QueryParam("span"); slices.Contains(spans(), s) {
		return s
	}
	return spans()[0]
}

func (a *Admin) chart(c echo.Context) error {
	kind, ok := chartKinds[c.Param("kind")]
	if !ok {
		return echo.ErrNotFound
	}
	series := c.QueryParam("series")
	if series == "" {
		series = history.AllTopics
	}
	out := chart{At: []int64{}, Series: []chartLine{}, Unit: kind.unit, Time: a.t(c, "charts.time")}
	if a.opts.Pages.History == nil {
		return c.JSON(http.StatusOK, out)
	}
	p, err := a.opts.Pages.History.Series(c.Request().Context(), series, spanOf(c))
	if err != nil {
		return err
	}
	out.At = p.Times
	for _, l := range kind.lines {
		out.Series = append(out.Series, chartLine{a.t(c, "charts."+l.name), l.color, scaled(p.Values[l.name], l.scale, len(p.Times)), l.dash})
	}
	return c.JSON(http.StatusOK, out)
}

// scaled multiplies the values; a column that the series lacks is unknown all along.
func scaled(values []*float64, by float64, n int) []*float64 {
	if len(values) != n {
		return make([]*float64, n)
	}
	if by == 1 {
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
