package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestCommandsOfSomebodyOnCall: each sends the API's request, and says what was done.
func TestCommandsOfSomebodyOnCall(t *testing.T) {
	f := newFakeAPI(t)
	f.answers = map[string]answer{
		"PATCH /v1/topics/demo/jobs/abc":                       {200, delayedJob},
		"POST /v1/topics/demo/jobs":                            {201, delayedJob},
		"GET /v1/topics/shop.close/jobs?limit=50&state=dead":   {200, `{"jobs":[` + deadJob + `],"next":""}`},
		"GET /v1/topics/shop.close/jobs?limit=1000&state=dead": {200, `{"jobs":[],"next":""}`},
		"POST /v1/topics/shop.close/dead/retry":                {200, `{"count":2}`},
		"GET /v1/topics/shop.close/jobs?error=timeout&limit=50&prefix=order-&since=2026-01-02T02%3A04%3A05Z" +
			"&state=dead&status=503": {200, `{"jobs":[` + deadJob + `],"next":""}`},
		"GET /v1/alerts": {200, `{"alerts":[{"id":7,"severity":"critical","title":"shop.close fails","details":["503"],` +
			`"began_at":"2026-01-02T03:00:05.000Z","handled":{"by":"ann","reason":"known"}},` +
			`{"id":6,"title":"bank was late","ended_at":"2026-01-02T03:00:05.000Z"}]}`},
		"POST /v1/topics/demo/pause": {200,
			`{"name":"demo","state":"paused","paused_until":"2026-01-02T04:04:05.000Z"}`},
		"POST /v1/topics/demo/resume": {200, `{"name":"demo","state":"active"}`},

		"POST /v1/alerts/7/ack":     {204, ""},
		"POST /v1/alerts/8/ack":     {204, ""},
		"POST /v1/alerts/7/mute":    {204, ""},
		"POST /v1/alerts/7/unmute":  {204, ""},
		"GET /v1/topics/demo/stats": {200, `{"ready":2,"oldest_ready_ms":1500}`},
		"GET /v1/topics/slow/stats": {200, `{"ready":1,"oldest_ready_ms":9000}`},
	}
	f.topics["demo"] = map[string]any{"name": "demo", "state": "active", "ttr": "10s", "other_field": "kept"}
	f.topics["slow"] = map[string]any{"name": "slow", "state": "active"}
	const patch = "PATCH /v1/topics/demo/jobs/abc "
	for _, c := range []struct{ line, says, sent string }{
		{"push demo --id abc --body 1 --delay 30", "abc", `POST /v1/topics/demo/jobs {"id":"abc","delay":"30s","body":1}`},
		{"push demo --id abc --body 1 --delay 1.5", "abc", `POST /v1/topics/demo/jobs {"id":"abc","delay":"1.5s","body":1}`},
		{"change demo abc --delay 90", "abc", patch + `{"delay":"1m30s"}`},
		{"change demo abc --due 2026-01-02T03:34:05Z --priority high", "abc",
			patch + `{"due_at":"2026-01-02T03:34:05.000Z","priority":"high"}`},
		{`change demo abc --body {"n":1}`, "abc", patch + `{"body":{"n":1}}`},
		{"dead list shop.close", "order-42", ""},
		{"dead list shop.close --limit 1000", "no dead jobs", ""},
		{"dead retry shop.close order-42 order-43", "2 dead jobs", `POST /v1/topics/shop.close/dead/retry ` +
			`{"ids":["order-42","order-43"]}`},
		{"dead list shop.close --status 503 --error timeout --prefix order- --since 1h", "order-42", ""},
		{"dead retry shop.close --limit 7 --status 503 --until 10m", "2 dead jobs",
			`POST /v1/topics/shop.close/dead/retry {"limit":7,"filter":{"status":503,"until":"2026-01-02T02:54:05Z"}}`},
		{"dead retry shop.close --limit 7", "2 dead jobs", `POST /v1/topics/shop.close/dead/retry {"limit":7}`},
		{"topic pause demo", "topic demo is paused", "POST /v1/topics/demo/pause {}"},
		{"topic pause demo --reason stock --until 2026-01-02T04:04:05Z", "topic demo is paused until 2026-01-02",
			`POST /v1/topics/demo/pause {"reason":"stock","until":"2026-01-02T04:04:05.000Z"}`},
		{"topic pause demo --until 1h", "", `POST /v1/topics/demo/pause {"until":"2026-01-02T04:04:05.000Z"}`},
		{"topic resume demo", "topic demo is active", "POST /v1/topics/demo/resume {}"},
		{"top --rounds 1 --rows 1", "slow", ""},
		{"alert list", "acknowledged by ann", ""},
		{"alert list --ended", "ended 4m ago", ""},
		{"alert ack 7 8 --reason known", "alert 8 acknowledged", `POST /v1/alerts/7/ack {"reason":"known"}` +
			"\nPOST /v1/alerts/8/ack"},
		{"alert mute 7 --reason known --for 7200", "alert 7 muted",
			`POST /v1/alerts/7/mute {"for":"2h0m0s","reason":"known"}`},
		{"alert unmute 7", "alert 7 unmuted", "POST /v1/alerts/7/unmute"},
	} {
		got := f.wakecall(t, "", strings.Fields(c.line)...)
		sent := strings.Join(f.changes(), "\n")
		if got.code != 0 || !strings.Contains(got.out, c.says) || !strings.HasPrefix(sent, c.sent) ||
			(c.sent == "") != (sent == "") {
			t.Errorf("%s: code %d, %s%s sent %s", c.line, got.code, got.out, got.err, sent)
		}
	}
	for line, says := range map[string]string{
		"change demo abc":                                "nothing to change",
		"change demo abc --delay 1s --due 0":             "--due 0 must be above zero",
		"change demo abc --delay 1s --due 1767323045678": "cannot be used together",
		"change demo abc --delay soon":                   "a number of seconds",
		"dead retry shop.close":                          "ids or --limit is required",
		"dead retry shop.close id --limit 1":             "ids or --limit is required",
		"dead retry shop.close id --status 500":          "a filter needs --limit",
		"dead retry":                                     "TOPIC is required",
		"dead list shop.close --limit 0":                 "--limit 0",
		"alert ack 7":                                    "--reason is required",
		"alert ack --reason x":                           "ID is required",
		"alert unmute x":                                 "must be the id of an alert",
		"topic pause":                                    "TOPIC is required",
		"change demo abc --body text --output":           "flag needs an argument",
	} {
		got := f.wakecall(t, "", strings.Fields(line)...)
		if sent := f.changes(); got.code != exitUsage || !strings.Contains(got.err, says) || len(sent) > 0 {
			t.Errorf("%s: code %d, %s sent %s", line, got.code, got.err, sent)
		}
	}
}

