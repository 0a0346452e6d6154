package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/wakecall/wakecall/test/harness"
)

// TestCallbacks: what answers mean, how failures are retried, and where a job ends.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	t.Run("retries by the topic's list and then is dead", i.retriesThenDead)
	t.Run("redrive", i.redrive)
	t.Run("dead job is run and deleted", i.deadRunAndDelete)
	t.Run("retry_if decides", i.retryIf)
	t.Run("retry_if that is wrong is refused", i.retryIfRefused)
	t.Run("410 is final", i.gone)
	t.Run("Retry-After of 429 and 503 is waited for", i.retryAfter)
	t.Run("202 with Retry-After is a snooze", i.snooze)
	t.Run("redirect is a failure", i.redirect)
	t.Run("signatures", i.signatures)
	t.Run("GET sends the members as query", i.getQuery)
	t.Run("form", i.form)
	t.Run("expired job is not called but dead", i.expires)
	t.Run("metadata address is refused", i.metadataAddress)
}

func (i *installation) retriesThenDead(t *testing.T) {
	topic := i.topic(t, harness.Text(http.StatusInternalServerError, "no stock"),
		M{"retry": []string{"100ms", "200ms"}, "max_attempts": 4})
	i.MustPush(t, topic, M{"id": "x", "body": 1})
	j := i.waitState(t, topic, "x", "dead")

	calls := i.endpoint.Calls(topic)
	if len(calls) != 4 || j.Attempts != 4 || len(j.History) != 4 {
		t.Fatalf("%d calls, %d attempts, history %+v, want 4 of each", len(calls), j.Attempts, j.History)
	}
	for n, pause := range []time.Duration{100, 200, 200} { // the last wait repeats
		pause *= time.Millisecond
		if got := calls[n+1].At.Sub(calls[n].At); got < pause || got > pause+busy {
			t.Errorf("%s between calls %d and %d, want %s", got, n+1, n+2, pause)
		}
	}
	for n, a := range j.History {
		if a.N != n+1 || calls[n].Attempt != n+1 || a.Status != 500 || a.Answer != "no stock" || a.StartedAt.IsZero() {
			t.Errorf("history %d is %+v, its call had Wakecall-Attempt %d", n, a, calls[n].Attempt)
		}
	}
	if s := i.MustStats(t, topic); s.Dead != 1 || s.Delayed+s.Ready+s.Running != 0 {
		t.Errorf("stats are %+v", s)
	}
	if dead := i.MustList(t, topic, "dead"); len(dead) != 1 || dead[0].ID != "x" {
		t.Errorf("the dead jobs are %+v", dead)
	}
}

// deadTopic is a topic with n jobs that became dead after one attempt.
func (i *installation) deadTopic(t *testing.T, n int) string {
	t.Helper()
	topic := i.topic(t, harness.Status(http.StatusBadRequest), M{"max_attempts": 1})
	for k := range n {
		i.MustPush(t, topic, M{"id": fmt.Sprint("job-", k), "body": k})
	}
	harness.Eventually(t, soon, "the jobs to be dead", func() error {
		return harness.Equal("dead", i.MustStats(t, topic).Dead, n)
	})
	return topic
}

func (i *installation) redrive(t *testing.T) {
	topic := i.deadTopic(t, 5)
	i.endpoint.Set("/"+topic, nil)
	i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/topics/"+topic+"/dead/retry", M{"ids": []string{"job-1", "job-3"}})
	for _, c := range i.endpoint.WaitCalls(t, topic, 7)[5:] {
		if (c.ID != "job-1" && c.ID != "job-3") || c.Attempt != 1 {
			t.Errorf("%s was called with attempt %d", c.ID, c.Attempt)
		}
	}
	i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/topics/"+topic+"/dead/retry", M{"limit": 100})
	i.endpoint.WaitCalls(t, topic, 10)
	harness.Eventually(t, soon, "the topic to be empty", func() error {
		s := i.MustStats(t, topic)
		return harness.Equal("its jobs", s.Dead+s.Delayed+s.Ready+s.Running, 0)
	})
}

func (i *installation) deadRunAndDelete(t *testing.T) {
	topic := i.deadTopic(t, 4)
	i.endpoint.Set("/"+topic, nil)
	i.MustDo(t, http.StatusAccepted, http.MethodPost, harness.JobPath(topic, "job-0")+"/run", nil)
	if c := i.endpoint.WaitCalls(t, topic, 5)[4]; c.ID != "job-0" || c.Attempt != 1 {
		t.Errorf("%s was called with attempt %d", c.ID, c.Attempt)
	}
	i.MustDo(t, http.StatusNoContent, http.MethodDelete, harness.JobPath(topic, "job-1"), nil)
	answer := i.Do(ctx, http.MethodPost, "/v1/topics/"+topic+"/dead/delete", M{"ids": []string{"job-2"}})
	if answer.Err != nil || answer.Status/100 != 2 {
		t.Fatalf("DELETE of dead jobs: %s", answer)
	}
	if dead := i.MustList(t, topic, "dead"); len(dead) != 1 || dead[0].ID != "job-3" {
		t.Errorf("%+v are left, want job-3", dead)
	}
}

