package assistant

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
)

func (t *tools) addScheduleReading(s *mcp.Server) {
	addTool(t, s, &mcp.Tool{
		Name: "list_schedules", Annotations: reads(),
		Description: "Lists the schedules (recurring jobs), with their rule, state and next time.",
	}, t.schedules)
	addTool(t, s, &mcp.Tool{
		Name: "show_schedule", Annotations: reads(),
		Description: "Shows a schedule: its rule, its next times, what became of its last jobs, and how many " +
			"occurrences were left out and why." + untrusted,
	}, func(ctx context.Context, in scheduleIn) (*scheduleOut, error) {
		return t.schedule(t.api.Schedule(ctx, in.Schedule))
	})
}

func (t *tools) addScheduleChanges(s *mcp.Server) {
	addTool(t, s, &mcp.Tool{
		Name: "run_schedule", Annotations: changes(true),
		Description: "Pushes a job of a schedule now, so that its endpoint is called. The next occurrence stays.",
	}, func(ctx context.Context, in scheduleIn) (*client.ScheduleRun, error) {
		return t.api.RunSchedule(ctx, in.Schedule)
	})
	addTool(t, s, &mcp.Tool{
		Name: "pause_schedule", Annotations: changes(false),
		Description: "Pauses a schedule: it pushes no jobs until it is resumed, or until a time.",
	}, func(ctx context.Context, in pauseScheduleIn) (*scheduleOut, error) {
		return t.schedule(t.api.PauseSchedule(ctx, in.Schedule, in.Until))
	})
	addTool(t, s, &mcp.Tool{
		Name: "resume_schedule", Annotations: changes(false),
		Description: "Resumes a paused schedule. The occurrences of the pause are left out, unless catch_up is set.",
	}, func(ctx context.Context, in resumeScheduleIn) (*scheduleOut, error) {
		return t.schedule(t.api.ResumeSchedule(ctx, in.Schedule, in.CatchUp))
	})
}

type scheduleIn struct {
	Schedule string `json:"schedule"`
}

type pauseScheduleIn struct {
	Schedule string    `json:"schedule"`
	Until    time.Time `json:"until,omitzero" jsonschema:"resume it at this time, RFC 3339"`
}

type resumeScheduleIn struct {
	Schedule string `json:"schedule"`
	CatchUp  bool   `json:"catch_up,omitempty" jsonschema:"push the occurrences of the pause, as missed says"`
}

type schedulesIn struct {
	Topic string `json:"topic,omitempty" jsonschema:"only schedules of this topic"`
}

type schedulesOut struct {
	Schedules []schedule `json:"schedules"`
	More      bool       `json:"more,omitempty" jsonschema:"there are more schedules; set topic to see them"`
}

// schedule is a schedule in a list.
type schedule struct {
	Name     string `json:"name"`
	Topic    string `json:"topic"`
	Cron     string `json:"cron,omitempty"`
	Every    string `json:"every,omitempty"`
	TimeZone string `json:"time_zone"`
	State    string `json:"state"`
	Until    string `json:"paused_until,omitempty"`
	Next     string `json:"next,omitempty" jsonschema:"the next time"`
}

type scheduleOut struct {
	schedule

	AllNext     []time.Time         `json:"all_next,omitempty" jsonschema:"the next five times"`
	Missed      string              `json:"missed" jsonschema:"which late ones are pushed: last, skip (none) or all"`
	Overlap     string              `json:"overlap" jsonschema:"while the one before runs: skip, replace or allow"`
	Last        []client.Occurrence `json:"last,omitempty" jsonschema:"its last jobs, newest first"`
	LeftOut     *client.LeftOut     `json:"left_out,omitempty" jsonschema:"occurrences that were not pushed, by reason"`
	Unavailable []string            `json:"unavailable,omitempty" jsonschema:"that does not answer: last is unknown"`
	Body        string              `json:"body" jsonschema:"of its jobs; data of another system, cut after 1000 bytes"`
}

func (t *tools) schedules(ctx context.Context, in schedulesIn) (*schedulesOut, error) {
	list, err := t.api.Schedules(ctx, in.Topic)
	if err != nil {
		return nil, err
	}
	out := &schedulesOut{Schedules: []schedule{}, More: len(list) > maxListed}
	for i := range list[:min(len(list), maxListed)] {
		out.Schedules = append(out.Schedules, t.listed(&list[i]))
	}
	return out, nil
}

func (t *tools) listed(s *client.Schedule) schedule {
	now := t.now()
	out := schedule{
		Name: s.Name, Topic: s.Topic, Cron: s.Cron, TimeZone: s.TimeZone, State: s.State,
		Until: describe.InstantOf(s.PausedUntil, now),
	}
	if s.Every != 0 {
		out.Every = s.Every.String()
	}
	if len(s.Next) > 0 {
		out.Next = describe.Instant(s.Next[0], now)
	}
	return out
}

func (t *tools) schedule(s *client.Schedule, err error) (*scheduleOut, error) {
	if err != nil {
		return nil, err
	}
	return &scheduleOut{
		schedule: t.listed(s), AllNext: s.Next, Missed: s.Missed, Overlap: s.Overlap, Last: s.Last, LeftOut: s.LeftOut,
		Unavailable: s.Unavailable, Body: clip(string(s.Body), textLimit),
	}, nil
}
