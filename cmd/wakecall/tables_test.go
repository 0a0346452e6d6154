package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/store"
)

func TestTablesOfReports(t *testing.T) {
	moved := &importer.Report{Topics: 3, Made: 2, Waiting: 10, Imported: 7, Resumed: 1, Kept: 1, Refused: 1, Left: 1}
	for name, x := range map[string]struct {
		table func(io.Writer) error
		want  string
	}{
		"import": {func(w io.Writer) error { return importTable(w, moved, false) }, `
topics                        3
  not registered yet          2
jobs waiting                  10
imported                      7
  from an interrupted import  1
skipped (newer job exists)    1
refused                       1
left in the old system        1
`},
		"a dry run of it": {func(w io.Writer) error { return importTable(w, moved, true) }, `
topics                3
  not registered yet  2
jobs waiting          10
`},
		"recovery": {func(w io.Writer) error {
			return recoveryTable(w, &reconcile.Report{Jobs: 5, There: 4, Missing: 1, Pushed: 1}, false)
		}, `
accepted            5
  present           4
  delivered         0
  dead              0
  deleted           0
  missing           1
pushed again        1
changed again       0
dead jobs restored  0
deleted again       0
`},
		"a dry run of it, with trouble": {func(w io.Writer) error {
			return recoveryTable(w, &reconcile.Report{Jobs: 5, Missing: 5, Unknown: 2, Failed: 3, Torn: 4}, true)
		}, `
accepted                       5
  present                      0
  delivered                    0
  dead                         0
  deleted                      0
  missing                      5
deleted again                  0
skipped: topic not registered  2
refused                        3
unreadable journal lines       4
`},
		"a check": {func(w io.Writer) error {
			return findingsTable(w, []setup.Finding{
				{What: "registry", Verdict: setup.Good, Detail: "it answers"},
				{What: "redis a", Verdict: setup.Warning, Detail: "no\nAOF", Advice: "Turn it on"},
				{What: "redis b", Verdict: setup.Failed, Detail: "down", Advice: "Start it"},
			})
		}, `
registry  ok       it answers
redis a   warning  no AOF. Turn it on
redis b   FAILED   down. Start it
1 failure and 1 warning
`},
	} {
		var out bytes.Buffer
		if err := x.table(&out); err != nil {
			t.Fatal(err)
		}
		squeezed := func(s string) string { // the width of columns is not tested here
			var lines []string
			for line := range strings.Lines(strings.TrimSpace(s)) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			return strings.Join(lines, "\n")
		}
		if squeezed(out.String()) != squeezed(x.want) {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
	for want, counts := range map[string][2]int{
		"all good": {0, 0}, "no failures, 2 warnings": {2, 0}, "2 failures and 0 warnings": {0, 2},
	} {
		if got := summary(counts[0], counts[1]); got != want {
			t.Errorf("%v is %q, want %q", counts, got, want)
		}
	}
}

func TestBarsShowTheRemainingJobs(t *testing.T) {
	const half, all = "===============", "=============================="
	for want, r := range map[string]importer.Report{
		"[                              ]   0 %  0 of 0 jobs, 0 a second ": {},
		"[" + half + "               ]  50 %  5 of 10 jobs, 2 a second ": {Waiting: 10, Imported: 3, Kept: 1,
			Refused: 1},
		// producers continue to push
		"[" + all + "] 100 %  30 of 30 jobs, 15 a second ":                       {Waiting: 10, Imported: 30},
		"[                              ]   0 %  1 of 1000000 jobs, 0 a second ": {Waiting: 1_000_000, Imported: 1},
	} {
		if got := importBar(&r, 2); got != want {
			t.Errorf("%+v is\n%q, want\n%q", r, got, want)
		}
	}
	for want, h := range map[string]store.ShardHealth{
		"a: does not answer: connection refused":   {Err: "connection refused"},
		"a: 10 jobs left, 0 moved":                 {Up: true, Jobs: 10},
		"a: 4 jobs left, 6 moved, about 40s to go": {Up: true, Jobs: 4, Moved: 6},
		"a: 0 jobs left, 10 moved":                 {Up: true, Moved: 10},
		"a: 12 jobs left, 0 moved":                 {Up: true, Jobs: 12}, // retries were pushed to it
	} {
		h.Name = "a"
		if got := drainLine(&h, 10, time.Minute); got != want {
			t.Errorf("%+v is %q, want %q", h, got, want)
		}
	}
}

// TestSearchPrintsCommandsToPaste: an id of another system neither runs code nor is a flag.
func TestSearchPrintsCommandsToPaste(t *testing.T) {
	for id, want := range map[string]string{
		"order-42": "wakecall get t order-42\n", "x; id": "wakecall get t 'x; id'\n", "$(id)": "wakecall get t '$(id)'\n",
		"--config=x": "wakecall get -- t '--config=x'\n",
	} {
		var out strings.Builder
		r := &client.SearchReport{Stored: []client.StoredJob{{Topic: "t", ID: id, State: "ready"}}}
		if err := (&program{}).showSearch(&out, id, r); err != nil || !strings.Contains(out.String(), "is ready: "+want) {
			t.Errorf("%s: %v, printed %s", id, err, out.String())
		}
	}
}

func TestBinaryBodies(t *testing.T) {
	for want, j := range map[string]client.Job{
		"too long to be remembered":                             {BodyGone: true},
		"3 bytes of binary data (in base64 with --output json)": {BodyBase64: []byte{0xff, 1, 2}},
		`{"a":1}`:       {Body: []byte(`{"a":1}`)},
		`{"a":1,"a":2}`: {BodyBase64: []byte(`{"a":1,"a":2}`)},
		"":              {},
	} {
		if got := shownBody(&j); got != want {
			t.Errorf("%+v is shown as %q, want %q", j, got, want)
		}
	}
	late := int64(1500)
	if got := lateness(&client.Job{LateMS: &late}); got != "1.5s" {
		t.Errorf("1500 ms late is %q", got)
	}
}

// TestTheShellCompletesTopics, and only topics, with those of the server.
func TestTheShellCompletesTopics(t *testing.T) {
	f := newFakeAPI(t)
	for _, name := range []string{"shop.close", "shop.open", "mail"} {
		f.topics[name] = map[string]any{"name": name, "ttr": "10s"}
	}
	complete := func(args ...string) string {
		return f.wakecall(t, "", append([]string{"__complete"}, args...)...).out
	}
	if got := complete("push", "shop."); got != "shop.close\nshop.open\n:4\n" {
		t.Errorf("topics: %q", got)
	}
	if got := complete("get", "mail", ""); got != ":4\n" {
		t.Errorf("ids: %q", got)
	}
	if got := complete("push", "mail", "--on-duplicate", ""); got != "keep\nreplace\nerror\n:4\n" {
		t.Errorf("values of a flag: %q", got)
	}
	if got := complete("work", "mail", "shop.c") + complete("search", "x", "--topic", "m"); got !=
		"shop.close\n:4\nmail\n:4\n" {
		t.Errorf("further topics: %q", got)
	}
	if got := complete("topic", "list", "--state", "p"); got != "active\npaused\noffline\n:4\n" {
		t.Errorf("states: %q", got)
	}
	f.answers["GET /v1/alerts"] = answer{200, `{"alerts":[{"id":17,"title":"topic mail is failing"},
		{"id":3,"title":"over","ended_at":"2026-01-02T03:04:05Z"}]}`}
	if got := complete("alert", "ack", ""); got != "17\ttopic mail is failing\n:4\n" {
		t.Errorf("alerts: %q", got)
	}
}

// TestTheShellDoesNotWaitForAServer that is away, or hangs.
func TestTheShellDoesNotWaitForAServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, url := range []string{"http://127.0.0.1:1", "http://" + l.Addr().String()} {
		for _, args := range [][]string{{"push", ""}, {"alert", "ack", ""}} {
			began := time.Now()
			got := wakecall(t, []string{"WAKECALL_URL=" + url, "WAKECALL_TOKEN=x"}, "",
				append([]string{"__complete"}, args...)...)
			if took := time.Since(began); got.code != 0 || got.out != ":4\n" || strings.Contains(got.err, "answer") ||
				took > client.DefaultTimeout/2 {
				t.Errorf("%s %v: code %d after %s, %q %q", url, args, got.code, took, got.out, got.err)
			}
		}
	}
}

// TestWorkIsRefusedWithoutACommand, before a job is reserved.
func TestWorkIsRefusedWithoutACommand(t *testing.T) {
	f := newFakeAPI(t)
	for line, says := range map[string]string{
		"work --exec true": "TOPIC is required", "work mail": "--exec is required",
		"work mail --exec=":                      "--exec is required",
		"work mail --exec true --concurrency 0":  "--concurrency",
		"work mail --exec true --concurrency -1": "--concurrency",
		"work mail --exec true --order=":         "--order must not be empty",
	} {
		got := f.wakecall(t, "", strings.Fields(line)...)
		if sent := f.changes(); got.code != exitUsage || !strings.Contains(got.err, says) || len(sent) > 0 {
			t.Errorf("%s: code %d, %s, sent %q", line, got.code, got.err, sent)
		}
	}
}

// TestTheEndOfStandardErrorIsTheReason of a failure, cut to the length that a job stores.
func TestTheEndOfStandardErrorIsTheReason(t *testing.T) {
	fails := workFlags{exec: `printf '%0500d' 7 >&2; printf '\377 the end\n' >&2; exit 3`}
	err := runCommand(t.Context(), io.Discard, fails, &client.LeasedJob{})
	if err == nil || !strings.HasPrefix(err.Error(), "exit status 3: 0") ||
		!strings.HasSuffix(err.Error(), "7 the end") ||
		len(err.Error()) > 420 {
		t.Errorf("%v", err)
	}
	err = runCommand(t.Context(), io.Discard, workFlags{exec: "exit 75", releaseDelay: time.Minute}, &client.LeasedJob{})
	if fmt.Sprint(err) != fmt.Sprint(client.Released(time.Minute)) {
		t.Errorf("exit status 75 is %v", err)
	}
	job := &client.LeasedJob{Topic: "mail", ID: "42", Attempt: 2, Body: []byte(`"a b"`)}
	check := `test "$WAKECALL_TOPIC/$WAKECALL_ID/$WAKECALL_ATTEMPT" = mail/42/2 && test "$(cat)" = '"a b"'`
	if err := runCommand(t.Context(), io.Discard, workFlags{exec: check}, job); err != nil {
		t.Errorf("the command does not get its job: %v", err)
	}
}

// TestTheSecondSignalStopsAtOnce; USR2 stays graceful, however often it is received.
func TestTheSecondSignalStopsAtOnce(t *testing.T) {
	s := watchSignals()
	defer s.stop()
	s.handleKill()
	ctx := s.context(context.Background())
	s.terminate <- syscall.SIGTERM
	<-ctx.Done()
	for range 3 {
		s.terminate <- syscall.SIGUSR2
	}
	select {
	case <-s.kill:
		t.Error("USR2 stopped at once")
	default:
	}
	s.terminate <- syscall.SIGINT
	<-s.kill
}

// TestACommandThatEndsLeavesNoSignalHandler behind.
func TestACommandThatEndsLeavesNoSignalHandler(t *testing.T) {
	for _, signalled := range []bool{false, true} {
		s := watchSignals()
		ctx := s.context(context.Background())
		if signalled {
			s.terminate <- syscall.SIGINT
			<-ctx.Done()
		}
		s.stop()
		<-ctx.Done()
	}
}
