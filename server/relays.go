package server

import (
	"context"
	"errors"
	"net/http"
	"regexp"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/observe/relays"
	"github.com/wakecall/wakecall/internal/registry"
)

// Relays keeps the reports of relays; a relays.Store.
type Relays interface {
	Save(ctx context.Context, r relays.Relay, mine func(topics []string) bool) error
	Forget(ctx context.Context, name string, mine func(topics []string) bool) error
	List(ctx context.Context) ([]relays.Relay, error)
}

const (
	maxReportBytes = 16 << 10
	maxReportError = 1000
)

var relayName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// onRelay returns a route with the name of a relay.
func (s *Server) onRelay(h func(c *call, name string) error) echo.HandlerFunc {
	return s.onAnyTopic(mayPush, func(c *call) error {
		name, err := pathText(c, "relay")
		if err != nil {
			return err
		}
		if !relayName.MatchString(name) {
			return outOfRange("relay", "must be 1 to 100 of A-Z a-z 0-9 . _ -")
		}
		err = h(c, name)
		switch {
		case errors.Is(err, relays.ErrOthers):
			return &Problem{Status: http.StatusForbidden, Field: "relay",
				Detail: "relay: " + name + " is reported with a token of other topics; give this one another --name"}
		case errors.Is(err, relays.ErrTooMany):
			return outOfRange("relay", "too many relays report; delete those that are gone")
		case err != nil:
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
}

// covers reports whether the token's patterns cover others.
func (c *call) covers(topics []string) bool { return c.token.Covers(&registry.Token{Topics: topics}) }

type reportRequest struct {
	OldestMS field[integer] `json:"oldest_ms"`
	Waiting  field[integer] `json:"waiting"`
	SetAside field[integer] `json:"set_aside"`
	Error    field[string]  `json:"error"`
}

func (s *Server) putRelay(c *call, name string) error {
	return s.withBody(c, maxReportBytes, func(body *buffer) error {
		var r reportRequest
		if err := decode(body.b, &r); err != nil {
			return err
		}
		for field, n := range map[string]integer{
			"oldest_ms": r.OldestMS.value, "waiting": r.Waiting.value, "set_aside": r.SetAside.value,
		} {
			if n < 0 {
				return outOfRange(field, "must not be negative")
			}
		}
		return s.opts.Relays.Save(c.ctx(), relays.Relay{Name: name, Topics: c.token.Topics, Report: relays.Report{
			OldestMS: int64(r.OldestMS.value), Waiting: int64(r.Waiting.value), SetAside: int64(r.SetAside.value),
			Error: printable.Clip(r.Error.value, maxReportError),
		}}, c.covers)
	})
}

func (s *Server) deleteRelay(c *call, name string) error {
	return s.opts.Relays.Forget(c.ctx(), name, c.covers)
}

type relayView struct {
	relays.Relay
	relays.Report
}

func (s *Server) listRelays(c *call) error {
	list, err := s.opts.Relays.List(c.ctx())
	if err != nil {
		return err
	}
	views := []relayView{}
	for _, r := range list {
		if c.covers(r.Topics) {
			views = append(views, relayView{r, r.Report})
		}
	}
	return s.answer(c, http.StatusOK, map[string]any{"relays": views})
}
