package main

import (
	"slices"
	"strings"
	"testing"
)

const reportFile = `
schedule: report
topic: reports
cron: 0 8 * * 1-5
time_zone: Asia/Shanghai
body: {n: 1}
`

// TestApplyOfSchedules: they are created after the topics, and deleted before them.
func TestApplyOfSchedules(t *testing.T) {
	f := newFakeAPI(t)
	const topics = "name: reports\ncallback_url: https://shop.example/reports\n"
	const often = "---\nschedule: often\ntopic: reports\nevery: 15m\nbody: null\n"
	const mails = "---\nname: mails\ncallback_url: https://shop.example/mails\n"
	created := "reports created\nmails created\nschedule report created\nschedule often created\n"
	put := []string{
		`PUT /v1/schedules/report {"body":{"n":1},"cron":"0 8 * * 1-5","time_zone":"Asia/Shanghai","topic":"reports"}`,
		`PUT /v1/schedules/often {"body":null,"every":"15m","topic":"reports"}`,
	}
	moved := strings.ReplaceAll(reportFile, "topic: reports", "topic: mails")
	for _, s := range []struct {
		name, text, args, says string
		sent                   []string
	}{
		{"a dry run", topics + mails + "---" + reportFile + often, "--dry-run", strings.ReplaceAll(created, "created",
			"would be created"), nil},
		{"the first time", topics + mails + "---" + reportFile + often, "", created, append([]string{
			`PUT /v1/topics {"name":"reports","callback_url":"https://shop.example/reports"}`,
			`PUT /v1/topics {"name":"mails","callback_url":"https://shop.example/mails"}`,
		}, put...)},
		{"the second time", topics + "---" + reportFile + often, "",
			"reports unchanged\nschedule report unchanged\nschedule often unchanged\n", nil},
		{"only topics: schedules are kept", topics + mails, "--prune", "reports unchanged\nmails unchanged\n", nil},
		{"only schedules: topics are kept", reportFile + often, "--prune",
			"schedule report unchanged\nschedule often unchanged\n", nil},
		{"an edit", strings.Replace(reportFile, "0 8", "0 9", 1), "", "schedule report changed (cron)\n",
			[]string{strings.Replace(put[0], "0 8", "0 9", 1)}},
		{"pruned", mails + "---" + moved, "--prune",
			"mails unchanged\nschedule report changed (cron, topic)\nschedule often deleted\nreports deleted\n",
			[]string{
				strings.Replace(put[0], `"reports"}`, `"mails"}`, 1), "DELETE /v1/schedules/often",
				"DELETE /v1/topics/reports",
			}},
	} {
		args := append([]string{"schedule", "apply", "-f", "-"}, strings.Fields(s.args)...)
		got := f.wakecall(t, s.text, args...)
		if sent := f.changes(); got.code != 0 || got.out != s.says || !slices.Equal(sent, s.sent) {
			t.Errorf("%s: code %d\n%s%s\nsent %q", s.name, got.code, got.out, got.err, sent)
		}
	}
}

// TestATopicThatSchedulesUseIsNotPruned, also not one that is renamed in the file: the error names them, and nothing is
// changed.
func TestATopicThatSchedulesUseIsNotPruned(t *testing.T) {
	f := newFakeAPI(t)
	const topic = "name: reports\ncallback_url: https://shop.example/reports\n"
	const other = "---\nschedule: other\ntopic: reports\nevery: 1h\nbody: 1\n"
	if got := f.wakecall(t, topic+"---"+reportFile+other, "topic", "apply", "-f", "-"); got.code != 0 {
		t.Fatal(got.err)
	}
	f.changes()
	renamed := strings.Replace(topic, "name: reports", "name: reporting", 1)
	for _, text := range []string{renamed, renamed + "---" + reportFile + other} {
		for _, args := range []string{"--prune", "--prune --dry-run"} {
			got := f.wakecall(t, text, append([]string{"topic", "apply", "-f", "-"}, strings.Fields(args)...)...)
			if sent := f.changes(); got.code != 1 || !strings.Contains(got.err, "schedules use it: other, report.") ||
				len(sent) > 0 {
				t.Errorf("code %d: %s%s, sent %q", got.code, got.out, got.err, sent)
			}
		}
	}
}

// TestApplyNamesEveryMistakeInSchedules before anything is changed.
func TestApplyNamesEveryMistakeInSchedules(t *testing.T) {
	f := newFakeAPI(t)
	for text, says := range map[string]string{
		strings.Replace(reportFile, "1-5", "1-9", 1):    "schedule report: cron: ",
		reportFile + "---" + reportFile:                 "schedule report is already in -",
		reportFile + "ttl: 5s\n":                        "ttl: unknown field",
		strings.Replace(reportFile, "report", "A b", 1): `"A b" is not a valid name`,
	} {
		got := f.wakecall(t, "name: reports\ncallback_url: http://x/\n---"+text, "topic", "apply", "-f", "-")
		if sent := f.changes(); got.code != 1 || !strings.Contains(got.err, says) || len(sent) > 0 {
			t.Errorf("%q: code %d: %s%s, sent %q", text, got.code, got.out, got.err, sent)
		}
	}
}
