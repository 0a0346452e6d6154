package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/redistest"
)

// The tests of lost answers cut the reply to the script of each request. The request was executed; so its answer says
// so, or that its outcome is unknown (503), never that there was nothing to do, or that somebody else did it.

func TestDeploymentLostAnswersStandalone(t *testing.T) { lostAnswers(t, redistest.StartStandalone) }
func TestDeploymentLostAnswersShards(t *testing.T)     { lostAnswers(t, redistest.StartShards) }
func TestDeploymentLostAnswersCluster(t *testing.T)    { lostAnswers(t, redistest.StartMasters) }
func TestDeploymentLostAnswersSentinel(t *testing.T)   { lostAnswers(t, redistest.Kinds["sentinel"]) }

func lostAnswers(t *testing.T, start func(testing.TB) *redistest.Deployment) {
	t.Parallel()
	needProcesses(t)
	l := newLoser(t, start(t))
	each := harness.Sample(2000/7, 30)
	for name, test := range map[string]func(*testing.T, int){
		"Push": l.push, "Delete": l.deletion, "Change": l.change, "Redrive": l.redrive,
		"Reserve": l.reserve, "Ack": l.ack, "Fail": l.fail,
	} {
		t.Run(name, func(t *testing.T) { test(t, each) })
	}
}

// loser makes requests whose first answer from Redis is lost.
type loser struct {
	*installation
	d *redistest.Deployment
	n atomic.Int64
}

// spreadTopics are enough for all nodes to have some.
const spreadTopics = 8

func newLoser(t *testing.T, d *redistest.Deployment) *loser {
	t.Helper()
	l := &loser{installation: &installation{}, d: d}
	*l.installation = *start(t, on(d))
	for n := range spreadTopics {
		for _, kind := range []string{"delayed", "dying", "reserved", "acked", "failed"} {
			fields := M{"delivery": "pull", "ttr": "10m", "retry": []string{"0s"}, "max_attempts": 3}
			if kind == "delayed" {
				fields = M{"callback_url": l.endpoint.URL("/")}
			}
			l.MustPutTopic(t, fmt.Sprint(kind, "-", n), fields)
		}
	}
	return l
}

// next returns a topic of a kind, and an id that no other job has.
func (l *loser) next(kind string) (topic, id string) {
	n := l.n.Add(1)
	return fmt.Sprint(kind, "-", n%spreadTopics), fmt.Sprintf("lost-%d-", n)
}

// losing makes a request; the first reply to a script with the word is cut.
func (l *loser) losing(t *testing.T, word, method, path string, body any, header http.Header) harness.Answer {
	t.Helper()
	var lost atomic.Int64
	for _, n := range l.d.Nodes {
		n.Proxy.CutReply(func(request []byte) bool {
			upper := bytes.ToUpper(request[:min(len(request), 64)])
			return bytes.Contains(upper, []byte("EVALSHA")) && bytes.Contains(request, []byte(word)) && lost.Add(1) == 1
		})
	}
	answer := l.Quick().DoHeader(ctx, method, path, body, header)
	for _, n := range l.d.Nodes {
		n.Proxy.KeepReplies()
	}
	if lost.Load() == 0 {
		t.Fatalf("no reply to %s %s was cut; it is answered %s", method, path, answer)
	}
	return answer
}

// count counts answers by their status.
type count map[int]int

// judge records an answer, and reports whether it is the one for a success.
func (c count) judge(t *testing.T, answer harness.Answer, success int) bool {
	t.Helper()
	c[answer.Status]++
	if answer.Status != success && answer.Status != http.StatusServiceUnavailable {
		t.Errorf("answered %s, want %d or 503", answer, success)
	}
	if answer.Status == http.StatusServiceUnavailable && answer.Code() != "outcome_unknown" {
		t.Errorf("answered %s, which is not the code of an unknown outcome", answer)
	}
	return answer.Status == success
}

func (l *loser) push(t *testing.T, times int) {
	answers := count{}
	for range times {
		topic, id := l.next("delayed")
		answer := l.losing(t, id, http.MethodPost, "/v1/topics/"+topic+"/jobs",
			M{"id": id, "body": 1, "delay": "1h", "on_duplicate": "error"}, nil)
		if answers.judge(t, answer, http.StatusCreated) {
			l.journaled(t, "push", topic, id)
			l.MustGet(t, topic, id)
		}
	}
	t.Logf("answers: %v", answers)
}

func (l *loser) deletion(t *testing.T, times int) {
	answers := count{}
	for range times {
		topic, id := l.next("delayed")
		l.MustPush(t, topic, M{"id": id, "body": 1, "delay": "1h"})
		answer := l.losing(t, id, http.MethodDelete, harness.JobPath(topic, id), nil, nil)
		if answers.judge(t, answer, http.StatusNoContent) {
			l.journaled(t, "delete", topic, id)
		}
		if got := l.Do(ctx, http.MethodGet, harness.JobPath(topic, id), nil); got.Status != http.StatusNotFound {
			t.Errorf("after its deletion, the job is answered %s", got)
		}
	}
	t.Logf("answers: %v", answers)
}

