package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/conf"
)

// workFlags are the flags of `wakecall work`.
type workFlags struct {
	exec, order                string
	concurrency                int
	ttr, releaseDelay, timeout time.Duration
}

// jobVariables are the variables in the environment of a command.
var jobVariables = []string{"WAKECALL_TOPIC", "WAKECALL_ID", "WAKECALL_ATTEMPT", "WAKECALL_MAX_ATTEMPTS",
	"WAKECALL_PRIORITY", "WAKECALL_CONTENT_TYPE"}

// jobEnv returns jobVariables with the values of a job.
func jobEnv(j *client.LeasedJob) []string {
	env := []string{j.Topic, j.ID, strconv.Itoa(j.Attempt), strconv.Itoa(j.MaxAttempts), j.Priority, j.ContentType}
	for i, value := range env {
		env[i] = jobVariables[i] + "=" + value
	}
	return env
}

// foreignVariables returns the WAKECALL_ variables in the environment that are not keys of the configuration.
// jobVariables are accepted only together with a job's id; elsewhere WAKECALL_PRIORITY is a mistyped key.
func (p *program) foreignVariables() []string {
	if conf.Getenv(p.env, "WAKECALL_ID") == "" {
		return nil
	}
	return jobVariables
}

// exitRelease is the exit status with which a command releases its job (EX_TEMPFAIL of sysexits.h).
const exitRelease = 75

func (p *program) workCommand() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use: "work TOPIC... --exec CMD", GroupID: groupUse, Short: "run a command for each job of pull topics",
		Long: "Reserves jobs of pull topics and runs a shell command for each, with the job's body on standard input " +
			"and\n" +
			"in its environment " + strings.Join(jobVariables, ", ") + `.
Exit status 0 acknowledges the job, and 75 releases it without counting the attempt. Any other status fails the attempt,
with the end of standard error as the reason. Leases are extended while commands run. The first SIGTERM or SIGINT waits
for running commands; a second one ends them and releases their jobs.`,
		Example:           `  wakecall work order.mail --exec './send-mail' --concurrency 4`,
		ValidArgsFunction: p.completeMoreTopics,
		Args: func(cmd *cobra.Command, args []string) error {
			return exactArgs(slices.Repeat([]string{"TOPIC"}, max(len(args), 1))...)(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.exec, "exec", "", "`CMD` to run for each job, with sh -c")
	flags.IntVar(&f.concurrency, "concurrency", 1, "maximum number of commands that run at once")
	flags.StringVar(&f.order, "order", "fair",
		"how several topics share: fair, or listed (the first topic with a ready job wins)")
	complete(cmd, "order", "fair", "listed")
	flags.DurationVar(&f.ttr, "ttr", 0,
		"how long a lease lasts without being extended (default: the job's, or its topic's)")
	flags.DurationVar(&f.releaseDelay, "release-delay", 0, "delay before a released job is ready again")
	flags.DurationVar(&f.timeout, "stop-timeout", 30*time.Second, "how long a graceful stop waits for running commands")
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if f.exec == "" {
			return usagef("--exec is required")
		}
		if f.concurrency < 1 {
			return usagef("--concurrency must be at least 1")
		}
		if f.releaseDelay < 0 {
			return usagef("--release-delay %s must not be negative", f.releaseDelay)
		}
		if f.ttr < 0 {
			return usagef("--ttr %s must not be negative", f.ttr)
		}
		if f.timeout <= 0 {
			return usagef("--stop-timeout %s must be above zero; a second signal stops at once", f.timeout)
		}
		if err := refuseZero(flags, "ttr", "order"); err != nil {
			return err
		}
		return p.work(ctx, c, f, args)
	})
	return p.addClientFlags(cmd)
}

func (p *program) work(ctx context.Context, c *client.Client, f workFlags, topics []string) error {
	p.lasts()
	p.signals.handleKill() // commands run in their own process groups, and would outlive this program
	killed, kill := context.WithCancel(context.WithoutCancel(ctx))
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer kill()
	waiting.Go(func() {
		select {
		case <-p.signals.kill:
			kill()
		case <-killed.Done():
		}
	})
	w := &client.Worker{
		Client: c, Topics: topics, Concurrency: f.concurrency, TTR: f.ttr, Order: f.order, StopTimeout: f.timeout,
		Handle: func(ctx context.Context, job *client.LeasedJob) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(killed, cancel)()
			err := runCommand(ctx, p.err, f, job)
			if err != nil && killed.Err() != nil {
				return client.Released(0)
			}
			return err
		},
		Failed: func(err error) { _, _ = fmt.Fprintln(p.err, "wakecall work:", err) },
	}
	err := w.Run(ctx)
	if err == nil && killed.Err() != nil {
		return errors.New("stopped at once by a second signal; the jobs of running commands were released")
	}
	return err
}

// outputWait is how long a command may continue after SIGTERM. It is also how long to wait, after a command has ended,
// for child processes that still hold its standard error.
var outputWait = 5 * time.Second

// runCommand runs the command for one job. The command's output goes to this program's output; the end of its standard
// error becomes the reason of a failure.
func runCommand(ctx context.Context, stderr io.Writer, f workFlags, job *client.LeasedJob) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", f.exec)
	cmd.Stdin, cmd.Stdout = bytes.NewReader(job.Payload()), os.Stdout
	last := &tail{out: stderr}
	cmd.Stderr = last
	cmd.Env = append(os.Environ(), jobEnv(job)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C on the terminal is meant for this program
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = outputWait
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil { // kills what ignored SIGTERM
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	var exit *exec.ExitError
	switch {
	case cmd.ProcessState != nil && cmd.ProcessState.Success():
		return nil // err may still report the end of ctx, or a child that holds standard error open
	case errors.As(err, &exit) && exit.ExitCode() == exitRelease:
		return client.Released(f.releaseDelay)
	}
	if text := last.String(); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// tail passes on what is written, and keeps the end of it.
type tail struct {
	out io.Writer
	end []byte
}

const tailBytes = 400

func (t *tail) Write(b []byte) (int, error) {
	t.end = append(t.end, b...)
	t.end = t.end[max(0, len(t.end)-tailBytes):]
	return t.out.Write(b)
}

func (t *tail) String() string { return strings.TrimSpace(strings.ToValidUTF8(string(t.end), "")) }
