package server

import (
	"net/http"
	"net/url"

	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// Limits of a page of a list.
const (
	defaultPage = 50
	maxPage     = 1000
)

func listed(values url.Values) (store.State, error) {
	state := store.State(values.Get("state"))
	switch state {
	case store.Delayed, store.Ready, store.Running, store.Dead, store.Finished:
	case "":
		return "", badField("state", "required: one of delayed, ready, running, dead, done")
	default:
		return "", badField("state", "must be one of delayed, ready, running, dead, done, got %q", clip(string(state)))
	}
	if values.Has("prefix") {
		if err := checkID("prefix", values.Get("prefix")); err != nil {
			return "", err
		}
		if state != store.Finished && state != store.Dead {
			return "", badField("prefix", "requires state=done or state=dead")
		}
	}
	for _, name := range deadFilterNames {
		if name != "prefix" && values.Has(name) && state != store.Dead {
			return "", badField(name, "requires state=dead")
		}
	}
	return state, nil
}

func (s *Server) listJobs(c *call) error {
	state, err := listed(c.query)
	if err != nil {
		return err
	}
	limit, err := c.limitOf(defaultPage, maxPage)
	if err != nil {
		return err
	}
	var jobs []store.Job
	var next string
	filter, err := deadFilterOf(c.query, c.topic.Name)
	if err != nil {
		return err
	}
	switch cursor := c.query.Get("cursor"); {
	case state == store.Finished:
		jobs, next, err = s.jobs.ListFinished(c.ctx(), c.topic.Name, c.query.Get("prefix"), cursor, limit)
	case filter != nil:
		jobs, next, err = filter.Page(c.ctx(), s.jobs, cursor, limit)
	default:
		jobs, next, err = s.jobs.List(c.ctx(), c.topic.Name, state, cursor, limit)
	}
	if err != nil {
		return err
	}
	view := struct {
		Jobs []*jobView `json:"jobs"`
		Next string     `json:"next"` // the cursor of the next page; empty: this is the last
	}{Next: next}
	for i := range jobs {
		view.Jobs = append(view.Jobs, viewOfJob(&jobs[i]))
	}
	return s.answer(c, http.StatusOK, &view)
}

// statsView is the number of a topic's jobs by state.
type statsView struct {
	Delayed       int64 `json:"delayed"`
	Ready         int64 `json:"ready"`
	Running       int64 `json:"running"`
	Dead          int64 `json:"dead"`
	OldestReadyMS int64 `json:"oldest_ready_ms"`
}

func (s *Server) stats(c *call) error {
	all, err := s.jobs.Stats(c.ctx(), []string{c.topic.Name})
	if err != nil {
		return err
	}
	st := all[c.topic.Name]
	return s.answer(c, http.StatusOK, statsView{
		Delayed: st.Delayed, Ready: st.Ready, Running: st.Running, Dead: st.Dead,
		OldestReadyMS: st.OldestReady.Milliseconds(),
	})
}

// forecastView says when the jobs of a topic that are due are cleared.
type forecastView struct {
	Waiting   int64           `json:"waiting"`
	ClearedMS *int64          `json:"cleared_in_ms"` // at least; null: it is unknown
	MostMS    int64           `json:"cleared_in_most_ms,omitzero"`
	Reason    forecast.Reason `json:"reason,omitzero"`
	PausedBy  string          `json:"paused_by,omitzero"`
	ProbeMS   int64           `json:"next_probe_in_ms,omitzero"`
	Growth    float64         `json:"growth,omitzero"`
	Rate      float64         `json:"rate,omitzero"`
}

func (s *Server) forecast(c *call) error {
	a, err := s.opts.Forecast(c.ctx(), c.topic)
	if err != nil && !queue.IsPartial(err) {
		return err
	}
	v := forecastView{
		Waiting: a.Waiting, Reason: a.Reason, PausedBy: a.By, ProbeMS: a.Probe.Milliseconds(), Growth: a.Growth,
		Rate: a.Rate,
	}
	if a.Known() {
		v.ClearedMS, v.MostMS = new(a.Clear.Milliseconds()), a.Most.Milliseconds()
	}
	return s.answer(c, http.StatusOK, v)
}
