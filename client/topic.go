package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Duration is a time.Duration that is a string in JSON ("1m30s"); it also accepts a number of seconds.
type Duration time.Duration

// Std returns the duration as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText encodes the duration as a string.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON decodes a string or a number of seconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case float64:
		*d = Duration(v * float64(time.Second))
	case string:
		std, err := time.ParseDuration(v)
		if err != nil {
			return err
		}
		*d = Duration(std)
	default:
		return fmt.Errorf("%s is not a duration", b)
	}
	return nil
}

// Topic is a kind of job and how its jobs are called back. Zero fields take the server's defaults.
type Topic struct {
	Name        string            `json:"name,omitempty"`
	Title       string            `json:"title,omitempty"`
	Delivery    string            `json:"delivery,omitempty"` // push or pull
	CallbackURL string            `json:"callback_url,omitempty"`
	JobURLs     []string          `json:"job_urls,omitempty"`     // patterns of the URLs that jobs may have instead
	CloudEvents bool              `json:"cloudevents,omitempty"`  // callbacks are CloudEvents in binary mode
	Method      string            `json:"method,omitempty"`       // POST, PUT or GET
	ContentType string            `json:"content_type,omitempty"` // json or form
	Headers     map[string]string `json:"headers,omitempty"`
	Delay       Duration          `json:"delay,omitempty"` // of pushes without one
	TTR         Duration          `json:"ttr,omitempty"`   // how long one attempt may take
	Priority    string            `json:"priority,omitempty"`
	MaxAttempts Attempts          `json:"max_attempts,omitempty"` // pull topics also allow NoLimit
	// the waits between attempts; the last repeats. Empty: 1, 3, 5 … minutes
	Retry        []Duration `json:"retry,omitempty"`
	RetryIf      string     `json:"retry_if,omitempty"` // an expression over status, body, res and headers
	Dialect      string     `json:"dialect,omitempty"`  // of the callback: wakecall or phpdq
	MaxInFlight  int        `json:"max_in_flight,omitempty"`
	RateLimit    float64    `json:"rate_limit,omitempty"` // callbacks per second
	PerKey       *PerKey    `json:"per_key,omitempty"`    // nil: keys of jobs mean nothing
	ExpiresAfter Duration   `json:"expires_after,omitempty"`
	OnExpiry     string     `json:"on_expiry,omitempty"` // dead or drop
	// memory or replica: where a job must be before its push is answered
	Durability string `json:"durability,omitempty"`
	// how long finished jobs can be found: last, 0, or a duration such as 24h
	Remember string   `json:"remember,omitempty"`
	Shard    string   `json:"shard,omitempty"` // stores all of the topic's jobs; empty: they are spread
	Emails   []string `json:"emails,omitempty"`
	Owner    string   `json:"owner,omitempty"`
	// write-only: never in an answer; nil leaves them unchanged
	Secrets   []string   `json:"secrets,omitempty"`
	State     string     `json:"state,omitempty"` // active, paused or offline
	CreatedAt *time.Time `json:"created_at,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
	// why and until when it is paused; nil: until it is resumed
	PauseReason string     `json:"pause_reason,omitempty"`
	PausedUntil *time.Time `json:"paused_until,omitempty"`
	// ETag identifies the state that Topic returned. PutTopic and DeleteTopicIf refuse to change any other: ErrChanged.
	ETag string `json:"-"`
}

// Attempts is the maximum number of attempts of a topic's jobs.
type Attempts int

// NoLimit means unlimited attempts, which the API writes as 0. Here 0 is the server's default.
const NoLimit Attempts = -1

func (a Attempts) String() string {
	if a == NoLimit {
		return "no limit"
	}
	return strconv.Itoa(int(a))
}

// MarshalJSON encodes the number as the API expects it.
func (a Attempts) MarshalJSON() ([]byte, error) { return json.Marshal(max(int(a), 0)) }

// UnmarshalJSON decodes the number as the API writes it.
func (a *Attempts) UnmarshalJSON(b []byte) error {
	var n int
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	if *a = Attempts(n); n == 0 {
		*a = NoLimit
	}
	return nil
}

// TopicFilter selects topics; empty fields match all.
type TopicFilter struct {
	Prefix, State, Owner string
	Limit                int // maximum number of topics; 0: all
}

// Topics returns all topics that the token may manage, sorted by name.
func (c *Client) Topics(ctx context.Context) ([]Topic, error) {
	return c.FilteredTopics(ctx, TopicFilter{})
}

// FilteredTopics returns the topics that match a filter. It reads page by page: a topic that changes meanwhile may be
// missing or be returned in its new state.
func (c *Client) FilteredTopics(ctx context.Context, f TopicFilter) (topics []Topic, err error) {
	query := queryOf(map[string]string{
		"prefix": f.Prefix, "state": f.State, "owner": f.Owner, "limit": unlessZero(min(f.Limit, MaxTopics)),
	})
	for {
		var page struct {
			Topics []Topic `json:"topics"`
			Next   string  `json:"next"`
		}
		r := request{method: http.MethodGet, path: "/v1/topics", query: query, repeatable: true}
		if err := c.do(ctx, r, &page); err != nil {
			return nil, err
		}
		topics = append(topics, page.Topics...)
		if f.Limit > 0 && len(topics) >= f.Limit {
			return topics[:f.Limit], nil
		}
		if page.Next == "" {
			return topics, nil
		}
		query.Set("cursor", page.Next)
	}
}

// Limits of PutTopics.
const (
	MaxTopics      = 1000
	MaxTopicsBytes = 16 << 20 // of the JSON of all topics together
)

// TopicDone is the outcome of putting a topic: created, changed or unchanged.
type TopicDone struct {
	Name string `json:"name"`
	Done string `json:"done"`
}

// PutTopics creates and replaces topics, all of them or none. Each topic is the API's JSON, with its name.
func (c *Client) PutTopics(ctx context.Context, topics []json.RawMessage) ([]TopicDone, error) {
	body, err := encode(map[string]any{"topics": topics})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Topics []TopicDone `json:"topics"`
	}
	r := request{method: http.MethodPut, path: "/v1/topics", body: body, repeatable: true}
	return answer.Topics, c.do(ctx, r, &answer)
}

// Topic returns one topic. ErrNotFound: it does not exist.
func (c *Client) Topic(ctx context.Context, name string) (*Topic, error) {
	var t Topic
	r := request{method: http.MethodGet, path: topicPath(name), repeatable: true, etag: &t.ETag}
	if err := c.do(ctx, r, &t); err != nil {
		return nil, err
	}
	return &t, nil
}

// PutTopic creates a topic or replaces it as a whole, and reports whether it was created. With an ETag it replaces only
// that state. Errors: ErrInvalid, ErrChanged, ErrUnavailable (the registry's database is unreachable).
func (c *Client) PutTopic(ctx context.Context, t Topic) (saved *Topic, created bool, err error) {
	name := t.Name
	t.Name, t.CreatedAt, t.UpdatedAt, t.PauseReason, t.PausedUntil = "", nil, nil, "", nil
	body, err := encode(t)
	if err != nil {
		return nil, false, err
	}
	return c.putTopic(ctx, name, body, t.ETag)
}

// PutTopicJSON is PutTopic with the topic as the API's JSON, so that a zero can be sent where it is not the default.
func (c *Client) PutTopicJSON(
	ctx context.Context, name string, topic json.RawMessage,
) (saved *Topic, created bool, err error) {
	return c.putTopic(ctx, name, topic, "")
}

func (c *Client) putTopic(
	ctx context.Context, name string, topic []byte, match string,
) (saved *Topic, created bool, err error) {
	var t Topic
	var status int
	r := request{
		method: http.MethodPut, path: topicPath(name), body: topic, repeatable: match == "", status: &status,
		match: match, etag: &t.ETag,
	}
	if err := c.do(ctx, r, &t); err != nil {
		return nil, false, err
	}
	return &t, status == http.StatusCreated, nil
}

// PatchTopic changes the fields of a topic that a JSON merge patch (RFC 7396) has; null resets a field to its default.
// With an ETag it changes only that state. Errors: ErrNotFound, ErrInvalid, ErrChanged, ErrUnavailable.
func (c *Client) PatchTopic(ctx context.Context, name string, patch json.RawMessage, etag string) (*Topic, error) {
	var t Topic
	r := request{
		method: http.MethodPatch, path: topicPath(name), body: patch, contentType: "application/merge-patch+json",
		repeatable: etag == "", match: etag, etag: &t.ETag,
	}
	if err := c.do(ctx, r, &t); err != nil {
		return nil, err
	}
	return &t, nil
}

// SetTopicState pauses, resumes or takes offline a topic, and leaves its other fields as they are.
func (c *Client) SetTopicState(ctx context.Context, name, state string) error {
	patch, err := encode(map[string]string{"state": state})
	if err != nil {
		return err
	}
	_, err = c.PatchTopic(ctx, name, patch, "")
	return err
}

// PauseTopic pauses a topic, with a reason for others on call (empty: none), until a time or (zero) until it is
// resumed. Again, it changes why and until when. ErrConflict: the topic is offline.
func (c *Client) PauseTopic(ctx context.Context, name, reason string, until time.Time) (*Topic, error) {
	ask := struct {
		Reason string `json:"reason,omitempty"`
		Until  string `json:"until,omitempty"`
	}{reason, formatInstant(until)}
	return post[Topic](ctx, c, topicPath(name)+"/pause", ask)
}

// ResumeTopic makes a paused or offline topic active.
func (c *Client) ResumeTopic(ctx context.Context, name string) (*Topic, error) {
	return post[Topic](ctx, c, topicPath(name)+"/resume", struct{}{})
}

// DeleteTopic removes a topic. ErrConflict: it still has jobs or schedules. ErrNotFound: it does not exist.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	return c.do(ctx, request{method: http.MethodDelete, path: topicPath(name)}, nil)
}

// DeleteTopicIf removes a topic if it still has an ETag. Errors: as DeleteTopic, and ErrChanged.
func (c *Client) DeleteTopicIf(ctx context.Context, name, etag string) error {
	return c.do(ctx, request{method: http.MethodDelete, path: topicPath(name), match: etag}, nil)
}

// DropTopic removes a topic with all its jobs. ErrConflict: it has schedules. ErrNotFound: it does not exist.
func (c *Client) DropTopic(ctx context.Context, name string) error {
	return c.DeleteTopicWith(ctx, name, TopicDeletion{Jobs: true})
}

// TopicDeletion says what to delete with a topic. Without it, a topic that has some is not deleted.
type TopicDeletion struct {
	Jobs      bool
	Schedules bool
}

// DeleteTopicWith removes a topic with its jobs, the schedules that use it, or both. Errors: as DeleteTopic.
func (c *Client) DeleteTopicWith(ctx context.Context, name string, with TopicDeletion) error {
	query := url.Values{}
	if with.Jobs {
		query.Set("drop", "true")
	}
	if with.Schedules {
		query.Set("force", "true")
	}
	return c.do(ctx, request{method: http.MethodDelete, path: topicPath(name), query: query}, nil)
}

// Stats holds the counts of a topic's jobs.
type Stats struct {
	Delayed       int64 `json:"delayed"`
	Ready         int64 `json:"ready"`
	Running       int64 `json:"running"`
	Dead          int64 `json:"dead"`
	OldestReadyMS int64 `json:"oldest_ready_ms"` // how long the oldest ready job has been due, in milliseconds
}

// Stats counts a topic's jobs.
func (c *Client) Stats(ctx context.Context, topic string) (*Stats, error) {
	return get[Stats](ctx, c, request{method: http.MethodGet, path: topicPath(topic) + "/stats", repeatable: true})
}

// RetryDead re-drives dead jobs, with attempts 0, and returns how many.
func (c *Client) RetryDead(ctx context.Context, topic string, s Selection) (int, error) {
	return c.dead(ctx, topicPath(topic)+"/dead/retry", s)
}

// DeleteDead deletes dead jobs, and returns how many.
func (c *Client) DeleteDead(ctx context.Context, topic string, s Selection) (int, error) {
	return c.dead(ctx, topicPath(topic)+"/dead/delete", s)
}

func (c *Client) dead(ctx context.Context, path string, s Selection) (int, error) {
	body, err := encode(s)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Count int `json:"count"`
	}
	err = c.do(ctx, request{method: http.MethodPost, path: path, body: body}, &answer)
	return answer.Count, err
}

// Shard is a Redis deployment that stores jobs.
type Shard struct {
	Name  string `json:"name"`
	State string `json:"state"` // active, draining or offline
	Up    bool   `json:"up"`
	Error string `json:"error,omitempty"`

	// What the shard says about itself; nil while it is not up.
	Latency   *float64 `json:"latency,omitempty"`    // of one command, in seconds
	Memory    *int64   `json:"memory,omitempty"`     // bytes in use
	MaxMemory *int64   `json:"max_memory,omitempty"` // bytes; 0: no limit
	Jobs      *int64   `json:"jobs,omitempty"`
	Moved     int64    `json:"moved,omitempty"` // jobs that a draining shard has recently moved to others
}

// Shards returns the shards and their states.
func (c *Client) Shards(ctx context.Context) ([]Shard, error) {
	var answer struct {
		Shards []Shard `json:"shards"`
	}
	err := c.do(ctx, request{method: http.MethodGet, path: "/v1/shards", repeatable: true}, &answer)
	return answer.Shards, err
}

func topicPath(name string) string { return "/v1/topics/" + url.PathEscape(name) }

// PerKey limits the calls of jobs with the same key, which are called by due time.
type PerKey struct {
	MaxInFlight  int     `json:"max_in_flight,omitempty"` // calls of one key at a time; 0: 1
	RateLimit    float64 `json:"rate_limit,omitempty"`    // calls a second, counted from the end of the one before
	SkipRetrying bool    `json:"skip_retrying,omitempty"` // a job that waits for its retry does not hold up the others
}
