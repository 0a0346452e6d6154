package test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// listsJobs: the jobs of a state are listed over all pages, dead ones by filters.
func listsJobs(t *testing.T, d *driver) {
	topic := d.topic + ".list"
	d.MustPutTopic(t, topic, M{"callback_url": d.endpoint.URL("/" + topic)})
	for i := range 3 {
		d.MustPush(t, topic, M{"id": fmt.Sprint("a", i), "body": i, "delay": "1h"})
	}
	var jobs []clientJob
	if d.must(t, M{"op": "jobs", "topic": topic, "state": "delayed"}, &jobs); len(jobs) != 3 || jobs[0].ID != "a0" ||
		jobs[0].State != "delayed" {
		t.Errorf("%+v", jobs)
	}
	if d.must(t, M{"op": "jobs", "topic": topic, "state": "dead", "filter": M{"status": 410}}, &jobs); len(jobs) != 0 {
		t.Errorf("%+v", jobs)
	}
	d.fails(t, M{"op": "jobs", "topic": topic, "state": "gone"}, http.StatusBadRequest)
	pages := breakAnswers(t, replies(http.StatusOK, `{"jobs":[`+anyJob+`],"next":"a/b&c"}`),
		replies(http.StatusOK, `{"jobs":[`+anyJob+`],"next":""}`))
	list := M{"op": "jobs", "topic": "t", "state": "dead", "filter": M{"error": "50% & +"}}
	list["client"] = M{"url": pages.URL, "token": ""}
	if d.must(t, list, &jobs); len(jobs) != 2 || len(pages.urls) != 2 || !strings.Contains(pages.urls[1], "a%2Fb%26c") ||
		!strings.Contains(pages.urls[1], "50%25") || !strings.Contains(pages.urls[1], "state=dead") {
		t.Errorf("%d jobs, %q", len(jobs), pages.urls)
	}
}

// retriesDeadJobs: dead jobs are counted, made ready and deleted by ids and by a filter.
func retriesDeadJobs(t *testing.T, d *driver) {
	topic := d.topic + ".dead"
	d.endpoint.Set("/"+topic, harness.Text(http.StatusGone, "gone"))
	d.MustPutTopic(t, topic, M{"callback_url": d.endpoint.URL("/" + topic)})
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		d.MustPush(t, topic, M{"id": id, "body": 1})
		d.waitState(t, topic, id, "dead")
	}
	count := func(op string, how M, want int) {
		t.Helper()
		var count int
		if d.must(t, M{"op": op, "topic": topic, "how": how}, &count); count != want {
			t.Errorf("%s %v: %d, want %d", op, how, count, want)
		}
	}
	filter := M{"status": 410, "since": "2026-01-01T00:00:00Z"}
	for _, op := range []string{"delete_dead", "retry_dead"} {
		count(op, M{"limit": 10, "filter": filter, "dry_run": true}, 5)
		count(op, M{"limit": 10, "filter": M{"status": 500}}, 0)
	}
	count("delete_dead", M{"ids": []string{"4", "none"}}, 1)
	d.fails(t, M{"op": "get", "topic": topic, "id": "4"}, http.StatusNotFound)
	d.endpoint.Set("/"+topic, harness.Text(http.StatusOK, ""))
	count("retry_dead", M{"ids": []string{"1", "none"}}, 1)
	d.waitState(t, topic, "1", "done")
	count("retry_dead", M{"limit": 2, "filter": filter}, 2)
	d.waitState(t, topic, "2", "done")
	count("delete_dead", M{"limit": 10, "filter": filter}, 1)
}

