package assistant

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/test/wait"
)

// askAssistant connects a client to the tools, as the program of an assistant does.
func askAssistant(t *testing.T, url, token string, changes bool) *mcp.ClientSession {
	t.Helper()
	o := options(t, url, token)
	o.AllowChanges = changes
	requests, ask := io.Pipe()
	answers, answer := io.Pipe()
	server, err := newServer(o).Connect(t.Context(), newLineTransport(requests, answer), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(
		t.Context(), &mcp.IOTransport{Reader: answers, Writer: ask}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = server.Wait()
	})
	return s
}

// ask calls a tool and returns its structured content, or the text of its error.
func ask(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (result, failure string) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err.Error()
	}
	if r.IsError {
		return "", r.Content[0].(*mcp.TextContent).Text
	}
	b, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), ""
}

var (
	readingTools = []string{"alerts", "dead_letters", "find_job", "group_jobs", "list_jobs", "list_schedules",
		"list_topics", "shards", "show_schedule", "topic_stats"}
	changingTools = []string{"ack_alert", "cancel_group", "delete_job", "pause_schedule", "pause_topic", "resume_schedule",
		"resume_topic", "retry_dead", "run_job", "run_schedule"}
)

// TestAssistantOnlyReadsUnlessAllowed: without --allow-changes there is no tool that changes anything.
func TestAssistantOnlyReadsUnlessAllowed(t *testing.T) {
	for allowed, want := range map[bool][]string{
		false: readingTools, true: slices.Sorted(slices.Values(slices.Concat(readingTools, changingTools))),
	} {
		api := newFakeAPI(t, nil)
		s := askAssistant(t, api.url, "secret-token", allowed)
		var got []string
		for tool, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, tool.Name)
			reads := slices.Contains(readingTools, tool.Name)
			if tool.Annotations.ReadOnlyHint != reads || len(tool.Description) < 40 || tool.InputSchema == nil {
				t.Errorf("%s: %+v", tool.Name, tool)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("changes allowed: %t: the tools are %q", allowed, got)
		}
		_, refused := ask(t, s, "delete_job", map[string]any{"topic": "t", "id": "x"})
		if allowed != (len(api.changes()) > 0) || !allowed && !strings.Contains(refused, "delete_job") {
			t.Errorf("changes allowed: %t: delete_job failed with %q", allowed, refused)
		}
	}
}