func (l *loser) change(t *testing.T, times int) {
	answers := count{}
	for range times {
		topic, id := l.next("delayed")
		l.MustPush(t, topic, M{"id": id, "body": 1, "delay": "1h"})
		path := harness.JobPath(topic, id)
		etag := l.MustDo(t, http.StatusOK, http.MethodGet, path, nil).Header.Get("ETag")
		answer := l.losing(t, id, http.MethodPatch, path, M{"body": 2}, http.Header{"If-Match": {etag}})
		if answers.judge(t, answer, http.StatusOK) {
			l.journaled(t, "change", topic, id)
		}
		if got := l.MustGet(t, topic, id); string(got.Body) != "2" {
			t.Errorf("after its change, the job has the body %s", got.Body)
		}
	}
	t.Logf("answers: %v", answers)
}

// redrive re-drives two of four dead jobs by a limit: never more.
func (l *loser) redrive(t *testing.T, times int) {
	answers := count{}
	for range times {
		topic, id := l.next("dying")
		for n := range 4 {
			l.MustPush(t, topic, M{"id": fmt.Sprint(id, n), "body": 1})
		}
		for _, j := range l.take(t, topic, 4) {
			l.MustDo(t, http.StatusNoContent, http.MethodPost, "/v1/leases/"+j.Lease+"/bury", M{"reason": "test"})
		}
		answer := l.losing(t, topic, http.MethodPost, "/v1/topics/"+topic+"/dead/retry", M{"limit": 2}, nil)
		if answers.judge(t, answer, http.StatusOK) {
			var body struct{ Count int }
			if err := errors.Join(answer.JSON(&body), harness.Equal("count", body.Count, 2)); err != nil {
				t.Error(err)
			}
		}
		dead := l.MustStats(t, topic).Dead // all, if the lost reply said that Redis does not know the script yet
		if dead < 2 || dead > 2 && answer.Status == http.StatusOK && l.d.Kind != "shards" {
			t.Errorf("a limit of 2 of 4 leaves %d dead", dead)
		}
		l.clear(t, topic)
	}
	t.Logf("answers: %v", answers)
}

// clear deletes all jobs of a pull topic.
func (l *loser) clear(t *testing.T, topic string) {
	t.Helper()
	l.MustDo(t, http.StatusOK, http.MethodPost, "/v1/topics/"+topic+"/dead/retry", M{"limit": 100})
	for s := l.MustStats(t, topic); s.Ready > 0; s = l.MustStats(t, topic) {
		for _, j := range l.take(t, topic, min(s.Ready, 10)) {
			l.MustDo(t, http.StatusNoContent, http.MethodPost, "/v1/leases/"+j.Lease+"/ack", nil)
		}
	}
}

// take reserves that many jobs.
func (l *loser) take(t *testing.T, topic string, want int) (jobs []client.LeasedJob) {
	t.Helper()
	harness.Eventually(t, soon, "jobs to be reserved", func() error {
		got, err := leased(l.Do(ctx, http.MethodPost, "/v1/reserve",
			M{"topics": []string{topic}, "max": want - len(jobs), "wait": "1s"}))
		jobs = append(jobs, got...)
		if err == nil && len(jobs) < want {
			err = fmt.Errorf("%d of %d jobs", len(jobs), want)
		}
		return err
	})
	return jobs
}

func leased(answer harness.Answer) ([]client.LeasedJob, error) {
	var got struct{ Jobs []client.LeasedJob }
	if answer.Status == http.StatusNoContent {
		return nil, nil
	}
	err := answer.JSON(&got)
	return got.Jobs, err
}

// reserve: every job that is leased is in the answer, under its first attempt.
func (l *loser) reserve(t *testing.T, times int) {
	answers := count{}
	for range times {
		topic, id := l.next("reserved")
		for n := range 3 {
			l.MustPush(t, topic, M{"id": fmt.Sprint(id, n), "body": 1})
		}
		answer := l.losing(t, topic, http.MethodPost, "/v1/reserve", M{"topics": []string{topic}, "max": 3}, nil)
		answers.judge(t, answer, http.StatusOK)
		jobs, err := leased(answer)
		if err != nil {
			t.Error(err)
		}
		harness.Eventually(t, 20*time.Second, "the jobs that are not in the answer to be released", func() error {
			return harness.Equal("leased", l.MustStats(t, topic).Running, len(jobs))
		})
		rest := l.MustStats(t, topic).Ready
		if rest > 0 {
			jobs = append(jobs, l.take(t, topic, rest)...)
		}
		for _, j := range jobs {
			if j.Attempt != 1 {
				t.Errorf("%s has attempt %d", j.ID, j.Attempt)
			}
			l.MustDo(t, http.StatusNoContent, http.MethodPost, "/v1/leases/"+j.Lease+"/ack", nil)
		}
	}
	t.Logf("answers: %v", answers)
}

