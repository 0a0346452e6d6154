package overview

import (
	"cmp"
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
	alertsShown   = 20
)

// issue is something that is wrong right now.
type issue struct {
	Severity string // danger, warning
	Key      string // of its text
	Args     []any
	Kind     string // of the alert that it is, instead of a Key: it is said with Text
	Text     string
	To       string // a path of the admin
}

// issues are the current problems: those that only this process can see, and the open alerts.
func (h *Handler) issues(ctx context.Context, o *overviewLive) []issue {
	var list []issue
	if !h.registry.Up() {
		list = append(list, issue{Severity: "danger", Key: "overview.registry_away", To: "/processes"})
	}
	if !slices.ContainsFunc(o.Shards, func(s *shards.ShardView) bool { return s.State == registry.ShardActive }) {
		list = append(list, issue{Severity: "danger", Key: "overview.no_shard", To: "/shards"})
	}
	return append(append(list, h.processIssues(o)...), h.alertIssues(ctx)...)
}

func (h *Handler) processIssues(o *overviewLive) []issue {
	if h.opts.Master != nil && o.Tree == nil {
		return []issue{{Severity: "warning", Key: "overview.master_away", To: "/processes"}}
	}
	if o.Tree == nil {
		return nil
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

// openAlerts are the newest alerts that have not ended.
func (h *Handler) openAlerts(ctx context.Context, kind string) []alert.Alert {
	if h.opts.Alerts == nil {
		return nil
	}
	open := true
	alerts, err := h.opts.Alerts.ListAlerts(ctx, alert.Filter{Open: &open, Kind: kind, Limit: alertsShown})
	if err != nil {
		h.Log.Debug("list the open alerts", "error", err)
	}
	return alerts
}

func (h *Handler) alertIssues(ctx context.Context) []issue {
	var list []issue
	for _, al := range h.openAlerts(ctx, "") {
		i := issue{Severity: "danger", Kind: al.Kind, Text: cmp.Or(al.Detail, al.Subject), To: "/alerts"}
		if al.Severity == "warning" || al.Severity == "info" {
			i.Severity = "warning"
		}
		switch {
		case al.Topic != "":
			i.To = "/topics/" + al.Topic
		case al.Shard != "":
			i.To = "/shards/" + al.Shard
		}
		if about := al.Topic + al.Shard; about != "" {
			i.Text = about + ": " + i.Text
		}
		list = append(list, i)
	}
	return list
}
