package test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
)

// work has a worker do the jobs of pull topics until the test ends: it calls the endpoint, so that a ledger can judge
// them as those of push topics. It must not give up, whatever happens to Wakecall.
func (i *installation) work(t *testing.T, topics ...string) {
	t.Helper()
	call := func(ctx context.Context, j *client.LeasedJob) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.endpoint.URL("/"+j.Topic), nil)
		if err != nil {
			return err
		}
		req.Header.Set("Wakecall-Topic", j.Topic)
		req.Header.Set("Wakecall-Id", url.PathEscape(j.ID))
		req.Header.Set("Wakecall-Due-At", j.DueAt.Format(time.RFC3339Nano))
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	stop := runWorker(t, &client.Worker{Client: i.client(t), Topics: topics, Concurrency: 8, Handle: call})
	t.Cleanup(stop)
}

// pullKilled: the jobs of a worker that is killed come back when their leases are over, and are done once more; those
// that it has not begun are done once.
func (i *installation) pullKilled(t *testing.T) {
	const held, others = 3, 5
	topic := i.pullTopic(t, M{"ttr": "5s", "max_attempts": 3})
	out := filepath.Join(i.Dir, "killed")
	hang := out + ".hang"
	must(t, os.WriteFile(hang, nil, 0o600))
	worker := func() *exec.Cmd {
		cmd := exec.Command(harness.Binary(t), "work", topic, "--url", i.Base, "--token", i.Token, "--concurrency",
			strconv.Itoa(held), "--exec", `echo "$WAKECALL_ID $WAKECALL_ATTEMPT" >> `+out+
				`; while test -e `+hang+`; do sleep 0.1; done`)
		must(t, cmd.Start())
		return cmd
	}
	begun := func() []string {
		text, _ := os.ReadFile(out) // is not there yet
		return slices.Sorted(strings.Lines(string(text)))
	}
	for n := range held + others {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": n})
	}
	first := worker()
	harness.Eventually(t, soon, "the worker to be busy", func() error {
		return harness.Equal("begun", len(begun()), held)
	})
	must(t, first.Process.Kill())
	_ = first.Wait()
	must(t, os.Remove(hang)) // the commands of the killed worker end; nobody asks for what they did
	second := worker()
	harness.Eventually(t, soon, "all jobs to be done", func() error { return i.drained(t.Context(), topic) })
	must(t, second.Process.Signal(syscall.SIGTERM))
	must(t, second.Wait())
	var want []string
	for n := range held + others {
		want = append(want, fmt.Sprintln(n, 1))
		if n < held {
			want = append(want, fmt.Sprintln(n, 2))
		}
	}
	if got := begun(); !slices.Equal(got, want) {
		t.Errorf("begun: %q; want %q", got, want)
	}
}

// drained is nil when no job of a topic is left, and none died.
func (i *installation) drained(ctx context.Context, topic string) error {
	st, err := i.Stats(ctx, topic)
	if err != nil || st.Delayed+st.Ready+st.Running+st.Dead > 0 {
		return fmt.Errorf("%+v, %w", st, err)
	}
	return nil
}

// pullRestarted: a worker goes on by itself when Wakecall is stopped and started, and so does the job that it had.
func (i *installation) pullRestarted(t *testing.T) {
	topic, c := i.pullTopic(t, M{"ttr": "10m"}), i.client(t)
	tried, begun, finish := &handled{times: map[string]int{}}, make(chan struct{}), make(chan struct{})
	stop := runWorker(t, &client.Worker{
		Client: c, Topics: []string{topic}, Concurrency: 2,
		Handle: func(_ context.Context, j *client.LeasedJob) error {
			tried.note(j.ID)
			if j.ID == "held" {
				close(begun)
				<-finish
			}
			return nil
		},
	})
	i.MustPush(t, topic, M{"id": "held", "body": 1})
	<-begun
	for n := range 10 {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": n, "delay": fmt.Sprint(n*100, "ms")})
	}
	i.Signal(syscall.SIGTERM)
	if code := i.WaitExit(); code != 0 {
		t.Errorf("stopped with code %d", code)
	}
	close(finish) // nobody is there to be told
	if _, err := c.Get(t.Context(), topic, "held"); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("while it is stopped: %v", err)
	}
	i.Up()
	i.WaitReady()
	harness.Eventually(t, soon, "all jobs to be done", func() error { return i.drained(t.Context(), topic) })
	stop()
	if len(tried.times) != 11 {
		t.Errorf("did %v", tried.times)
	}
	for id, n := range tried.times {
		if n != 1 {
			t.Errorf("did %s %d times", id, n)
		}
	}
}