func (l *loser) ack(t *testing.T, times int) {
	answers := count{}
	for range times {
		topic, id := l.next("acked")
		l.MustPush(t, topic, M{"id": id, "body": 1})
		j := l.take(t, topic, 1)[0]
		answer := l.losing(t, j.ID, http.MethodPost, "/v1/leases/"+j.Lease+"/ack", nil, nil)
		if answers.judge(t, answer, http.StatusNoContent) {
			l.journaled(t, "", topic, j.ID)
		}
		l.waitGone(t, topic, j.ID)
	}
	t.Logf("answers: %v", answers)
}

// fail: the attempt counts once.
func (l *loser) fail(t *testing.T, times int) {
	answers := count{}
	for range times {
		topic, id := l.next("failed")
		l.MustPush(t, topic, M{"id": id, "body": 1})
		j := l.take(t, topic, 1)[0]
		answer := l.losing(t, j.ID, http.MethodPost, "/v1/leases/"+j.Lease+"/fail", M{"reason": "test"}, nil)
		if answers.judge(t, answer, http.StatusNoContent) {
			l.journaled(t, "", topic, j.ID)
		}
		again := l.take(t, topic, 1)[0]
		if again.ID != j.ID || again.Attempt != 2 {
			t.Errorf("after one failure, %s has attempt %d", again.ID, again.Attempt)
		}
		l.MustDo(t, http.StatusNoContent, http.MethodPost, "/v1/leases/"+again.Lease+"/ack", nil)
	}
	t.Logf("answers: %v", answers)
}

// journaled checks that the journal has a line of an accepted change; op "": of the end of an attempt, whose line may be
// written a moment later.
func (l *loser) journaled(t *testing.T, op, topic, id string) {
	t.Helper()
	if op != "" {
		if n := l.lines(t, "request", op, topic, id); n != 1 {
			t.Errorf("the journal has %d lines of the %s of %s/%s", n, op, topic, id)
		}
		return
	}
	harness.Eventually(t, 10*time.Second, "the attempt's line", func() error {
		return harness.Equal("lines", l.lines(t, "notify", op, topic, id), 1)
	})
}

func (l *loser) lines(t *testing.T, stream, op, topic, id string) (found int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.Data, "journal", stream+"-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line struct{ Op, Topic, ID string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Op == op && line.Topic == topic && line.ID == id {
				found++
			}
		}
	}
	return found
}

func TestDeploymentAttemptsStandalone(t *testing.T) { lostAttempts(t, redistest.StartStandalone) }
func TestDeploymentAttemptsShards(t *testing.T)     { lostAttempts(t, redistest.StartShards) }
func TestDeploymentAttemptsCluster(t *testing.T)    { lostAttempts(t, redistest.StartMasters) }
func TestDeploymentAttemptsSentinel(t *testing.T)   { lostAttempts(t, redistest.Kinds["sentinel"]) }

// lostAttempts: while answers of Redis get lost at random, every job is called twice, because its endpoint refuses it
// first; no attempt is counted twice, no push is stored twice.
func lostAttempts(t *testing.T, begin func(testing.TB) *redistest.Deployment) {
	t.Parallel()
	needProcesses(t)
	d := begin(t)
	i := start(t, on(d))
	var topics []string
	for n := range spreadTopics {
		topics = append(topics, fmt.Sprint("attempts-", n))
		i.put(t, topics[n], harness.FirstCalls(1, harness.Status(400), harness.Status(200)), M{"retry": []string{"100ms"}})
	}
	for _, n := range d.Nodes {
		n.Proxy.Set(harness.Trouble{Lose: 1.0 / 7})
	}
	ledger, jobs := harness.NewLedger(), harness.Sample(600, 60)
	for n := range jobs {
		harness.Eventually(t, soon, "the push", func() error { // retried after a 503, as clients do
			a := ledger.Push(ctx, i.Quick(), topics[n%len(topics)], fmt.Sprint(n), M{"delay": "50ms"})
			if a.Err != nil || a.Status >= 500 {
				return errors.New(a.String())
			}
			return nil
		})
	}
	harness.Eventually(t, soon, "all calls", func() error { return ledger.AllCalled(i.endpoint) })
	d.Heal()
	twice := 0
	if d.Kind == "shards" { // a push whose answer is lost goes to the other shard, too
		twice = jobs
	}
	ledger.Verdict(t, i.API, i.endpoint, twice)
	calls := map[string][]int{}
	for _, c := range i.endpoint.Calls("") {
		calls[c.ID] = append(calls[c.ID], c.Attempt)
	}
	for n := range jobs {
		got := calls[fmt.Sprint(n)]
		slices.Sort(got)
		if twice > 0 {
			got = slices.Compact(got)
		}
		if !slices.Equal(got, []int{1, 2}) {
			t.Errorf("job %d had the attempts %v, want 1 and 2", n, got)
		}
	}
}