// putsTopics: a topic is created, read, listed, changed if it is the same, and deleted.
func putsTopics(t *testing.T, d *driver) {
	name := d.topic + ".topics"
	type topic struct {
		Name, State, TTR, Etag string
		CallbackURL            string `json:"callback_url"`
		Retry                  []string
	}
	on := func(op string, more M) M {
		more["op"], more["name"] = op, name
		return more
	}
	put := M{"callback_url": d.endpoint.URL("/" + name), "ttr": 7.5, "retry": []any{10, "1m"}, "headers": M{"X-A": "b"}}
	var made, read topic
	d.must(t, on("put_topic", M{"settings": put}), &made)
	if d.must(t, on("topic", M{}), &read); read.Name != name || read.TTR != "7.5s" || read.Etag == "" ||
		read.Etag != made.Etag || !slices.Equal(read.Retry, []string{"10s", "1m0s"}) {
		t.Errorf("made %+v, read %+v", made, read)
	}
	delete(put, "headers")
	var whole M // as it was read
	d.must(t, on("put_topic", M{"settings": put}), &whole)
	d.must(t, on("put_topic", M{"settings": whole}), &read)
	if read.Etag != whole["etag"] {
		t.Errorf("a topic put as it was read has changed: %+v, %+v", whole, read)
	}
	put["state"], put["owner"] = "paused", "shop"
	d.must(t, on("put_topic", M{"settings": put, "reason": "a deploy", "etag": read.Etag}), &made)
	if made.State != "paused" || made.Etag == read.Etag {
		t.Errorf("%+v", made)
	}
	d.fails(t, on("put_topic", M{"settings": put, "etag": read.Etag}), http.StatusPreconditionFailed)
	var list []topic
	for owner, want := range map[string]int{"shop": 1, "another": 0} {
		d.must(t, M{"op": "topics", "prefix": name, "state": "paused", "owner": owner}, &list)
		if len(list) != want || want == 1 && list[0].Name != name {
			t.Errorf("owner %s: %+v", owner, list)
		}
	}
	d.MustPush(t, name, M{"id": "1", "body": 1})
	if f := d.fails(t, on("delete_topic", M{}), http.StatusConflict); f.Code != "topic_has_jobs" {
		t.Errorf("%+v", f)
	}
	d.must(t, on("delete_topic", M{"drop": true}), nil)
	if f := d.fails(t, on("topic", M{}), http.StatusNotFound); f.Code != "topic_not_found" {
		t.Errorf("%+v", f)
	}
}

// patchesTopics: a patch changes what it has, resets what is null, and keeps the rest; with an etag, if it is the same.
func patchesTopics(t *testing.T, d *driver) {
	name := d.topic + ".patch"
	d.MustPutTopic(t, name, M{
		"callback_url": d.endpoint.URL("/" + name), "retry": []any{10}, "title": "before",
		"headers": M{"X-Old": "a", "X-Kept": "b"}, "per_key": M{"max_in_flight": 2},
	})
	type topic struct {
		Title, TTR, Etag string
		CallbackURL      string `json:"callback_url"`
		Retry            []string
		Headers          map[string]string
		PerKey           M `json:"per_key"`
	}
	patch := func(etag any, members M) M {
		return M{"op": "patch_topic", "name": name, "patch": members, "etag": etag}
	}
	var before, after topic
	d.must(t, M{"op": "topic", "name": name}, &before)
	d.must(t, patch(nil, M{
		"ttr": 7.5, "retry": nil, "per_key": nil, "headers": M{"X-Old": nil, "X-New": "c"},
	}), &after)
	if after.TTR != "7.5s" || len(after.Retry) != 0 || after.PerKey != nil || after.Title != "before" ||
		after.CallbackURL != before.CallbackURL || after.Etag == before.Etag ||
		!maps.Equal(after.Headers, map[string]string{"X-Kept": "b", "X-New": "c"}) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	d.fails(t, patch(before.Etag, M{"title": "stale"}), http.StatusPreconditionFailed)
	if d.must(t, patch(after.Etag, M{"title": "ü"}), &after); after.Title != "ü" || after.TTR != "7.5s" {
		t.Errorf("%+v", after)
	}
	if f := d.fails(t, patch(nil, M{"max_attempts": -1}), http.StatusUnprocessableEntity); f.Field != "max_attempts" {
		t.Errorf("%+v", f)
	}
}

// pausesTopics: a topic is paused for a time, until a time or until it is resumed, with a reason; then it is called.
func pausesTopics(t *testing.T, d *driver) {
	name := d.topic + ".pause"
	d.MustPutTopic(t, name, M{"callback_url": d.endpoint.URL("/" + name)})
	type topic struct {
		State       string
		PauseReason string    `json:"pause_reason"`
		PausedUntil time.Time `json:"paused_until"`
	}
	on := func(op string, how M) (now topic) {
		t.Helper()
		command := M{"op": op, "name": name}
		maps.Copy(command, how)
		d.must(t, command, &now)
		return now
	}
	now := on("pause_topic", M{"reason": "stock count", "for": 7200})
	if now.State != "paused" || now.PauseReason != "stock count" || !inTwoHours(now.PausedUntil) {
		t.Errorf("for two hours: %+v", now)
	}
	until := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	if now := on("pause_topic", M{"until": until}); now != (topic{"paused", "", until}) {
		t.Errorf("until a time: %+v", now)
	}
	if now := on("pause_topic", M{"reason": "a deploy"}); now != (topic{"paused", "a deploy", time.Time{}}) {
		t.Errorf("until it is resumed: %+v", now)
	}
	d.MustPush(t, name, M{"id": "1", "body": 1})
	if now := on("resume_topic", nil); now != (topic{State: "active"}) {
		t.Errorf("resumed: %+v", now)
	}
	d.waitState(t, name, "1", "done")
	on("patch_topic", M{"patch": M{"state": "offline"}})
	if f := d.fails(t, M{"op": "pause_topic", "name": name}, http.StatusConflict); f.Code != "topic_offline" {
		t.Errorf("%+v", f)
	}
}

