package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wakecall/wakecall/checker"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/master"
)

// hostile would begin a line of its own, clear the screen, type for its reader and turn what follows round, if a terminal or a reader of lines
// obeyed it.
const hostile = "x\nFORGED level=ERROR\r\nFORGED\x1b[2J\x1b]0;t\x07\u009b31m\u0085FORGED\u2028FORGED\u2029\u202eFORGED\u2066\x7f\x00\tend"

// checkInert wants text that nothing in it steers, and no line that somebody else wrote.
func checkInert(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8: %q", what, text)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("%s has a line that is not its own: %q", what, line)
		}
		if k := strings.IndexFunc(line, func(r rune) bool { return r != '\t' && steers(r) }); k >= 0 {
			t.Errorf("%s has %q in it: …%q…", what, line[k:min(len(line), k+3)], line[max(0, k-20):min(len(line), k+20)])
		}
	}
}

// TestWhatIsPrintedSteersNoTerminal: every text that comes from the API may be a stranger's, whatever the API of today allows in it.
func TestWhatIsPrintedSteersNoTerminal(t *testing.T) {
	f := newFakeAPI(t)
	s, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	at := `"2026-01-02T03:00:00.000Z"`
	job := fmt.Sprintf(`{"topic":%[1]s,"id":%[1]s,"state":"dead","due_at":%[2]s,"priority":%[1]s,"attempts":1,"created_at":%[2]s,"dead_reason":%[1]s,
		"content_type":%[1]s,"body":%[1]s,"history":[{"n":1,"started_at":%[2]s,"took_ms":1,"status":500,"error":%[1]s,"answer":%[1]s}]}`, s, at)
	id := "/v1/topics/t/jobs/x"
	f.answers = map[string]answer{
		"GET " + id:              {200, job},
		"POST " + id + "/run":    {202, job},
		"DELETE " + id:           {404, fmt.Sprintf(`{"status":404,"title":%[1]s,"detail":%[1]s}`, s)},
		"POST /v1/topics/t/jobs": {201, job},
		"GET /v1/topics/t/jobs?limit=50&state=dead": {200, fmt.Sprintf(`{"jobs":[%s],"next":%s}`, job, s)},
		"GET /v1/shards": {200, fmt.Sprintf(`{"shards":[{"name":%[1]s,"state":%[1]s,"up":false,"error":%[1]s}]}`, s)},
	}
	f.topics["t"] = map[string]any{
		"name": "t", "callback_url": hostile, "state": hostile, "ttr": "10s", "priority": hostile, "title": hostile, "owner": hostile, "retry_if": hostile,
		"headers": map[string]string{hostile: hostile}, "emails": []string{hostile},
	}
	for _, args := range [][]string{
		{"get", "t", "x"}, {"run", "t", "x"}, {"delete", "t", "x"}, {"push", "t"}, {"list", "t", "--state", "dead"}, {"topic", "list"}, {"topic", "show", "t"},
		{"topic", "delete", "t"}, {"shard", "list"}, {"stats", "nowhere"},
	} {
		for _, output := range []string{"table", "json"} {
			got := f.wakecall(t, "", append(args, "--output", output)...)
			what := strings.Join(args, " ") + " as " + output
			if got.out == "" && got.err == "" {
				t.Errorf("%s printed nothing", what)
			}
			if output == "json" && got.code == 0 && !json.Valid([]byte(got.out)) {
				t.Errorf("%s is no JSON: %s", what, got.out)
			}
			checkInert(t, what, got.out)
			checkInert(t, "the error of "+what, strings.ReplaceAll(got.err, "\nFORGED", "")) // a message may have lines
		}
	}
	var back struct{ ID string }
	if got := f.wakecall(t, "", "get", "t", "x", "--output", "json"); json.Unmarshal([]byte(got.out), &back) != nil || back.ID != hostile {
		t.Errorf("the escapes changed the id to %q", back.ID)
	}
}

func TestPsSteersNoTerminal(t *testing.T) {
	status, err := json.Marshal(map[string]any{"findings": []checker.Finding{{Shard: hostile, Kind: "down", Detail: hostile}}})
	if err != nil {
		t.Fatal(err)
	}
	tree := &master.Tree{Processes: []master.Process{{Role: "redis-checker", Pid: 1, Status: status}, {Role: "server", State: hostile, LastExit: hostile}}}
	var out bytes.Buffer
	if err := treeTable(&out, tree, testNow); err != nil {
		t.Fatal(err)
	}
	checkInert(t, "ps", out.String())
}

func TestTheDemoSteersNoTerminal(t *testing.T) {
	var out bytes.Buffer
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(hostile+"\xff"))
	for _, name := range []string{"Wakecall-Id", "Wakecall-Attempt", "Wakecall-Max-Attempts"} {
		r.Header.Set(name, hostile)
	}
	demoHandler(&out, time.Now).ServeHTTP(httptest.NewRecorder(), r)
	checkInert(t, "the demo", out.String())
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("a callback is printed in several lines: %q", out.String())
	}
}

// TestAnEventIsOneLineOfTheLog: whatever stands in a message, a name or a value, in both formats and in the journal of errors.
func TestAnEventIsOneLineOfTheLog(t *testing.T) {
	long := hostile + strings.Repeat("é\n", 1<<19) + "\xff\xfe"
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		cfg := conf.Config{}
		cfg.Log.Format = format
		dir := t.TempDir()
		j, err := journal.Open(journal.Options{Dir: dir, Process: "server"})
		if err != nil {
			t.Fatal(err)
		}
		base := newLogger(&cfg, &out, "server "+hostile)
		log := slog.New(&errorLog{Handler: base.Handler(), journal: j})
		for n, value := range []string{hostile, long, "\xff" + hostile, `a" level=ERROR msg="forged`} {
			out.Reset()
			log.With(hostile, value).WithGroup("g").Error(value, "id", value, "error", errors.New(value), "bytes", []byte(value), hostile, value)
			checkInert(t, fmt.Sprintf("the log as %s, %d", format, n), out.String())
			if strings.Count(out.String(), "\n") != 1 || (format == "json" && !json.Valid(out.Bytes())) {
				t.Errorf("an event has %d lines as %s", strings.Count(out.String(), "\n"), format)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		events := 0
		for line, err := range journal.ReadErrors(dir, journal.Range{}) {
			if events++; err != nil || line.Process != "server" {
				t.Errorf("a line of the journal: %+v, %v", line.Process, err)
			}
		}
		if events != 4 {
			t.Errorf("4 events are %d lines of the journal", events)
		}
	}
}

// TestContextOfAnErrorIsNotForged: an id that looks like a pair of the context is quoted.
func TestContextOfAnErrorIsNotForged(t *testing.T) {
	r := slog.NewRecord(time.Now(), slog.LevelError, "m", 0)
	r.Add("id", "1 topic=other", "topic", "mine", "empty", "")
	if got := (&errorLog{}).line(r).Context; got != `id="1 topic=other" topic=mine empty=""` {
		t.Errorf("the context is %s", got)
	}
}