// TestAssistantChanges sends what the command line sends.
func TestAssistantChanges(t *testing.T) {
	api := newFakeAPI(t, map[string]answer{
		"POST /v1/topics/t/pause":         {200, `{"state":"paused"}`},
		"POST /v1/topics/t/resume":        {200, `{"state":"active"}`},
		"POST /v1/topics/t/jobs/x/run":    {202, `{"topic":"t","id":"x","state":"ready"}`},
		"POST /v1/topics/t/dead/retry":    {200, `{"count":3}`},
		"DELETE /v1/topics/t/jobs/x":      {204, ``},
		"POST /v1/alerts/7/ack":           {200, `{}`},
		"POST /v1/schedules/s/pause":      {200, `{"name":"s","state":"paused"}`},
		"POST /v1/schedules/s/resume":     {200, `{"name":"s","state":"active"}`},
		"POST /v1/schedules/s/run":        {201, `{"topic":"t","id":"s!2026-01-02T03:04:05.000Z"}`},
		"DELETE /v1/groups/g":             {200, `{"deleted":2,"running":1}`},
		"DELETE /v1/groups/g?close=10m0s": {202, `{"deleted":2,"running":1,"pending":["redis-2"]}`},
	})
	s := askAssistant(t, api.url, "secret-token", true)
	for _, c := range []struct {
		tool string
		args map[string]any
		sent string
	}{
		{"run_job", map[string]any{"topic": "t", "id": "x"}, "POST /v1/topics/t/jobs/x/run"},
		{
			"retry_dead", map[string]any{"topic": "t", "limit": 5, "status": 503, "since": "2026-01-02T00:00:00Z", "dry_run": true},
			`POST /v1/topics/t/dead/retry {"limit":5,"filter":{"status":503,"since":"2026-01-02T00:00:00Z"},"dry_run":true}`,
		},
		{"retry_dead", map[string]any{"topic": "t", "ids": []string{"x"}}, `POST /v1/topics/t/dead/retry {"ids":["x"]}`},
		{"delete_job", map[string]any{"topic": "t", "id": "x"}, "DELETE /v1/topics/t/jobs/x"},
		{"cancel_group", map[string]any{"group": "g"}, "DELETE /v1/groups/g"},
		{"cancel_group", map[string]any{"group": "g", "close": "10m"}, "DELETE /v1/groups/g?close=10m0s"},
		{
			"pause_schedule", map[string]any{"schedule": "s", "until": "2026-12-01T00:00:00Z"},
			`POST /v1/schedules/s/pause {"until":"2026-12-01T00:00:00.000Z"}`,
		},
		{"pause_schedule", map[string]any{"schedule": "s"}, "POST /v1/schedules/s/pause {}"},
		{"resume_schedule", map[string]any{"schedule": "s", "catch_up": true}, `POST /v1/schedules/s/resume {"catch_up":true}`},
		{"run_schedule", map[string]any{"schedule": "s"}, "POST /v1/schedules/s/run"},
		{"pause_topic", map[string]any{"topic": "t", "reason": "release"}, `POST /v1/topics/t/pause {"reason":"release"}`},
		{"resume_topic", map[string]any{"topic": "t"}, "POST /v1/topics/t/resume {}"},
		{"ack_alert", map[string]any{"id": 7, "reason": "known"}, `POST /v1/alerts/7/ack {"reason":"known"}`},
	} {
		_, failure := ask(t, s, c.tool, c.args)
		if sent := api.changes(); failure != "" || !slices.Equal(sent, []string{c.sent}) {
			t.Errorf("%s sent %q: %s", c.tool, sent, failure)
		}
	}
}

// TestAssistantCutsWhatOthersWrote: bodies and answers of other systems are short, marked as cut, and have no characters
// that people do not see. Secrets are left out.
func TestAssistantCutsWhatOthersWrote(t *testing.T) {
	long, hidden := strings.Repeat("x", 5000), "a\U000e0041\U000e0141\u202eb\x1b"
	text := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	api := newFakeAPI(t, map[string]answer{
		"GET /v1/topics?limit=101": {200, `{"topics":[{"name":"t","state":"active","delivery":"push",
			"callback_url":"https://user:secret@h/path?key=secret","headers":{"Authorization":"secret"}}]}`},
		"GET /v1/search?id=x": {200, `{"done":true,"stored":[{"topic":"t","id":"x","state":"dead"}],"jobs":[` +
			`{"topic":"t","id":"x","ended":"delete","created_at":"2026-01-02T03:00:00Z","events":[{"at":"2026-01-02T03:04:00Z","what":"delete","error":` + text(hidden+long) + `}]}]}` + "\n"},
		"GET /v1/topics/t/jobs/x": {200, `{"topic":"t","id":"x","state":"dead","dead_reason":"attempts","attempts":2,
			"due_at":"2026-01-02T03:07:05Z","dead_at":"2026-01-02T03:03:05Z","headers":{"Authorization":"secret"},"body":` + text(long) +
			`,"history":[{"n":2,"started_at":"2026-01-02T03:04:00Z","status":500,"answer":` + text(hidden+long) + `}]}`},
	})
	s := askAssistant(t, api.url, "secret-token", false)
	found, failure := ask(t, s, "find_job", map[string]any{"id": "x"})
	topics, _ := ask(t, s, "list_topics", nil)
	if failure != "" || len(found) > 4000 || strings.Contains(found+topics, "secret") || strings.ContainsAny(found, "\U000e0041\U000e0141") ||
		strings.Contains(found, "\u202e") || strings.Count(found, "[cut here: 50") != 3 {
		t.Errorf("%d bytes: %s %s %s", len(found), found, failure, topics)
	}
	var out findOut
	if err := json.Unmarshal([]byte(found), &out); err != nil {
		t.Fatal(err)
	}
	if want := "not delivered: dead after 2 attempts, since 2026-01-02T03:03:05.000Z (1m ago), reason: attempts"; out.Summary !=
		want || out.Jobs[0].DueAt != "2026-01-02T03:07:05.000Z (in 3m)" || !out.Complete || len(out.Past) != 1 ||
		!strings.HasPrefix(out.Past[0].Summary, "deleted, 2026-01-02T03:04:00.000Z (5s ago)") {
		t.Errorf("%+v", out)
	}
	if !strings.Contains(topics, `"callback_url":"https://h/path"`) {
		t.Errorf("topics: %s", topics)
	}
}

