// Package wakecalltest starts an installation of Wakecall for a test, with a clock that stands until the test moves it:
// it tests in a second what happens in a month.
//
//	w := wakecalltest.Start(t)
//	w.Topic("order.close", endpoint.URL)
//	shop.Order(w.Client, 42)                     // pushes a job, due in 30 minutes
//	calls := w.Advance(time.Hour)                // returns after the endpoint was called
//
// A unit test that needs no callbacks uses a Fake instead, which starts nothing.
//
// Start runs `wakecall dev` with the binary named by WAKECALL_BINARY, else the wakecall on the PATH, which needs
// redis-server on the PATH. Like the client it imports the standard library only.
package wakecalltest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
)

// binaryEnv names the binary to run.
const binaryEnv = "WAKECALL_BINARY"

// Installation is a running installation. Its methods fail the test if they fail.
type Installation struct {
	URL, Token string
	Client     *client.Client

	t testing.TB
}

// Call is a callback that an advance of the clock has made.
type Call struct {
	Topic   string    `json:"topic"`
	ID      string    `json:"id"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`      // by the installation's clock
	Status  int       `json:"status"`  // of the answer; 0: there was none
	Outcome string    `json:"outcome"` // done, retry, snooze, dead or expired
}

// Start starts an installation, which ends with the test.
func Start(t testing.TB) *Installation {
	t.Helper()
	binary := os.Getenv(binaryEnv)
	if binary == "" {
		path, err := exec.LookPath("wakecall")
		if err != nil {
			t.Fatalf("no wakecall on the PATH: install it, or set %s", binaryEnv)
		}
		binary = path
	}
	cmd := exec.Command(binary, "dev")
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("start %s: %v", binary, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	i := &Installation{t: t}
	lines := bufio.NewScanner(out)
	for i.Token == "" && lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), "="); name {
		case "WAKECALL_URL":
			i.URL = value
		case "WAKECALL_TOKEN":
			i.Token = value
		}
	}
	if i.Token == "" {
		t.Fatalf("%s dev did not start: %s", binary, errors.String())
	}
	if i.Client, err = client.New(client.Options{URL: i.URL, Token: i.Token}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Client.Close)
	return i
}

// Topic registers a topic with the URL of its endpoint and defaults for the rest.
func (i *Installation) Topic(name, callbackURL string) {
	i.t.Helper()
	if _, _, err := i.Client.PutTopic(i.t.Context(), client.Topic{Name: name, CallbackURL: callbackURL}); err != nil {
		i.t.Fatal(err)
	}
}

// Now returns the time by the installation's clock.
func (i *Installation) Now() time.Time {
	i.t.Helper()
	var answer struct {
		Now time.Time `json:"now"`
	}
	i.request(http.MethodGet, "/v1/dev/now", nil, &answer)
	return answer.Now
}

// Advance moves the clock by d and returns the callbacks that fell due, in the order in which they were made.
func (i *Installation) Advance(d time.Duration) []Call {
	i.t.Helper()
	return i.advance("by", d.String())
}

// AdvanceTo moves the clock to a time and returns the callbacks that fell due.
func (i *Installation) AdvanceTo(at time.Time) []Call {
	i.t.Helper()
	return i.advance("to", at.Format(time.RFC3339Nano))
}

func (i *Installation) advance(field, value string) []Call {
	i.t.Helper()
	body, _ := json.Marshal(map[string]string{field: value}) // it cannot fail
	var answer struct {
		Calls     []Call    `json:"calls"`
		StoppedAt time.Time `json:"stopped_at"`
	}
	i.request(http.MethodPost, "/v1/dev/advance", body, &answer)
	if !answer.StoppedAt.IsZero() {
		i.t.Fatalf("the clock stopped at %s, after %d callbacks", answer.StoppedAt, len(answer.Calls))
	}
	return answer.Calls
}

// request has no time limit: an advance is answered when all its callbacks have been made.
func (i *Installation) request(method, path string, body []byte, answer any) {
	i.t.Helper()
	c, err := client.New(client.Options{URL: i.URL, Token: i.Token, HTTPClient: http.DefaultClient})
	if err == nil {
		err = c.Do(i.t.Context(), method, path, body, answer)
	}
	if err != nil {
		i.t.Fatalf("%s %s: %v", method, path, err)
	}
}