func (i *installation) retryIf(t *testing.T) {
	for name, c := range map[string]struct{ expr, bad, good string }{
		"json":   {`res.code != 200`, `{"code":500}`, `{"code":200}`},
		"braces": {`{res.code}!=200`, `{"code":500}`, `{"code":200}`},
		"nested": {`res.code != 200 && res.data.status != 2`, `{"code":1,"data":{"status":1}}`,
			`{"code":1,"data":{"status":2}}`},
		"body":   {`body == ""`, ``, `x`},
		"status": {`status != 201`, ``, ``},
	} {
		t.Run(name, func(t *testing.T) {
			bad, good := harness.Text(http.StatusOK, c.bad), harness.Text(http.StatusCreated, c.good)
			topic := i.topic(t, harness.FirstCalls(1, bad, good), M{"retry_if": c.expr, "retry": []string{"50ms"}})
			i.MustPush(t, topic, M{"id": "x", "body": 1})
			i.endpoint.WaitCalls(t, topic, 2)
			i.waitGone(t, topic, "x")
			if n := len(i.endpoint.Calls(topic)); n != 2 {
				t.Errorf("%d calls, want a failed and a successful one", n)
			}
		})
	}
}

func (i *installation) retryIfRefused(t *testing.T) {
	answer := i.MustDo(t, http.StatusBadRequest, http.MethodPut, "/v1/topics/wrong-expression",
		M{"callback_url": i.endpoint.URL("/"), "retry_if": "res.code !! 200"})
	var p harness.Problem
	if err := answer.JSON(&p); err != nil || p.Field != "retry_if" || !strings.ContainsAny(p.Detail, "0123456789") {
		t.Errorf("%+v, want field retry_if and the position of the mistake", p)
	}
	i.MustDo(t, http.StatusNotFound, http.MethodGet, "/v1/topics/wrong-expression", nil)
}

func (i *installation) gone(t *testing.T) {
	topic := i.topic(t, harness.Status(http.StatusGone), M{"retry": []string{"50ms"}})
	i.MustPush(t, topic, M{"id": "x", "body": 1})
	if j := i.waitState(t, topic, "x", "dead"); j.Attempts != 1 || len(i.endpoint.Calls(topic)) != 1 {
		t.Errorf("%d attempts, %d calls, want 1", j.Attempts, len(i.endpoint.Calls(topic)))
	}
}

func (i *installation) retryAfter(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			topic := i.topic(t, harness.FirstCalls(1, harness.Status(status, "Retry-After", "2"), harness.Status(200)),
				M{"retry": []string{"50ms"}})
			i.MustPush(t, topic, M{"id": "x", "body": 1})
			calls := i.endpoint.WaitCalls(t, topic, 2)
			if pause := calls[1].At.Sub(calls[0].At); pause < 2*time.Second {
				t.Errorf("called again after %s, want 2s", pause)
			}
			if calls[1].Attempt != 2 {
				t.Errorf("the second call has attempt %d: a failure counts", calls[1].Attempt)
			}
		})
	}
}

func (i *installation) snooze(t *testing.T) {
	topic := i.topic(t, harness.FirstCalls(2, harness.Status(http.StatusAccepted, "Retry-After", "1"),
		harness.Status(200)),
		M{"max_attempts": 1})
	i.MustPush(t, topic, M{"id": "x", "body": 1})
	calls := i.endpoint.WaitCalls(t, topic, 3)
	for n := range 2 {
		if pause := calls[n+1].At.Sub(calls[n].At); pause < time.Second {
			t.Errorf("called again after %s, want 1s", pause)
		}
	}
	for _, c := range calls {
		if c.Attempt != 1 {
			t.Errorf("attempt %d in a row of snoozes, want 1", c.Attempt)
		}
	}
	i.waitGone(t, topic, "x")

	plain := i.topic(t, harness.Status(http.StatusAccepted), nil)
	i.MustPush(t, plain, M{"id": "plain", "body": 1})
	i.waitGone(t, plain, "plain")
}

func (i *installation) redirect(t *testing.T) {
	topic := i.topic(t, harness.Redirect(i.endpoint.URL("/target")), M{"max_attempts": 1})
	i.MustPush(t, topic, M{"id": "x", "body": 1})
	if j := i.waitState(t, topic, "x", "dead"); j.History[0].Status != http.StatusFound {
		t.Errorf("history is %+v, want status 302", j.History)
	}
	for _, c := range i.endpoint.Calls("") {
		if c.Path == "/target" {
			t.Error("the redirect was followed")
		}
	}
}

