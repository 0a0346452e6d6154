package test

import (
	"bytes"
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

// work runs a worker for pull topics until the test ends: it calls the endpoint, so that a ledger can judge its jobs
// like those of push topics. It must not give up, whatever happens to Wakecall.
func (i *installation) work(t *testing.T, topics ...string) {
	t.Helper()
	call := func(ctx context.Context, j *client.LeasedJob) error {
		to := i.endpoint.URL("/" + j.Topic)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(j.Body))
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

// pullKilled: the jobs of a killed worker return when their leases expire, and are done again; those that it had not
// begun are done once.
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
		text, _ := os.ReadFile(out) // it does not exist yet
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
	must(t, os.Remove(hang)) // the commands of the killed worker end; their results are ignored
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

// drained returns nil when a topic has no job left, and none is dead.
func (i *installation) drained(ctx context.Context, topic string) error {
	st, err := i.Stats(ctx, topic)
	if err != nil || st.Delayed+st.Ready+st.Running+st.Dead > 0 {
		return fmt.Errorf("%+v, %w", st, err)
	}
	return nil
}

// pullRestarted: a worker continues by itself when Wakecall is stopped and started, and so does its current job.
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
	close(finish) // the server cannot be reached
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

// pullAnswers: the API's answers to workers over plain HTTP, and their metrics.
func (i *installation) pullAnswers(t *testing.T) {
	first, second := i.pullTopic(t, M{"max_attempts": 2}), "second-pull"
	i.MustPutTopic(t, second, M{"delivery": "pull", "ttr": "10m"})
	reserve := func(fields M) []M {
		t.Helper()
		var got struct{ Jobs []M }
		fields["topics"] = []string{first, second}
		must(t, i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/reserve", fields).JSON(&got))
		return got.Jobs
	}
	if jobs := reserve(M{}); jobs == nil || len(jobs) != 0 {
		t.Errorf("of an empty topic: %v", jobs)
	}
	waited := make(chan []M)
	go func() { waited <- reserve(M{"order": "listed", "wait": "5m"}) }()
	i.counts(t, "wakecall_waiting_workers", "", 1)
	i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": []M{
		{"topic": second, "id": "b", "body": 1, "delay": "100ms"},
		{"topic": first, "id": "a", "body": 1, "delay": "100ms"},
	}})
	a := <-waited
	if len(a) != 1 || a[0]["topic"] != first {
		t.Fatalf("the waiting worker got %v", a)
	}
	for _, member := range []string{"lease", "leased_until", "topic", "id", "priority", "attempt", "max_attempts",
		"due_at", "content_type", "body", "headers"} {
		if _, has := a[0][member]; !has {
			t.Errorf("no %s in %v", member, a[0])
		}
	}
	b := reserve(M{"max": 100, "ttr": "1s", "wait": "1m"}) // shorter than the topic's
	if len(b) != 1 || b[0]["attempt"] != 1.0 {
		t.Fatalf("the other worker got %v", b)
	}
	again := reserve(M{"wait": "1m"}) // at once, when the lease has expired
	if len(again) != 1 || again[0]["id"] != b[0]["id"] || again[0]["attempt"] != 2.0 {
		t.Fatalf("after an expired lease: %v", again)
	}
	var ended struct{ Results []M }
	must(t, i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/leases", M{
		"ack":    []any{M{"lease": again[0]["lease"], "result": M{"n": 1}}, b[0]["lease"]},
		"extend": []any{M{"lease": a[0]["lease"], "ttr": "2h"}},
	}).JSON(&ended))
	if r := ended.Results; len(r) != 3 || r[0]["state"] != "done" || r[1]["error"].(M)["status"] != 409.0 ||
		r[2]["leased_until"] == nil {
		t.Errorf("ended with %v", r)
	}
	done := i.waitState(t, again[0]["topic"].(string), again[0]["id"].(string), client.Done)
	if n := len(done.History); n != 2 || done.History[1].Answer != `{"n":1}` {
		t.Errorf("done: %+v", done)
	}
	i.MustDo(t, http.StatusNoContent, http.MethodPost, "/v1/leases/"+a[0]["lease"].(string)+"/ack", nil)
	i.counts(t, "wakecall_reserved_total", `topic="`+second+`"`, 1)
	i.counts(t, "wakecall_leases_total", `verb="ack"`, 2)
	i.counts(t, "wakecall_waiting_workers", "", 0)
}

// counts waits until the samples of a metric with a label add up to n or more.
func (i *installation) counts(t *testing.T, metric, label string, n float64) {
	t.Helper()
	harness.Eventually(t, soon, fmt.Sprintf("%s{%s} to be %v", metric, label, n), func() error {
		sum := 0.0
		for line := range strings.Lines(string(i.Metrics().Do(ctx, http.MethodGet, "/metrics", nil).Body)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.HasPrefix(name, metric) && strings.Contains(name, label) {
				v, _ := strconv.ParseFloat(value, 64)
				sum += v
			}
		}
		if sum < n || n == 0 && sum > 0 {
			return fmt.Errorf("it is %v", sum)
		}
		return nil
	})
}