// inTwoHours reports whether a time is that of a pause for two hours that has just begun.
func inTwoHours(t time.Time) bool {
	left := time.Until(t)
	return left <= 2*time.Hour && left > time.Hour
}

// searches: a search finds a job in the shards and in the journals.
func searches(t *testing.T, d *driver) {
	topic := d.topic + ".search"
	d.MustPutTopic(t, topic, M{"callback_url": d.endpoint.URL("/" + topic)})
	d.MustPush(t, topic, M{"id": "find me", "body": 1, "delay": "1h"})
	var found struct {
		Stored []struct{ Topic, ID, State string }
		Jobs   []struct{ Topic, ID string }
		Done   bool
	}
	search := M{"op": "search", "id": "find me", "topic": topic}
	search["client"] = M{"url": d.Base, "token": d.Token, "retry_for": 60} // the other languages search, too
	d.must(t, search, &found)
	if !found.Done || len(found.Stored) != 1 || found.Stored[0].State != "delayed" || len(found.Jobs) != 1 ||
		found.Jobs[0].ID != "find me" {
		t.Errorf("%+v", found)
	}
}

// acksWithResults: what a worker acks with is the result of the job.
func acksWithResults(t *testing.T, d *driver) {
	topic := d.topic + ".results"
	d.MustPutTopic(t, topic, M{"delivery": "pull"})
	waited := make(chan M, 1)
	go func() {
		var job M
		_ = d.MustDo(t, http.StatusOK, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"body": 1, "wait": "20s"}).JSON(&job)
		waited <- job
	}()
	var leased []struct{ Lease string }
	d.must(t, M{"op": "reserve", "topic": topic, "max": 1, "wait": 20, "order": "listed"}, &leased)
	d.must(t, M{"op": "ack", "lease": leased[0].Lease, "args": []any{M{"price": 7}}}, nil)
	if job := <-waited; job["state"] != "done" || fmt.Sprint(job["result"]) != "map[price:7]" {
		t.Errorf("%+v", job)
	}
}

// waitsForLimits: any request is repeated after 429, when Retry-After says; a shift and a task with the same key.
func waitsForLimits(t *testing.T, d *driver) {
	limited := replies(http.StatusTooManyRequests,
		`{"status":429,"title":"Too Many Requests","code":"quota_exceeded","detail":"used up"}`, "Retry-After", "1")
	for name, c := range map[string]struct {
		command M
		answer  string
	}{
		"delete": {M{"op": "delete", "topic": "t", "id": "x"}, ""},
		"shift":  {M{"op": "move_group", "name": "g", "move": M{"shift": 5}}, `{"moved":1,"skipped":0}`},
		"task": {M{"op": "start_task", "task": M{"action": "run", "filter": M{"topic": "t"}}},
			`{"id":"1","action":"run","filter":{},"state":"queued","matched":0,"done":0,"skipped":{},"failed":0,` +
				`"started_by":"a","created_at":"2030-01-01T00:00:00.000Z","updated_at":"2030-01-01T00:00:00.000Z"}`},
	} {
		b := breakAnswers(t, limited, replies(http.StatusOK, c.answer))
		c.command["client"] = M{"url": b.URL, "token": "", "retry_for": 10}
		d.must(t, c.command, nil)
		if len(b.keys) != 2 || b.keys[0] != b.keys[1] || (b.keys[0] == "") != (name == "delete") {
			t.Errorf("%s: keys %q", name, b.keys)
		}
	}
	usual := breakAnswers(t, limited, replies(http.StatusOK, anyJob))
	d.must(t, M{"op": "get", "topic": "t", "id": "x", "client": M{"url": usual.URL, "token": "", "retry_for": "default"}}, nil)
	b := breakAnswers(t, limited)
	command := M{"op": "get", "topic": "t", "id": "x", "client": M{"url": b.URL, "token": ""}}
	if f := d.call(t, command, nil); f == nil || f.Kind != "RateLimitedError" || len(b.bodies()) != 1 {
		t.Errorf("without retries: %+v, %d requests", f, len(b.bodies()))
	}
}

// cancelsReserves: a worker that stops waiting reserves no job.
func cancelsReserves(t *testing.T, d *driver) {
	if !d.cancels {
		t.Skip("a call of this language cannot be cancelled")
	}
	topic := d.topic + ".cancelled"
	d.MustPutTopic(t, topic, M{"delivery": "pull"})
	d.must(t, M{"op": "cancelled_reserve", "topic": topic}, nil)
	d.MustPush(t, topic, M{"id": "1", "body": 1})
	var leased []struct{ ID string }
	if d.must(t, M{"op": "reserve", "topic": topic, "max": 1, "wait": 5}, &leased); len(leased) != 1 {
		t.Errorf("%+v", leased)
	}
}
