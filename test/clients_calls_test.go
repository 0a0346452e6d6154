package test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// clientCases are what every client does, one command after the other.
var clientCases = []struct {
	name string
	test func(t *testing.T, d *driver)
}{
	{"push", pushesWithOptions}, {"ids", pushesOddIDs}, {"body", pushesValues},
	{"batch", pushesBatch}, {"change", changesJobs}, {"url", callsAnotherURL},
	{"wait", waitsForAnswers}, {"groups", cancelsGroups}, {"tasks", startsTasks},
	{"schedules", putsSchedules}, {"lease", endsLeases}, {"refused", reportsRefusals},
	{"unreachable", reportsLostAnswers}, {"repeat", repeatsWhatIsSafe}, {"prefix", keepsThePrefix},
	{"verify", verifiesSignatures}, {"bodies", readsBodies}, {"header", checksHeaders},
	{"jobs", listsJobs}, {"dead", retriesDeadJobs}, {"topics", putsTopics},
	{"patch", patchesTopics}, {"pause", pausesTopics},
	{"search", searches}, {"results", acksWithResults}, {"limited", waitsForLimits},
	{"cancelled", cancelsReserves},
}

type clientJob struct {
	harness.Job
	Etag string `json:"etag"`
	URL  string `json:"url"`
}

func pushesWithOptions(t *testing.T, d *driver) {
	var job clientJob
	d.must(t, M{"op": "push", "topic": d.topic, "due": "2030-01-01T00:00:00.000100Z", "push": M{
		"id": "options", "body": 1, "priority": "high", "ttr": 7, "max_attempts": 3, "on_duplicate": "error",
		"headers": M{"X-Own": "own"}, "ttl": "87600h",
	}}, &job)
	due := time.Date(2030, 1, 1, 0, 0, 0, int(time.Millisecond), time.UTC)
	if d.name == "js" { // a Date has no finer time
		due = due.Truncate(time.Second)
	}
	if job.ID != "options" || !job.DueAt.Equal(due) || job.Priority != "high" || job.TTR.Std() != 7*time.Second ||
		job.MaxAttempts != 3 || job.Headers["X-Own"] != "own" || job.Duplicate {
		t.Errorf("%+v", job)
	}
	push := M{"op": "push", "topic": d.topic, "push": M{"id": "options", "body": 2, "delay": 1.5}}
	if d.must(t, push, &job); !job.Duplicate || !job.DueAt.Equal(due) {
		t.Errorf("keep: %+v", job)
	}
	push["push"] = M{"id": "options", "body": 2, "delay": "1h", "on_duplicate": "replace"}
	if d.must(t, push, &job); !job.Duplicate || job.DueAt.Equal(due) {
		t.Errorf("replace: %+v", job)
	}
	push["push"] = M{"id": "options", "body": 2, "on_duplicate": "error"}
	if f := d.fails(t, push, http.StatusConflict); f.ID != "options" {
		t.Errorf("%+v", f)
	}
	push["push"] = M{"body": 3, "delay": "1h"}
	var one, other clientJob
	d.must(t, push, &one)
	if d.must(t, push, &other); one.ID == "" || one.ID == other.ID || other.Duplicate {
		t.Errorf("without an id: %+v, %+v", one, other)
	}
}

// addressable returns the names that the client can have in a path: fetch resolves dots, even if they are escaped.
func (d *driver) addressable(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return d.name == "js" && strings.Trim(name, ".") == "" })
}

