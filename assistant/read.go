package assistant

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
)

func (t *tools) addReading(s *mcp.Server) {
	addTool(t, s, &mcp.Tool{
		Name: "find_job", Annotations: reads(),
		Description: "Finds a job by its id, in all topics: whether it was called, when, what its endpoint answered, " +
			"or why it waits. Also finds jobs that are finished, deleted or dead, as long as the journal keeps them." +
			untrusted,
	}, t.find)
	addTool(t, s, &mcp.Tool{
		Name: "list_jobs", Annotations: reads(),
		Description: "Lists a topic's jobs in one state." + untrusted,
	}, t.list)
	addTool(t, s, &mcp.Tool{
		Name: "group_jobs", Annotations: reads(),
		Description: "Counts the jobs of a group in all topics, lists the first ones, and tells whether the group is " +
			"closed for pushes." + untrusted,
	}, t.group)
	addTool(t, s, &mcp.Tool{
		Name: "topic_stats", Annotations: reads(),
		Description: "Counts a topic's jobs by state, and tells how long the oldest ready job has been due.",
	}, t.stats)
	addTool(t, s, &mcp.Tool{
		Name: "list_topics", Annotations: reads(),
		Description: "Lists the topics, with their state and where they call. Needs a token with the right manage." +
			untrusted,
	}, t.topics)
	addTool(t, s, &mcp.Tool{
		Name: "dead_letters", Annotations: reads(),
		Description: "Counts a topic's dead jobs by reason, and shows the last error of some of them." + untrusted,
	}, t.dead)
	addTool(t, s, &mcp.Tool{
		Name: "alerts", Annotations: reads(),
		Description: "Lists the open alerts, most severe first. Needs a token with the right manage." + untrusted,
	}, t.alerts)
	addTool(t, s, &mcp.Tool{
		Name: "shards", Annotations: reads(),
		Description: "Lists the shards (the Redis deployments that hold the jobs) and their health.",
	}, t.shards)
	t.addScheduleReading(s)
}

// deadFilter are the arguments that select dead jobs: the fields of client.DeadFilter, described.
type deadFilter struct {
	Status int       `json:"status,omitempty" jsonschema:"only dead jobs whose last answer had this HTTP status"`
	Error  string    `json:"error,omitempty" jsonschema:"only dead jobs whose last error contains this text"`
	Prefix string    `json:"prefix,omitempty" jsonschema:"only dead or done jobs whose id begins with this text"`
	Reason string    `json:"reason,omitempty" jsonschema:"only dead jobs with this dead_reason, such as expired"`
	Since  time.Time `json:"since,omitzero" jsonschema:"only jobs that became dead at this time or later, RFC 3339"`
	Until  time.Time `json:"until,omitzero" jsonschema:"only jobs that became dead before this time, RFC 3339"`
}

func (f deadFilter) filter() *client.DeadFilter {
	if f == (deadFilter{}) {
		return nil
	}
	return new(client.DeadFilter(f))
}

type listIn struct {
	Topic string `json:"topic"`
	State string `json:"state" jsonschema:"delayed, ready, running, dead or done (delivered and still remembered)"`
	deadFilter
	Limit  int    `json:"limit,omitempty" jsonschema:"maximum number of jobs, 1 to 100; default 20"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the previous page"`
}

type listOut struct {
	Jobs []job  `json:"jobs" jsonschema:"without bodies and attempts; find_job shows these"`
	Next string `json:"next,omitempty" jsonschema:"cursor of the next page; missing after the last"`
}

func (t *tools) list(ctx context.Context, in listIn) (*listOut, error) {
	o := client.ListOptions{State: in.State, Prefix: in.Prefix, Limit: cmp.Or(in.Limit, 20), Cursor: in.Cursor}
	if o.Limit > maxListed {
		return nil, fmt.Errorf("limit must be at most %d; next is the cursor of the next page", maxListed)
	}
	if in.State == client.Dead {
		o.Dead = in.filter()
	}
	page, err := t.api.List(ctx, in.Topic, o)
	if err != nil {
		return nil, err
	}
	out := &listOut{Jobs: []job{}, Next: page.Next}
	for i := range page.Jobs {
		out.Jobs = append(out.Jobs, t.job(&page.Jobs[i]))
	}
	return out, nil
}

type groupIn struct {
	Group string `json:"group"`
	Limit int    `json:"limit,omitempty" jsonschema:"maximum number of jobs in the list, 1 to 100; default 20"`
}

type groupOut struct {
	Delayed     int    `json:"delayed"`
	Ready       int    `json:"ready"`
	Running     int    `json:"running"`
	Dead        int    `json:"dead"`
	ClosedUntil string `json:"closed_until,omitempty" jsonschema:"until then pushes into the group are refused"`
	Jobs        []job  `json:"jobs" jsonschema:"by due time, without bodies and attempts"`
}

