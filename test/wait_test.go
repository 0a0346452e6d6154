package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/race"
)

// waited is the answer to a push that waited.
type waited struct {
	State, Error string
	DeadReason   string `json:"dead_reason"`
	Result       json.RawMessage
	Truncated    bool
	Deleted      bool
	Duplicate    bool
}

// TestPushThatWaits: the ways in which a push that waits is answered.
func TestPushThatWaits(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	long := strings.Repeat("é", 40<<10)
	i.put(t, "answers", func(w http.ResponseWriter, _ *http.Request, c harness.Call) int {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		switch c.ID {
		case "long":
			_, _ = io.WriteString(w, long)
		case "binary":
			_, _ = w.Write([]byte{0xff, 0})
		case "dead":
			w.WriteHeader(http.StatusGone)
			return http.StatusGone
		default:
			_, _ = io.WriteString(w, "paid "+c.ID)
		}
		return http.StatusOK
	}, M{"remember": "0"})
	push := func(id string, status int) (w waited) {
		answer := i.Push(ctx, "answers", M{"id": id, "body": 1, "wait": "20s"})
		if err := answer.JSON(&w); err != nil || answer.Status != status {
			t.Errorf("%s: %.300s", id, answer)
		}
		return w
	}
	want := `{"status":200,"content_type":"text/plain; charset=utf-8","body":"paid 1"}`
	if w := push("1", 200); w.State != "done" || string(w.Result) != want {
		t.Errorf("%+v", w)
	}
	if w := push("1", 200); w.State != "done" || !w.Duplicate || string(w.Result) != want { // although remember is 0
		t.Errorf("again: %+v", w)
	}
	var whole waited
	if err := i.Do(ctx, http.MethodGet, harness.JobPath("answers", "1"), nil).JSON(&whole); err != nil ||
		string(whole.Result) != want {
		t.Errorf("GET: %+v, %v", whole, err)
	}
	if w := push("binary", 200); !strings.Contains(string(w.Result), `"body_base64":"/wA="`) {
		t.Errorf("%+v", w)
	}
	if w := push("long", 200); !w.Truncated || !strings.Contains(string(w.Result), long[:64<<10]+`"`) {
		t.Errorf("long: %d bytes, %v", len(w.Result), w.Truncated)
	}
	if w := push("dead", 200); w.State != "dead" || w.DeadReason != "gone" || w.Error == "" {
		t.Errorf("%+v", w)
	}
	i.waitIsOver(t)
	i.waitIsDisturbed(t)
}

// waitIsOver: a worker holds one job; nobody takes the other.
func (i *installation) waitIsOver(t *testing.T) {
	i.MustPutTopic(t, "held", M{"delivery": "pull"})
	var w waited
	wait := M{"id": "1", "body": 1, "wait": "200ms", "on_timeout": "delete"}
	if answer := i.Push(ctx, "held", wait); answer.JSON(&w) != nil || answer.Status != 202 || !w.Deleted {
		t.Errorf("on_timeout: %s", answer)
	}
	i.MustDo(t, http.StatusNotFound, http.MethodGet, harness.JobPath("held", "1"), nil)
	i.MustPush(t, "held", M{"id": "1", "body": 1})
	i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/topics/held/reserve", M{})
	if answer := i.Push(ctx, "held", wait); answer.JSON(&w) != nil || answer.Status != 202 ||
		w.State != client.Running {
		t.Errorf("on_timeout of a running job: %s", answer)
	}
}

// waitIsDisturbed: the job is deleted, or replaced, while a push waits.
func (i *installation) waitIsDisturbed(t *testing.T) {
	for name, disturb := range map[string]func(){
		"delete": func() { i.MustDo(t, http.StatusNoContent, http.MethodDelete, harness.JobPath("held", "2"), nil) },
		"replace": func() {
			i.MustDo(t, 200, http.MethodPost, "/v1/topics/held/jobs",
				M{"id": "2", "body": 2, "on_duplicate": "replace"})
		},
		"group": func() { i.MustDo(t, 200, http.MethodDelete, "/v1/groups/g", nil) },
	} {
		var done sync.WaitGroup
		done.Go(func() {
			answer := i.Push(ctx, "held", M{"id": "2", "body": 1, "wait": "60s", "group": "g",
				"on_duplicate": "replace"})
			if answer.Status != http.StatusConflict || answer.Code() != "job_gone" {
				t.Errorf("%s: %s", name, answer)
			}
		})
		harness.Eventually(t, soon, "the push to wait", func() error { return i.waits(1) })
		disturb()
		done.Wait()
	}
}

