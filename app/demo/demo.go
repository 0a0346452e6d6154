// Package demo provides the topic of `wakecall up --demo` and `wakecall demo`, and an endpoint that prints its
// callbacks.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
)

const (
	topic   = "demo"
	address = "127.0.0.1:8089"
)

// Run serves the endpoint on its address, or on a free port if that is in use, until run returns. When the API is up,
// Run registers the topic and prints how to push a first job. The endpoint outlives run's context, so that it gets the
// last callbacks.
func Run(ctx context.Context, cfg *conf.Config, out io.Writer, run func(context.Context) error) error {
	return serve(ctx, cfg, out, greeting, run)
}

// Attach is Run for a Wakecall that runs already, until ctx is done. The topic stays.
func Attach(ctx context.Context, cfg *conf.Config, out io.Writer) error {
	return serve(ctx, cfg, out, attached, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
}

func serve(
	ctx context.Context, cfg *conf.Config, out io.Writer, greet func(*conf.Config, string) string,
	run func(context.Context) error,
) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return fmt.Errorf("start demo endpoint: %w", err)
	}
	srv := &http.Server{Handler: handler(out, time.Now), ReadHeaderTimeout: 10 * time.Second}
	introducing, cancel := context.WithCancel(ctx)
	var serveErr error
	var wg sync.WaitGroup
	wg.Go(func() { serveErr = srv.Serve(l) })
	wg.Go(func() {
		err := introduce(introducing, cfg, out, greet, "http://"+l.Addr().String()+"/")
		if err != nil && introducing.Err() == nil {
			fmt.Fprintln(out, "demo: "+printable.Line(err.Error()))
		}
	})
	err = run(ctx)
	cancel()
	closeErr := srv.Close()
	wg.Wait()
	if errors.Is(serveErr, http.ErrServerClosed) {
		serveErr = nil
	}
	return errors.Join(err, serveErr, closeErr)
}

// introduce registers the topic once the API accepts requests, and prints how to use it.
func introduce(
	ctx context.Context, cfg *conf.Config, out io.Writer, greet func(*conf.Config, string) string, endpoint string,
) error {
	c, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	_, _, err = c.PutTopic(ctx, client.Topic{
		Name: topic, Title: "Demo: callbacks are printed", CallbackURL: endpoint,
		Retry: []client.Duration{client.Duration(5 * time.Second)},
	})
	if err != nil {
		return fmt.Errorf("register topic %s: %w", topic, err)
	}
	_, err = io.WriteString(out, greet(cfg, endpoint))
	return err
}

// connect waits until the API accepts requests.
func connect(ctx context.Context, cfg *conf.Config) (*client.Client, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		token, err := setup.ReadToken(cfg)
		if err == nil {
			c, err := client.New(client.Options{URL: setup.APIURL(cfg), Token: token, UserAgent: "wakecall-demo"})
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

func greeting(cfg *conf.Config, endpoint string) string {
	dir := nearPath(cfg.DataDir)
	token := filepath.Join(dir, filepath.Base(setup.TokenFile(cfg)))
	return fmt.Sprintf(`
Wakecall is up at %[1]s (API documentation: %[1]s/docs). Push a first job, due in five seconds:

  %[2]s

Its callback is printed here, on a line that begins with "demo:", as are those of your topics with the callback_url
%[3]s. %[4]s
Ctrl-C stops everything; the jobs are kept in %[5]s.

`, setup.APIURL(cfg), page.FirstCurl(setup.APIURL(cfg), topic, token), endpoint, signIn(cfg, dir), dir)
}

func attached(cfg *conf.Config, endpoint string) string {
	return "\nPush a first job to Wakecall at " + setup.APIURL(cfg) + `, due in five seconds, from another terminal:

  wakecall push ` + topic + ` --delay 5s --body '{"order":42}'

Its callback is printed here, as are those of your topics with the callback_url ` + endpoint + `. Ctrl-C ends the
endpoint.

`
}

// signIn says how to open the web admin. The file of the password is there unless admin.first_password was set.
func signIn(cfg *conf.Config, dir string) string {
	where := "The web admin is at " + setup.AdminURL(cfg) + " (user admin"
	if _, err := os.Stat(filepath.Join(cfg.DataDir, registry.PasswordFile)); err != nil {
		return where + ")."
	}
	file := filepath.Join(dir, registry.PasswordFile)
	return where + "). This shows its password:\n\n  cat " + printable.Word(file) + "\n"
}

// nearPath returns a path relative to the working directory if it is below that directory.
func nearPath(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	near, err := filepath.Rel(dir, path)
	if err != nil || near == "." || strings.HasPrefix(near, "..") {
		return path
	}
	return near
}

// handler responds to callbacks with 200, and prints each as "demo: 12:00:05.002 order-1 attempt 1 of 10 2ms after it
// was due {…}".
func handler(out io.Writer, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := now()
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		late := ""
		if due, err := time.Parse(time.RFC3339Nano, r.Header.Get("Wakecall-Due-At")); err == nil {
			late = printable.Duration(arrived.Sub(due).Truncate(time.Millisecond)) + " after it was due"
		}
		fmt.Fprintf(out, "demo: %s  %s  attempt %s of %s  %s  %s\n", arrived.Format("15:04:05.000"),
			printable.Line(r.Header.Get("Wakecall-Id")), printable.Line(r.Header.Get("Wakecall-Attempt")),
			printable.Line(r.Header.Get("Wakecall-Max-Attempts")), late,
			printable.Line(printable.Clip(string(body), 200)))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]bool{"ok": true})
	})
}
