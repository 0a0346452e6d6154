package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
)

// TestPull: workers reserve jobs and end their leases, through the API, the Go client and the command line.
func TestPull(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	t.Run("verbs of a lease", i.pullVerbs)
	t.Run("an edit of a state", i.pullETag)
	t.Run("a worker waits", i.pullWaits)
	t.Run("Worker does what its handler says", i.pullWorker)
	t.Run("wakecall work runs a command", i.pullCommand)
	t.Run("implicit topics", i.pullMadeByUse)
	t.Run("the admin shows workers and takes jobs away", i.pullPages)
	t.Run("what the API answers", i.pullAnswers)
	t.Run("jobs of a killed worker", i.pullKilled)
	t.Run("a worker continues after a restart", i.pullRestarted)
}

func (i *installation) pullTopic(t *testing.T, fields M) string {
	t.Helper()
	name := topicName(t) + "-pull"
	all := M{"delivery": "pull", "ttr": "30s", "retry": []string{"0s"}}
	maps.Copy(all, fields)
	i.MustPutTopic(t, name, all)
	return name
}

func (i *installation) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: i.Base, Token: i.Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// reserveOne waits for a job.
func reserveOne(t *testing.T, c *client.Client, topics ...string) client.LeasedJob {
	t.Helper()
	jobs, err := c.Reserve(t.Context(), client.Reserve{Topics: topics, Wait: time.Minute})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("reserved %d jobs, %v", len(jobs), err)
	}
	return jobs[0]
}

// pullETag: an outdated ETag ends no job.
func (i *installation) pullETag(t *testing.T) {
	topic, c := i.pullTopic(t, nil), i.client(t)
	i.MustPush(t, topic, M{"id": "x", "body": 1, "delay": "1h"})
	read, err := c.Get(t.Context(), topic, "x")
	must(t, err)
	soon := time.Minute
	changed, err := c.Change(t.Context(), topic, "x", client.Change{Delay: &soon, ETag: read.ETag})
	must(t, err)
	if _, err := c.Change(t.Context(), topic, "x", client.Change{Delay: &soon, ETag: read.ETag}); !errors.Is(err,
		client.ErrChanged) {
		t.Errorf("second change: %v", err)
	}
	if err := c.DeleteIf(t.Context(), topic, "x", read.ETag); !errors.Is(err, client.ErrChanged) {
		t.Errorf("deletion: %v", err)
	}
	must(t, c.DeleteIf(t.Context(), topic, "x", changed.ETag))
}