// TestErrorsAreInTheFormatThatWasAskedFor, and name the flag that was wrong instead of a field or status of HTTP.
func TestErrorsAreInTheFormatThatWasAskedFor(t *testing.T) {
	f := newFakeAPI(t)
	f.answers["POST /v1/topics/demo/jobs"] = answer{422, `{"status":422,"detail":"is negative","field":"due_at"}`}
	push := []string{"push", "demo", "--due", "1767323045678"}
	if got := f.wakecall(t, "", push...); got.err != "wakecall: --due: is negative\n" || got.code != exitFailed {
		t.Errorf("code %d, %q", got.code, got.err)
	}
	for _, c := range []struct {
		args []string
		code int
		want errorView
	}{
		{push, exitFailed, errorView{Error: "--due: is negative", Status: 422, Field: "due_at"}},
		{[]string{"get", "demo", "x"}, exitFailed, errorView{Error: "there is no such job", Status: 404}},
		{[]string{"get", "demo"}, exitUsage, errorView{Error: "wakecall get: ID is required"}},
	} {
		got := f.wakecall(t, "", append(slices.Clone(c.args), "-o", "json")...)
		var view errorView
		if err := json.Unmarshal([]byte(got.err), &view); err != nil || view != c.want || got.code != c.code ||
			got.out != "" {
			t.Errorf("%v: code %d, %s", c.args, got.code, got.err)
		}
	}
}

// TestApplyTakesTheAPIsList of topics, and refuses a page of several.
func TestApplyTakesTheAPIsList(t *testing.T) {
	f := newFakeAPI(t)
	const list = `{"topics":[{"name":"a","callback_url":"http://127.0.0.1/","created_at":"2026-01-02T03:04:05.000Z"},` +
		`{"name":"b","callback_url":"http://127.0.0.1/"}],"next":""}`
	got := f.wakecall(t, list, "topic", "apply", "-f", "-")
	if got.code != 0 || got.out != "a created\nb created\n" {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
	f.changes()
	got = f.wakecall(t, strings.Replace(list, `"next":""`, `"next":"c"`, 1), "topic", "apply", "-f", "-", "--prune")
	if sent := f.changes(); got.code != exitFailed || !strings.Contains(got.err, `"c"`) || len(sent) > 0 {
		t.Errorf("a page: code %d: %s sent %s", got.code, got.err, sent)
	}
}
