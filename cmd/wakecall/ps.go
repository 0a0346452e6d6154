package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/checker"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/master"
)

func (p *program) psCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ps", GroupID: groupCare, Short: "show the master's processes and the redis-checker's findings",
	}
	return p.addOutputFlag(p.onDataDir(cmd, func(ctx context.Context, dir string) error {
		ctx, cancel := context.WithTimeout(ctx, setup.PsLimit)
		defer cancel()
		tree, err := master.At(dir).Ps(ctx)
		if err != nil {
			return err
		}
		return p.show(tree, func(w io.Writer) error { return treeTable(w, tree, p.now()) })
	}))
}

func treeTable(w io.Writer, t *master.Tree, now time.Time) error {
	uptime := printable.Duration(now.Sub(t.StartedAt))
	rows := [][]string{{"PROCESS", "PID", "STATE", "UPTIME", "RESTARTS", "MEMORY", "DETAILS"},
		{"master", strconv.Itoa(t.Pid), "running", uptime, "", printable.Bytes(t.RSS), ""}}
	var failing, findings []string
	for _, p := range t.Processes {
		rows = append(rows, processRow(p, now))
		s := statusOf(p)
		for _, f := range s.Findings {
			findings = append(findings, fmt.Sprintf("shard %s: %s: %s, since %s",
				f.Shard, f.Kind, f.Detail, describe.Instant(f.Since, now)))
		}
		for _, one := range s.failing() {
			failing = append(failing, fmt.Sprintf("%s: service %s failed %s and will be restarted: %s",
				p.Role, one.Name, printable.Count(one.Restarts+1, "time"), one.Error))
		}
	}
	if err := columns(w, rows); err != nil {
		return err
	}
	var lines []string
	if newer := t.Newer(); newer != "" {
		lines = append(lines, fmt.Sprintf("the master has version %s, its processes %s: "+
			"restart it (systemctl restart wakecall) to upgrade the master", t.Version, newer))
	}
	for _, line := range slices.Concat(lines, failing, findings) {
		if _, err := fmt.Fprintln(w, printable.Line(line)); err != nil {
			return err
		}
	}
	return nil
}

func processRow(p master.Process, now time.Time) []string {
	name := p.Title()
	if p.Pid == 0 {
		return []string{"  " + name, "", p.State, "", strconv.Itoa(p.Restarts), "", p.LastExit}
	}
	return []string{
		"  " + name, strconv.Itoa(p.Pid), p.State, printable.Duration(now.Sub(p.StartedAt)), strconv.Itoa(p.Restarts),
		printable.Bytes(p.RSS), doing(p),
	}
}

// status is the part of a process's status that the table shows.
type status struct {
	InFlight    *int               `json:"in_flight"`
	Concurrency int                `json:"concurrency"`
	Findings    []checker.Finding  `json:"findings"`
	Services    []app.ServiceState `json:"services"`
	Journal     string             `json:"journal"`     // why the journal cannot be written
	Refuses     string             `json:"refuses"`     // why every request of clients is refused
	Connections map[string]int64   `json:"connections"` // connections of a gateway, by protocol
}

// failing returns the services that are not running.
func (s *status) failing() []app.ServiceState {
	return slices.DeleteFunc(
		slices.Clone(s.Services), func(one app.ServiceState) bool { return one.State == "running" })
}

func statusOf(p master.Process) status {
	var s status
	if len(p.Status) > 0 {
		_ = json.Unmarshal(p.Status, &s) // a status of another version is not shown
	}
	return s
}

func doing(p master.Process) string {
	s := statusOf(p)
	var parts []string
	if s.InFlight != nil {
		parts = append(parts, fmt.Sprintf("%d of %d callbacks", *s.InFlight, s.Concurrency))
	}
	for _, protocol := range slices.Sorted(maps.Keys(s.Connections)) {
		parts = append(parts, protocol+" "+printable.Count(int(s.Connections[protocol]), "connection"))
	}
	switch total, failing := len(s.Services), len(s.failing()); {
	case failing > 0:
		parts = append(parts, fmt.Sprintf("%d of %d services", total-failing, total))
	case total > 0:
		parts = append(parts, printable.Count(total, "service"))
	}
	if len(s.Findings) > 0 {
		parts = append(parts, printable.Count(len(s.Findings), "finding"))
	}
	if s.Journal != "" {
		parts = append(parts, "journal "+s.Journal)
	}
	if p.Restarts > 0 && p.LastExit != "" {
		parts = append(parts, "last exit: "+p.LastExit)
	}
	return strings.Join(parts, "; ")
}