// waits returns an error unless n pushes wait.
func (i *installation) waits(n int) error {
	page := string(i.Metrics().Do(ctx, http.MethodGet, "/metrics", nil).Body)
	for line := range strings.SplitSeq(page, "\n") {
		if name, value, _ := strings.Cut(line, " "); strings.HasPrefix(name, "wakecall_waiting_pushes") {
			return harness.Equal("waiting pushes", value, fmt.Sprint(n))
		}
	}
	return fmt.Errorf("no wakecall_waiting_pushes")
}

// pullWorkers take jobs of a topic, n at a time, and ack each with its id as the result, until ctx ends.
func (i *installation) pullWorkers(ctx context.Context, topic string, n int) (wait func()) {
	var workers sync.WaitGroup
	for range n {
		api := i.Quick()
		workers.Go(func() {
			for ctx.Err() == nil {
				var got struct{ Jobs []client.LeasedJob }
				answer := api.Do(ctx, http.MethodPost, "/v1/topics/"+topic+"/reserve", M{"max": 100, "wait": "1s"})
				if answer.JSON(&got) != nil || len(got.Jobs) == 0 {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				var acks []M
				for _, j := range got.Jobs {
					acks = append(acks, M{"lease": j.Lease, "result": j.ID})
				}
				for api.Do(ctx, http.MethodPost, "/v1/leases", M{"ack": acks}).Status != http.StatusOK &&
					ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	return workers.Wait
}

// waitsAreSmall: n waits take at most 64 KiB each, garbage included, beyond what the server had before.
func (i *installation) waitsAreSmall(t *testing.T, idle int64, n int) {
	var rss int64
	defer func() { t.Logf("%d waits: the server has %d MiB, and had %d before", n, rss>>20, idle>>20) }()
	if race.Enabled {
		return
	}
	harness.Eventually(t, soon, "the waits to take little memory", func() error {
		if rss = i.memory(t, "server"); rss-idle > int64(n)*64<<10 {
			return fmt.Errorf("%d waits take %d MiB", n, (rss-idle)>>20)
		}
		return nil
	})
}

// TestWaitsThroughARestart: pushes that wait are answered although Redis, and then the server that holds them, are
// killed meanwhile; thousands of them take little memory.
func TestWaitsThroughARestart(t *testing.T) {
	t.Parallel()
	n := harness.Sample(5000, 1000)
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	topic := topicName(t)
	i.MustPutTopic(t, topic, M{"delivery": "pull", "remember": "0", "ttr": "5s"})
	all := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}
	var broken atomic.Int64
	push := func(id string) (w waited, err error) {
		body, _ := json.Marshal(M{"id": id, "body": 1, "wait": "60s"})
		for { // as a client does whose connection broke
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, i.Base+"/v1/topics/"+topic+"/jobs",
				bytes.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+i.Token)
			resp, err := all.Do(req)
			if err == nil {
				var text []byte
				text, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err == nil && resp.StatusCode == http.StatusOK {
					return w, json.Unmarshal(text, &w)
				}
				if err == nil && resp.StatusCode != http.StatusServiceUnavailable {
					return w, fmt.Errorf("answered %d %s", resp.StatusCode, text)
				}
			}
			broken.Add(1)
			time.Sleep(50 * time.Millisecond)
		}
	}
	for _, kill := range []string{"redis", "server"} {
		idle := i.memory(t, "server")
		var pushes sync.WaitGroup
		for k := range n {
			id := fmt.Sprintf("%s-%d", kill, k)
			pushes.Go(func() {
				w, err := push(id)
				if err != nil || w.State != "done" || string(w.Result) != fmt.Sprintf("%q", id) {
					t.Errorf("%s: %+v, %v", id, w, err)
				}
			})
		}
		harness.Eventually(t, soon, "all pushes to wait", func() error { return i.waits(n) })
		i.waitsAreSmall(t, idle, n)
		working, stop := context.WithCancel(ctx)
		stopped := i.pullWorkers(working, topic, 4)
		time.Sleep(100 * time.Millisecond) // some of them end before
		if kill == "redis" {
			r.Lose()
			r.Restart()
		} else {
			i.KillRole("server")
		}
		pushes.Wait()
		stop()
		stopped()
		t.Logf("%s killed: %d answers were lost", kill, broken.Load())
	}
}

// TestWaitOfTheGuide runs the commands of docs/guides/wait.md in their order, and finds what the page says that one
// sees.
func TestWaitOfTheGuide(t *testing.T) {
	t.Parallel()
	followGuide(t, "wait.md", "", `"delivery":"pull"`, `"state":"ready"`, "", `"result":{"eur":42}`)
}
