package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
)

// TestFinishedJobs: "was order-42 called, when, what came back?"
func TestFinishedJobs(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	t.Run("the last ones are found and sent again", i.finishedLast)
	t.Run("of a duration they are duplicates", i.finishedFor)
	t.Run("by the command line", i.finishedCommands)
	t.Run("0 remembers nothing", i.finishedNot)
}

// waitDone waits until a job is finished.
func waitDone(t *testing.T, c *client.Client, topic, id string) *client.Job {
	t.Helper()
	var job *client.Job
	harness.Eventually(t, soon, id+" to be done", func() (err error) {
		if job, err = c.Get(t.Context(), topic, id); err != nil {
			return err
		}
		return harness.Equal("state", job.State, client.Done)
	})
	return job
}

func (i *installation) finishedLast(t *testing.T) {
	topic, c := i.topic(t, nil, nil), i.client(t)
	i.MustPush(t, topic, M{"id": "order-42", "body": M{"n": 42}, "delay": "100ms"})
	job := waitDone(t, c, topic, "order-42")
	if job.FinishedAt == nil || job.LateMS == nil || *job.LateMS < 0 || job.Attempts != 1 ||
		string(job.Body) != `{"n":42}` ||
		len(job.History) != 1 || job.History[0].Status != 200 || job.FinishedAt.Before(job.DueAt) {
		t.Errorf("finished: %+v", job)
	}
	i.MustGet(t, topic, "order-42") // as the OpenAPI document describes it
	i.MustPush(t, topic, M{"id": "order-43", "body": 1})
	waitDone(t, c, topic, "order-43")
	page, err := c.List(t.Context(), topic, client.ListOptions{State: client.Done, Prefix: "order-4"})
	if err != nil || len(page.Jobs) != 2 || page.Jobs[0].ID != "order-43" {
		t.Errorf("list = %+v, %v", page, err)
	}
	if _, err := c.Resend(t.Context(), topic, "order-42"); err != nil {
		t.Fatal(err)
	}
	if calls := i.endpoint.WaitCalls(t, topic, 3); string(calls[2].Body) != `{"n":42}` {
		t.Errorf("called again with %s", calls[2].Body)
	}
	if again := i.MustPush(t, topic, M{"id": "order-43", "body": 1, "delay": "1h"}); again.Duplicate {
		t.Errorf("one of the last jobs is a duplicate: %+v", again)
	}
	var topicAnswer struct{ Remember string }
	if err := i.MustDo(t, http.StatusOK, http.MethodGet, "/v1/topics/"+topic, nil).JSON(&topicAnswer); err != nil ||
		topicAnswer.Remember != "last" {
		t.Errorf("remember = %q, %v", topicAnswer.Remember, err)
	}
}

func (i *installation) finishedFor(t *testing.T) {
	topic, c := i.topic(t, nil, M{"remember": "24h"}), i.client(t)
	i.MustPush(t, topic, M{"id": "a", "body": 1})
	waitDone(t, c, topic, "a")
	answer := i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"id": "a", "body": 2})
	var job harness.Job
	if err := answer.JSON(&job); err != nil || !job.Duplicate || job.State != client.Done {
		t.Errorf("push of a finished id: %s", answer)
	}
	i.MustDo(t, http.StatusConflict, http.MethodPost, "/v1/topics/"+topic+"/jobs",
		M{"id": "a", "body": 2, "on_duplicate": "error"})
	if n := len(i.endpoint.Calls(topic)); n != 1 {
		t.Errorf("called %d times", n)
	}
	i.MustPush(t, topic, M{"id": "a", "body": 2, "on_duplicate": "replace"})
	i.endpoint.WaitCalls(t, topic, 2)
}

