package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/checker"
	"github.com/wakecall/wakecall/internal/log/printable/printabletest"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/master"
)

// TestOutputHasNoTerminalEscapes: every text from the API may contain untrusted input, whatever the API allows today.
func TestOutputHasNoTerminalEscapes(t *testing.T) {
	f := newFakeAPI(t)
	s, err := json.Marshal(printabletest.Hostile)
	if err != nil {
		t.Fatal(err)
	}
	at := `"2026-01-02T03:00:00.000Z"`
	job := fmt.Sprintf(`{"topic":%[1]s,"id":%[1]s,"group":%[1]s,"state":"dead","due_at":%[2]s,"priority":%[1]s,"attempts":1,"created_at":%[2]s,"dead_reason":%[1]s,
		"content_type":%[1]s,"body":%[1]s,"history":[{"n":1,"started_at":%[2]s,"took_ms":1,"status":500,"error":%[1]s,"answer":%[1]s}]}`, s, at)
	id := "/v1/topics/t/jobs/x"
	f.answers = map[string]answer{
		"GET " + id:              {200, job},
		"POST " + id + "/run":    {202, job},
		"DELETE " + id:           {404, fmt.Sprintf(`{"status":404,"title":%[1]s,"detail":%[1]s}`, s)},
		"POST /v1/topics/t/jobs": {201, job},
		"GET /v1/topics/t/jobs?limit=50&state=dead": {200, fmt.Sprintf(`{"jobs":[%s],"next":%s}`, job, s)},
		"GET /v1/groups/g?limit=100": {200,
			fmt.Sprintf(`{"group":%s,"counts":{"delayed":0,"ready":0,"running":0,"dead":1},"jobs":[%s]}`, s, job)},
		"DELETE /v1/groups/g": {202, fmt.Sprintf(`{"deleted":1,"running":1,"pending":[%s]}`, s)},
		"PATCH /v1/groups/g":  {503, fmt.Sprintf(`{"status":503,"title":%[1]s,"detail":%[1]s}`, s)},
		"GET /v1/shards":      {200, fmt.Sprintf(`{"shards":[{"name":%[1]s,"state":%[1]s,"up":false,"error":%[1]s}]}`, s)},
	}
	f.topics["t"] = map[string]any{
		"name": "t", "callback_url": printabletest.Hostile, "state": printabletest.Hostile, "ttr": "10s",
		"priority": printabletest.Hostile, "title": printabletest.Hostile, "owner": printabletest.Hostile,
		"retry_if": printabletest.Hostile,
		"headers":  map[string]string{printabletest.Hostile: printabletest.Hostile},
		"emails":   []string{printabletest.Hostile},
	}
	form := `{"name":%[1]s,"topic":%[1]s,"cron":%[1]s,"time_zone":%[1]s,"state":%[1]s,"missed":%[1]s,"overlap":%[1]s,"priority":%[1]s,
		"body":%[1]s,"shard":%[1]s,"next":[%[2]s],"unavailable":[%[1]s],"last":[{"id":%[1]s,"scheduled_for":%[2]s,"state":%[1]s}]}`
	schedule := fmt.Sprintf(form, s, at)
	f.answers["GET /v1/schedules/s"] = answer{200, schedule}
	f.answers["GET /v1/schedules?limit=1000"] = answer{200, `{"schedules":[` + schedule + `]}`}
	f.answers["POST /v1/schedules/s/pause"] = answer{200, schedule}
	f.answers["POST /v1/schedules/s/run"] = answer{201, fmt.Sprintf(`{"topic":%[1]s,"id":%[1]s}`, s)}
	for _, args := range [][]string{
		{"get", "t", "x"}, {"run", "t", "x"}, {"delete", "t", "x"}, {"push", "t"}, {"list", "t", "--state", "dead"},
		{"group", "show", "g"}, {"group", "cancel", "g"}, {"group", "move", "g", "--shift", "1h"},
		{"schedule", "show", "s"}, {"schedule", "list"}, {"schedule", "pause", "s"}, {"schedule", "run", "s"},
		{"topic", "list"}, {"topic", "show", "t"}, {"topic", "delete", "t"}, {"shard", "list"}, {"stats", "nowhere"},
	} {
		for _, output := range []string{"table", "json"} {
			got := f.wakecall(t, "", append(args, "--output", output)...)
			what := strings.Join(args, " ") + " as " + output
			if got.out == "" && got.err == "" {
				t.Errorf("%s printed nothing", what)
			}
			if output == "json" && got.code == 0 && !json.Valid([]byte(got.out)) {
				t.Errorf("%s is not JSON: %s", what, got.out)
			}
			printabletest.Check(t, what, got.out)
			// it may have several lines
			printabletest.Check(t, "the error of "+what, strings.ReplaceAll(got.err, "\nFORGED", ""))
		}
	}
	var back struct{ ID string }
	if got := f.wakecall(t, "", "get", "t", "x", "--output", "json"); json.Unmarshal([]byte(got.out), &back) != nil ||
		back.ID != printabletest.Hostile {
		t.Errorf("the escapes changed the id to %q", back.ID)
	}
}

func TestPsPrintsNoTerminalEscapes(t *testing.T) {
	status, err := json.Marshal(
		map[string]any{"findings": []checker.Finding{{Shard: printabletest.Hostile, Kind: "down",
			Detail: message.Plain(printabletest.Hostile)}}})
	if err != nil {
		t.Fatal(err)
	}
	tree := &master.Tree{Processes: []master.Process{{Role: "redis-checker", Pid: 1, Status: status},
		{Role: "server", State: printabletest.Hostile, LastExit: printabletest.Hostile}}}
	var out bytes.Buffer
	if err := treeTable(&out, tree, testNow); err != nil {
		t.Fatal(err)
	}
	printabletest.Check(t, "ps", out.String())
}