func (i *installation) signatures(t *testing.T) {
	secrets := []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}
	topic := i.topic(t, harness.FirstCalls(1, harness.Status(500), harness.Status(200)),
		M{"secrets": secrets, "retry": []string{"1100ms"}}) // so that the second timestamp differs
	i.MustPush(t, topic, M{"id": "a.b.c", "body": M{"test": 2432232314}})
	calls := i.endpoint.WaitCalls(t, topic, 2)
	for _, c := range calls {
		for _, secret := range secrets {
			wh, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			if err := wh.Verify(c.Body, c.Header); err != nil {
				t.Errorf("attempt %d, secret %s: %v", c.Attempt, secret, err)
			}
			if err := wh.Verify(append([]byte{' '}, c.Body...), c.Header); err == nil {
				t.Error("a changed body verifies")
			}
		}
	}
	first, second := calls[0].Header, calls[1].Header
	if id := first.Get("webhook-id"); id == "" || strings.Contains(id, ".") || id != second.Get("webhook-id") {
		t.Errorf("webhook-id is %q and then %q, want the same without a dot", id, second.Get("webhook-id"))
	}
	if first.Get("webhook-timestamp") == second.Get("webhook-timestamp") {
		t.Error("the second attempt has the first one's timestamp")
	}
	if got := i.MustDo(t, http.StatusOK, http.MethodGet, "/v1/topics/"+topic, nil); strings.Contains(string(got.Body),
		"whsec_") {
		t.Errorf("a secret is shown: %s", got)
	}
}

func (i *installation) getQuery(t *testing.T) {
	topic := i.topic(t, nil, M{"method": "GET"})
	i.MustPush(t, topic, M{"id": "x", "body": M{"order": 42, "name": "ü &=", "ok": true}})
	c := i.endpoint.WaitCalls(t, topic, 1)[0]
	if c.Method != http.MethodGet || c.Query.Get("order") != "42" || c.Query.Get("name") != "ü &=" ||
		c.Query.Get("ok") != "true" || len(c.Body) > 0 {
		t.Errorf("%s with query %v and body %q", c.Method, c.Query, c.Body)
	}
}

func (i *installation) form(t *testing.T) {
	topic := i.topic(t, nil, M{"content_type": "form"})
	i.MustPush(t, topic, M{"id": "x", "body": M{"order": 42, "name": "a b&c"}})
	c := i.endpoint.WaitCalls(t, topic, 1)[0]
	if got := c.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/x-www-form-urlencoded") {
		t.Errorf("Content-Type is %q", got)
	}
	if got := string(c.Body); got != "name=a+b%26c&order=42" && got != "order=42&name=a+b%26c" {
		t.Errorf("body is %q", got)
	}
}

func (i *installation) expires(t *testing.T) {
	topic := i.topic(t, nil, M{"state": "paused", "expires_after": "200ms"})
	i.MustPush(t, topic, M{"id": "x", "body": 1})
	harness.Eventually(t, soon, "the oldest ready job to be 300ms overdue", func() error {
		if s := i.MustStats(t, topic); s.OldestReadyMS < 300 {
			return fmt.Errorf("stats are %+v", s)
		}
		return nil
	})
	i.put(t, topic, nil, M{"expires_after": "200ms"})
	if j := i.waitState(t, topic, "x", "dead"); j.Attempts != 0 || j.DeadReason != "expired" {
		t.Errorf("%+v, want no attempt and the reason expired", j)
	}
	if calls := i.endpoint.Calls(topic); len(calls) > 0 {
		t.Errorf("called at %s", calls[0].At)
	}
}

func (i *installation) metadataAddress(t *testing.T) {
	for name, url := range map[string]string{
		"plain": "http://169.254.169.254/latest/meta-data/", "mapped": "http://[::ffff:169.254.169.254]/",
		"unspecified": "http://0.0.0.0:80/",
	} {
		t.Run(name, func(t *testing.T) {
			topic := topicName(t)
			answer := i.Do(ctx, http.MethodPut, "/v1/topics/"+topic, M{"callback_url": url, "max_attempts": 1})
			if answer.Status == http.StatusBadRequest || answer.Status == http.StatusUnprocessableEntity {
				return // it was refused when it was saved, which is as good
			}
			i.MustPush(t, topic, M{"id": "x", "body": 1})
			if j := i.waitState(t, topic, "x", "dead"); j.History[0].Status != 0 || j.History[0].Error == "" {
				t.Errorf("history is %+v, want an error with the reason", j.History)
			}
		})
	}
}
