package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/log/printable"
)

func (a *assistant) addReading(s *mcp.Server) {
	addTool(a, s, &mcp.Tool{
		Name: "find_job", Annotations: reads(),
		Description: "Finds a job by its id, in all topics: whether it was called, when, what its endpoint answered, " +
			"or why it waits. Also finds jobs that are finished, deleted or dead, as long as the journal keeps them." +
			untrusted,
	}, a.find)
	addTool(a, s, &mcp.Tool{
		Name: "list_jobs", Annotations: reads(),
		Description: "Lists a topic's jobs in one state." + untrusted,
	}, a.list)
	addTool(a, s, &mcp.Tool{
		Name: "topic_stats", Annotations: reads(),
		Description: "Counts a topic's jobs by state, and tells how long the oldest ready job has been due.",
	}, a.stats)
	addTool(a, s, &mcp.Tool{
		Name: "list_topics", Annotations: reads(),
		Description: "Lists the topics, with their state and where they call. Needs a token with the right manage." +
			untrusted,
	}, a.topics)
	addTool(a, s, &mcp.Tool{
		Name: "dead_letters", Annotations: reads(),
		Description: "Counts a topic's dead jobs by reason, and shows the last error of some of them." + untrusted,
	}, a.dead)
	addTool(a, s, &mcp.Tool{
		Name: "alerts", Annotations: reads(),
		Description: "Lists the open alerts, most severe first. Needs a token with the right manage." + untrusted,
	}, a.alerts)
	addTool(a, s, &mcp.Tool{
		Name: "shards", Annotations: reads(),
		Description: "Lists the shards (the Redis deployments that hold the jobs) and their health.",
	}, a.shards)
}

// mcpJob is a job as an assistant reads it.
type mcpJob struct {
	Topic       string       `json:"topic"`
	ID          string       `json:"id"`
	State       string       `json:"state"`
	Summary     string       `json:"summary" jsonschema:"whether the job was called, in a sentence"`
	DueAt       string       `json:"due_at"`
	CreatedAt   string       `json:"created_at"`
	Priority    string       `json:"priority,omitempty"`
	Attempts    int          `json:"attempts" jsonschema:"callbacks made so far"`
	MaxAttempts int          `json:"max_attempts,omitempty"`
	Waits       string       `json:"waits,omitempty" jsonschema:"all that the job waits for"`
	History     []mcpAttempt `json:"history,omitempty" jsonschema:"the last attempts, oldest first"`
	Body        string       `json:"body,omitempty" jsonschema:"data of another system, cut after 1000 bytes"`
}

type mcpAttempt struct {
	N         int    `json:"n"`
	StartedAt string `json:"started_at"`
	TookMS    int64  `json:"took_ms"`
	Status    int    `json:"status,omitempty" jsonschema:"HTTP status; missing if there was no answer"`
	Error     string `json:"error,omitempty"`
	Answer    string `json:"answer,omitempty" jsonschema:"data of another system, cut after 300 bytes"`
}

func (a *assistant) job(j *client.Job) mcpJob {
	now := a.now()
	out := mcpJob{
		Topic: j.Topic, ID: j.ID, State: j.State, Summary: wasCalled(j, now), DueAt: instant(j.DueAt, now),
		CreatedAt: instant(j.CreatedAt, now), Priority: j.Priority, Attempts: j.Attempts, MaxAttempts: j.MaxAttempts,
		Waits: clip(whyWaits(j.Waits, now), mcpTextLimit), Body: clip(bodyText(j), mcpTextLimit),
	}
	for _, h := range j.History[max(0, len(j.History)-mcpAttempts):] {
		out.History = append(out.History, mcpAttempt{
			N: h.N, StartedAt: instant(h.StartedAt, now), TookMS: int64(h.TookMS), Status: h.Status,
			Error: clip(h.Error, mcpAnswerLimit), Answer: clip(h.Answer, mcpAnswerLimit),
		})
	}
	return out
}

