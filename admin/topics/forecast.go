package topics

import (
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/figures"
)

// fillForecast computes when jobs fall due, and how late dispatchers will call them or, at the earliest, workers take
// them. Topics of a namespace have no forecast.
func (h *Handler) fillForecast(c echo.Context, d *topicData) error {
	if d.IsNamespace() {
		return nil
	}
	ctx := c.Request().Context()
	f, err := h.Queue.Forecast(ctx, d.Name)
	if err != nil {
		d.Away = h.Texts.Explain(c, err)
	}
	if f.Now.IsZero() { // no shard answered
		return nil
	}
	d.Forecast = &f
	d.Capacity = h.Figures.TopicCapacity(ctx, d.Topic)
	d.Late = figures.Predict(&f, d.Live.Totals.Ready, d.Capacity.Rate)
	d.Minutes = h.Figures.ForecastChart(c, f.Now, time.Minute, f.Minutes[:], d.Capacity.Rate)
	d.Hours = h.Figures.ForecastChart(c, f.Now, time.Hour, f.Hours[:], d.Capacity.Rate)
	d.Peak = slices.Max(f.Minutes[:])
	return nil
}