// TestAssistantHandsOutNothingHidden: no field and no error has a character that a model reads but people do not see.
func TestAssistantHandsOutNothingHidden(t *testing.T) {
	const hidden = "\u200b\ufe0f\u034f\u3164\U000e0041"
	api := newFakeAPI(t, map[string]answer{
		"GET /v1/topics/t/jobs?limit=20&state=dead": {200, `{"jobs":[{"topic":"t","id":"x` + hidden + `","state":"dead",` +
			`"priority":"` + hidden + `","due_at":"2026-01-02T03:07:05Z"}]}`},
		"GET /v1/topics/t/stats": {403, `{"status":403,"detail":"refused` + hidden + `"}`},
		"GET /v1/topics?limit=101": {200, `{"topics":[{"name":"t` + hidden + `","title":"` + hidden + `","owner":"` + hidden +
			`","state":"active` + hidden + `","callback_url":"http://h/` + hidden + `"}]}`},
	})
	s := askAssistant(t, api.url, "secret-token", false)
	for _, tool := range []string{"list_jobs", "topic_stats", "list_topics"} {
		args := map[string]map[string]any{"list_jobs": {"topic": "t", "state": "dead"}, "topic_stats": {"topic": "t"}}[tool]
		result, failure := ask(t, s, tool, args)
		if got := result + failure; !strings.Contains(got, "\ufffd") || strings.ContainsFunc(got, printable.Ignorable) {
			t.Errorf("%s: %+q", tool, got)
		}
	}
}

// TestAssistantReadsAGroup, and says of what group a job is.
func TestAssistantReadsAGroup(t *testing.T) {
	api := newFakeAPI(t, map[string]answer{
		"GET /v1/groups/order%2F42?limit=20": {200, `{"group":"order/42","counts":{"delayed":1,"ready":0,"running":0,"dead":2},
			"closed_until":"2026-01-02T03:14:05Z","jobs":[{"topic":"t","id":"x","group":"order/42","state":"dead"}]}`},
	})
	s := askAssistant(t, api.url, "secret-token", false)
	got, failure := ask(t, s, "group_jobs", map[string]any{"group": "order/42"})
	for _, part := range []string{`"delayed":1`, `"dead":2`, `"group":"order/42"`, "(in 10m)", `"id":"x"`} {
		if !strings.Contains(got, part) {
			t.Errorf("no %s in %s %s", part, got, failure)
		}
	}
	if _, failure := ask(t, s, "group_jobs", map[string]any{"group": "g", "limit": 101}); !strings.Contains(failure, "100") {
		t.Errorf("a limit of 101: %q", failure)
	}
}