func bodyText(j *client.Job) string {
	if len(j.BodyBase64) > 0 {
		return "base64: " + base64.StdEncoding.EncodeToString(j.BodyBase64)
	}
	return string(j.Body)
}

// wasCalled says whether a job was called, without any text of another system.
func wasCalled(j *client.Job, now time.Time) string {
	called := printable.Count(j.Attempts, "attempt")
	switch j.State {
	case client.Done:
		return fmt.Sprintf("called: delivered after %s, %s", called, instantOf(j.FinishedAt, now))
	case client.Dead:
		return fmt.Sprintf("not delivered: dead after %s, since %s, reason: %s", called, instantOf(j.DeadAt, now),
			j.DeadReason)
	case client.Running:
		return fmt.Sprintf("being called now, attempt %d", j.Attempts+1)
	}
	next := j.DueAt
	if j.NextAttemptAt != nil {
		next = *j.NextAttemptAt
	}
	if j.Attempts > 0 {
		return fmt.Sprintf("not delivered yet: %s failed, next attempt %s", called, instant(next, now))
	}
	return "not called yet: due " + instant(next, now)
}

// searchTime is how long find_job searches the journals: assistants give up after a minute.
const searchTime = 30 * time.Second

type findIn struct {
	ID    string `json:"id" jsonschema:"the job's id, such as order-42"`
	Topic string `json:"topic,omitempty" jsonschema:"only jobs of this topic; omit it to search all"`
}

type findOut struct {
	Summary     string    `json:"summary"`
	Jobs        []mcpJob  `json:"jobs" jsonschema:"with this id, that Wakecall has now, also finished ones"`
	Past        []mcpPast `json:"past" jsonschema:"what the journals know about jobs with this id, newest job first"`
	Complete    bool      `json:"complete" jsonschema:"false: not all was searched or shown; name a topic to see more"`
	NotSearched []string  `json:"not_searched,omitempty" jsonschema:"shards and journals not searched, and why"`
}

type mcpPast struct {
	Topic     string     `json:"topic"`
	ID        string     `json:"id"`
	CreatedAt string     `json:"created_at"`
	Summary   string     `json:"summary"`
	Events    []mcpEvent `json:"events" jsonschema:"the last events, oldest first"`
	Body      string     `json:"body,omitempty" jsonschema:"data of another system, cut after 1000 bytes"`
}

