package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/wakecall/wakecall/internal/queue/devclock"
	"github.com/wakecall/wakecall/internal/store"
)

// Dev is the clock of an installation for tests.
type Dev interface {
	Now() time.Time
	Advance(ctx context.Context, to func(now time.Time) time.Time) (devclock.Advanced, error)
}

const maxAdvanceBytes = 1 << 10 // of a request that advances the clock

// devRoutes registers the routes of an installation for tests. On any other they do not exist.
func (s *Server) devRoutes() {
	s.echo.GET("/v1/dev/now", s.onAnyTopic(mayRead, s.devNow))
	s.echo.POST("/v1/dev/advance", s.onAnyTopic(mayManage, s.advance))
}

func (s *Server) devNow(c *call) error {
	return s.answer(c, http.StatusOK, map[string]time.Time{"now": s.opts.Dev.Now()})
}

// advanceRequest has one of its fields.
type advanceRequest struct {
	By field[delay]  `json:"by"`
	To field[moment] `json:"to"`
}

// advance moves the clock. It answers when everything has been called, however long that takes.
func (s *Server) advance(c *call) error {
	return s.withBody(c, maxAdvanceBytes, func(body *buffer) error {
		var r advanceRequest
		if err := decode(body.b, &r); err != nil {
			return err
		}
		if r.By.given == r.To.given {
			return badValue("exactly one of by and to is required")
		}
		_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(time.Time{})
		done, err := s.opts.Dev.Advance(store.By(c.ctx(), c.actor()), func(now time.Time) time.Time {
			if r.By.given {
				return now.Add(time.Duration(r.By.value))
			}
			return time.Time(r.To.value)
		})
		switch {
		case errors.Is(err, devclock.ErrAdvancing):
			return conflict(codeClockAdvancing, "%v: wait for its answer", err)
		case errors.Is(err, devclock.ErrBackwards):
			return outOfRange("to", "%v", err)
		case err != nil:
			return err
		}
		return s.answer(c, http.StatusOK, &done)
	})
}
