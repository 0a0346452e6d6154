package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Alert is a problem that Wakecall has found.
type Alert struct {
	ID         uint64     `json:"id"`
	Kind       string     `json:"kind"`
	Severity   string     `json:"severity"` // critical, warning or info
	Topic      string     `json:"topic,omitempty"`
	Shard      string     `json:"shard,omitempty"`
	Title      string     `json:"title"`
	Details    []string   `json:"details"` // the causes, most severe first
	BeganAt    time.Time  `json:"began_at"`
	LastSeenAt time.Time  `json:"last_seen_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"` // nil: open
	Handled    *Handled   `json:"handled,omitempty"`
}

// Handled says who acknowledged or muted an alert.
type Handled struct {
	By         string     `json:"by"`
	Reason     string     `json:"reason"`
	At         time.Time  `json:"at"`
	MutedUntil *time.Time `json:"muted_until,omitempty"` // nil: acknowledged
}

// Alerts returns the open alerts, most severe first, then those that ended last.
func (c *Client) Alerts(ctx context.Context) ([]Alert, error) {
	var answer struct {
		Alerts []Alert `json:"alerts"`
	}
	err := c.do(ctx, request{method: http.MethodGet, path: "/v1/alerts", repeatable: true}, &answer)
	return answer.Alerts, err
}

// AckAlert acknowledges an open alert: it is not reported again until it gets worse or ends.
func (c *Client) AckAlert(ctx context.Context, id uint64, reason string) error {
	return c.handleAlert(ctx, id, "ack", map[string]string{"reason": reason})
}

// MuteAlert stops the messages about an open alert for a time.
func (c *Client) MuteAlert(ctx context.Context, id uint64, reason string, d time.Duration) error {
	return c.handleAlert(ctx, id, "mute", map[string]string{"reason": reason, "for": d.String()})
}

// UnmuteAlert undoes an acknowledgement or a mute.
func (c *Client) UnmuteAlert(ctx context.Context, id uint64) error {
	return c.handleAlert(ctx, id, "unmute", nil)
}

func (c *Client) handleAlert(ctx context.Context, id uint64, action string, in map[string]string) (err error) {
	r := request{method: http.MethodPost, path: "/v1/alerts/" + strconv.FormatUint(id, 10) + "/" + action}
	if in != nil {
		if r.body, err = encode(in); err != nil {
			return err
		}
	}
	return c.do(ctx, r, nil)
}
