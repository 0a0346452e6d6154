package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// TestJobURL: a job is called at its own URL if its topic allows it, when it is pushed and when it is called. Another
// origin gets the signature, but none of the topic's headers.
func TestJobURL(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	customer := harness.StartEndpoint(t)
	const topic = "hooks"
	def := M{
		"callback_url": i.endpoint.URL("/own"), "headers": M{"Authorization": "Bearer shop", "X-Shop": "1"},
		"secrets": []string{receivingSecret}, "retry": []string{"50ms"}, "max_attempts": 2, "cloudevents": true,
		"job_urls": []string{customer.URL("/hooks/")},
	}
	i.MustPutTopic(t, topic, def)
	url := customer.URL("/hooks/42?key=1")
	customer.Set("/hooks/42", harness.FirstCalls(1, harness.Status(http.StatusBadGateway),
		harness.Status(http.StatusOK)))
	i.MustPush(t, topic, M{"id": "a b", "body": M{"n": 1}, "url": url})
	for n, c := range customer.WaitCalls(t, topic, 2) {
		if c.Path != "/hooks/42" || c.Query.Get("key") != "1" || c.Attempt != n+1 ||
			c.Header.Get("Webhook-Signature") == "" ||
			c.Header.Get("Authorization")+c.Header.Get("X-Shop") != "" {
			t.Errorf("call %d: %s %v", n, c.Path, c.Header)
		}
		for name, want := range map[string]string{
			"specversion": "1.0", "id": c.Header.Get("Webhook-Id"), "source": "/v1/topics/hooks", "type": topic,
			"subject": "a%20b", "time": c.Header.Get("Wakecall-Due-At"),
		} {
			if got := c.Header.Get("ce-" + name); got != want {
				t.Errorf("ce-%s: %q, want %q", name, got, want)
			}
		}
	}
	for bad, field := range map[string]string{
		`"` + customer.URL("/other") + `"`: "url", `"` + customer.URL("/hooks/../other") + `"`: "url",
		`"` + strings.Replace(url, "http:", "https:", 1) + `"`: "url", `"http://u@` + url[len("http://"):] + `"`: "url",
	} {
		a := i.MustDo(t, http.StatusUnprocessableEntity, http.MethodPost, "/v1/topics/hooks/jobs", fmt.Sprintf(
			`{"body":1,"url":%s}`, bad))
		if !strings.Contains(a.String(), `"field":"`+field+`"`) {
			t.Errorf("%s: %s", bad, a)
		}
	}

	// Cleared by PATCH: called at the topic's.
	path := func(id string) string { return harness.JobPath(topic, id) }
	i.MustPush(t, topic, M{"id": "cleared", "body": 1, "url": url, "delay": "1h"})
	i.MustDo(t, http.StatusOK, http.MethodPatch, path("cleared"), M{"priority": "high"})
	if a := i.MustDo(t, http.StatusOK, http.MethodGet, path("cleared"), nil); !strings.Contains(a.String(), url) {
		t.Errorf("kept: %s", a)
	}
	i.MustDo(t, http.StatusOK, http.MethodPatch, path("cleared"), M{"url": nil, "delay": 0})
	own := i.endpoint.WaitCalls(t, topic, 1)[0]
	if own.ID != "cleared" || own.Header.Get("Authorization") != "Bearer shop" {
		t.Errorf("cleared: %+v", own)
	}

	// From the command line, with a local due time. Then the pattern is removed, and the job is not called.
	code, out := i.Run("push", topic, "--id", "removed", "--body", "{}", "--callback-url", url,
		"--due", "2031-03-30T02:30:00", "--time-zone", "Europe/Berlin")
	if code != 0 || !strings.Contains(out, url) {
		t.Fatalf("push: %d %s", code, out)
	}
	if due := i.MustGet(t, topic, "removed").DueAt; !due.Equal(time.Date(2031, 3, 30, 1, 0, 0, 0, time.UTC)) {
		t.Errorf("due at %s, want the first instant after the gap", due)
	}
	if code, out := i.Run("topic", "show", topic); code != 0 || !strings.Contains(out, customer.URL("/hooks/")) {
		t.Errorf("topic show: %d %s", code, out)
	}
	delete(def, "job_urls")
	i.MustPutTopic(t, topic, def)
	i.MustDo(t, http.StatusAccepted, http.MethodPost, path("removed")+"/run", nil)
	harness.Eventually(t, soon, "it is dead", func() error {
		return harness.Equal("its state", i.MustGet(t, topic, "removed").State, "dead")
	})
	job := i.MustGet(t, topic, "removed")
	if len(job.History) != 2 || !strings.Contains(job.History[1].Error, "job_urls") || job.History[1].Status != 0 {
		t.Errorf("%+v", job.History)
	}
	if n := len(customer.Calls(topic)); n != 2 {
		t.Errorf("%d calls of the customer, want 2", n)
	}
}
