package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app/setup"
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
		s := p.Reported()
		for _, f := range s.Findings {
			findings = append(findings, fmt.Sprintf("shard %s: %s: %s, since %s",
				f.Shard, f.Kind, f.Detail, describe.Instant(f.Since, now)))
		}
		for _, one := range s.Failing() {
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

func doing(p master.Process) string {
	s := p.Reported()
	var parts []string
	if s.InFlight != nil {
		parts = append(parts, fmt.Sprintf("%d of %d callbacks", *s.InFlight, s.Concurrency))
	}
	for _, protocol := range slices.Sorted(maps.Keys(s.Connections)) {
		parts = append(parts, protocol+" "+printable.Count(int(s.Connections[protocol]), "connection"))
	}
	switch total, failing := len(s.Services), len(s.Failing()); {
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
