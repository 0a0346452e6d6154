package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Groups is the part of the queue that acts on whole groups, within topic patterns.
type Groups interface {
	Group(ctx context.Context, group string, topics []string, limit int) (queue.Group, error)
	CancelGroup(ctx context.Context, group string, topics []string, closeFor time.Duration) (queue.Cancelled, error)
	MoveGroup(ctx context.Context, group string, topics []string, m queue.Move) (moved, skipped int, err error)
}

// Limits of requests about groups.
const (
	maxGroupJobs  = 1000     // in a list
	maxKey        = 128      // bytes of an Idempotency-Key
	maxGroupBytes = 16 << 10 // of a request that moves a group
)

// onGroup returns a route with a group in its path, which acts on the topics of the token.
func (s *Server) onGroup(right registry.Right, h handler, params ...string) echo.HandlerFunc {
	return s.onAnyTopic(right, func(c *call) (err error) {
		if c.group, err = pathText(c, "group"); err != nil {
			return err
		}
		if err := checkID("group", c.group); err != nil {
			return err
		}
		return h(c)
	}, params...)
}

type groupCounts struct {
	Delayed int `json:"delayed"`
	Ready   int `json:"ready"`
	Running int `json:"running"`
	Dead    int `json:"dead"`
}

type groupView struct {
	Group       string      `json:"group"`
	Counts      groupCounts `json:"counts"`
	ClosedUntil time.Time   `json:"closed_until,omitzero"`
	Jobs        []*jobView  `json:"jobs"`
}

func (s *Server) getGroup(c *call) error {
	limit, err := c.limitOf(100, maxGroupJobs)
	if err != nil {
		return err
	}
	g, err := s.opts.Groups.Group(c.ctx(), c.group, c.token.Topics, limit)
	if err != nil {
		return err
	}
	view := groupView{
		Group: c.group, Counts: groupCounts(g.Counts), ClosedUntil: g.ClosedUntil,
		Jobs: make([]*jobView, len(g.Jobs)),
	}
	for i := range g.Jobs {
		view.Jobs[i] = viewOfJob(&g.Jobs[i])
	}
	return s.answer(c, http.StatusOK, &view)
}

type cancelledView struct {
	Deleted int      `json:"deleted"`
	Running int      `json:"running"`
	Pending []string `json:"pending,omitzero"`
}

func (s *Server) cancelGroup(c *call) error {
	closeFor, err := c.closeFor()
	if err != nil {
		return err
	}
	topics, err := c.topicsOf()
	if err != nil {
		return err
	}
	done, err := s.opts.Groups.CancelGroup(c.editing(), c.group, topics, closeFor)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if len(done.Pending) > 0 {
		status = http.StatusAccepted
	}
	return s.answer(c, status, &cancelledView{done.Deleted, done.Running, done.Pending})
}

// topicsOf reads the patterns to which a request is restricted; by default those of the token.
func (c *call) topicsOf() ([]string, error) {
	if !c.query.Has("topics") {
		return c.token.Topics, nil
	}
	topics := strings.Split(c.query.Get("topics"), ",")
	for _, pattern := range topics {
		if err := registry.ValidTopicPattern(pattern); err != nil {
			return nil, problemOf(err)
		}
	}
	if !c.covers(topics) {
		return nil, &Problem{Status: http.StatusForbidden, Field: "topics",
			Detail: "topics: must be within the token's patterns, " + strings.Join(c.token.Topics, ", ")}
	}
	return topics, nil
}

// closeFor reads for how long to close a group.
func (c *call) closeFor() (time.Duration, error) {
	if !c.query.Has("close") {
		return 0, nil
	}
	v, err := optionValue("close", c.query.Get("close"))
	if err != nil {
		return 0, badField("close", "not valid UTF-8")
	}
	d, err := durationBetween(v, queue.MinClose, queue.MaxClose)
	if err != nil {
		return 0, problemOf(err).in("close")
	}
	return d, nil
}

type movedView struct {
	Moved   int `json:"moved"`
	Skipped int `json:"skipped"`
}

// moveRequest has one of its fields.
type moveRequest struct {
	dueRequest
	Shift field[shift] `json:"shift"`
}

func (s *Server) moveGroup(c *call) error {
	return s.withBody(c, maxGroupBytes, func(body *buffer) error {
		var r moveRequest
		if err := decode(body.b, &r); err != nil {
			return err
		}
		m, err := r.move(c)
		if err != nil {
			return err
		}
		moved, skipped, err := s.opts.Groups.MoveGroup(c.editing(), c.group, c.token.Topics, m)
		if err != nil {
			return err
		}
		return s.answer(c, http.StatusOK, &movedView{moved, skipped})
	})
}

func (r *moveRequest) move(c *call) (m queue.Move, err error) {
	given := 0
	for _, one := range []bool{r.Delay.given, r.DueAt.given, r.Shift.given} {
		if one {
			given++
		}
	}
	if given != 1 {
		return m, badValue("exactly one of delay, due_at and shift is required")
	}
	if m.Key, err = c.idempotencyKey(r.Shift.given); err != nil {
		return m, err
	}
	if err := r.checkTime(); err != nil {
		return m, err
	}
	switch {
	case r.Delay.given:
		m.Delay = (*time.Duration)(&r.Delay.value)
	case r.DueAt.given:
		m.DueAt = (*time.Time)(&r.DueAt.value.moment)
	default:
		m.Shift = (*time.Duration)(&r.Shift.value)
	}
	return m, nil
}

// idempotencyKey reads the key under which a request may be repeated. shifts: each repetition would move jobs again.
func (c *call) idempotencyKey(shifts bool) (string, error) {
	key := c.Request().Header.Get("Idempotency-Key")
	switch {
	case shifts && key == "":
		return "", badField("Idempotency-Key", "required with shift: a repeated request would move the jobs again")
	case len(key) > maxKey:
		return "", outOfRange("Idempotency-Key", "must be at most %d bytes", maxKey)
	}
	return key, nil
}
