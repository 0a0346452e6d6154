package overview

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry"
)

const (
	restartRecent = 10 * time.Minute // how long the restart of a crashed process is a problem
	issuesShown   = 8
)

// issues are the current problems: the worst ones, the number of others, and how many alerts are muted.
type issues struct {
	figures.Stored // the alerts
	List           []issue
	More, Muted    int
}

// Count returns the number of problems, shown or not.
func (i issues) Count() int { return len(i.List) + i.More }

// Color returns the color of the worst problem. There is one.
func (i issues) Color() string { return i.List[0].Color }

// issue is a current problem.
type issue struct {
	Color  string // see alert.Alert.Color
	Key    string // key of its text
	Args   []any
	Group  *alert.Group // set if it is alerts with the same cause, instead of a Key
	To     string       // link to a page of the admin
	Impact impact
}

// issues returns the current problems: those that only this process can see, and the open alerts.
func (h *Handler) issues(ctx context.Context, o *overviewLive) (all issues) {
	var list []issue
	if !h.Registry.Up() {
		list = append(list, issue{Color: alert.Red, Key: "overview.registry_away", To: "/processes"})
	}
	if !slices.ContainsFunc(o.Shards, func(s *shards.ShardView) bool { return s.State == registry.ShardActive }) {
		list = append(list, issue{Color: alert.Red, Key: "overview.no_shard", To: "/shards"})
	}
	list = append(list, shardIssues(o)...)
	list = append(list, h.scheduleIssues(o)...)
	list = append(list, h.processIssues(o)...)
	all.Stored = o.alerts.Stored
	muted := func(a alert.Alert) bool { return a.Handling.Muted(h.Now()) }
	open := slices.DeleteFunc(slices.Clone(o.alerts.List), muted)
	all.Muted = len(o.alerts.List) - len(open)
	counts := h.Figures.Counts(ctx)
	for _, g := range alert.GroupByCause(open, h.Registry.Snapshot().OwnerOf, h.Now()) {
		list = append(list, h.alertIssue(ctx, g, counts))
	}
	slices.SortStableFunc(list, worstFirst)
	all.More = max(0, len(list)-issuesShown)
	all.List = list[:len(list)-all.More]
	for i := range all.List {
		h.addTrend(ctx, &all.List[i])
	}
	return all
}

// worstFirst orders problems: by severity, those of the whole installation before those of topics, and these by the
// number of jobs they affect.
func worstFirst(x, y issue) int {
	rank := func(i issue) int {
		n := 2 * slices.Index([]string{alert.Red, alert.Orange, alert.Azure, alert.Grey}, i.Color)
		if i.Group != nil && i.Group.Alerts[0].Topic != "" {
			n++
		}
		return n
	}
	return cmp.Or(rank(x)-rank(y), cmp.Compare(y.Impact.Jobs, x.Impact.Jobs))
}

// shardIssues returns the shards that are down without an open alert: without the database there are no new ones.
func shardIssues(o *overviewLive) (list []issue) {
	for _, s := range o.Shards {
		alerted := slices.ContainsFunc(o.alerts.List, func(a alert.Alert) bool { return a.Shard == s.Name })
		if s.Down() && !alerted {
			list = append(list, issue{Color: alert.Red, Key: "overview.shard_down", Args: []any{s.Name, s.Health.Err},
				To: "/shards/" + s.Name})
		}
	}
	return list
}

// scheduleIssues returns the schedules that wait for a shard that is down.
func (h *Handler) scheduleIssues(o *overviewLive) []issue {
	var down []string
	for _, s := range o.Shards {
		if s.Down() {
			down = append(down, s.Name)
		}
	}
	waiting := 0
	for _, s := range h.Registry.Snapshot().Schedules.All() {
		if !s.IsPaused(h.Now()) && slices.Contains(down, s.Shard) {
			waiting++
		}
	}
	if waiting == 0 {
		return nil
	}
	return []issue{{Color: alert.Orange, Key: "overview.schedules_wait",
		Args: []any{waiting, strings.Join(down, ", ")}, To: "/schedules"}}
}

func (h *Handler) processIssues(o *overviewLive) []issue {
	if o.Tree == nil {
		return []issue{{Color: alert.Orange, Key: "overview.master_away", To: "/processes"}}
	}
	var list []issue
	for _, p := range o.Tree.Processes {
		name := strings.TrimSpace(fmt.Sprint(p.Role, " ", number(p.Number)))
		switch {
		case p.State == "waiting":
			down := processIssue(alert.Red, "overview.process_down", name, p.LastExit)
			down.Impact.Since = p.ExitedAt
			list = append(list, down)
		case p.Restarts > 0 && h.Now().Sub(p.ExitedAt) < restartRecent:
			list = append(list, processIssue(alert.Orange, "overview.process_restarted", name, p.LastExit))
		}
	}
	return list
}

func processIssue(color, key string, args ...any) issue {
	return issue{Color: color, Key: key, Args: args, To: "/processes"}
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// alertIssue leads to the subject of an alert, and from several alerts to those on the alerts page.
func (h *Handler) alertIssue(ctx context.Context, g *alert.Group, counts figures.Counts) issue {
	a := &g.Alerts[0]
	i := issue{Color: a.Color(h.Now()), Group: g, To: "/alerts", Impact: h.impactOf(ctx, g, counts)}
	switch {
	case len(g.Alerts) > 1:
		i.To = "/alerts?group=" + url.QueryEscape(g.Key)
	case strings.HasPrefix(a.Kind, "schedule_"):
		i.To = "/schedules?topic=" + a.Topic
	case a.Topic != "":
		i.To = "/topics/" + a.Topic
	case a.Shard != "":
		i.To = "/shards/" + a.Shard
	}
	return i
}