type mcpEvent struct {
	At      string `json:"at"`
	What    string `json:"what" jsonschema:"push, replace, change, delete, …, or the outcome of an attempt"`
	Attempt int    `json:"attempt,omitempty"`
	Status  int    `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
	Answer  string `json:"answer,omitempty"`
	DueAt   string `json:"due_at,omitempty"`
	By      string `json:"by,omitempty"`
}

func (a *assistant) find(ctx context.Context, in findIn) (*findOut, error) {
	r, err := a.search(ctx, in)
	if err != nil {
		return nil, err
	}
	out := &findOut{Jobs: []mcpJob{}, Past: []mcpPast{}}
	out.Complete = r.Done && !r.Cut && max(len(r.Stored), len(r.Jobs)) <= mcpFound
	for _, s := range r.Stored[:min(len(r.Stored), mcpFound)] {
		j, err := a.api.Get(ctx, s.Topic, s.ID)
		if errors.Is(err, client.ErrNotFound) { // it has ended since
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Jobs = append(out.Jobs, a.job(j))
	}
	for _, j := range r.Jobs[:min(len(r.Jobs), mcpFound)] {
		out.Past = append(out.Past, a.past(&j))
	}
	for _, h := range r.Hosts {
		if h.Error != "" {
			out.NotSearched = append(out.NotSearched, h.Name+": "+clip(h.Error, mcpAnswerLimit))
			out.Complete = false
		}
	}
	if len(out.Jobs) == 0 {
		away, err := shardsAway(ctx, a.api)
		if err != nil {
			return nil, err
		}
		for _, s := range away {
			out.NotSearched = append(out.NotSearched, clip(s, mcpAnswerLimit))
			out.Complete = false
		}
	}
	out.Summary = out.summarize()
	return out, nil
}

func (f *findOut) summarize() string {
	switch {
	case len(f.Jobs) > 1:
		return fmt.Sprintf("%d topics have a job with this id", len(f.Jobs))
	case len(f.Jobs) == 1:
		return f.Jobs[0].Summary
	case len(f.Past) > 0:
		return f.Past[0].Summary
	case !f.Complete:
		return "not found, but not all shards and journals were searched"
	}
	return "unknown: no topic that the token may read has it, and no journal that is kept mentions it"
}

// search returns what is known when the search ends, or after searchTime.
func (a *assistant) search(ctx context.Context, in findIn) (*client.SearchReport, error) {
	select {
	case a.searching <- struct{}{}:
		defer func() { <-a.searching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	var last *client.SearchReport
	r, err := a.api.Search(limited, in.Topic, in.ID, func(r *client.SearchReport) { last = r })
	if err != nil && limited.Err() != nil && ctx.Err() == nil && last != nil {
		return last, nil
	}
	return r, err
}

func (a *assistant) past(j *client.JournaledJob) mcpPast {
	now, attempts := a.now(), 0
	out := mcpPast{Topic: j.Topic, ID: j.ID, CreatedAt: instant(j.CreatedAt, now)}
	for _, e := range j.Events {
		if e.Attempt {
			attempts++
		}
		if len(e.Body) > 0 {
			out.Body = clip(string(e.Body), mcpTextLimit)
		}
	}
	for _, e := range j.Events[max(0, len(j.Events)-mcpEvents):] {
		out.Events = append(out.Events, mcpEvent{
			At: instant(cmp.Or(deref(e.StartedAt), e.At), now), What: e.What, Attempt: e.N, Status: e.Status,
			Error: clip(cmp.Or(e.Error, e.Reason), mcpAnswerLimit), Answer: clip(e.Result, mcpAnswerLimit),
			DueAt: instantOf(e.DueAt, now), By: strings.TrimSpace(e.By + " " + e.Via),
		})
	}
	ended := "not ended as far as the journals know"
	if j.Ended != "" && len(j.Events) > 0 {
		ended = endOf(j.Ended) + ", " + instant(j.Events[len(j.Events)-1].At, now)
	}
	out.Summary = ended + ", after " + printable.Count(attempts, "attempt")
	return out
}

func deref(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// deadFilter are the arguments that select dead jobs.
type deadFilter struct {
	Status int        `json:"status,omitempty" jsonschema:"only dead jobs whose last answer had this HTTP status"`
	Error  string     `json:"error,omitempty" jsonschema:"only dead jobs whose last error contains this text"`
	Reason string     `json:"reason,omitempty" jsonschema:"only dead jobs with this dead_reason, such as expired"`
	Since  *time.Time `json:"since,omitempty" jsonschema:"only jobs that became dead at this time or later, RFC 3339"`
	Until  *time.Time `json:"until,omitempty" jsonschema:"only jobs that became dead before this time, RFC 3339"`
	Prefix string     `json:"prefix,omitempty" jsonschema:"only dead or done jobs whose id begins with this text"`
}

func (f *deadFilter) filter() *client.DeadFilter {
	d := client.DeadFilter{
		Status: f.Status, Error: f.Error, Reason: f.Reason, Prefix: f.Prefix,
		Since: deref(f.Since), Until: deref(f.Until),
	}
	if d == (client.DeadFilter{}) {
		return nil
	}
	return &d
}

type listIn struct {
	Topic string `json:"topic"`
	State string `json:"state" jsonschema:"delayed, ready, running, dead or done (delivered and still remembered)"`
	deadFilter
	Limit  int    `json:"limit,omitempty" jsonschema:"maximum number of jobs, 1 to 100; default 20"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the previous page"`
}

type listOut struct {
	Jobs []mcpJob `json:"jobs" jsonschema:"without bodies and attempts; find_job shows these"`
	Next string   `json:"next,omitempty" jsonschema:"cursor of the next page; missing after the last"`
}

