package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/client/wakecalltest"
	"github.com/wakecall/wakecall/test/harness"
)

// TestFakeAnswersAsAServer: the same calls have the same answers from the fake of wakecalltest and from a server.
func TestFakeAnswersAsAServer(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	i.MustPutTopic(t, "shop.close", M{"callback_url": i.endpoint.URL("/"), "state": "paused"})
	want := answersTo(t, i.client(t))
	got := answersTo(t, wakecalltest.NewFake("shop.close"))
	if err := harness.Equal("calls", len(got), len(want)); err != nil {
		t.Fatal(err)
	}
	for n := range want {
		if got[n] != want[n] {
			t.Errorf("the fake answers\n%s\nthe server\n%s", got[n], want[n])
		}
	}
}

// answersTo makes calls one after another and returns a line for each answer.
func answersTo(t *testing.T, p client.Pusher) (answers []string) {
	ctx, began := t.Context(), time.Now()
	note := func(name string, answer any, err error) {
		answers = append(answers, name+": "+describe(answer, err, began))
	}
	push := func(name string, push client.Push) *client.Job {
		push.Body = json.RawMessage(`{ "order": 42 }`)
		job, err := p.Push(ctx, "shop.close", push)
		note(name, job, err)
		return job
	}
	get := func(id string) {
		job, err := p.Get(ctx, "shop.close", id)
		note("get "+id, job, err)
	}
	change := func(name string, ch client.Change) {
		job, err := p.Change(ctx, "shop.close", "1", ch)
		note(name, job, err)
	}
	past, future := began.Add(-time.Hour), began.Add(time.Hour).Truncate(time.Millisecond).Add(time.Nanosecond)
	one := push("all fields", client.Push{
		ID: "1", Delay: client.After(30 * time.Minute), Priority: client.High, TTR: time.Minute, MaxAttempts: 3,
		TTL: 2 * time.Hour, Headers: map[string]string{"X-Shop": "1"}, Retry: []time.Duration{time.Second},
		Group: "42", Key: "customer-7", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
	get("1")
	push("none", client.Push{})
	push("duplicate", client.Push{ID: "1"})
	push("duplicate to refuse", client.Push{ID: "1", OnDuplicate: client.Refuse})
	due := push("due time", client.Push{ID: "2", DueAt: future})
	note("exact due time", due.DueAt.Sub(future).String(), nil)
	push("past due time", client.Push{ID: "3", DueAt: past})
	local := push("local due time", client.Push{ID: "4", DueLocal: "2035-01-31T08:00:00", TimeZone: "Asia/Shanghai"})
	note("exact local due time", local.DueAt.UTC().String(), nil)
	push("local due time without a zone", client.Push{ID: "5", DueLocal: "2035-01-31T08:00:00"})
	push("no local due time", client.Push{ID: "5", DueLocal: "tomorrow", TimeZone: "Asia/Shanghai"})
	push("local due time of no zone", client.Push{ID: "5", DueLocal: "2035-01-31T08:00:00", TimeZone: "Mars/Olympus"})
	push("delay and due time", client.Push{ID: "5", Delay: client.After(0), DueAt: future})
	push("negative delay", client.Push{ID: "5", Delay: client.After(-time.Second)})
	get("5")
	change("change of everything", client.Change{
		Delay: client.After(10 * time.Minute), Priority: client.Low, Body: json.RawMessage(`[1]`),
	})
	change("negative delay of a change", client.Change{Delay: client.After(-time.Second), Priority: client.High})
	get("1")
	change("change of nothing", client.Change{})
	change("change of an old state", client.Change{Priority: client.High, ETag: one.ETag})
	push("replacement", client.Push{ID: "1", OnDuplicate: client.Replace, Delay: client.After(time.Minute), Group: "42"})
	get("1")
	_, err := p.Push(ctx, "shop.clsoe", client.Push{Body: json.RawMessage(`1`)})
	note("unknown topic", nil, err)
	_, err = p.Push(ctx, "shop.close", client.Push{Body: json.RawMessage(`{`)})
	note("body that is not JSON", nil, err)
	_, err = p.Get(ctx, "shop.clsoe", "1")
	note("get of an unknown topic", nil, err)
	note("delete", nil, p.Delete(ctx, "shop.close", "2"))
	note("delete again", nil, p.Delete(ctx, "shop.close", "2"))
	change("change of a deleted job's body", client.Change{Body: json.RawMessage(`2`)})
	results, err := p.PushBatch(ctx, []client.Push{
		{Topic: "shop.close", Body: json.RawMessage(`1`), Group: "42"}, {Topic: "shop.clsoe", Body: json.RawMessage(`1`)},
		{Topic: "shop.close", ID: "1", Body: json.RawMessage(`1`), OnDuplicate: client.Refuse},
	})
	note("batch", len(results), err)
	for _, r := range results {
		note("of the batch", r.Job, r.Err)
	}
	cancelled, err := p.CancelGroup(ctx, "42", time.Hour)
	note("cancel", cancelled, err)
	push("push into a closed group", client.Push{Group: "42"})
	get("1")
	_, err = p.CancelGroup(ctx, "42", time.Millisecond)
	note("cancel for a millisecond", nil, err)
	return answers
}

var generated = regexp.MustCompile(`"id":"[0-9a-f]{32}"`)

// describe is the same for two answers that a service takes for the same.
func describe(answer any, err error, began time.Time) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return fmt.Sprintf("%d %s", e.Status, e.Code)
	}
	if err != nil {
		return "error"
	}
	job, ok := answer.(*client.Job)
	if !ok {
		return fmt.Sprintf("%+v", answer)
	}
	shown := *job
	since := func(at time.Time) string { return at.Sub(began).Round(5 * time.Minute).String() }
	times := "created " + since(job.CreatedAt) + ", due " + since(job.DueAt)
	if job.ExpiresAt != nil {
		times += ", expires " + since(*job.ExpiresAt)
	}
	// Why it is not being called is not for a fake to say.
	shown.CreatedAt, shown.DueAt, shown.ExpiresAt, shown.Waits = time.Time{}, time.Time{}, nil, nil
	text, err := json.Marshal(shown)
	return fmt.Sprintf("%s, %s, has an ETag: %v, %v", times, generated.ReplaceAllString(string(text), `"id":"generated"`),
		job.ETag != "", err)
}