func (i *installation) finishedCommands(t *testing.T) {
	topic := i.topic(t, nil, nil)
	i.MustPush(t, topic, M{"id": "order-42", "body": 1})
	waitDone(t, i.client(t), topic, "order-42")
	if out := i.succeeds(t, "get", topic, "order-42"); !strings.Contains(out, "done") || !strings.Contains(out, "200") {
		t.Errorf("get tells\n%s", out)
	}
	if out := i.succeeds(t, "list", topic, "--state", "done", "--prefix", "order"); !strings.Contains(out, "order-42") {
		t.Errorf("list tells\n%s", out)
	}
	i.succeeds(t, "resend", topic, "order-42")
	i.endpoint.WaitCalls(t, topic, 2)
}

func (i *installation) finishedNot(t *testing.T) {
	topic, c := i.topic(t, nil, M{"remember": 0}), i.client(t)
	i.MustPush(t, topic, M{"id": "a", "body": 1})
	i.waitGone(t, topic, "a")
	if job, err := c.Get(t.Context(), topic, "a"); err == nil {
		t.Errorf("remembered: %+v", job)
	}
}

// TestThePageOfAJobFollowsItToTheEnd: it changes from delayed to delivered without a reload, links from attempts lead
// to it, and the job can be sent again.
func TestThePageOfAJobFollowsItToTheEnd(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	b := i.signIn(t)
	i.MustPush(t, topic, M{"id": "order-42", "body": M{"n": 42}, "delay": "5s"})
	b.Open("/topics/" + topic + "/jobs/order-42")
	b.Shows(soon, "Delayed")
	b.Shows(soon, "Delivered", "200", "late", "Resend")
	if n := harness.Evaluate[int](b, `document.querySelectorAll("#content time:not([title])").length`); n > 0 {
		t.Errorf("%d times are not in the browser's time zone", n)
	}
	i.MustPush(t, topic, M{"id": "later-1", "body": M{"n": 1}, "delay": "1h"})
	b.Open("/topics/" + topic + "/jobs/later-1")
	b.Submit(`main button[value=run]`)
	b.Shows(soon, "later-1 is now due.", "Delivered", "Resend") // both at once
	i.MustPush(t, topic, M{"id": "later-2", "body": M{"n": 2}, "delay": "1h"})
	b.Open("/topics/" + topic + "/jobs/later-2")
	b.Click(`main form:has([value=delete]) .btn`)
	harness.Evaluate[chromedp.Void](b, `document.addEventListener("htmx:oobBeforeSwap",
		() => { document.querySelector("[data-text]").textContent += " Newer."; })`)
	i.MustDo(t, http.StatusOK, http.MethodPatch, "/v1/topics/"+topic+"/jobs/later-2", M{"delay": "2h"})
	b.Shows(soon, "Newer.")
	b.Submit(`#wk-confirm [data-ok]`) // the form still shows it
	b.Shows(soon, "later-2 was deleted.")
	harness.Eventually(t, soon, "the attempt to be listed", func() error {
		b.Open("/topics/" + topic + "?tab=attempts")
		if !strings.Contains(b.Text(), "order-42") {
			return fmt.Errorf("the page shows %.800s", b.Text())
		}
		return nil
	})
	b.Submit(`main a[href$="/jobs/order-42"]`)
	b.Shows(soon, "Delivered", "Resend")
	b.Click(`main button.btn-primary`)
	b.Shows(soon, "called once more")
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "order-42 is resent.")
	i.endpoint.WaitCalls(t, topic, 3)
	b.Open("/topics/" + topic + "?tab=jobs&state=done&id=order")
	b.Shows(soon, "order-42")
	b.Open("/search?id=order-42")
	b.Shows(soon, "Delivered", "Resend")
	b.Open("/search?id=order-4")
	b.Shows(soon, "order-42", "Delivered", "HTTP 200", "late")
	b.Speak("zh")
	b.Open("/topics/" + topic + "/jobs/order-42")
	b.Shows(soon, "已送达", "延误", "重新发送")

	i.MustPutTopic(t, topic, M{"callback_url": i.endpoint.URL("/" + topic), "remember": 0})
	b.Speak("en")
	i.MustPush(t, topic, M{"id": "order-43", "body": 1, "delay": "5s"})
	b.Open("/topics/" + topic + "/jobs/order-43")
	b.Shows(soon, "The job was deleted, or")
}