func (a *assistant) list(ctx context.Context, in listIn) (*listOut, error) {
	o := client.ListOptions{State: in.State, Prefix: in.Prefix, Limit: cmp.Or(in.Limit, 20), Cursor: in.Cursor}
	if o.Limit > mcpListed {
		return nil, fmt.Errorf("limit must be at most %d; next is the cursor of the next page", mcpListed)
	}
	if in.State == client.Dead {
		o.Dead = in.filter()
	}
	page, err := a.api.List(ctx, in.Topic, o)
	if err != nil {
		return nil, err
	}
	out := &listOut{Jobs: []mcpJob{}, Next: page.Next}
	for i := range page.Jobs {
		out.Jobs = append(out.Jobs, a.job(&page.Jobs[i]))
	}
	return out, nil
}

type topicIn struct {
	Topic string `json:"topic"`
}

type statsOut struct {
	Delayed     int64  `json:"delayed"`
	Ready       int64  `json:"ready"`
	Running     int64  `json:"running"`
	Dead        int64  `json:"dead"`
	OldestReady string `json:"oldest_ready,omitempty" jsonschema:"how long the oldest ready job has been due"`
}

func (a *assistant) stats(ctx context.Context, in topicIn) (*statsOut, error) {
	s, err := a.api.Stats(ctx, in.Topic)
	if err != nil {
		return nil, err
	}
	out := &statsOut{Delayed: s.Delayed, Ready: s.Ready, Running: s.Running, Dead: s.Dead}
	if s.Ready > 0 {
		out.OldestReady = printable.Duration(time.Duration(s.OldestReadyMS) * time.Millisecond)
	}
	return out, nil
}

type topicsIn struct {
	Prefix string `json:"prefix,omitempty" jsonschema:"only topics whose name begins with this text"`
	State  string `json:"state,omitempty" jsonschema:"only topics in this state: active, paused or offline"`
}

type topicsOut struct {
	Topics []mcpTopic `json:"topics"`
	More   bool       `json:"more,omitempty" jsonschema:"there are more topics; set prefix to see them"`
}

type mcpTopic struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	State       string `json:"state"`
	Delivery    string `json:"delivery"`
	CallbackURL string `json:"callback_url,omitempty" jsonschema:"without user, password and query"`
	Owner       string `json:"owner,omitempty"`
	MaxAttempts string `json:"max_attempts"`
}

func (a *assistant) topics(ctx context.Context, in topicsIn) (*topicsOut, error) {
	list, err := a.api.FilteredTopics(ctx, client.TopicFilter{Prefix: in.Prefix, State: in.State, Limit: mcpListed + 1})
	if err != nil {
		return nil, err
	}
	out := &topicsOut{Topics: []mcpTopic{}, More: len(list) > mcpListed}
	for _, t := range list[:min(len(list), mcpListed)] {
		out.Topics = append(out.Topics, mcpTopic{
			Name: t.Name, Title: clip(t.Title, mcpAnswerLimit), State: t.State, Delivery: t.Delivery,
			CallbackURL: withoutSecrets(t.CallbackURL), Owner: clip(t.Owner, mcpAnswerLimit),
			MaxAttempts: t.MaxAttempts.String(),
		})
	}
	return out, nil
}

