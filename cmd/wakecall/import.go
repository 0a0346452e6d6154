package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/internal/log/printable"
)

const aboutImport = `Imports topics and waiting jobs from another system while its producers and consumers
keep running. Each job is in only one of the two systems. Run the import on a Wakecall host, with its
configuration. To continue an interrupted import, run the same command again on the same host.`

func (p *program) importCommand() *cobra.Command {
	var systems []*cobra.Command
	for _, protocol := range app.Protocols() {
		systems = append(systems, p.importFrom(protocol.Name, protocol.Import))
	}
	return group(&cobra.Command{
		Use: "import", GroupID: groupCare, Short: "import topics and waiting jobs from another system",
		Long: aboutImport,
	}, systems...)
}

// importFrom returns the command that imports from one system.
func (p *program) importFrom(name string, c importer.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: c.Short}
	open := c.Flags(cmd.Flags())
	dry := cmd.Flags().Bool("dry-run", false, "count topics and jobs, and import nothing")
	follow := cmd.Flags().Bool("follow", false,
		"keep running until interrupted, for producers that still use the old system")
	return p.addOutputFlag(p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		source, closeSource, err := open(ctx, cfg.Setting)
		if errors.As(err, new(*importer.FlagError)) {
			return usagef("%s: %w", cmd.CommandPath(), err)
		}
		if err != nil {
			return err
		}
		defer closeSource()
		began, screen := p.now(), &barScreen{out: p.err}
		shown := began
		o := importer.Options{Source: source, DryRun: *dry, Follow: *follow, Progress: func(r importer.Report) {
			if now := p.now(); now.Sub(shown).Milliseconds() >= 500 {
				shown = now
				screen.show(importBar(&r, now.Sub(began).Seconds()))
			}
		}}
		report, err := app.Import(ctx, cfg, version, log.New(cfg, screen, "import"), o)
		screen.end()
		switch {
		case err != nil && *dry:
			return err
		case err != nil:
			return fmt.Errorf("%w; %d jobs were imported; run the same command again to continue", err, report.Imported)
		}
		return p.show(report, func(w io.Writer) error { return importTable(w, &report, *dry) })
	}))
}

// barScreen shows a progress bar below the lines of a log.
type barScreen struct {
	mu    sync.Mutex
	out   io.Writer
	shown bool
}

// show replaces the bar, or shows one below the last line of the log.
func (s *barScreen) show(bar string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = true
	fmt.Fprintf(s.out, "\r%s", bar)
}

// Write writes a line of the log.
func (s *barScreen) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
	return s.out.Write(line)
}

// end ends the line of the bar.
func (s *barScreen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
}

func (s *barScreen) leave() {
	if s.shown {
		s.shown = false
		fmt.Fprintln(s.out)
	}
}

func importBar(r *importer.Report, seconds float64) string {
	const width = 30
	done := r.Imported + r.Kept + r.Refused
	share := min(1, float64(done)/float64(max(1, r.Waiting)))
	bar := strings.Repeat("=", int(share*width)) + strings.Repeat(" ", width-int(share*width))
	return fmt.Sprintf("[%s] %3.0f %%  %d of %s, %.0f a second ",
		bar, 100*share, done, printable.Count(max(done, r.Waiting), "job"), float64(done)/max(seconds, 0.001))
}

func importTable(w io.Writer, r *importer.Report, dry bool) error {
	pairs := []string{"topics", strconv.Itoa(r.Topics), "  not registered yet", strconv.Itoa(r.Made)}
	if r.Tokens > 0 {
		pairs = append(pairs, "tokens", strconv.Itoa(r.Tokens))
	}
	if r.Tubes > 0 {
		pairs = append(pairs, "tubes", strconv.Itoa(r.Tubes))
	}
	if r.Queues > 0 {
		pairs = append(pairs, "queues with ready jobs", strconv.Itoa(r.Queues))
	}
	pairs = append(pairs, "jobs waiting", strconv.Itoa(r.Waiting))
	if !dry {
		pairs = append(pairs, "imported", strconv.Itoa(r.Imported), "  from an interrupted import",
			strconv.Itoa(r.Resumed),
			"skipped (newer job exists)", strconv.Itoa(r.Kept), "refused", strconv.Itoa(r.Refused),
			"left in the old system", strconv.Itoa(r.Left))
	}
	if r.Dead > 0 {
		pairs = append(pairs, "dead, not imported", strconv.Itoa(r.Dead))
	}
	return fields(w, pairs...)
}
