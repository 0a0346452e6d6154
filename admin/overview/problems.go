package overview

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/registry"
)

const (
	restartRecent = 10 * time.Minute // since a process ended by itself
	issuesShown   = 10
	alertsListed  = 1000
)

// issues are what is wrong right now: the worst of it, how much more, and how many alerts are muted.
type issues struct {
	List        []issue
	More, Muted int
}

// Count is how many there are, shown or not.
func (i issues) Count() int { return len(i.List) + i.More }

// issue is something that is wrong right now.
type issue struct {
	Severity string // danger, warning, info
	Key      string // of its text
	Args     []any
	Alert    *alert.Alert // that it is, instead of a Key
	To       string       // a path of the admin
}

// issues are the current problems: those that only this process can see, and the open alerts.
func (h *Handler) issues(o *overviewLive) (all issues) {
	var list []issue
	if !h.Registry.Up() {
		list = append(list, issue{Severity: "danger", Key: "overview.registry_away", To: "/processes"})
	}
	if !slices.ContainsFunc(o.Shards, func(s *shards.ShardView) bool { return s.State == registry.ShardActive }) {
		list = append(list, issue{Severity: "danger", Key: "overview.no_shard", To: "/shards"})
	}
	list = append(list, h.processIssues(o)...)
	for i := range o.alerts {
		if o.alerts[i].Handling.Muted(h.Now()) {
			all.Muted++
			continue
		}
		list = append(list, alertIssue(&o.alerts[i]))
	}
	all.More = max(0, len(list)-issuesShown)
	all.List = list[:len(list)-all.More]
	return all
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
			list = append(list, issue{Severity: "danger", Key: "overview.process_down", Args: []any{name, p.LastExit},
				To: "/processes"})
		case p.Restarts > 0 && h.Now().Sub(p.ExitedAt) < restartRecent:
			list = append(list, issue{Severity: "warning", Key: "overview.process_restarted", Args: []any{name, p.LastExit},
				To: "/processes"})
		}
	}
	return list
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// openAlerts are the alerts that have not ended, the worst first.
func (h *Handler) openAlerts(ctx context.Context) []alert.Alert {
	open := true
	alerts, err := h.Alerts.ListAlerts(ctx, alert.Filter{Open: &open, Limit: alertsListed})
	if err != nil {
		h.Log.Debug("list the open alerts", "error", err)
	}
	return alerts
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
	case a.Topic != "":
		i.To = "/topics/" + a.Topic
	case a.Shard != "":
		i.To = "/shards/" + a.Shard
	}
	return i
}