// withoutSecrets removes what may be a secret in a URL.
func withoutSecrets(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

type deadOut struct {
	Dead     int64        `json:"dead" jsonschema:"number of dead jobs of the topic"`
	Counted  int          `json:"counted" jsonschema:"number of them that reasons counts, the oldest"`
	Reasons  []deadReason `json:"reasons" jsonschema:"most frequent first"`
	Examples []mcpJob     `json:"examples" jsonschema:"some of them, with their attempts"`
}

type deadReason struct {
	Reason string `json:"reason"`
	Jobs   int    `json:"jobs"`
}

func (a *assistant) dead(ctx context.Context, in topicIn) (*deadOut, error) {
	const pages, examples = 10, 3
	s, err := a.api.Stats(ctx, in.Topic)
	if err != nil {
		return nil, err
	}
	out := &deadOut{Dead: s.Dead, Reasons: []deadReason{}, Examples: []mcpJob{}}
	counts, o := map[string]int{}, client.ListOptions{State: client.Dead, Limit: 1000}
	var shown []string // an example of each reason
	for n := 0; n < pages && (n == 0 || o.Cursor != ""); n++ {
		page, err := a.api.List(ctx, in.Topic, o)
		if err != nil {
			return nil, err
		}
		for _, j := range page.Jobs {
			if counts[j.DeadReason]++; counts[j.DeadReason] == 1 && len(shown) < examples {
				shown = append(shown, j.ID)
			}
		}
		out.Counted, o.Cursor = out.Counted+len(page.Jobs), page.Next
	}
	for reason, n := range counts {
		out.Reasons = append(out.Reasons, deadReason{reason, n})
	}
	slices.SortFunc(out.Reasons, func(x, y deadReason) int {
		return cmp.Or(cmp.Compare(y.Jobs, x.Jobs), cmp.Compare(x.Reason, y.Reason))
	})
	for _, id := range shown {
		if j, err := a.api.Get(ctx, in.Topic, id); err == nil {
			out.Examples = append(out.Examples, a.job(j))
		}
	}
	return out, nil
}

type alertsIn struct {
	Ended bool `json:"ended,omitempty" jsonschema:"also those that ended last"`
}

type alertsOut struct {
	Alerts  []mcpAlert `json:"alerts"`
	LeftOut int        `json:"left_out,omitempty" jsonschema:"number of further alerts that are not shown"`
}

type mcpAlert struct {
	ID       uint64 `json:"id"`
	Severity string `json:"severity"`
	State    string `json:"state" jsonschema:"open, acknowledged or muted by whom, or ended"`
	Title    string `json:"title"`
	Details  string `json:"details,omitempty"`
	Topic    string `json:"topic,omitempty"`
	Shard    string `json:"shard,omitempty"`
	Since    string `json:"since"`
}

func (a *assistant) alerts(ctx context.Context, in alertsIn) (*alertsOut, error) {
	list, err := a.api.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(x client.Alert) bool { return x.EndedAt != nil && !in.Ended })
	out := &alertsOut{Alerts: []mcpAlert{}, LeftOut: max(0, len(list)-mcpListed)}
	for _, x := range list[:len(list)-out.LeftOut] {
		out.Alerts = append(out.Alerts, mcpAlert{
			ID: x.ID, Severity: x.Severity, State: alertState(x, a.now()), Title: clip(x.Title, mcpAnswerLimit),
			Details: clip(strings.Join(x.Details, "; "), mcpTextLimit), Topic: x.Topic, Shard: x.Shard,
			Since: instant(x.BeganAt, a.now()),
		})
	}
	return out, nil
}

type shardsOut struct {
	Shards []mcpShard `json:"shards"`
}

type mcpShard struct {
	Name   string `json:"name"`
	State  string `json:"state" jsonschema:"active, draining or offline"`
	Up     bool   `json:"up"`
	Error  string `json:"error,omitempty"`
	Jobs   string `json:"jobs,omitempty"`
	Memory string `json:"memory,omitempty"`
}

func (a *assistant) shards(ctx context.Context, _ struct{}) (*shardsOut, error) {
	list, err := a.api.Shards(ctx)
	if err != nil {
		return nil, err
	}
	out := &shardsOut{Shards: []mcpShard{}}
	for _, s := range list {
		x := mcpShard{Name: s.Name, State: s.State, Up: s.Up, Error: clip(s.Error, mcpAnswerLimit)}
		if s.Jobs != nil {
			x.Jobs = strconv.FormatInt(*s.Jobs, 10)
		}
		if s.Memory != nil {
			x.Memory = printable.Bytes(*s.Memory)
		}
		out.Shards = append(out.Shards, x)
	}
	return out, nil
}
