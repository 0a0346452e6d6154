package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Schedule is a recurring job. Zero fields take the server's defaults. Topic, Body, and one of Cron and Every are
// required.
type Schedule struct {
	Name     string            `json:"name,omitempty"`
	Topic    string            `json:"topic"`
	Cron     string            `json:"cron,omitempty"`      // five fields, such as 0 8 * * 1-5, in TimeZone
	Every    Duration          `json:"every,omitempty"`     // instead, from StartAt on; whole seconds
	TimeZone string            `json:"time_zone,omitempty"` // as Asia/Shanghai; empty: UTC
	StartAt  *time.Time        `json:"start_at,omitempty"`
	EndAt    *time.Time        `json:"end_at,omitempty"` // no occurrence from then on
	Body     json.RawMessage   `json:"body,omitempty"`   // of every job
	Priority string            `json:"priority,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Jitter   Duration          `json:"jitter,omitempty"`   // each job is due up to this much later
	Missed   string            `json:"missed,omitempty"`   // what is pushed late: last, skip (none) or all
	MaxLate  Duration          `json:"max_late,omitempty"` // no occurrence is pushed later than that
	Overlap  string            `json:"overlap,omitempty"`  // while the one before has not ended: skip, replace, allow
	State    string            `json:"state,omitempty"`    // active or paused

	PausedUntil *time.Time `json:"paused_until,omitempty"` // ends a pause; nil: ResumeSchedule does

	// What the server adds.
	Shard       string       `json:"shard,omitempty"` // has its jobs
	CreatedAt   *time.Time   `json:"created_at,omitempty"`
	UpdatedAt   *time.Time   `json:"updated_at,omitempty"`
	Next        []time.Time  `json:"next,omitempty"`        // the next five occurrences
	Last        []Occurrence `json:"last,omitempty"`        // the last ten jobs, newest first
	LeftOut     *LeftOut     `json:"left_out,omitempty"`    // nil, as Last, while the shard does not answer
	Unavailable []string     `json:"unavailable,omitempty"` // the shard that does not answer
}

// Occurrence is a job that a schedule has pushed.
type Occurrence struct {
	ID           string    `json:"id"`
	ScheduledFor time.Time `json:"scheduled_for"`
	State        string    `json:"state"`
}

// LeftOut counts the occurrences that were not pushed, by the reason.
type LeftOut struct {
	Late    int64 `json:"late"`    // by Missed and MaxLate
	Overlap int64 `json:"overlap"` // the one before had not ended
	Paused  int64 `json:"paused"`
	Limit   int64 `json:"limit"`  // more than 100 at once
	Edited  int64 `json:"edited"` // before the schedule was changed
}

// Schedules returns all schedules of a topic, or of "" (all topics) that the token may read, sorted by name. It reads
// page by page: a schedule that changes meanwhile may be missing or be returned in its new state.
func (c *Client) Schedules(ctx context.Context, topic string) (list []Schedule, err error) {
	query := queryOf(map[string]string{"topic": topic, "limit": "1000"})
	for {
		var page struct {
			Schedules []Schedule `json:"schedules"`
			Next      string     `json:"next"`
		}
		r := request{method: http.MethodGet, path: "/v1/schedules", query: query, repeatable: true}
		if err := c.do(ctx, r, &page); err != nil {
			return nil, err
		}
		list = append(list, page.Schedules...)
		if page.Next == "" {
			return list, nil
		}
		query.Set("cursor", page.Next)
	}
}

// Schedule returns one schedule. ErrNotFound: it does not exist, or the token may not read its topic.
func (c *Client) Schedule(ctx context.Context, name string) (*Schedule, error) {
	return get[Schedule](ctx, c, request{method: http.MethodGet, path: schedulePath(name, ""), repeatable: true})
}

// PutSchedule creates a schedule or replaces it as a whole, and reports whether it was created. Occurrences before that
// which were not pushed are left out. Errors: ErrInvalid, ErrConflict (it is of a topic that the token may not touch,
// or the token has too many), ErrUnavailable (nothing was changed).
func (c *Client) PutSchedule(ctx context.Context, s Schedule) (saved *Schedule, created bool, err error) {
	if !json.Valid(s.Body) {
		return nil, false, errors.New("the body must be JSON")
	}
	name, body := s.Name, s.Body
	s.Name, s.Body, s.Shard, s.Next, s.Last, s.LeftOut, s.Unavailable = "", nil, "", nil, nil, nil, nil
	s.CreatedAt, s.UpdatedAt = nil, nil
	head, err := encode(s)
	if err != nil {
		return nil, false, err
	}
	return c.PutScheduleJSON(ctx, name, withBody(head, body))
}

// PutScheduleJSON is PutSchedule with the schedule as the API's JSON.
func (c *Client) PutScheduleJSON(
	ctx context.Context, name string, schedule json.RawMessage,
) (saved *Schedule, created bool, err error) {
	status := 0
	saved, err = get[Schedule](ctx, c, request{
		method: http.MethodPut, path: schedulePath(name, ""), body: schedule, repeatable: true, status: &status,
	})
	return saved, status == http.StatusCreated, err
}

// DeleteSchedule deletes a schedule. Its jobs stay. ErrNotFound: it does not exist.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.do(ctx, request{method: http.MethodDelete, path: schedulePath(name, "")}, nil)
}

// PauseSchedule pauses a schedule, until a time or (zero) until it is resumed. Its jobs are called nevertheless.
func (c *Client) PauseSchedule(ctx context.Context, name string, until time.Time) (*Schedule, error) {
	ask := struct {
		Until string `json:"until,omitempty"`
	}{formatInstant(until)}
	return post[Schedule](ctx, c, schedulePath(name, "/pause"), ask)
}

// ResumeSchedule ends a pause. The occurrences of the pause are left out, or with catchUp pushed as Missed says.
func (c *Client) ResumeSchedule(ctx context.Context, name string, catchUp bool) (*Schedule, error) {
	ask := struct {
		CatchUp bool `json:"catch_up,omitempty"`
	}{catchUp}
	return post[Schedule](ctx, c, schedulePath(name, "/resume"), ask)
}

// ScheduleRun is the job that RunSchedule pushed.
type ScheduleRun struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
}

// RunSchedule pushes a job of a schedule now. It is no occurrence: the next one is pushed nevertheless.
func (c *Client) RunSchedule(ctx context.Context, name string) (*ScheduleRun, error) {
	return get[ScheduleRun](ctx, c, request{method: http.MethodPost, path: schedulePath(name, "/run")})
}

// Backfill says which occurrences BackfillSchedule pushes: those from From on, before To, at most 1,000.
type Backfill struct {
	From, To time.Time
	Overlap  string // skip, replace or allow; empty: allow
	DryRun   bool   // push none
}

// Backfilled says what a backfill did; of a dry run, only the occurrences.
type Backfilled struct {
	Occurrences []time.Time `json:"occurrences"` // of the period
	Pushed      int         `json:"pushed"`
	Existing    int         `json:"existing"` // their jobs exist already
	LeftOut     int         `json:"left_out"` // because of Overlap
}

// BackfillSchedule pushes the occurrences of a period that have no job.
func (c *Client) BackfillSchedule(ctx context.Context, name string, b Backfill) (*Backfilled, error) {
	ask := struct {
		From    string `json:"from,omitempty"`
		To      string `json:"to,omitempty"`
		Overlap string `json:"overlap,omitempty"`
		DryRun  bool   `json:"dry_run,omitempty"`
	}{formatInstant(b.From), formatInstant(b.To), b.Overlap, b.DryRun}
	return post[Backfilled](ctx, c, schedulePath(name, "/backfill"), ask)
}

// post posts JSON that may be repeated, and decodes the answer.
func post[T any](ctx context.Context, c *Client, path string, ask any) (*T, error) {
	body, err := encode(ask)
	if err != nil {
		return nil, err
	}
	return get[T](ctx, c, request{method: http.MethodPost, path: path, body: body, repeatable: true})
}

func schedulePath(name, action string) string {
	return "/v1/schedules/" + url.PathEscape(name) + action
}
