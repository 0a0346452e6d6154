package main

import (
	"strings"
	"testing"
)

const taskJSON = `{"id":"7","action":"retry","filter":{"topic":"shop","state":"dead"},"state":"running",
	"matched":9,"done":5,"skipped":{"running":1,"gone":2,"changed":0},"failed":0,"started_by":"token:x","rate":2.5,
	"created_at":"2026-01-02T03:04:05.678Z","updated_at":"2026-01-02T03:04:06.678Z"}`

// TestTaskCommands: each sends the API's request, and shows what the API tells.
func TestTaskCommands(t *testing.T) {
	f := newFakeAPI(t)
	f.answers["POST /v1/tasks"] = answer{201, taskJSON}
	f.answers["GET /v1/tasks/7"] = answer{200, taskJSON}
	f.answers["DELETE /v1/tasks/7"] = answer{202, taskJSON}
	f.answers["GET /v1/tasks?limit=100"] = answer{200, `{"tasks":[` + taskJSON + `]}`}
	for line, want := range map[string]string{
		"retry --topic shop --error timeout --rate 2.5 --stop-above 0.2": `{"action":"retry",` +
			`"filter":{"topic":"shop","error":"timeout"},"rate":2.5,"stop_above":0.2}`,
		"shift --topic shop.* --state delayed --due-before 2026-01-02T03:04:05Z --by -15m": `{"action":"shift",` +
			`"filter":{"topic":"shop.*","state":"delayed","due_before":"2026-01-02T03:04:05Z"},"by":"-15m0s"}`,
		"change --topic shop --state ready --priority low --dry-run": `{"action":"change","filter":{"topic":"shop",` +
			`"state":"ready"},"change":{"priority":"low"},"dry_run":true}`,
	} {
		got := f.wakecall(t, "", append([]string{"task", "start"}, strings.Fields(line)...)...)
		if sent := f.changes(); got.code != 0 || len(sent) != 1 || sent[0] != "POST /v1/tasks "+want {
			t.Errorf("%s: code %d, %s sent %q", line, got.code, got.err, sent)
		}
	}
	for _, line := range []string{"task show 7", "task list", "task cancel 7"} {
		got := f.wakecall(t, "", strings.Fields(line)...)
		for _, part := range []string{"retry", "shop", "running", "9", "token:x"} {
			if got.code != 0 || !strings.Contains(got.out, part) {
				t.Errorf("%s: code %d, %s shows %s", line, got.code, got.err, got.out)
			}
		}
	}
	f.changes()
	for line, says := range map[string]string{
		"start": "ACTION is required", "start run --rate 0": "--rate 0", "start run --topic=": "--topic",
		"start run --due-after soon": "--due-after", "show": "ID is required", "list --limit 0": "--limit 0",
	} {
		got := f.wakecall(t, "", append([]string{"task"}, strings.Fields(line)...)...)
		if sent := f.changes(); got.code != exitUsage || !strings.Contains(got.err, says) || len(sent) > 0 {
			t.Errorf("%s: code %d, %s sent %q", line, got.code, got.err, sent)
		}
	}
}