// TestAssistantReadsSchedules, but not their headers.
func TestAssistantReadsSchedules(t *testing.T) {
	const report = `{"name":"report","topic":"reports","cron":"0 8 * * 1-5","time_zone":"Asia/Shanghai","body":{"n":1},
		"headers":{"X-Key":"hidden"},"missed":"last","overlap":"skip","state":"active","shard":"redis-1",
		"next":["2026-01-02T03:14:05Z","2026-01-03T03:14:05Z"],"left_out":{"late":3},
		"last":[{"id":"report@2026-01-01T00:00:00Z","scheduled_for":"2026-01-01T00:00:00Z","state":"dead"}]}`
	api := newFakeAPI(t, map[string]answer{
		"GET /v1/schedules/report":                   {200, report},
		"GET /v1/schedules?limit=1000&topic=reports": {200, `{"schedules":[` + report + `]}`},
	})
	s := askAssistant(t, api.url, "secret-token", false)
	got, failure := ask(t, s, "show_schedule", map[string]any{"schedule": "report"})
	for _, part := range []string{
		`"cron":"0 8 * * 1-5"`, "(in 10m)", `"state":"dead"`, `"late":3`, `"id":"report@2026-01-01T00:00:00Z"`, `"body":"{\"n\":1}"`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("no %s in %s %s", part, got, failure)
		}
	}
	list, failure := ask(t, s, "list_schedules", map[string]any{"topic": "reports"})
	if !strings.Contains(list, `"name":"report"`) || strings.Contains(got+list, "hidden") {
		t.Errorf("listed: %s %s", list, failure)
	}
}

// TestASearchSaysThatAShardIsDown: it may have the job that was not found.
func TestASearchSaysThatAShardIsDown(t *testing.T) {
	api := newFakeAPI(t, map[string]answer{
		"GET /v1/search?id=x": {200, `{"done":true,"stored":[],"jobs":[]}` + "\n"},
		"GET /v1/shards":      {200, `{"shards":[{"name":"a","up":true},{"name":"b","error":"connection refused"}]}`},
	})
	found, failure := ask(t, askAssistant(t, api.url, "secret-token", false), "find_job", map[string]any{"id": "x"})
	if !strings.Contains(found, `"complete":false`) || !strings.Contains(found, `["shard b: connection refused"]`) ||
		strings.Contains(found, "unknown") {
		t.Errorf("%s %s", found, failure)
	}
}

// TestAssistantCountsDeadJobs by reason, over all pages.
func TestAssistantCountsDeadJobs(t *testing.T) {
	api := newFakeAPI(t, map[string]answer{
		"GET /v1/topics/t/stats":                               {200, `{"dead":3}`},
		"GET /v1/topics/t/jobs?limit=1000&state=dead":          {200, `{"jobs":[{"id":"a","dead_reason":"gone"}],"next":"n"}`},
		"GET /v1/topics/t/jobs?cursor=n&limit=1000&state=dead": {200, `{"jobs":[{"id":"b","dead_reason":"attempts"},{"id":"c","dead_reason":"attempts"}]}`},
		"GET /v1/topics/t/jobs/a":                              {200, `{"topic":"t","id":"a","state":"dead"}`},
		"GET /v1/topics/t/jobs/b":                              {200, `{"topic":"t","id":"b","state":"dead"}`},
	})
	text, failure := ask(t, askAssistant(t, api.url, "secret-token", false), "dead_letters", map[string]any{"topic": "t"})
	var out deadOut
	if err := json.Unmarshal([]byte(text), &out); err != nil || out.Dead != 3 || out.Counted != 3 || len(out.Examples) != 2 ||
		!slices.Equal(out.Reasons, []deadReason{{"attempts", 2}, {"gone", 1}}) {
		t.Errorf("%s %s", text, failure)
	}
}