func pushesOddIDs(t *testing.T, d *driver) {
	const body = `{"n": 1.0,  "big":12345678901234567890, "e":1e2,"s":"\u00fc ü 😀"}`
	for _, id := range d.addressable(
		"ü/ö", "漢字 😀", "a b", "..", ".", "%", "%2F", "a?b#c&d=e+f;g", `"\`, "//", strings.Repeat("é", 64), "it's (*)!~",
	) {
		with := func(op string) M { return M{"op": op, "topic": d.topic, "id": id} }
		d.must(t, M{"op": "push", "topic": d.topic, "push": M{"id": id, "json": body, "delay": "1h"}}, nil)
		var job clientJob
		if d.must(t, with("get"), &job); job.ID != id || job.Etag == "" || job.State != "delayed" {
			t.Errorf("get %q: %+v", id, job)
		}
		d.must(t, with("run"), nil)
		d.waitState(t, d.topic, id, "done")
		if got := string(d.endpoint.CallsOf(d.topic, id)[0].Body); got != body {
			t.Errorf("%q: the body is %s", id, got)
		}
		d.must(t, M{"op": "push", "topic": d.topic, "push": M{"id": id, "body": nil, "delay": "1h"}}, nil)
		d.must(t, with("delete"), nil)
		d.fails(t, with("delete"), http.StatusNotFound)
	}
	push := M{"op": "push", "topic": d.topic, "push": M{"id": "x", "json": `1,"delay":"1h"`}}
	if f := d.call(t, push, nil); f == nil || f.Kind == "ApiError" {
		t.Errorf("a text that is not JSON: %+v", f)
	}
}

func pushesValues(t *testing.T, d *driver) {
	text := `{"nul":null,"list":[1,2.5,-3,true,false,"ü/😀\"\\\n\t\u0001",[{"a":{"b":[]}}]],"text":"` +
		strings.Repeat(`é\n`, 20_000) + `"}`
	d.must(t, M{"op": "push", "topic": d.topic, "push": M{"id": "value", "body": json.RawMessage(text)}}, nil)
	harness.Eventually(t, soon, "a callback", func() error {
		return harness.Equal("calls", len(d.endpoint.CallsOf(d.topic, "value")), 1)
	})
	body := d.endpoint.CallsOf(d.topic, "value")[0].Body
	var got, want any
	must(t, json.Unmarshal(body, &got))
	must(t, json.Unmarshal([]byte(text), &want))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the body is %.300s", body)
	}
}

func pushesBatch(t *testing.T, d *driver) {
	const n = 1000
	var pushes []M
	for i := range n {
		pushes = append(pushes, M{"topic": d.topic, "id": fmt.Sprint("batch-ü-", i), "body": i, "delay": "1h"})
	}
	delete(pushes[3], "id")
	pushes[5]["max_attempts"] = 100_000
	pushes[7]["topic"] = "clients.none"
	var results []struct {
		clientJob
		Error *failure `json:"error"`
	}
	d.must(t, M{"op": "push_batch", "pushes": pushes}, &results)
	if len(results) != n {
		t.Fatalf("%d results", len(results))
	}
	for i, r := range results {
		switch status := map[int]int{5: 422, 7: 404}[i]; {
		case status > 0:
			if r.Error == nil || r.Error.Status != status || r.Error.Detail == "" || r.Error.ID != pushes[i]["id"] {
				t.Errorf("%d: %+v", i, r.Error)
			}
		case r.Error != nil || r.ID == "" || (i != 3 && r.ID != pushes[i]["id"]):
			t.Errorf("%d: %+v", i, r)
		}
	}
	if f := d.call(t, M{"op": "push_batch", "pushes": append(pushes, pushes[0])}, nil); f == nil ||
		f.Status/100 != 4 {
		t.Errorf("1,001: %+v", f)
	}
}

func changesJobs(t *testing.T, d *driver) {
	with := func(op string, more M) M {
		c := M{"op": op, "topic": d.topic, "id": "change"}
		maps.Copy(c, more)
		return c
	}
	d.must(t, M{"op": "push", "topic": d.topic, "push": M{"id": "change", "body": 1, "delay": "1h"}}, nil)
	var old, job clientJob
	d.must(t, with("get", nil), &old)
	d.must(t, with("change", M{"push": M{"priority": "low"}, "etag": old.Etag}), &job)
	if job.Priority != "low" || job.Etag == "" || job.Etag == old.Etag {
		t.Errorf("%+v", job)
	}
	d.fails(t, with("change", M{"push": M{"priority": "high"}, "etag": old.Etag}), http.StatusPreconditionFailed)
	d.fails(t, with("delete", M{"etag": old.Etag}), http.StatusPreconditionFailed)
	d.must(t, with("change", M{"push": M{"json": `{"a": 2.0}`, "due_at": "2031-01-01T00:00:00Z"}}), nil)
	if d.must(t, with("get", nil), &job); job.DueAt.Year() != 2031 {
		t.Errorf("%+v", job)
	}
	d.must(t, with("change", M{"push": M{"delay": 0}}), nil)
	harness.Eventually(t, soon, "the changed job to be called", func() error {
		return harness.Equal("calls", len(d.endpoint.CallsOf(d.topic, "change")), 1)
	})
	if body := string(d.endpoint.CallsOf(d.topic, "change")[0].Body); body != `{"a": 2.0}` {
		t.Errorf("the body is %s", body)
	}
}

// callsAnotherURL: a job's own URL, set, kept and cleared, and a local due time.
func callsAnotherURL(t *testing.T, d *driver) {
	topic := d.topic + ".url"
	d.MustPutTopic(t, topic, M{"callback_url": d.endpoint.URL("/" + topic),
		"job_urls": []string{d.endpoint.URL("/hooks/")}})
	url, due := d.endpoint.URL("/hooks/1"), time.Date(2031, 3, 30, 1, 0, 0, 0, time.UTC)
	var job clientJob
	push := M{"op": "push", "topic": topic, "push": M{
		"id": "own", "body": 1, "url": url, "due_at": "2031-03-30T02:30:00", "time_zone": "Europe/Berlin",
	}}
	if d.must(t, push, &job); job.URL != url || !job.DueAt.Equal(due) {
		t.Errorf("pushed: %+v", job)
	}
	change := func(members M) clientJob {
		job = clientJob{}
		d.must(t, M{"op": "change", "topic": topic, "id": "own", "push": members}, &job)
		return job
	}
	if change(M{"due_at": "2031-10-26T02:30", "time_zone": "Europe/Berlin"}); job.URL != url ||
		!job.DueAt.Equal(time.Date(2031, 10, 26, 0, 30, 0, 0, time.UTC)) {
		t.Errorf("kept: %+v", job)
	}
	if change(M{"url": nil}); job.URL != "" {
		t.Errorf("cleared: %+v", job)
	}
	if change(M{"url": url + "2"}); job.URL != url+"2" {
		t.Errorf("set: %+v", job)
	}
	push["push"] = M{"body": 1, "url": d.endpoint.URL("/other")}
	if f := d.fails(t, push, http.StatusUnprocessableEntity); f.Field != "url" {
		t.Errorf("%+v", f)
	}
}

// waitsForAnswers: a push waits for the end of its job, and get shows the result, too.
func waitsForAnswers(t *testing.T, d *driver) {
	topic := d.topic + ".waits"
	d.endpoint.Set("/"+topic, harness.Text(http.StatusOK, "paid"))
	d.MustPutTopic(t, topic, M{"callback_url": d.endpoint.URL("/" + topic)})
	var job struct {
		State  string
		Result struct {
			Status int
			Body   string
		}
	}
	d.must(t, M{"op": "push", "topic": topic, "push": M{"id": "1", "body": 1, "wait": 20}}, &job)
	if job.State != "done" || job.Result.Status != http.StatusOK || job.Result.Body != "paid" {
		t.Errorf("%+v", job)
	}
	job.Result.Body = ""
	if d.must(t, M{"op": "get", "topic": topic, "id": "1"}, &job); job.Result.Body != "paid" {
		t.Errorf("get: %+v", job)
	}
	d.fails(t, M{"op": "push", "topic": topic, "push": M{"body": 1, "wait": 61}}, http.StatusUnprocessableEntity)
}

// startsTasks: a task is started once by a key, read, listed and cancelled.
func startsTasks(t *testing.T, d *driver) {
	topic := d.topic + ".tasks"
	d.MustPutTopic(t, topic, M{"callback_url": d.endpoint.URL("/" + topic)})
	d.must(t, M{"op": "push", "topic": topic, "push": M{"id": "1", "body": 1, "delay": "1h"}}, nil)
	start := M{"op": "start_task", "key": topic, "task": M{
		"action": "shift", "by": "1h", "filter": M{"topic": topic, "state": "delayed", "id_prefix": "1"},
	}}
	var first, again, read task
	d.must(t, start, &first)
	d.must(t, start, &again)
	if first.ID == "" || again.ID != first.ID {
		t.Errorf("%+v, and again %+v", first, again)
	}
	harness.Eventually(t, soon, "the task to be done", func() error {
		d.must(t, M{"op": "task", "name": first.ID}, &read)
		return harness.Equal("its state", read.State, "done")
	})
	if read.Matched != 1 || read.Done != 1 {
		t.Errorf("%+v", read)
	}
	var list []task
	if d.must(t, M{"op": "tasks", "limit": 1}, &list); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	if d.must(t, M{"op": "cancel_task", "name": first.ID}, &read); read.State != "done" {
		t.Errorf("%+v", read)
	}
	d.fails(t, M{"op": "start_task", "task": M{"action": "run", "filter": M{"topic": ""}}}, http.StatusBadRequest)
	d.fails(t, M{"op": "task", "name": "x"}, http.StatusNotFound)
}

// cancelsGroups: a group is read, moved, shifted once by a key, and cancelled, after which pushes into it are refused.
func cancelsGroups(t *testing.T, d *driver) {
	topic := d.topic + ".groups"
	d.MustPutTopic(t, topic, M{"callback_url": d.endpoint.URL("/" + topic)})
	var own struct{ Token, Secret string } // other clients use the same groups in their own topics
	answer := d.MustDo(t, http.StatusCreated, http.MethodPost, "/v1/tokens", M{
		"name": topic, "rights": []string{"push", "read"}, "topics": []string{topic},
	})
	must(t, answer.JSON(&own))
	due := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range d.addressable("order 42/ü%2F", "..", ".", strings.Repeat("é", 64)) {
		on := func(op string, more M) M {
			c := M{"op": op, "name": name, "client": M{"url": d.Base, "token": own.Token + own.Secret}}
			maps.Copy(c, more)
			return c
		}
		push := func(id string) M {
			return M{"op": "push", "topic": topic, "push": M{"id": id, "body": M{"n": id}, "delay": "1h", "group": name}}
		}
		var job clientJob
		if d.must(t, push("1"), &job); job.Group != name {
			t.Fatalf("%+v", job)
		}
		d.must(t, push("2"), nil)
		type count struct{ Moved, Skipped, Deleted, Running int }
		for i, m := range []struct {
			move M
			due  time.Time
		}{
			{M{"move": M{}, "due": due}, due},
			{M{"move": M{"shift": -3600}, "key": "earlier"}, due.Add(-time.Hour)},
			{M{"move": M{"shift": -3600}, "key": "earlier"}, due.Add(-time.Hour)},
			{M{"move": M{"delay": 360000}}, time.Time{}},
		} {
			var got count
			if d.must(t, on("move_group", m.move), &got); i != 2 && got.Moved != 2 || got.Skipped != 0 {
				t.Errorf("%v: %+v", m.move, got)
			}
			at := d.MustGet(t, topic, "1").DueAt
			if !m.due.IsZero() && !at.Equal(m.due) || m.due.IsZero() && time.Until(at).Round(time.Hour) != 100*time.Hour {
				t.Errorf("%v: due at %s", m.move, at)
			}
		}
		d.must(t, on("move_group", M{"move": M{"shift": 1}}), nil) // the client makes a key

		var group struct {
			Group       string
			Counts      struct{ Delayed, Ready, Running, Dead int }
			ClosedUntil *time.Time `json:"closed_until"`
			Jobs        []clientJob
		}
		read := func(limit M) {
			group.ClosedUntil, group.Jobs = nil, nil
			d.must(t, on("group", limit), &group)
		}
		if read(nil); group.Group != name || group.Counts.Delayed != 2 || group.ClosedUntil != nil || len(group.Jobs) != 2 ||
			group.Jobs[0].Group != name || group.Jobs[0].Topic != topic {
			t.Errorf("%+v", group)
		}
		if read(M{"limit": 1}); len(group.Jobs) != 1 {
			t.Errorf("with a limit of 1: %+v", group)
		}
		var done count
		if d.must(t, on("cancel_group", M{"close": 600}), &done); done != (count{Deleted: 2}) {
			t.Errorf("cancel: %+v", done)
		}
		if f := d.fails(t, push("3"), http.StatusConflict); f.Code != "group_closed" || f.Field != "group" || f.ID != "3" {
			t.Errorf("a push into a closed group: %+v", f)
		}
		if read(nil); len(group.Jobs) != 0 || group.ClosedUntil == nil || time.Until(*group.ClosedUntil) < 9*time.Minute {
			t.Errorf("closed: %+v", group)
		}
		if d.must(t, on("cancel_group", nil), &done); done.Deleted != 0 {
			t.Errorf("again: %+v", done)
		}
	}
}

// putsSchedules: a schedule is created, read, listed, paused, resumed, run, backfilled and deleted.
func putsSchedules(t *testing.T, d *driver) {
	topic := d.topic + ".schedules"
	d.MustPutTopic(t, topic, M{"callback_url": d.endpoint.URL("/" + topic)})
	type schedule struct {
		Name, Topic, Cron, State string
		TimeZone                 string `json:"time_zone"`
		Body                     any
		PausedUntil              *time.Time `json:"paused_until"`
		Next                     []time.Time
		Last                     []struct{ ID, State string }
		LeftOut                  map[string]int `json:"left_out"`
	}
	name := topic + ".report"
	on := func(op string, more M) M {
		c := M{"op": op, "name": name}
		maps.Copy(c, more)
		return c
	}
	var s schedule
	d.must(t, on("put_schedule", M{"schedule": M{
		"topic": topic, "cron": "0 8 * * 1-5", "time_zone": "Asia/Shanghai", "body": M{"n": "ü"}, "overlap": "allow",
	}}), &s)
	if s.Name != name || s.Topic != topic || s.Cron != "0 8 * * 1-5" || s.State != "active" || len(s.Next) != 5 ||
		s.Next[0].UTC().Hour() != 0 || s.LeftOut["late"] != 0 || s.TimeZone != "Asia/Shanghai" {
		t.Errorf("put: %+v", s)
	}
	d.must(t, on("put_schedule", M{"schedule": M{
		"topic": topic, "every": 3600, "start_at": "2026-01-01T00:00:00Z", "json": `{"n": 1}`,
	}}), nil)
	s = schedule{}
	if d.must(t, on("schedule", nil), &s); s.Cron != "" || fmt.Sprint(s.Body) != "map[n:1]" || len(s.Next) != 5 {
		t.Errorf("replaced: %+v", s)
	}
	var list []schedule
	if d.must(t, M{"op": "schedules", "topic": topic}, &list); len(list) != 1 || list[0].Name != name ||
		fmt.Sprint(list[0].Body) != "map[n:1]" {
		t.Errorf("listed: %+v", list)
	}
	until := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	if d.must(t, on("pause_schedule", M{"until": until}), &s); s.State != "paused" || !s.PausedUntil.Equal(until) {
		t.Errorf("paused until: %+v", s)
	}
	s = schedule{}
	if d.must(t, on("pause_schedule", nil), &s); s.State != "paused" || s.PausedUntil != nil {
		t.Errorf("paused: %+v", s)
	}
	for _, catchUp := range []bool{true} {
		if d.must(t, on("resume_schedule", M{"catch_up": catchUp}), &s); s.State != "active" {
			t.Errorf("resumed: %+v", s)
		}
	}
	var run struct{ ID string }
	if d.must(t, on("run_schedule", nil), &run); !strings.HasPrefix(run.ID, name+"!") {
		t.Errorf("run: %+v", run)
	}
	var filled struct {
		Occurrences               []time.Time
		Pushed, Existing, LeftOut int
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	period := M{"from": from, "to": from.Add(3 * time.Hour), "dry_run": true, "overlap": "allow"}
	if d.must(t, on("backfill_schedule", period), &filled); len(filled.Occurrences) != 3 || filled.Pushed != 0 {
		t.Errorf("backfill: %+v", filled)
	}
	if d.must(t, on("pause_schedule", M{"for": 7200}), &s); s.PausedUntil == nil || !inTwoHours(*s.PausedUntil) {
		t.Errorf("paused for two hours: %+v", s)
	}
	d.must(t, on("delete_schedule", nil), nil)
	if f := d.fails(t, on("schedule", nil), http.StatusNotFound); f.Code != "schedule_not_found" {
		t.Errorf("deleted: %+v", f)
	}
}

func endsLeases(t *testing.T, d *driver) {
	topic := d.topic + ".pull"
	d.MustPutTopic(t, topic, M{"delivery": "pull", "ttr": "1m", "retry": []string{"1h"}})
	reserve := M{"op": "reserve", "topic": topic, "max": 5, "wait": 0, "ttr": 30}
	var leased []struct{ Lease, ID, TTR string }
	if d.must(t, reserve, &leased); len(leased) != 0 {
		t.Errorf("%+v", leased)
	}
	for _, verb := range []string{"ack", "release", "fail", "bury", "extend"} {
		d.MustPush(t, topic, M{"id": verb, "body": verb})
	}
	reserve["wait"] = 20
	if d.must(t, reserve, &leased); len(leased) != 5 || leased[0].TTR != "30s" {
		t.Fatalf("%+v", leased)
	}
	args := map[string][]any{
		"ack": {}, "release": {3600}, "fail": {strings.Repeat("ü", 500)}, "bury": {"never"}, "extend": {3600},
	}
	for _, l := range leased {
		var extended struct {
			LeasedUntil time.Time `json:"leased_until"`
		}
		command := M{"op": l.ID, "lease": l.Lease, "args": args[l.ID]}
		d.must(t, command, &extended)
		if l.ID == "extend" {
			if time.Until(extended.LeasedUntil) < 59*time.Minute {
				t.Errorf("it is leased until %s", extended.LeasedUntil)
			}
			continue
		}
		d.fails(t, command, http.StatusConflict)
	}
	for id, state := range map[string]string{
		"ack": "done", "release": "delayed", "fail": "delayed", "bury": "dead", "extend": "running",
	} {
		d.waitState(t, topic, id, state)
	}
}

// readsBodies: no job of a reserved batch is lost to a body that a language cannot decode, whether the server hands such
// bodies out in base64 or, as an older one does, unchanged. Each job is done or, if its body cannot be read, released.
func readsBodies(t *testing.T, d *driver) {
	topic := d.topic + ".bodies"
	var drained struct{ Read, Unreadable []string }
	check := func(bodies []testBody) {
		t.Helper()
		for i, b := range bodies {
			if id := fmt.Sprint(i); slices.Contains(drained.Read, id) == slices.Contains(drained.Unreadable, id) ||
				b.portable && !slices.Contains(drained.Read, id) {
				t.Errorf("%.80s: read %q, unreadable %q", b.body, drained.Read, drained.Unreadable)
			}
		}
	}
	d.MustPutTopic(t, topic, M{"delivery": "pull", "max_attempts": 1})
	bodies := testBodies(t)
	pushBodies(t, d.clientTest, topic, bodies)
	d.must(t, M{"op": "drain", "topic": topic}, &drained)
	check(bodies)
	for state, ids := range map[string][]string{"done": drained.Read, "delayed": drained.Unreadable} {
		for _, id := range ids {
			if job := d.MustGet(t, topic, id); job.State != state {
				t.Errorf("%s is %s, want %s", id, job.State, state)
			}
		}
	}
	var jobs []string
	for i, b := range bodies {
		jobs = append(jobs, fmt.Sprintf(`{"lease":"l%d","topic":"t","id":"%[1]d","ttr":"1s","due_at":"2030-01-01T00:00:00Z",`+
			`"content_type":"application/json","headers":{"body":"x"},"body":%[2]s}`, i, b.body))
	}
	old := breakAnswers(t, replies(http.StatusOK, `{"jobs":[`+strings.Join(jobs, ",")+"]}"),
		replies(http.StatusNoContent, ""))
	d.must(t, M{"op": "drain", "topic": "t", "client": M{"url": old.URL, "token": ""}}, &drained)
	check(bodies)
}

// checksHeaders: a token, an ETag or a key with a line's end sends no header of its own.
func checksHeaders(t *testing.T, d *driver) {
	for _, end := range []string{"\n", "\r\n", "\r\n ", "\x00", "\r"} {
		for token, etag := range map[string]string{"x" + end + "X-Evil: 1": "", "x": `"x` + end + `X-Evil: 1"`} {
			b := breakAnswers(t, replies(http.StatusOK, anyJob))
			for _, command := range []M{
				{"op": "change", "topic": "t", "id": "x", "push": M{"priority": "low"}, "etag": etag},
				{"op": "move_group", "name": "g", "move": M{"shift": 1}, "key": etag},
			} {
				command["client"] = M{"url": b.URL, "token": token}
				if f := d.call(t, command, nil); f == nil || f.Status != 0 || len(b.bodies()) != 0 {
					t.Errorf("%v: %+v, sent %q", command, f, b.bodies())
				}
			}
		}
	}
}

func reportsRefusals(t *testing.T, d *driver) {
	get := func(token, topic string) M {
		return M{"op": "get", "topic": topic, "id": "x", "client": M{"url": d.Base, "token": token}}
	}
	d.fails(t, get("wk_wrong", d.topic), http.StatusUnauthorized)
	d.fails(t, get("", d.topic), http.StatusUnauthorized)
	var limited struct{ Token, Secret string }
	answer := d.MustDo(t, http.StatusCreated, http.MethodPost, "/v1/tokens", M{
		"name": d.topic, "rights": []string{"push"}, "topics": []string{"clients-none.*"},
	})
	must(t, answer.JSON(&limited))
	d.fails(t, get(limited.Token+limited.Secret, d.topic), http.StatusForbidden)
	d.fails(t, get(d.Token, d.topic), http.StatusNotFound)
	f := d.fails(t, M{"op": "push", "topic": d.topic, "push": M{"body": 1, "max_attempts": 100_000}},
		http.StatusUnprocessableEntity)
	if f.Code != "invalid" || f.Field != "max_attempts" || f.Title == "" || !strings.Contains(f.Text, "max_attempts") {
		t.Errorf("%+v", f)
	}
	d.fails(t, M{"op": "push", "topic": d.topic, "push": M{"body": 1, "priority": "urgent"}}, http.StatusBadRequest)
	d.fails(t, M{"op": "push", "topic": d.topic, "push": M{"body": strings.Repeat("x", 300<<10)}},
		http.StatusRequestEntityTooLarge)
	d.MustPutTopic(t, d.topic+".off", M{"callback_url": d.endpoint.URL("/"), "state": "offline"})
	f = d.fails(t, M{"op": "push", "topic": d.topic + ".off", "push": M{"body": 1}}, http.StatusConflict)
	if f.Code != "topic_offline" {
		t.Errorf("%+v", f)
	}
}

// broken answers requests in order, each in its own way; the last way repeats.
type broken struct {
	*httptest.Server
	mu   sync.Mutex
	got  []string // bodies
	urls []string
	keys []string // Idempotency-Key
	ways []http.HandlerFunc
}

func breakAnswers(t *testing.T, ways ...http.HandlerFunc) *broken {
	t.Helper()
	b := &broken{ways: ways}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		way := b.ways[min(len(b.got), len(b.ways)-1)]
		b.got = append(b.got, string(body))
		b.urls = append(b.urls, r.RequestURI)
		b.keys = append(b.keys, r.Header.Get("Idempotency-Key"))
		b.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		way(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *broken) bodies() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got
}

func loses(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func cuts(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"id\":")
		_ = conn.Close()
	}
}

func replies(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const (
	anyJob      = `{"topic":"t","id":"x","state":"delayed","due_at":"2030-01-01T00:00:00.000Z"}`
	unavailable = `{"status":503,"title":"Service Unavailable","detail":"no active shard accepted the job"}`
)

func reportsLostAnswers(t *testing.T, d *driver) {
	push := func(client M) M {
		return M{"op": "push", "topic": "t", "push": M{"id": "x", "body": 1}, "client": client}
	}
	unreachable := func(what string, client M, unknown bool) {
		t.Helper()
		f := d.call(t, push(client), nil)
		if f == nil || f.Kind != "UnreachableError" || f.OutcomeUnknown != unknown || f.ID != "x" || f.Text == "" {
			t.Errorf("%s: %+v", what, f)
		}
	}
	nobody := fmt.Sprintf("http://127.0.0.1:%d", freeport.TCP(t))
	unreachable("refused", M{"url": nobody, "token": ""}, false)
	lost := breakAnswers(t, loses)
	unreachable("lost", M{"url": lost.URL, "token": ""}, true)
	unreachable("cut", M{"url": breakAnswers(t, cuts).URL, "token": ""}, true)
	hangs := breakAnswers(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	unreachable("hangs", M{"url": hangs.URL, "token": "", "timeout": 1}, true)
	if n := len(lost.bodies()); n != 1 {
		t.Errorf("without retries there were %d requests", n)
	}

	elsewhere := breakAnswers(t, replies(http.StatusMovedPermanently, "", "Location", "/elsewhere"),
		replies(http.StatusOK, anyJob))
	f := d.call(t, push(M{"url": elsewhere.URL, "token": ""}), nil)
	if f == nil || f.Status != http.StatusMovedPermanently || !strings.Contains(f.Text, "/elsewhere") {
		t.Errorf("redirected: %+v", f)
	}
	for _, status := range []int{http.StatusBadGateway, http.StatusOK} {
		proxy := breakAnswers(t, replies(status, "<html>\n<b>proxy</b>"))
		f := d.call(t, push(M{"url": proxy.URL, "token": ""}), nil)
		if f == nil || f.Status != status || !strings.Contains(f.Text, "<html> <b>proxy") {
			t.Errorf("%d of a proxy: %+v", status, f)
		}
	}
}

func repeatsWhatIsSafe(t *testing.T, d *driver) {
	busy := replies(http.StatusServiceUnavailable, unavailable)
	patient := func(b *broken) M { return M{"url": b.URL, "token": "", "retry_for": 60} }
	b := breakAnswers(t, busy, loses, cuts, replies(http.StatusCreated, anyJob))
	d.must(t, M{"op": "push", "topic": "t", "push": M{"body": 1}, "client": patient(b)}, nil)
	got := b.bodies()
	if len(got) != 4 || !strings.Contains(got[0], `"id":`) || got[0] != got[1] || got[0] != got[3] {
		t.Errorf("a push without an id: %q", got)
	}
	b = breakAnswers(t, busy, replies(http.StatusOK, `{"results":[`+anyJob+`]}`))
	pushes := []M{{"topic": "t", "body": 1}}
	d.must(t, M{"op": "push_batch", "pushes": pushes, "client": patient(b)}, nil)
	if got := b.bodies(); len(got) != 2 || got[0] != got[1] {
		t.Errorf("a batch: %q", got)
	}
	for op, answer := range map[string]string{
		"group":        `{"group":"g","counts":{"delayed":0,"ready":0,"running":0,"dead":0},"jobs":[]}`,
		"cancel_group": `{"deleted":0,"running":0}`, "move_group": `{"moved":0,"skipped":0}`,
	} {
		b = breakAnswers(t, busy, loses, replies(http.StatusOK, answer))
		d.must(t, M{"op": op, "name": "g", "move": M{"shift": 5}, "key": "k", "client": patient(b)}, nil)
		if n := len(b.bodies()); n != 3 {
			t.Errorf("%s: %d requests", op, n)
		}
	}
	for _, op := range []string{"patch_topic", "pause_topic", "resume_topic"} {
		b = breakAnswers(t, busy, loses, replies(http.StatusOK, `{"name":"t","state":"paused"}`))
		d.must(t, M{"op": op, "name": "t", "patch": M{"ttr": "5s"}, "client": patient(b)}, nil)
		if n := len(b.bodies()); n != 3 {
			t.Errorf("%s: %d requests", op, n)
		}
	}
	const schedule = `{"name":"s","topic":"t","body":1,"state":"active","next":[],"last":[],"left_out":{}}`
	for op, answer := range map[string]string{
		"schedule": schedule, "schedules": `{"schedules":[` + schedule + `]}`, "put_schedule": schedule,
		"pause_schedule": schedule, "resume_schedule": schedule,
		"backfill_schedule": `{"occurrences":[],"pushed":0,"existing":0,"left_out":0}`,
	} {
		b = breakAnswers(t, busy, loses, replies(http.StatusOK, answer))
		d.must(t, M{
			"op": op, "name": "s", "topic": "t", "schedule": M{"topic": "t", "body": 1}, "catch_up": true, "dry_run": false,
			"from": "2031-01-01T00:00:00Z", "to": "2031-01-02T00:00:00Z", "client": patient(b),
		}, nil)
		if n := len(b.bodies()); n != 3 {
			t.Errorf("%s: %d requests", op, n)
		}
	}
	for name, command := range map[string]M{
		"error":           {"op": "push", "topic": "t", "push": M{"id": "x", "body": 1, "on_duplicate": "error"}},
		"delete":          {"op": "delete", "topic": "t", "id": "x"},
		"delete dead":     {"op": "delete_dead", "topic": "t", "how": M{"limit": 5}},
		"patch":           {"op": "patch_topic", "name": "t", "patch": M{"ttr": "5s"}, "etag": `"a"`},
		"delay":           {"op": "change", "topic": "t", "id": "x", "push": M{"delay": 5}},
		"run":             {"op": "run", "topic": "t", "id": "x"},
		"move":            {"op": "move_group", "name": "g", "move": M{"delay": 5}},
		"schedule run":    {"op": "run_schedule", "name": "s"},
		"schedule delete": {"op": "delete_schedule", "name": "s"},
	} {
		refused := d.kindOf(http.StatusServiceUnavailable, "")
		for kind, way := range map[string]http.HandlerFunc{refused: busy, "UnreachableError": loses} {
			b := breakAnswers(t, way)
			command["client"] = M{"url": b.URL, "token": "", "retry_for": 5}
			f := d.call(t, command, nil)
			if n := len(b.bodies()); n != 1 || f == nil || f.Kind != kind {
				t.Errorf("%s: %d requests, %+v", name, n, f)
			}
		}
	}
	b = breakAnswers(t, replies(http.StatusServiceUnavailable, unavailable, "Retry-After", "100"))
	command := M{"op": "get", "topic": "t", "id": "x", "client": patient(b)}
	if f := d.call(t, command, nil); f == nil || f.Status != http.StatusServiceUnavailable || len(b.bodies()) != 1 {
		t.Errorf("Retry-After beyond the time for retries: %+v, %d requests", f, len(b.bodies()))
	}
}

func keepsThePrefix(t *testing.T, d *driver) {
	target, err := url.Parse(d.Base)
	must(t, err)
	forward := http.StripPrefix("/wake/call", httputil.NewSingleHostReverseProxy(target))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.RequestURI, "/..") { // other proxies resolve it
			http.Error(w, "a relative path", http.StatusBadRequest)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	client := M{"url": proxy.URL + "/wake/call/", "token": d.Token}
	for _, id := range d.addressable("a/ü%2F", "..") {
		push := M{"id": id, "body": 1, "delay": "1h"}
		d.must(t, M{"op": "push", "topic": d.topic, "push": push, "client": client}, nil)
		d.must(t, M{"op": "delete", "topic": d.topic, "id": id, "client": client}, nil)
	}
}

func verifiesSignatures(t *testing.T, d *driver) {
	const other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	const body = `{"order":42,"ü":"😀"}`
	header := func(at time.Time, secrets ...string) M {
		var signatures []string
		for _, secret := range secrets {
			key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			must(t, err)
			mac := hmac.New(sha256.New, key)
			fmt.Fprintf(mac, "msg_1.%d.%s", at.Unix(), body)
			signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
		return M{
			"webhook-id": "msg_1", "webhook-timestamp": fmt.Sprint(at.Unix()),
			"webhook-signature": strings.Join(signatures, " "),
		}
	}
	now := time.Now()
	without := func(name string) M {
		h := header(now, d.secret)
		delete(h, name)
		return h
	}
	changed := func(name, value string) M {
		h := header(now, d.secret)
		h[name] = value
		return h
	}
	first := header(now, d.secret)["webhook-signature"].(string)
	const refused = "SignatureError"
	right := []string{d.secret}
	for name, c := range map[string]struct {
		headers M
		body    string
		secrets []string
		kind    string // of the error; "": none, "any": not SignatureError
	}{
		"right":                {header(now, d.secret), body, right, ""},
		"bare secret":          {header(now, d.secret), body, []string{strings.TrimPrefix(d.secret, "whsec_")}, ""},
		"within the tolerance": {header(now.Add(-4*time.Minute), d.secret), body, right, ""},
		"second signature":     {header(now, other, d.secret), body, right, ""},
		"second secret":        {header(now, d.secret), body, []string{other, d.secret}, ""},
		"unknown version":      {changed("webhook-signature", "v1a,abc "+first), body, right, ""},
		"other body":           {header(now, d.secret), body + " ", right, refused},
		"other secret":         {header(now, other), body, right, refused},
		"other version":        {changed("webhook-signature", "v2,"+first[3:]), body, right, refused},
		"other id":             {changed("webhook-id", "msg_2"), body, right, refused},
		"old":                  {header(now.Add(-6*time.Minute), d.secret), body, right, refused},
		"future":               {header(now.Add(6*time.Minute), d.secret), body, right, refused},
		"no time":              {changed("webhook-timestamp", "x"), body, right, refused},
		"signs too much":       {changed("webhook-timestamp", fmt.Sprint("+", now.Unix())), body, right, refused},
		"no id":                {without("webhook-id"), body, right, refused},
		"no timestamp":         {without("webhook-timestamp"), body, right, refused},
		"no signature":         {without("webhook-signature"), body, right, refused},
		"no secret":            {header(now, d.secret), body, []string{}, refused},
		"empty secret":         {header(now, ""), body, []string{""}, "any"},
	} {
		f := d.call(t, M{"op": "verify", "headers": c.headers, "body": c.body, "secrets": c.secrets}, nil)
		kind := ""
		if f != nil {
			kind = f.Kind
		}
		if c.kind == "any" && kind != "" && kind != refused {
			continue
		}
		if kind != c.kind {
			t.Errorf("%s: %+v", name, f)
		}
	}
	// And one that Wakecall made.
	d.must(t, M{"op": "push", "topic": d.topic, "push": M{"id": "signed", "json": body}}, nil)
	harness.Eventually(t, soon, "a callback", func() error {
		return harness.Equal("calls", len(d.endpoint.CallsOf(d.topic, "signed")), 1)
	})
	call := d.endpoint.CallsOf(d.topic, "signed")[0]
	headers := M{}
	for name := range call.Header {
		headers[strings.ToLower(name)] = call.Header.Get(name)
	}
	verify := M{"op": "verify", "headers": headers, "body": string(call.Body), "secrets": []string{other, d.secret}}
	d.must(t, verify, nil)
	if !bytes.Equal(call.Body, []byte(body)) {
		t.Errorf("the body is %s", call.Body)
	}
}
