package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
)

// Alerts is the part of the alerts that the API needs.
type Alerts interface {
	ListAlerts(ctx context.Context, f alert.Filter) ([]alert.Alert, error)
	// Handle acknowledges an alert, mutes it until a time, or undoes that if the reason is empty.
	Handle(ctx context.Context, actor, key, why string, until time.Time) error
	Say(code string, args ...any) string // in English
}

const (
	recentAlerts   = 50  // ended ones in a list
	maxOpenAlerts  = 500 // open ones
	maxAlertReason = 500 // bytes
	maxMute        = 90 * 24 * time.Hour
	maxAlertBytes  = 4 << 10 // of a request
)

// alertView is the JSON of an alert.
type alertView struct {
	ID       uint64     `json:"id"`
	Kind     string     `json:"kind"`
	Severity string     `json:"severity"`
	Topic    string     `json:"topic,omitempty"`
	Shard    string     `json:"shard,omitempty"`
	Title    string     `json:"title"`
	Details  []string   `json:"details"`
	BeganAt  time.Time  `json:"began_at"`
	SeenAt   time.Time  `json:"last_seen_at"`
	EndedAt  *time.Time `json:"ended_at,omitempty"`
	Handled  *handling  `json:"handled,omitempty"`
}

// handling is the JSON of an acknowledgement or a mute.
type handling struct {
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	At     time.Time  `json:"at"`
	Until  *time.Time `json:"muted_until,omitempty"`
}

func (s *Server) viewOfAlert(a *alert.Alert) alertView {
	v := alertView{
		ID: a.ID, Kind: a.Kind, Severity: a.Severity, Topic: a.Topic, Shard: a.Shard, Title: a.Title(s.opts.Alerts.Say),
		Details: append([]string{}, a.Details(s.opts.Alerts.Say, printable.Duration)...),
		BeganAt: a.BeganAt, SeenAt: a.LastSeenAt, EndedAt: a.EndedAt,
	}
	if h := a.Handling; h.Acknowledged() || h.Muted(s.opts.Now()) {
		v.Handled = &handling{By: h.By, Reason: h.Why, At: h.At, Until: h.Until}
	}
	return v
}

// mayHandle reports whether a token may see and handle an alert: one about its topics, or, if it may manage every
// topic, one about the installation.
func mayHandle(t *registry.Token, a *alert.Alert) bool {
	if a.Topic != "" {
		return t.Allows(mayManage, a.Topic)
	}
	return slices.Contains(t.Topics, "*")
}

func (s *Server) listAlerts(c *call) error {
	may := func(a *alert.Alert) bool { return mayHandle(c.token, a) }
	open, err := s.opts.Alerts.ListAlerts(c.ctx(), alert.Filter{Limit: maxOpenAlerts, May: may})
	if err != nil {
		return err
	}
	ended, err := s.opts.Alerts.ListAlerts(c.ctx(), alert.Filter{Ended: true, Limit: recentAlerts, May: may})
	if err != nil {
		return err
	}
	views := []alertView{}
	for _, a := range slices.Concat(open, ended) {
		views = append(views, s.viewOfAlert(&a))
	}
	return s.answer(c, http.StatusOK, map[string]any{"alerts": views})
}

func (s *Server) ackAlert(c *call) error {
	return s.withBody(c, maxAlertBytes, func(body *buffer) error {
		var r struct {
			Reason field[string] `json:"reason"`
		}
		if err := decode(body.b, &r); err != nil {
			return err
		}
		return s.handleAlert(c, r.Reason, time.Time{})
	})
}

func (s *Server) muteAlert(c *call) error {
	return s.withBody(c, maxAlertBytes, func(body *buffer) error {
		var r struct {
			Reason field[string] `json:"reason"`
			For    field[mute]   `json:"for"`
		}
		if err := decode(body.b, &r); err != nil {
			return err
		}
		if !r.For.given {
			return badField("for", "required: how long to mute it, such as 1h")
		}
		return s.handleAlert(c, r.Reason, s.opts.Now().Add(time.Duration(r.For.value)))
	})
}

// mute is how long an alert is muted.
type mute time.Duration

func (d *mute) UnmarshalJSON(v []byte) error {
	read, err := durationBetween(jsontext.Value(v), time.Second, maxMute)
	*d = mute(read)
	return err
}

func (s *Server) handleAlert(c *call, reason field[string], until time.Time) error {
	why := strings.TrimSpace(reason.value)
	if why == "" {
		return badField("reason", "required: why the alert needs no more messages, for the others on call")
	}
	if len(why) > maxAlertReason || !utf8.ValidString(why) {
		return outOfRange("reason", "must have at most %d bytes", maxAlertReason)
	}
	return s.endHandling(c, why, until)
}

func (s *Server) unmuteAlert(c *call) error { return s.endHandling(c, "", time.Time{}) }

func (s *Server) endHandling(c *call, why string, until time.Time) error {
	id, err := strconv.ParseUint(c.Param("alert"), 10, 63)
	if err != nil {
		return badField("alert", "must be the id of an alert, got %q", clip(c.Param("alert")))
	}
	named := func(a *alert.Alert) bool { return a.ID == id && mayHandle(c.token, a) }
	open, err := s.opts.Alerts.ListAlerts(c.ctx(), alert.Filter{Limit: 1, May: named})
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return notFound(codeAlertNotFound, "no open alert %d on the topics of this token", id)
	}
	err = s.opts.Alerts.Handle(c.editing(), c.actor(), open[0].Key, why, until)
	if errors.Is(err, alert.ErrNoAlert) {
		return notFound(codeAlertNotFound, "alert %d has ended", id)
	}
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