// TestAssistantErrorsNameTheWayOut: somebody who asks an assistant sees them.
func TestAssistantErrorsNameTheWayOut(t *testing.T) {
	api := newFakeAPI(t, map[string]answer{
		"GET /v1/topics/other/stats": {403, `{"status":403,"detail":"the token does not allow read on other"}`},
	})
	for _, c := range []struct{ url, token, tool, topic, says string }{
		{api.url, "secret-token", "topic_stats", "other", "wakecall token create"},
		{api.url, "wrong", "topic_stats", "t", "WAKECALL_TOKEN"},
		{"http://127.0.0.1:1", "x", "topic_stats", "t", "WAKECALL_URL"},
		{api.url, "secret-token", "topic_stats", "nowhere", "there is no such job"},
	} {
		_, failure := ask(t, askAssistant(t, c.url, c.token, false), c.tool, map[string]any{"topic": c.topic})
		if !strings.Contains(failure, c.says) {
			t.Errorf("%s with %s: %q", c.url, c.token, failure)
		}
	}
	s := askAssistant(t, api.url, "secret-token", false)
	for _, args := range []map[string]any{
		{"topic": "t", "state": "dead", "limit": 101}, {"topic": "t"}, {"topic": "t", "state": "dead", "nonsense": 1},
	} {
		if result, failure := ask(t, s, "list_jobs", args); failure == "" {
			t.Errorf("%v: %s", args, result)
		}
	}
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` +
	`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// TestAssistantOutlivesGarbage: a line that is not a message is answered with an error, and the session goes on. All
// requests before the end of the input are answered.
func TestAssistantOutlivesGarbage(t *testing.T) {
	garbage := []string{
		"", "nonsense", `{"jsonrpc":"2.0","id":7`, `{}`, `[]`, `[1]`, `null`, `"text"`, "\xff\xfe\x00", `{"jsonrpc":"1.0","id":1}`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`, strings.Repeat("x", 3*lineLimit),
		`{"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":"` + strings.Repeat("y", lineLimit) + `"}}`,
		`{"jsonrpc":"2.0","id":50,"method":"no/such/method"}`, `{"jsonrpc":"2.0","id":51,"method":"tools/call","params":null}`,
		`{"jsonrpc":"2.0","id":52,"method":"tools/call","params":{"name":"nothing"}}`, `{"jsonrpc":"2.0","id":53,"method":""}`,
		`{"jsonrpc":"2.0","id":54,"result":{}}`, `{"jsonrpc":"2.0","method":"no/such/notification"}`,
		`{"jsonrpc":"2.0","id":55,"method":"tools/call","params":{"name":"find_job","arguments":"x"}}`,
	}
	input := hello + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for i, line := range garbage {
		input += line + "\n" + fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, 100+i) + "\n"
	}
	input += `{"jsonrpc":"2.0","id":200,"method":"tools/list"}` // without a line's end
	var out strings.Builder
	err := Serve(t.Context(), strings.NewReader(input), &out, options(t, newFakeAPI(t, nil).url, "secret-token"))
	answered := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		var m struct {
			ID    json.RawMessage
			Error *struct{ Code int }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		answered[string(m.ID)] = true
	}
	for i, line := range garbage {
		if !answered[fmt.Sprint(100+i)] {
			t.Errorf("no answer after %.80q", line)
		}
	}
	if err != nil || !answered["200"] || !answered["null"] || !answered["50"] || !answered["52"] {
		t.Errorf("%v, answered %v", err, answered)
	}
}

// TestAssistantStops at the end of its context, while its input is open and a call waits for the server.
func TestAssistantStops(t *testing.T) {
	in, feed := io.Pipe()
	defer feed.Close()
	reply, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t, "http://127.0.0.1:1", "x")
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, in, out, o) }()
	go func() { _, _ = io.WriteString(feed, hello+"\n") }()
	first := make([]byte, 1)
	if _, err := io.ReadFull(reply, first); err != nil || !bytes.Equal(first, []byte("{")) {
		t.Fatalf("%q, %v", first, err)
	}
	go func() { _, _ = io.Copy(io.Discard, reply) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(wait.Limit):
		t.Error("it goes on")
	}
	_ = out.Close()
}
