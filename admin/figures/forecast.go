package figures

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/registry"
)

// Forecast returns the forecast of a topic, and the figures it is computed from.
func (h *Handler) Forecast(ctx context.Context, t *registry.Topic) (forecast.Answer, *forecast.Situation, error) {
	return h.forecasts.Topic(ctx, t)
}

func (h *Handler) ForecastChart(
	c echo.Context, from time.Time, step time.Duration, counts []int64, rate float64,
) Chart {
	due := chartLine{Label: h.Texts.T(c, "forecast.falls_due"), Color: "blue"}
	limit := chartLine{Label: h.Texts.T(c, "forecast.capacity"), Color: "secondary", Dash: true}
	d := Chart{Time: h.Texts.T(c, "charts.time")}
	most := rate * step.Seconds()
	for i, n := range counts {
		d.At = append(d.At, from.Add(time.Duration(i)*step).Unix())
		v := float64(n)
		due.Values = append(due.Values, &v)
		limit.Values = append(limit.Values, &most)
	}
	d.Series = []chartLine{due}
	if rate > 0 {
		d.Series = append(d.Series, limit)
	}
	return d
}
