package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/master"
)

const healthLong = `Exits with 0 if every process on this host's data_dir is ready, otherwise with 1 and a line
that says which is not: for HEALTHCHECK of Docker, and exec probes. It asks the processes themselves
(a master's, or roles that run alone), and the API and the admin at their addresses, whatever these
are and with or without TLS.

It does not ask Redis or the database: while they are down, every host would be taken out of service
at once.`

// health is the answer of wakecall health.
type health struct {
	Ready     bool             `json:"ready"`
	Reason    string           `json:"reason,omitempty"` // why not
	Processes []master.Process `json:"processes"`
}

func (p *program) healthCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "health", GroupID: groupCare, Long: healthLong,
		Short: "exit with 0 if this host's processes are ready (HEALTHCHECK, probes)",
	}
	role, limit := "", 2*time.Second
	cmd.Flags().StringVar(&role, "role", "", "check only the processes of this `ROLE`, such as dispatcher")
	complete(cmd, "role", app.Roles()...)
	cmd.Flags().DurationVar(&limit, "timeout", limit, "how long the check may take")
	return p.addOutputFlag(p.onDataDir(cmd, func(ctx context.Context, dir string) error {
		if role != "" && !slices.Contains(app.Roles(), role) {
			return usagef("--role %q must be one of %s", role, strings.Join(app.Roles(), ", "))
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		h := healthOf(ctx, dir, role)
		if err := p.show(h, h.print); err != nil {
			return err
		}
		if !h.Ready {
			return failure{}
		}
		return nil
	}))
}

func (h *health) print(w io.Writer) error {
	line := "not ready: " + h.Reason
	if h.Ready {
		var titles []string
		for _, p := range h.Processes {
			titles = append(titles, p.Title())
		}
		line = "ready: " + strings.Join(titles, ", ")
	}
	_, err := fmt.Fprintln(w, printable.Line(line))
	return err
}

// healthOf checks the processes on a data directory, or those of one role.
func healthOf(ctx context.Context, dir, role string) *health {
	all, err := master.At(dir).All(ctx)
	h := &health{Processes: slices.DeleteFunc(all, func(p master.Process) bool { return role != "" && p.Role != role })}
	if err == nil && len(h.Processes) == 0 {
		err = fmt.Errorf("no %s runs on data_dir %s", cmp.Or(role, "process of Wakecall"), dir)
	}
	for _, p := range h.Processes {
		if err == nil {
			err = processReady(ctx, &p)
		}
	}
	if h.Ready = err == nil; !h.Ready {
		h.Reason = err.Error()
	}
	return h
}

// processReady returns why a process is not ready.
func processReady(ctx context.Context, p *master.Process) error {
	if !p.IsReady() {
		why := ""
		if p.LastExit != "" {
			why = " (last exit: " + p.LastExit + ")"
		}
		return fmt.Errorf("%s: %s%s", p.Title(), p.State, why)
	}
	if s := p.Reported(); s.Refuses != "" { // on this host alone
		return fmt.Errorf("%s: %s", p.Title(), s.Refuses)
	}
	if err := serves(ctx, p.Health); err != nil {
		return fmt.Errorf("%s: %w", p.Title(), err)
	}
	return nil
}

// serves requests the URL at which a process of this host reports that it serves clients; "" requests nothing.
func serves(ctx context.Context, url string) error {
	if url == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := setup.LocalClient().Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(url + " answers " + res.Status)
	}
	return nil
}
