package client

import (
	"context"
	"net/http"
	"time"
)

// Group is what is known of a group: its jobs in all topics that the token may read.
type Group struct {
	Name        string      `json:"group"`
	Counts      GroupCounts `json:"counts"`
	ClosedUntil *time.Time  `json:"closed_until,omitempty"` // until then pushes into it have CodeGroupClosed
	Jobs        []Job       `json:"jobs"`                   // by due time, without bodies
}

// GroupCounts are the jobs of a group by state.
type GroupCounts struct {
	Delayed int `json:"delayed"`
	Ready   int `json:"ready"`
	Running int `json:"running"`
	Dead    int `json:"dead"`
}

// Group reads a group, with up to limit of its jobs; 0: the server's default. One without jobs is no error.
func (c *Client) Group(ctx context.Context, name string, limit int) (*Group, error) {
	q := queryOf(map[string]string{"limit": unlessZero(limit)})
	return get[Group](ctx, c, request{method: http.MethodGet, path: groupPath(name), query: q, repeatable: true})
}

// GroupCancelled says what cancelling a group did.
type GroupCancelled struct {
	Deleted int `json:"deleted"`
	Running int `json:"running"` // they end; one that fails is deleted instead of being retried
	// Shards that do not answer. They delete their jobs before they are used again, or within 2 s; until then one of
	// these may be called.
	Pending []string `json:"pending,omitempty"`
}

// CancelGroup deletes the waiting and dead jobs of a group, in all topics that the token may push to. No callback of a
// deleted job starts after it has returned. With closeFor, 1 s to 30 days, it also closes the group for that time:
// pushes into it, runs and re-drives of its jobs have ErrConflict and CodeGroupClosed. A request that was repeated
// because of RetryFor returns the counts of the last one.
func (c *Client) CancelGroup(ctx context.Context, name string, closeFor time.Duration) (*GroupCancelled, error) {
	q := queryOf(map[string]string{"close": formatDuration(closeFor)})
	r := request{method: http.MethodDelete, path: groupPath(name), query: q, repeatable: true}
	return get[GroupCancelled](ctx, c, r)
}

// GroupMove says where MoveGroup moves jobs. One of Delay, DueAt and Shift is required.
type GroupMove struct {
	Delay *time.Duration // from now
	DueAt time.Time      // rounded up to milliseconds
	Shift time.Duration  // from each job's due time; may be negative
	Key   string         // required with Shift: within a day, requests with the same key move each job once
}

// GroupMoved counts the jobs that MoveGroup moved, and those that it skipped: running, dead, or expiring before.
type GroupMoved struct {
	Moved   int `json:"moved"`
	Skipped int `json:"skipped"`
}

// MoveGroup gives the delayed and ready jobs of a group another due time, in all topics that the token may push to.
func (c *Client) MoveGroup(ctx context.Context, name string, m GroupMove) (*GroupMoved, error) {
	at := Push{Delay: m.Delay, DueAt: m.DueAt}.wire()
	ask := struct {
		Delay string `json:"delay,omitempty"`
		DueAt string `json:"due_at,omitempty"`
		Shift string `json:"shift,omitempty"`
	}{Delay: at.Delay, DueAt: at.DueAt, Shift: formatDuration(m.Shift)}
	body, err := encode(ask)
	if err != nil {
		return nil, err
	}
	// A delay counts from its arrival, so repeating it would move the jobs again.
	return get[GroupMoved](ctx, c, request{
		method: http.MethodPatch, path: groupPath(name), body: body, repeatable: m.Delay == nil, key: m.Key,
	})
}

func groupPath(name string) string { return "/v1/groups/" + escapeID(name) }
