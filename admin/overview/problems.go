package overview

import (
	"fmt"
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
	issuesShown   = 10
)

// issues are the current problems: the most severe ones, the number of others, and how many alerts are muted.
type issues struct {
	figures.Stored // the alerts
	List           []issue
	More, Muted    int
}

// Count returns the number of problems, shown or not.
func (i issues) Count() int { return len(i.List) + i.More }

// issue is a current problem.
type issue struct {
	Severity string // danger, warning, info
	Key      string // key of its text
	Args     []any
	Alert    *alert.Alert // set if it is an alert, instead of a Key
	To       string       // link to a page of the admin
	Impact   impact
}

// issues returns the current problems: those that only this process can see, and the open alerts.
func (h *Handler) issues(o *overviewLive) (all issues) {
	var list []issue
	if !h.Registry.Up() {
		list = append(list, issue{Severity: "danger", Key: "overview.registry_away", To: "/processes"})
	}
	if !slices.ContainsFunc(o.Shards, func(s *shards.ShardView) bool { return s.State == registry.ShardActive }) {
		list = append(list, issue{Severity: "danger", Key: "overview.no_shard", To: "/shards"})
	}
	list = append(list, shardIssues(o)...)
	list = append(list, h.scheduleIssues(o)...)
	list = append(list, h.processIssues(o)...)
	all.Stored = o.alerts.Stored
	for i := range o.alerts.List {
		if o.alerts.List[i].Handling.Muted(h.Now()) {
			all.Muted++
			continue
		}
		list = append(list, alertIssue(&o.alerts.List[i]))
	}
	all.More = max(0, len(list)-issuesShown)
	all.List = list[:len(list)-all.More]
	return all
}

// shardIssues returns the shards that are down without an open alert: without the database there are no new ones.
func shardIssues(o *overviewLive) (list []issue) {
	for _, s := range o.Shards {
		alerted := slices.ContainsFunc(o.alerts.List, func(a alert.Alert) bool { return a.Shard == s.Name })
		if s.Down() && !alerted {
			list = append(list, issue{Severity: "danger", Key: "overview.shard_down", Args: []any{s.Name, s.Health.Err},
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
	return []issue{{Severity: "warning", Key: "overview.schedules_wait", Args: []any{waiting, strings.Join(down, ", ")},
		To: "/schedules"}}
}

func (h *Handler) processIssues(o *overviewLive) []issue {
	if o.Tree == nil {
		return []issue{{Severity: "warning", Key: "overview.master_away", To: "/processes"}}
	}
	var list []issue
	for _, p := range o.Tree.Processes {
		name := strings.TrimSpace(fmt.Sprint(p.Role, " ", number(p.Number)))
		switch {
		case p.State == "waiting":
			down := processIssue("danger", "overview.process_down", name, p.LastExit)
			down.Impact.Since = p.ExitedAt
			list = append(list, down)
		case p.Restarts > 0 && h.Now().Sub(p.ExitedAt) < restartRecent:
			list = append(list, processIssue("warning", "overview.process_restarted", name, p.LastExit))
		}
	}
	return list
}

func processIssue(severity, key string, args ...any) issue {
	return issue{Severity: severity, Key: key, Args: args, To: "/processes"}
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func alertIssue(a *alert.Alert) issue {
	i := issue{Severity: "danger", Alert: a, To: "/alerts"}
	switch a.Severity {
	case alert.Warning:
		i.Severity = "warning"
	case alert.Info:
		i.Severity = "info"
	}
	switch {
	case strings.HasPrefix(a.Kind, "schedule_"):
		i.To = "/schedules?topic=" + a.Topic
	case a.Topic != "":
		i.To = "/topics/" + a.Topic
	case a.Shard != "":
		i.To = "/shards/" + a.Shard
	}
	return i
}