func (i *installation) pullVerbs(t *testing.T) {
	topic, c := i.pullTopic(t, M{"max_attempts": 2}), i.client(t)
	i.MustPush(t, topic, M{"id": "x", "body": M{"n": 1}, "headers": M{"X-A": "b"}})
	j := reserveOne(t, c, topic)
	if j.ID != "x" || string(j.Payload()) != `{"n":1}` || j.Attempt != 1 || j.MaxAttempts != 2 ||
		j.Headers["X-A"] != "b" {
		t.Errorf("reserved %+v", j)
	}
	if got := i.MustGet(t, topic, "x"); got.State != "running" {
		t.Errorf("a reserved job is %s", got.State)
	}
	if until, err := c.Extend(t.Context(), j.Lease, time.Hour); err != nil || time.Until(until) < 50*time.Minute {
		t.Errorf("extended until %v, %v", until, err)
	}
	must(t, c.Release(t.Context(), j.Lease, 0))
	if err := c.Ack(t.Context(), j.Lease); !errors.Is(err, client.ErrConflict) {
		t.Errorf("ack of an ended lease: %v", err)
	}
	j = reserveOne(t, c, topic)
	must(t, c.Fail(t.Context(), j.Lease, "no stock"))
	j = reserveOne(t, c, topic)
	if j.Attempt != 2 {
		t.Errorf("attempt %d", j.Attempt)
	}
	must(t, c.Fail(t.Context(), j.Lease, "no stock"))
	if got := i.MustGet(t, topic, "x"); got.State != "dead" || got.DeadReason != "attempts" {
		t.Errorf("after the last attempt: %+v", got)
	}
	i.MustDo(t, http.StatusAccepted, http.MethodPost, harness.JobPath(topic, "x")+"/run", nil)
	must(t, c.Bury(t.Context(), reserveOne(t, c, topic).Lease, "bad"))
	i.MustDo(t, http.StatusAccepted, http.MethodPost, harness.JobPath(topic, "x")+"/run", nil)
	must(t, c.Ack(t.Context(), reserveOne(t, c, topic).Lease))
	i.waitGone(t, topic, "x")
	if st := i.MustStats(t, topic); st.Ready+st.Running+st.Delayed+st.Dead != 0 {
		t.Errorf("left: %+v", st)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (i *installation) pullWaits(t *testing.T) {
	topic, c := i.pullTopic(t, nil), i.client(t)
	got := make(chan client.LeasedJob)
	go func() {
		jobs, err := c.Reserve(t.Context(), client.Reserve{Topics: []string{topic}, Wait: time.Minute})
		if err != nil || len(jobs) != 1 {
			t.Errorf("reserved %d jobs, %v", len(jobs), err)
			jobs = make([]client.LeasedJob, 1)
		}
		got <- jobs[0]
	}()
	i.MustPush(t, topic, M{"id": "x", "body": 1, "delay": "300ms"})
	j := <-got
	if early := time.Until(j.DueAt); early > 0 {
		t.Errorf("it was leased %s early", early)
	}
	must(t, c.Ack(t.Context(), j.Lease))
	began := time.Now()
	if jobs, err := c.Reserve(t.Context(),
		client.Reserve{Topics: []string{topic}, Wait: 200 * time.Millisecond}); len(jobs) != 0 ||
		err != nil || time.Since(began) < 200*time.Millisecond {
		t.Errorf("of an empty topic: %d jobs, %v, after %s", len(jobs), err, time.Since(began))
	}
	// A worker that disconnects takes no job with it.
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		_, _ = c.Reserve(ctx, client.Reserve{Topics: []string{topic}, Wait: time.Minute})
		close(left)
	}()
	time.AfterFunc(50*time.Millisecond, leave)
	<-left
	i.MustPush(t, topic, M{"id": "y", "body": 1})
	if j := reserveOne(t, c, topic); j.ID != "y" || j.Attempt != 1 {
		t.Errorf("reserved %+v", j)
	}
}

// handled records the jobs that a worker has done.
type handled struct {
	sync.Mutex
	times map[string]int
}

func (h *handled) note(id string) int {
	h.Lock()
	defer h.Unlock()
	h.times[id]++
	return h.times[id]
}

func (h *handled) has(id string) bool {
	h.Lock()
	defer h.Unlock()
	return h.times[id] > 0
}

func (h *handled) count() int {
	h.Lock()
	defer h.Unlock()
	return len(h.times)
}

// runWorker runs a worker until the returned function is called.
func runWorker(t *testing.T, w *client.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func (i *installation) pullWorker(t *testing.T) {
	topic, c := i.pullTopic(t, M{"max_attempts": 3, "ttr": "1s"}), i.client(t)
	tried, slow := &handled{times: map[string]int{}}, make(chan struct{})
	stop := runWorker(t, &client.Worker{
		Client: c, Topics: []string{topic}, Concurrency: 8,
		Handle: func(_ context.Context, j *client.LeasedJob) error {
			n := tried.note(j.ID)
			switch {
			case j.ID == "slow": // longer than its lease, which is extended
				<-slow
			case j.ID == "bad":
				return client.Buried(errors.New("will never do"))
			case j.ID == "panic" && n == 1:
				panic("at the first attempt")
			case j.ID == "later" && n == 1:
				return client.Released(0)
			case j.ID == "fails":
				return errors.New("no stock")
			}
			return nil
		},
	})
	for n := range 50 {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": n})
	}
	for _, id := range []string{"slow", "bad", "panic", "later", "fails"} {
		i.MustPush(t, topic, M{"id": id, "body": id})
	}
	time.AfterFunc(3*time.Second, func() { close(slow) })
	harness.Eventually(t, soon, "all jobs to be done or dead", func() error {
		if st := i.MustStats(t, topic); st.Ready+st.Running+st.Delayed != 0 || st.Dead != 2 {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	stop()
	for id, want := range map[string]int{"slow": 1, "bad": 1, "panic": 2, "later": 2, "fails": 3, "7": 1} {
		if n := tried.times[id]; n != want {
			t.Errorf("%s had %d attempts; want %d", id, n, want)
		}
	}
}

func (i *installation) pullCommand(t *testing.T) {
	topic := i.pullTopic(t, M{"max_attempts": 2})
	out := filepath.Join(i.Dir, "worked")
	script := `body=$(cat); case "$WAKECALL_ID" in bad) echo "no good" >&2; exit 3;; good) ` + harness.Binary(t) +
		` config >/dev/null || exit 4;; later) test -e ` + out +
		`.later || { touch ` + out + `.later; exit 75; };; esac; echo "$WAKECALL_ID $WAKECALL_ATTEMPT $body" >> ` + out
	for _, id := range []string{"good", "bad", "later"} {
		i.MustPush(t, topic, M{"id": id, "body": "of " + id})
	}
	cmd := exec.Command(harness.Binary(t), "work", topic, "--exec", script, "--concurrency", "2", "--url", i.Base,
		"--token", i.Token)
	cmd.Stderr = &strings.Builder{}
	must(t, cmd.Start())
	harness.Eventually(t, soon, "two jobs to be done and one dead", func() error {
		if st := i.MustStats(t, topic); st.Ready+st.Running+st.Delayed != 0 || st.Dead != 1 {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("wakecall work: %v\n%s", err, cmd.Stderr)
	}
	text, err := os.ReadFile(out)
	if err != nil || strings.Count(string(text), "\n") != 2 || !strings.Contains(string(text), `good 1 "of good"`) ||
		!strings.Contains(string(text), `later 1 "of later"`) {
		t.Errorf("worked: %s, %v", text, err)
	}
	if j := i.MustGet(t, topic, "bad"); j.DeadReason != "attempts" || len(j.History) != 2 ||
		!strings.Contains(j.History[0].Error, "exit status 3: no good") {
		t.Errorf("dead: %+v", j)
	}
}

func (i *installation) pullPages(t *testing.T) {
	topic, c := i.pullTopic(t, M{"ttr": "1h"}), i.client(t)
	for _, id := range []string{"x", "y"} {
		i.MustPush(t, topic, M{"id": id, "body": 1})
	}
	if jobs, err := c.Reserve(t.Context(), client.Reserve{Topics: []string{topic}, Max: 2}); err != nil ||
		len(jobs) != 2 {
		t.Fatalf("reserved %d jobs, %v", len(jobs), err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	waiting := make(chan client.LeasedJob, 1)
	go func() {
		jobs, err := c.Reserve(ctx, client.Reserve{Topics: []string{topic}, Wait: 5 * time.Minute})
		if err != nil || len(jobs) != 1 {
			t.Errorf("reserved %d jobs, %v", len(jobs), err)
			jobs = make([]client.LeasedJob, 1)
		}
		waiting <- jobs[0]
	}()
	b := i.signIn(t)
	b.Open("/topics/" + topic)
	b.Shows(soon, "Workers waiting\n1\n", "Oldest lease since")
	pictured(b, "pull-topic")
	b.Open("/topics/" + topic + "?tab=jobs&state=running")
	b.Shows(soon, "LEASED UNTIL", "2 running jobs")
	pictured(b, "pull-leases")
	b.Open("/topics/" + topic + "/jobs/y")
	b.Click(`form:has(input[value="bury"]) button`)
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "y is dead")
	b.Open("/topics/" + topic + "/jobs/x")
	b.Submit(`button[value="release"]`)
	if j := <-waiting; j.ID != "x" || j.Attempt != 1 {
		t.Errorf("the waiting worker got %+v", j)
	}
	b.Open("/topics/" + topic)
	b.Shows(soon, "Workers waiting\n0\n")
}

// pictured takes pictures of a page, light and dark, wide and narrow, if they are requested.
func pictured(b *harness.Browser, name string) {
	for _, dark := range []bool{false, true} {
		b.Dark(dark)
		for _, width := range []int64{1440, 390} {
			b.Size(width, 900)
			shoot(b, fmt.Sprintf("%s-%v-%d.png", name, dark, width))
		}
	}
	b.Size(1440, 900)
}

func (i *installation) pullMadeByUse(t *testing.T) {
	c, namespace := i.client(t), topicName(t)
	i.MustPutTopic(t, namespace+".*", M{"delivery": "pull", "max_attempts": 0})
	for n := range 20 {
		i.MustPush(t, fmt.Sprint(namespace, ".q", n), M{"id": "x", "body": n})
	}
	if st := i.MustStats(t, namespace+".*"); st.Ready != 20 {
		t.Errorf("the namespace counts %+v", st)
	}
	for n := range 20 {
		must(t, c.Ack(t.Context(), reserveOne(t, c, fmt.Sprint(namespace, ".q", n)).Lease))
	}
	if st := i.MustStats(t, namespace+".*"); st.Ready+st.Running != 0 {
		t.Errorf("the namespace counts %+v", st)
	}
}

// TestPullSurvivesKills: no acknowledged job is lost, and no acked job returns, despite kill -9 of servers, timers and
// Redis.
func TestPullSurvivesKills(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_REDIS_NODES": r.URL()}})
	topic, c := i.pullTopic(t, M{"max_attempts": 0, "ttr": "3s"}), i.client(t)
	done, acked := &handled{times: map[string]int{}}, &handled{times: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				jobs, err := c.Reserve(ctx, client.Reserve{Topics: []string{topic}, Max: 3, Wait: 2 * time.Second})
				if err != nil {
					time.Sleep(20 * time.Millisecond)
				}
				for _, j := range jobs {
					if acked.has(j.ID) {
						t.Errorf("%s was acked but leased again", j.ID)
					}
					done.note(j.ID)
					if c.Ack(context.Background(), j.Lease) == nil {
						acked.note(j.ID)
					}
				}
			}
		})
	}
	pushed := 0
	push := func(n int) {
		for range n {
			id := fmt.Sprint(pushed)
			harness.Eventually(t, soon, "a push", func() error {
				if a := i.Push(t.Context(), topic, M{"id": id, "body": 1, "delay": "200ms"}); a.Err != nil ||
					a.Status/100 != 2 {
					return fmt.Errorf("%s", a)
				}
				return nil
			})
			pushed++
		}
	}
	for round := range 3 {
		push(40)
		i.KillRole("server")
		push(40)
		i.KillRole("timer")
		push(40)
		if round == 1 {
			r.Kill9()
			r.Restart()
		}
	}
	harness.Eventually(t, 2*soon, "all jobs to be done", func() error {
		st, err := i.Stats(t.Context(), topic)
		if left := st.Ready + st.Running + st.Delayed; err != nil || left != 0 || done.count() < pushed {
			return fmt.Errorf("%+v, %d of %d done, %v", st, done.count(), pushed, err)
		}
		return nil
	})
	cancel()
	workers.Wait()
}