func (t *tools) group(ctx context.Context, in groupIn) (*groupOut, error) {
	limit := cmp.Or(in.Limit, 20)
	if limit > maxListed {
		return nil, fmt.Errorf("limit must be at most %d", maxListed)
	}
	g, err := t.api.Group(ctx, in.Group, limit)
	if err != nil {
		return nil, err
	}
	out := &groupOut{
		Delayed: g.Counts.Delayed, Ready: g.Counts.Ready, Running: g.Counts.Running, Dead: g.Counts.Dead,
		ClosedUntil: describe.InstantOf(g.ClosedUntil, t.now()), Jobs: []job{},
	}
	for i := range g.Jobs {
		out.Jobs = append(out.Jobs, t.job(&g.Jobs[i]))
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

func (t *tools) stats(ctx context.Context, in topicIn) (*statsOut, error) {
	s, err := t.api.Stats(ctx, in.Topic)
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
	Topics []topic `json:"topics"`
	More   bool    `json:"more,omitempty" jsonschema:"there are more topics; set prefix to see them"`
}

type topic struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	State       string `json:"state"`
	Delivery    string `json:"delivery"`
	CallbackURL string `json:"callback_url,omitempty" jsonschema:"without user, password and query"`
	Owner       string `json:"owner,omitempty"`
	MaxAttempts string `json:"max_attempts"`
}

func (t *tools) topics(ctx context.Context, in topicsIn) (*topicsOut, error) {
	list, err := t.api.FilteredTopics(ctx, client.TopicFilter{Prefix: in.Prefix, State: in.State, Limit: maxListed + 1})
	if err != nil {
		return nil, err
	}
	out := &topicsOut{Topics: []topic{}, More: len(list) > maxListed}
	for _, t := range list[:min(len(list), maxListed)] {
		out.Topics = append(out.Topics, topic{
			Name: t.Name, Title: clip(t.Title, answerLimit), State: t.State, Delivery: t.Delivery,
			CallbackURL: withoutSecrets(t.CallbackURL), Owner: clip(t.Owner, answerLimit),
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
	Examples []job        `json:"examples" jsonschema:"some of them, with their attempts"`
}

type deadReason struct {
	Reason string `json:"reason"`
	Jobs   int    `json:"jobs"`
}

func (t *tools) dead(ctx context.Context, in topicIn) (*deadOut, error) {
	const pages, examples = 10, 3
	s, err := t.api.Stats(ctx, in.Topic)
	if err != nil {
		return nil, err
	}
	out := &deadOut{Dead: s.Dead, Reasons: []deadReason{}, Examples: []job{}}
	counts, o := map[string]int{}, client.ListOptions{State: client.Dead, Limit: 1000}
	var shown []string // an example of each reason
	for n := 0; n < pages && (n == 0 || o.Cursor != ""); n++ {
		page, err := t.api.List(ctx, in.Topic, o)
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
		if j, err := t.api.Get(ctx, in.Topic, id); err == nil {
			out.Examples = append(out.Examples, t.job(j))
		}
	}
	return out, nil
}

type alertsIn struct {
	Ended bool `json:"ended,omitempty" jsonschema:"also those that ended last"`
}

type alertsOut struct {
	Alerts  []alert `json:"alerts"`
	LeftOut int     `json:"left_out,omitempty" jsonschema:"number of further alerts that are not shown"`
}

type alert struct {
	ID       uint64 `json:"id"`
	Severity string `json:"severity"`
	State    string `json:"state" jsonschema:"open, acknowledged or muted by whom, or ended"`
	Title    string `json:"title"`
	Details  string `json:"details,omitempty"`
	Topic    string `json:"topic,omitempty"`
	Shard    string `json:"shard,omitempty"`
	Since    string `json:"since"`
}

func (t *tools) alerts(ctx context.Context, in alertsIn) (*alertsOut, error) {
	list, err := t.api.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(x client.Alert) bool { return x.EndedAt != nil && !in.Ended })
	out := &alertsOut{Alerts: []alert{}, LeftOut: max(0, len(list)-maxListed)}
	for _, x := range list[:len(list)-out.LeftOut] {
		out.Alerts = append(out.Alerts, alert{
			ID: x.ID, Severity: x.Severity, State: describe.AlertState(x, t.now()), Title: clip(x.Title, answerLimit),
			Details: clip(strings.Join(x.Details, "; "), textLimit), Topic: x.Topic, Shard: x.Shard,
			Since: describe.Instant(x.BeganAt, t.now()),
		})
	}
	return out, nil
}

type shardsOut struct {
	Shards []shard `json:"shards"`
}

type shard struct {
	Name   string `json:"name"`
	State  string `json:"state" jsonschema:"active, draining or offline"`
	Up     bool   `json:"up"`
	Error  string `json:"error,omitempty"`
	Jobs   string `json:"jobs,omitempty"`
	Memory string `json:"memory,omitempty"`
}

func (t *tools) shards(ctx context.Context, _ struct{}) (*shardsOut, error) {
	list, err := t.api.Shards(ctx)
	if err != nil {
		return nil, err
	}
	out := &shardsOut{Shards: []shard{}}
	for _, s := range list {
		x := shard{Name: s.Name, State: s.State, Up: s.Up, Error: clip(s.Error, answerLimit)}
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
