package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

const topicFile = `# two documents, the second a list
name: shop.close
callback_url: https://shop.example/close
retry: [10s, 1m]
headers: {X-Team: shop}
---
- name: shop.mail
  callback_url: https://shop.example/mail
  max_attempts: 3
- name: shop.refund
  callback_url: https://shop.example/refund
  state: paused
`

func TestApplyIsDeclarative(t *testing.T) {
	f := newFakeAPI(t)
	apply := func(text string, args ...string) ran {
		return f.wakecall(t, text, append([]string{"topic", "apply", "-f", "-"}, args...)...)
	}
	steps := []struct {
		name    string
		text    string
		args    []string
		says    []string
		changes int
	}{
		{"a dry run changes nothing", topicFile, []string{"--dry-run"},
			[]string{"shop.close would be created", "shop.mail would be created", "shop.refund would be created"}, 0},
		{"the first time", topicFile, nil, []string{"shop.close created", "shop.mail created", "shop.refund created"},
			3},
		{"the second time", topicFile, nil,
			[]string{"shop.close unchanged", "shop.mail unchanged", "shop.refund unchanged"},
			0},
		{"an edit", strings.Replace(topicFile, "max_attempts: 3", "max_attempts: 4\n  ttr: 20s\n  shard: redis-1", 1),
			nil,
			[]string{"shop.close unchanged", "shop.mail changed (max_attempts, shard, ttr)", "shop.refund unchanged"},
			1},
		{"what is no longer said takes its default", topicFile, nil,
			[]string{"shop.close unchanged", "shop.mail changed (max_attempts, shard, ttr)", "shop.refund unchanged"},
			1},
		{"another spelling of the same", strings.Replace(topicFile, "[10s, 1m]", "[10, 60s]", 1), nil,
			[]string{"shop.close unchanged", "shop.mail unchanged", "shop.refund unchanged"}, 0},
		{"fewer topics", "name: shop.mail\ncallback_url: https://shop.example/mail\nmax_attempts: 3\n", nil,
			[]string{"shop.mail unchanged"}, 0},
		{"fewer topics, a dry prune", "name: shop.mail\ncallback_url: https://shop.example/mail\nmax_attempts: 3\n",
			[]string{"--prune", "--dry-run"},
			[]string{"shop.mail unchanged", "shop.close would be deleted", "shop.refund would be deleted"}, 0},
		{"fewer topics, pruned", "name: shop.mail\ncallback_url: https://shop.example/mail\nmax_attempts: 3\n",
			[]string{"--prune"},
			[]string{"shop.mail unchanged", "shop.close deleted", "shop.refund deleted"}, 2},
		{"secrets cannot be compared",
			"name: shop.mail\ncallback_url: https://shop.example/mail\nmax_attempts: 3\nsecrets: " +
				"[whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]\n",
			nil, []string{"shop.mail changed (secrets)"}, 1},
	}
	for _, s := range steps {
		got := apply(s.text, s.args...)
		if want := strings.Join(s.says, "\n") + "\n"; got.code != 0 || got.out != want {
			t.Errorf("%s: code %d\n%s%s\nwant\n%s", s.name, got.code, got.out, got.err, want)
		}
		if sent := f.changes(); len(sent) != s.changes {
			t.Errorf("%s: sent %q", s.name, sent)
		}
	}
}

func TestApplyInJSON(t *testing.T) {
	f := newFakeAPI(t)
	got := f.wakecall(t, topicFile, "topic", "apply", "-f", "-", "-o", "json")
	var changes []change
	if err := json.Unmarshal([]byte(got.out), &changes); err != nil || len(changes) != 3 ||
		changes[0].Done != "created" {
		t.Errorf("%v: %s", err, got.out)
	}
}

func TestShownTopicCanBeApplied(t *testing.T) {
	f := newFakeAPI(t)
	if got := f.wakecall(t, topicFile, "topic", "apply", "-f", "-"); got.code != 0 {
		t.Fatal(got.err)
	}
	shown := f.wakecall(t, "", "topic", "show", "shop.close")
	if got := f.wakecall(t, shown.out, "topic", "apply", "-f", "-"); got.out != "shop.close unchanged\n" {
		t.Errorf("%s%s after\n%s", got.out, got.err, shown.out)
	}
}

