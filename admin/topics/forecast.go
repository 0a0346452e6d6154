package topics

import (
	"slices"
	"time"

	"github.com/labstack/echo/v4"
)

// fillForecast computes when jobs fall due, when the waiting ones are cleared, and how late later ones will be called
// by dispatchers or, at the earliest, reserved by workers. Topics of a namespace have no forecast.
func (h *Handler) fillForecast(c echo.Context, d *topicData) error {
	if d.IsNamespace() {
		return nil
	}
	answer, s, err := h.Figures.Forecast(c.Request().Context(), d.Topic)
	if err != nil {
		d.Away = h.Texts.Explain(c, err)
	}
	if s == nil || s.Due.Now.IsZero() { // no shard answered
		return nil
	}
	s.Capacity.Measure(c.Request().Context(), h.Figures.History, d.Name)
	f, rate := &s.Due, s.Capacity.Rate
	d.Forecast, d.Capacity, d.Answer = f, s.Capacity, answer
	d.Minutes = h.Figures.ForecastChart(c, f.Now, time.Minute, f.Minutes[:], rate)
	d.Hours = h.Figures.ForecastChart(c, f.Now, time.Hour, f.Hours[:], rate)
	d.Peak = slices.Max(f.Minutes[:])
	return nil
}
