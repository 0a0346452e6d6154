package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/printable"
	"github.com/wakecall/wakecall/setup"
)

// demoTopic is the topic of `wakecall up --demo`.
const demoTopic = "demo"

// demo is a topic and its endpoint, to watch a first callback. The endpoint is a process of its own beside the master's children: it
// plays the service that is called back.
type demo struct {
	cmd   *exec.Cmd
	stdin io.Closer     // its end is the endpoint's
	read  chan struct{} // closed when all its output was copied
	url   string
}

// startDemo starts the endpoint. Its output goes to out.
func startDemo(out io.Writer) (*demo, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting the demo endpoint: %w", err)
	}
	cmd := exec.Command(binary, "demo-endpoint")
	cmd.Args[0] = "wakecall: demo endpoint"
	cmd.Env = []string{} // it needs nothing
	cmd.Stderr = os.Stderr
	// A group of its own: an interrupt at the terminal ends it through the pipe, after the last callbacks.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the demo endpoint: %w", err)
	}
	d := &demo{cmd: cmd, stdin: stdin, read: make(chan struct{})}
	lines := bufio.NewReader(stdout)
	addr, err := lines.ReadString('\n')
	go func() {
		_, _ = io.Copy(out, lines) // ends with the process
		close(d.read)
	}()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the demo endpoint did not start: %w", err), d.Close())
	}
	d.url = "http://" + strings.TrimSpace(addr) + "/"
	return d, nil
}

// Close ends the endpoint and waits for it.
func (d *demo) Close() error {
	err := d.stdin.Close()
	<-d.read // before Wait, which closes the pipe
	return errors.Join(err, d.cmd.Wait())
}

// introduce registers the topic when the API is there, and tells how to use it.
func (d *demo) introduce(ctx context.Context, cfg *conf.Config, out io.Writer) error {
	c, err := d.connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	_, _, err = c.PutTopic(ctx, client.Topic{
		Name: demoTopic, Title: "Demo of `wakecall up --demo`", CallbackURL: d.url, Retry: []client.Duration{client.Duration(5 * time.Second)},
	})
	if err != nil {
		return fmt.Errorf("registering the topic %s: %w", demoTopic, err)
	}
	_, err = io.WriteString(out, greeting(cfg))
	return err
}

// connect waits until the API takes requests.
func (d *demo) connect(ctx context.Context, cfg *conf.Config) (*client.Client, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		token, err := readToken(cfg)
		if err == nil {
			c, err := client.New(client.Options{URL: setup.APIURL(cfg), Token: token, UserAgent: "wakecall-demo/" + version})
			if err != nil || c.Ready(ctx) == nil {
				return c, err
			}
			c.Close()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

func greeting(cfg *conf.Config) string {
	return fmt.Sprintf(`
Wakecall is up at %[1]s (its API is described at %[1]s/docs). Push a first job, due in five seconds:

  curl %[1]s/v1/topics/%[2]s/jobs -H "Authorization: Bearer $(cat %[3]s)" -d '{"body":{"hello":"world"},"delay":"5s"}'

Its callback shows here, as a line that begins with "demo:". Ctrl-C stops everything; the jobs stay in %[4]s.

`, setup.APIURL(cfg), demoTopic, shellQuote(nearPath(setup.TokenFile(cfg))), nearPath(cfg.DataPath()))
}

// nearPath is a path as somebody in the working directory would write it.
func nearPath(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	near, err := filepath.Rel(dir, path)
	if err != nil || strings.HasPrefix(near, "..") {
		return path
	}
	return near
}

func shellQuote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (a *cli) demoEndpointCommand() *cobra.Command {
	return &cobra.Command{
		Use: "demo-endpoint", Hidden: true, Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return serveDemo(a.in, a.out) },
	}
}

// serveDemo answers callbacks on a free port with 200 and prints each, until its input ends. The first line is its address.
func serveDemo(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: demoHandler(out, time.Now), ReadHeaderTimeout: 10 * time.Second}
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	_, _ = io.Copy(io.Discard, in)
	return errors.Join(srv.Close(), ignoreClosed(<-served))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// demoHandler prints a callback as "demo: 12:00:05.002  order-1  attempt 1 of 10  2ms after it was due  {…}".
func demoHandler(out io.Writer, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came := now()
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		late := ""
		if due, err := time.Parse(time.RFC3339Nano, r.Header.Get("Wakecall-Due-At")); err == nil {
			late = printable.Duration(came.Sub(due).Truncate(time.Millisecond)) + " after it was due"
		}
		fmt.Fprintf(out, "demo: %s  %s  attempt %s of %s  %s  %s\n", came.Format("15:04:05.000"), printable.Line(r.Header.Get("Wakecall-Id")),
			printable.Line(r.Header.Get("Wakecall-Attempt")), printable.Line(r.Header.Get("Wakecall-Max-Attempts")), late, printable.Line(clipBody(body)))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]bool{"ok": true})
	})
}

func clipBody(b []byte) string {
	const limit = 200
	if len(b) > limit {
		return string(b[:limit]) + "…"
	}
	return string(b)
}