// TestNoLimitOfAttemptsIsKept: for a pull topic, 0 attempts mean no limit, which is not the default.
func TestNoLimitOfAttemptsIsKept(t *testing.T) {
	f := newFakeAPI(t)
	const file = "name: mail\ndelivery: pull\n"
	apply := func(text, says string) {
		t.Helper()
		if got := f.wakecall(t, text, "topic", "apply", "-f", "-"); got.out != says {
			t.Errorf("applying %q: %s%s", text, got.out, got.err)
		}
	}
	apply(file+"max_attempts: 0\n", "mail created\n")
	apply(file+"max_attempts: 0\n", "mail unchanged\n")
	shown := f.wakecall(t, "", "topic", "show", "mail").out
	apply(file, "mail changed (max_attempts)\n")
	apply(shown, "mail changed (max_attempts)\n")
}

func TestApplyChecksEverythingFirst(t *testing.T) {
	f := newFakeAPI(t)
	for name, tt := range map[string]struct {
		text string
		says []string
	}{
		"no YAML":       {"a: [", []string{"-: "}},
		"nothing":       {"# nothing\n", []string{"no topic"}},
		"a text":        {"hello", []string{"hello"}},
		"a list of it":  {"[1]", []string{"\"1\" is not a topic"}},
		"no name":       {"callback_url: http://x/\n", []string{"number 1", "name"}},
		"bad name":      {"name: Big Topic\ncallback_url: http://x/\n", []string{"Big Topic"}},
		"unknown field": {topicFile + "- name: x\n  callback_url: http://x/\n  ttl: 5s\n", []string{"topic x", "ttl"}},
		"bad duration": {topicFile + "- name: x\n  callback_url: http://x/\n  ttr: soon\n",
			[]string{"topic x", "soon"}},
		"twice": {topicFile + "- name: shop.mail\n  callback_url: http://x/\n",
			[]string{"shop.mail", "already"}},
		"two mistakes": {"- {name: x, callback_url: 'http://x/', ttl: 1}\n- {name: y, callback_url: 'http://x/', " +
			"ttl: 1}\n",
			[]string{"topic x", "topic y"}},
		"field twice": {"name: x\nname: y\n", []string{"name"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.wakecall(t, tt.text, "topic", "apply", "-f", "-")
			if got.code == 0 {
				t.Errorf("code 0: %s", got.out)
			}
			for _, say := range tt.says {
				if !strings.Contains(got.err, say) {
					t.Errorf("%q does not say %q", got.err, say)
				}
			}
			if sent := f.changes(); len(sent) > 0 {
				t.Errorf("sent %q", sent)
			}
		})
	}
}

func TestApplyReadsSeveralFiles(t *testing.T) {
	f := newFakeAPI(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"a.yaml": "name: a\ncallback_url: http://x/\n",
		"b.json": `[{"name":"b","callback_url":"http://x/"}]`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := here([]string{"WAKECALL_URL=" + f.url, "WAKECALL_TOKEN=secret-token"}, "", "topic", "apply", "-f", "a.yaml",
		"-f", "b.json")
	if got.code != 0 || got.out != "a created\nb created\n" {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
}

func TestATopicWithJobsIsDeletedOnlyWithThem(t *testing.T) {
	f := newFakeAPI(t)
	f.answers["DELETE /v1/topics/full"] = answer{409, `{"status":409,"detail":"topic full has 3 jobs"}`}
	f.topics["full"] = map[string]any{"name": "full"}
	got := f.wakecall(t, "", "topic", "delete", "full")
	if got.code != 1 || !strings.Contains(got.err, "--drop-jobs") {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	f.answers["DELETE /v1/topics/full?drop=true"] = answer{204, ""}
	f.changes()
	if got := f.wakecall(t, "", "topic", "delete", "full", "--drop-jobs"); got.code != 0 {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	if sent := f.changes(); !slices.Equal(sent, []string{"DELETE /v1/topics/full?drop=true"}) {
		t.Errorf("sent %q", sent)
	}
}

func TestATopicWithSchedulesIsDeletedOnlyWithThem(t *testing.T) {
	f := newFakeAPI(t)
	f.topics["used"] = map[string]any{"name": "used"}
	f.answers["DELETE /v1/topics/used"] = answer{409,
		`{"status":409,"code":"topic_in_use","detail":"topic used has schedules: daily"}`}
	got := f.wakecall(t, "", "topic", "delete", "used")
	if got.code != 1 || !strings.Contains(got.err, "daily") || !strings.Contains(got.err, "delete --force") {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	f.answers["DELETE /v1/topics/used?drop=true&force=true"] = answer{204, ""}
	if got := f.wakecall(t, "", "topic", "delete", "used", "--force", "--drop-jobs"); got.code != 0 {
		t.Errorf("code %d: %s", got.code, got.err)
	}
}
