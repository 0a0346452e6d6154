package server

import (
	"net/http"
	"net/url"

	"github.com/wakecall/wakecall/internal/journal/member"
	"github.com/wakecall/wakecall/internal/queue"
)

// Limits of a page of a list.
const (
	defaultPage = 50
	maxPage     = 1000
)

func page(values url.Values) (queue.State, int, error) {
	state := queue.State(values.Get("state"))
	switch state {
	case queue.Delayed, queue.Ready, queue.Running, queue.Dead, queue.Finished:
	case "":
		return "", 0, badField("state", "missing; give delayed, ready, running, dead or done")
	default:
		return "", 0, badField("state", "%q is not delayed, ready, running, dead or done", clip(string(state)))
	}
	if values.Has("prefix") {
		if err := checkID("prefix", values.Get("prefix")); err != nil {
			return "", 0, err
		}
		if state != queue.Finished {
			return "", 0, badField("prefix", "only jobs of the state done can be listed by a prefix")
		}
	}
	if !values.Has("limit") {
		return state, defaultPage, nil
	}
	limit, err := parseBounded("limit", values.Get("limit"), 1, maxPage)
	return state, limit, err
}

func (s *Server) listJobs(c *call) error {
	state, limit, err := page(c.query)
	if err != nil {
		return err
	}
	var jobs []queue.Job
	var next string
	if cursor := c.query.Get("cursor"); state == queue.Finished {
		jobs, next, err = s.jobs.ListFinished(c.ctx(), c.topic.Name, c.query.Get("prefix"), cursor, limit)
	} else {
		jobs, next, err = s.jobs.List(c.ctx(), c.topic.Name, state, cursor, limit)
	}
	if err != nil {
		return err
	}
	return s.answerWith(c, http.StatusOK, func(b []byte) []byte {
		b = appendList(append(b, '{'), "jobs", len(jobs), func(b []byte, i int) []byte {
			return append(appendJob(b, &jobs[i]), '}')
		})
		return append(member.Text(b, "next", next), '}') // the cursor of the next page; empty: this is the last
	})
}

// statsView counts a topic's jobs.
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
