package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/test/leaks"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) {
	account.PasswordCost, database.Timeout = bcrypt.MinCost, wait.Limit // a test machine may be busy
	leaks.Main(m)
}

// fakeAPI implements as much of the API as the commands need: it stores topics, and has canned jobs.
type fakeAPI struct {
	mu        sync.Mutex
	url       string
	topics    map[string]map[string]any
	schedules map[string]map[string]any
	log       []string          // METHOD URI BODY of every request that changes state
	answers   map[string]answer // METHOD URI → canned answer
}

type answer struct {
	status int
	body   string
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	f := &fakeAPI{
		topics: map[string]map[string]any{}, schedules: map[string]map[string]any{}, answers: map[string]answer{},
	}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodPut && r.URL.Path == "/v1/topics" {
		f.putTopics(w, body)
		return
	}
	if r.Method != http.MethodGet {
		f.log = append(f.log, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
	}
	if r.Header.Get("Authorization") != "Bearer secret-token" {
		problem(w, http.StatusUnauthorized, "the token is not known")
		return
	}
	if a, ok := f.answers[r.Method+" "+r.RequestURI]; ok {
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
		return
	}
	name, isTopic := strings.CutPrefix(r.URL.Path, "/v1/topics/")
	schedule, isSchedule := strings.CutPrefix(r.URL.Path, "/v1/schedules/")
	switch {
	case r.URL.Path == "/v1/schedules":
		list := []map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(f.schedules)) {
			list = append(list, f.schedules[name])
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"schedules": list})
	case isSchedule:
		f.schedule(w, r.Method, schedule, body)
	case r.URL.Path == "/v1/topics":
		list := []map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(f.topics)) {
			if strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
				list = append(list, f.topics[name])
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"topics": list})
	case isTopic && !strings.Contains(name, "/"):
		f.topic(w, r.Method, name, body)
	default:
		problem(w, http.StatusNotFound, "there is no such job")
	}
}

// putTopics logs each topic of a request as one change.
func (f *fakeAPI) putTopics(w http.ResponseWriter, body []byte) {
	var in struct {
		Topics []json.RawMessage `json:"topics"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	done := []client.TopicDone{}
	for _, topic := range in.Topics {
		var t struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(topic, &t)
		f.log = append(f.log, "PUT /v1/topics "+string(topic))
		f.topic(httptest.NewRecorder(), http.MethodPut, t.Name, topic)
		done = append(done, client.TopicDone{Name: t.Name, Done: "changed"})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"topics": done})
}

func (f *fakeAPI) topic(w http.ResponseWriter, method, name string, body []byte) {
	switch t, ok := f.topics[name]; {
	case method == http.MethodPut:
		put := map[string]any{
			"name": name, "method": "POST", "content_type": "json", "ttr": "10s", "priority": "normal",
			"max_attempts": 10.0,
			"state":        "active", "headers": map[string]any{}, "retry": []any{}, "emails": []any{},
			"created_at": "2026-01-02T03:04:05.000Z",
		}
		if err := json.Unmarshal(body, &put); err != nil {
			problem(w, http.StatusBadRequest, err.Error())
			return
		}
		delete(put, "secrets")
		f.topics[name] = put
		if !ok {
			w.WriteHeader(http.StatusCreated)
		}
		_ = json.NewEncoder(w).Encode(put)
	case !ok:
		problem(w, http.StatusNotFound, fmt.Sprintf("there is no topic %q", name))
	case method == http.MethodDelete:
		delete(f.topics, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(t)
	}
}

func (f *fakeAPI) schedule(w http.ResponseWriter, method, name string, body []byte) {
	switch s, ok := f.schedules[name]; {
	case method == http.MethodPut:
		put := map[string]any{
			"name": name, "time_zone": "UTC", "jitter": "0s", "missed": "last", "overlap": "skip", "state": "active",
			"shard": "redis-1", "created_at": "2026-01-02T03:04:05.000Z", "next": []string{"2026-01-03T00:00:00.000Z"},
			"last": []any{}, "left_out": map[string]int{"late": 0},
		}
		if err := json.Unmarshal(body, &put); err != nil {
			problem(w, http.StatusBadRequest, err.Error())
			return
		}
		f.schedules[name] = put
		if !ok {
			w.WriteHeader(http.StatusCreated)
		}
		_ = json.NewEncoder(w).Encode(put)
	case !ok:
		problem(w, http.StatusNotFound, fmt.Sprintf("there is no schedule %q", name))
	case method == http.MethodDelete:
		delete(f.schedules, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(s)
	}
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "detail": detail})
}

// changes returns and clears the logged requests.
func (f *fakeAPI) changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

// ran is the result of a command line.
type ran struct {
	code     int
	out, err string
}

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// wakecall runs a command line against the API, in an empty directory.
func (f *fakeAPI) wakecall(t *testing.T, input string, args ...string) ran {
	t.Helper()
	return wakecall(t, []string{"WAKECALL_URL=" + f.url, "WAKECALL_TOKEN=secret-token"}, input, args...)
}

func wakecall(t *testing.T, env []string, input string, args ...string) ran {
	t.Helper()
	t.Chdir(t.TempDir())
	return here(env, input, args...)
}

// here runs a command line in the working directory.
func here(env []string, input string, args ...string) ran {
	var out, err bytes.Buffer
	p := &program{
		in: strings.NewReader(input), out: &out, err: &err, env: env,
		now: func() time.Time { return testNow }, signals: watchSignals(),
	}
	defer p.signals.stop()
	code := p.execute(context.Background(), args)
	return ran{code, out.String(), err.String()}
}

// golden compares with testdata; UPDATE_GOLDEN=1 writes it.
var testdata = func() string {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		panic(err)
	}
	return dir
}()

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(testdata, name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(testdata, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

const deadJob = `{"topic":"shop.close","id":"order-42","state":"dead","due_at":"2026-01-02T02:04:05.678Z","priority":"high","attempts":2,
"created_at":"2026-01-02T01:04:05.000Z","max_attempts":2,"dead_reason":"attempts","dead_at":"2026-01-02T03:04:00.000Z",
"content_type":"application/json","body":{"order":42},"history":[
{"n":1,"started_at":"2026-01-02T02:04:05.680Z","took_ms":12.3,"status":500,"error":"status 500","answer":"oh\u001b[31m no"},
{"n":2,"started_at":"2026-01-02T02:05:05.690Z","took_ms":10000,"status":0,"error":"timeout after 10s","answer":""}]}`

// groupJob is of a group, and of a schedule.
const groupJob = `{"topic":"demo","id":"abc","group":"order-42","schedule":"report","scheduled_for":"2026-01-02T00:00:00.000Z","state":"delayed","due_at":"2026-01-02T03:34:05.678Z",
"priority":"normal","attempts":0,"created_at":"2026-01-02T03:04:05.000Z"}`

const scheduleJSON = `{"name":"report","topic":"reports","cron":"0 8 * * 1-5","time_zone":"Asia/Shanghai",
"start_at":"2026-01-01T00:00:00.000Z","body":{"n":"<1>"},"jitter":"30s","missed":"last","max_late":"2h0m0s","overlap":"skip",
"state":"paused","paused_until":"2026-01-05T00:00:00.000Z","shard":"redis-1","created_at":"2026-01-01T03:04:05.000Z",
"updated_at":"2026-01-01T03:04:05.000Z","next":["2026-01-05T00:00:00.000Z","2026-01-06T00:00:00.000Z"],
"last":[{"id":"report@2026-01-02T00:00:00Z","scheduled_for":"2026-01-02T00:00:00.000Z","state":"done"}],
"left_out":{"late":3,"overlap":0,"paused":1,"limit":0,"edited":0}}`

const silentSchedule = `{"name":"often","topic":"reports","every":"15m0s","time_zone":"UTC","body":null,"jitter":"0s","missed":"all",
"overlap":"allow","state":"active","shard":"redis-2","created_at":"2026-01-01T03:04:05.000Z",
"updated_at":"2026-01-01T03:04:05.000Z","next":["2026-01-02T03:15:00.000Z"],"unavailable":["redis-2"]}`

const delayedJob = `{"topic":"demo","id":"abc","state":"delayed","due_at":"2026-01-02T03:34:05.678Z","priority":"normal","attempts":0,
"created_at":"2026-01-02T03:04:05.000Z"}`

func TestOutputs(t *testing.T) {
	f := newFakeAPI(t)
	f.answers = map[string]answer{
		"GET /v1/topics/shop.close/jobs/order-42":         {200, deadJob},
		"POST /v1/topics/demo/jobs":                       {201, delayedJob},
		"POST /v1/topics/demo/jobs/abc/run":               {202, delayedJob},
		"DELETE /v1/topics/demo/jobs/abc":                 {204, ""},
		"GET /v1/topics/demo/jobs?limit=50&state=delayed": {200, `{"jobs":[` + delayedJob + `],"next":"c2"}`},
		"GET /v1/topics/demo/stats": {200,
			`{"delayed":3,"ready":2,"running":1,"dead":0,"oldest_ready_ms":1500}`},
		"GET /v1/topics/shop.close/stats": {200,
			`{"delayed":10,"ready":0,"running":0,"dead":7,"oldest_ready_ms":0}`},
		"GET /v1/shards": {200,
			`{"shards":[{"name":"main","state":"active","up":true,"latency":0.00025,"memory":1536000,"max_memory":0,"jobs":12},{"name":"old","state":"draining","up":false,"error":"connection refused"}]}`},
		"GET /v1/topics/shop.close/jobs?limit=2&state=dead":     {200, `{"jobs":[` + deadJob + `],"next":""}`},
		"POST /v1/topics/shop.close/jobs/order-42/run":          {202, delayedJob},
		"GET /v1/topics/demo/jobs?limit=50&state=ready":         {200, `{"jobs":[],"next":""}`},
		"PUT /v1/topics/demo/jobs/note?delay=1m0s&priority=low": {201, delayedJob},
		"GET /v1/topics/demo/jobs/grouped":                      {200, groupJob},
		"GET /v1/groups/order-42?limit=1": {200, `{"group":"order-42","counts":{"delayed":2,"ready":0,"running":0,"dead":1},` +
			`"closed_until":"2026-01-02T03:14:05.678Z","jobs":[` + groupJob + `]}`},
		"GET /v1/groups/none?limit=100": {200,
			`{"group":"none","counts":{"delayed":0,"ready":0,"running":0,"dead":0},"jobs":[]}`},
		"DELETE /v1/groups/order-42":             {200, `{"deleted":1,"running":0}`},
		"DELETE /v1/groups/order-42?close=10m0s": {202, `{"deleted":2,"running":1,"pending":["redis-2","redis-3"]}`},
		"PATCH /v1/groups/order-42":              {200, `{"moved":2,"skipped":1}`},
		"GET /v1/schedules?limit=1000&topic=reports": {200,
			`{"schedules":[` + silentSchedule + `,` + scheduleJSON + `]}`},
		"GET /v1/schedules/report":         {200, scheduleJSON},
		"GET /v1/schedules/often":          {200, silentSchedule},
		"POST /v1/schedules/report/pause":  {200, scheduleJSON},
		"POST /v1/schedules/report/resume": {200, silentSchedule},
		"POST /v1/schedules/report/run":    {201, `{"topic":"reports","id":"report!2026-01-02T03:04:05.000Z"}`},
		"POST /v1/schedules/report/backfill": {200, `{"occurrences":["2025-12-01T00:00:00.000Z","2025-12-02T00:00:00.000Z"],` +
			`"pushed":1,"existing":1,"left_out":0}`},
	}
	f.topics["demo"] = map[string]any{"name": "demo", "callback_url": "http://127.0.0.1/x", "state": "active",
		"ttr": "10s", "priority": "normal",
		"max_attempts": 10, "title": "A demo", "retry": []string{"10s", "1m0s"},
		"headers": map[string]string{"X-Team": "shop"}}
	f.topics["shop.close"] = map[string]any{"name": "shop.close", "callback_url": "https://shop.example/close",
		"state": "paused", "ttr": "1m30s",
		"priority": "high", "max_attempts": 3}
	for name, args := range map[string][]string{
		"get":                  {"get", "shop.close", "order-42"},
		"push":                 {"push", "demo", "--body", "1", "--delay", "30m"},
		"run":                  {"run", "demo", "abc"},
		"delete":               {"delete", "demo", "abc"},
		"list":                 {"list", "demo"},
		"list-empty":           {"list", "demo", "--state", "ready"},
		"list-dead":            {"list", "shop.close", "--state", "dead", "--limit", "2"},
		"stats":                {"stats", "demo"},
		"stats-all":            {"stats"},
		"shards":               {"shard", "list"},
		"topic-list":           {"topic", "list"},
		"topic-show":           {"topic", "show", "demo"},
		"get-grouped":          {"get", "demo", "grouped"},
		"group-show":           {"group", "show", "order-42", "--limit", "1"},
		"group-show-none":      {"group", "show", "none"},
		"group-cancel":         {"group", "cancel", "order-42"},
		"group-cancel-pending": {"group", "cancel", "order-42", "--close", "600"},
		"group-move":           {"group", "move", "order-42", "--delay", "0"},
		"schedule-list":        {"schedule", "list", "--topic", "reports"},
		"schedule-list-none":   {"schedule", "list"},
		"schedule-show":        {"schedule", "show", "report"},
		"schedule-show-down":   {"schedule", "show", "often"},
		"schedule-show-yaml":   {"schedule", "show", "report", "--yaml"},
		"schedule-pause":       {"schedule", "pause", "report", "--until", "2026-01-05T00:00:00Z"},
		"schedule-resume":      {"schedule", "resume", "report", "--catch-up"},
		"schedule-run":         {"schedule", "run", "report"},
		"schedule-backfill":    {"schedule", "backfill", "report", "--from", "2025-12-01T00:00:00Z", "--to", "2025-12-03T00:00:00Z"},
		"schedule-backfill-dry": {"schedule", "backfill", "report", "--from", "2025-12-01T00:00:00Z", "--to",
			"2025-12-03T00:00:00Z", "--overlap", "skip", "--dry-run"},
		"push-raw": {"push", "demo", "--id", "note", "--content-type", "text/plain", "--body", "hi", "--delay", "1m",
			"--priority", "low"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, output := range []string{"table", "json"} {
				got := f.wakecall(t, "", append(args, "--output", output)...)
				if got.code != 0 || got.err != "" {
					t.Fatalf("code %d: %s", got.code, got.err)
				}
				golden(t, name+"."+output, got.out)
				if output == "json" && !json.Valid([]byte(got.out)) {
					t.Errorf("no JSON: %s", got.out)
				}
			}
		})
	}
}

// generatedID is that of a push without one.
var generatedID = regexp.MustCompile(`"id":"[0-9a-f]{32}",`)

func TestPushSendsWhatTheFlagsSay(t *testing.T) {
	f := newFakeAPI(t)
	f.answers["POST /v1/topics/demo/jobs"] = answer{201, delayedJob}
	for name, tt := range map[string]struct {
		input string
		args  []string
		want  string
	}{
		"nothing": {"", nil, `{"body":null}`},
		"everything": {"", []string{"--id", "x", "--body", `{"a": "<1>"}`, "--delay", "90s", "--priority", "high",
			"--ttr",
			"5s", "--max-attempts", "3",
			"--on-duplicate", "replace", "--group", "order-42"},
			`{"id":"x","delay":"1m30s","priority":"high","ttr":"5s","max_attempts":3,"on_duplicate":"replace",` +
				`"group":"order-42","body":{"a": "<1>"}}`},
		"no delay is not the topic's": {"", []string{"--delay", "0"}, `{"delay":"0s","body":null}`},
		"input":                       {" {\"n\": 1}\n", []string{"-"}, `{"body":{"n": 1}}`},
		"due": {"", []string{"--due", "2026-12-24T18:00:00+01:00"},
			`{"due_at":"2026-12-24T17:00:00.000Z","body":null}`},
		"due between milliseconds": {"", []string{"--due", "2026-12-24T17:00:00.0001Z"},
			`{"due_at":"2026-12-24T17:00:00.001Z","body":null}`}, // never early
		"due in milliseconds": {"", []string{"--due", "1767323045678"},
			`{"due_at":"2026-01-02T03:04:05.678Z","body":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.wakecall(t, tt.input, append([]string{"push", "demo"}, tt.args...)...)
			if got.code != 0 {
				t.Fatalf("code %d: %s", got.code, got.err)
			}
			sent := generatedID.ReplaceAllString(strings.Join(f.changes(), "\n"), "")
			if sent != "POST /v1/topics/demo/jobs "+tt.want {
				t.Errorf("sent %s, want %s", sent, tt.want)
			}
		})
	}
}

func TestMistakesAreExplained(t *testing.T) {
	f := newFakeAPI(t)
	for name, tt := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"unknown command":    {[]string{"psuh"}, 2, []string{`no command "psuh"`, "push"}},
		"unknown subcommand": {[]string{"topic", "lits"}, 2, []string{`no command "lits"`, "list"}},
		"its flags as well": {[]string{"topic", "create", "x", "--url", "u"}, 2,
			[]string{`no command "create"`, "apply"}},
		"unknown flag":         {[]string{"push", "demo", "--dealy", "1s"}, 2, []string{"--dealy", "--help"}},
		"missing topic":        {[]string{"push"}, 2, []string{"TOPIC is required"}},
		"missing both":         {[]string{"get"}, 2, []string{"TOPIC and ID are required"}},
		"empty id":             {[]string{"delete", "demo", ""}, 2, []string{"ID must not be empty"}},
		"empty topic":          {[]string{"topic", "delete", ""}, 2, []string{"TOPIC must not be empty"}},
		"empty topic to count": {[]string{"stats", ""}, 2, []string{"TOPIC must not be empty"}},
		"empty topic to work":  {[]string{"work", "a", "", "--exec", "true"}, 2, []string{"TOPIC must not be empty"}},
		"one too many":         {[]string{"get", "a", "b", "c"}, 2, []string{`"c"`}},
		"body as an argument":  {[]string{"push", "demo", "{}"}, 2, []string{"--body"}},
		"two bodies":           {[]string{"push", "demo", "-", "--body", "1"}, 2, []string{"cannot be used together"}},
		"body that is no JSON": {[]string{"push", "demo", "--body", "hello"}, 2, []string{"hello", "--content-type"}},
		"delay and due": {[]string{"push", "demo", "--delay", "1s", "--due", "1767323045678"}, 2,
			[]string{"--delay", "--due"}},
		"due in Unix seconds":  {[]string{"push", "demo", "--due", "1795733497"}, 2, []string{"Unix milliseconds are expected"}},
		"bad due":              {[]string{"push", "demo", "--due", "tomorrow"}, 2, []string{"tomorrow", "RFC 3339"}},
		"bad delay":            {[]string{"push", "demo", "--delay", "soon"}, 2, []string{"soon", "--delay"}},
		"bad output":           {[]string{"stats", "--output", "xml"}, 2, []string{"xml", "table or json"}},
		"unknown topic":        {[]string{"topic", "show", "nope"}, 1, []string{"nope", "wakecall topic list"}},
		"apply without a file": {[]string{"topic", "apply"}, 2, []string{"-f FILE"}},
		"no such file":         {[]string{"topic", "apply", "-f", "none.yaml"}, 1, []string{"none.yaml"}},
		"bad URL":              {[]string{"stats", "--url", "localhost"}, 2, []string{"localhost", "http://"}},
		"bad configuration":    {[]string{"config", "--timers", "many"}, 2, []string{"timers", "many"}},
		"no such config file":  {[]string{"config", "-c", "none.yaml"}, 2, []string{"none.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.wakecall(t, "", tt.args...)
			if got.code != tt.code {
				t.Errorf("code %d, want %d", got.code, tt.code)
			}
			for _, say := range tt.says {
				if !strings.Contains(got.err, say) {
					t.Errorf("%q does not say %q", got.err, say)
				}
			}
			if sent := f.changes(); len(sent) > 0 {
				t.Errorf("sent changes: %q", sent)
			}
		})
	}
}

func TestServerAwayIsExplained(t *testing.T) {
	got := wakecall(t, []string{"WAKECALL_URL=http://127.0.0.1:1", "WAKECALL_TOKEN=x"}, "", "stats")
	if got.code != 1 || !strings.Contains(got.err, "127.0.0.1:1") || !strings.Contains(got.err, "wakecall up") {
		t.Errorf("code %d: %s", got.code, got.err)
	}
}

func TestTokenIsFoundInDataDir(t *testing.T) {
	f := newFakeAPI(t)
	f.answers["GET /v1/shards"] = answer{200, `{"shards":[]}`}
	t.Chdir(t.TempDir())
	env := []string{"WAKECALL_SERVER_ADDR=" + strings.TrimPrefix(f.url, "http://")}
	got := here(env, "", "shard", "list")
	if got.code != 1 || !strings.Contains(got.err, "api-token") {
		t.Errorf("without a token: code %d: %s", got.code, got.err)
	}
	if err := os.MkdirAll("other", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("other/api-token", []byte("secret-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := here(env, "", "shard", "list", "--data-dir", "other"); got.code != 0 {
		t.Errorf("with a token: code %d: %s", got.code, got.err)
	}
	if err := os.WriteFile("other/api-token", []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := here(env, "", "shard", "list", "--data-dir", "other"); got.code != 1 ||
		!strings.Contains(got.err, "--token") {
		t.Errorf("with a wrong token: code %d: %s", got.code, got.err)
	}
}

func TestConfigShowsSources(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("w.yaml", []byte("timers: 3\nregistry:\n  dsn: mysql://u:hidden@tcp(h:3306)/w\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	got := here([]string{"WAKECALL_DISPATCHERS=5"}, "", "config", "-c", "w.yaml", "--priorities", "8:1:1", "-o", "json")
	if got.code != 0 {
		t.Fatal(got.err)
	}
	var list []struct{ Key, Value, Source string }
	if err := json.Unmarshal([]byte(got.out), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, s := range list {
		found[s.Key] = s.Value + " " + s.Source
	}
	for key, want := range map[string]string{
		"timers": "3 w.yaml:1", "dispatchers": "5 WAKECALL_DISPATCHERS", "priorities": "8:1:1 --priorities",
		"data_dir": filepath.Join(dir, "data") + " default",
	} {
		if found[key] != want {
			t.Errorf("%s: %q, want %q", key, found[key], want)
		}
	}
	if strings.Contains(got.out, "hidden") {
		t.Errorf("a password is shown:\n%s", got.out)
	}
}

func TestCompletionKnowsTopics(t *testing.T) {
	f := newFakeAPI(t)
	f.topics["shop.close"] = map[string]any{"name": "shop.close"}
	f.topics["demo"] = map[string]any{"name": "demo"}
	got := f.wakecall(t, "", "__complete", "push", "sh")
	if !strings.HasPrefix(got.out, "shop.close\n:4") {
		t.Errorf("completion: %q %q", got.out, got.err)
	}
	if got := f.wakecall(t, "", "completion", "bash"); got.code != 0 || !strings.Contains(got.out, "__start_wakecall") {
		t.Errorf("completion bash: code %d", got.code)
	}
}

func TestVersion(t *testing.T) {
	if got := wakecall(t, nil, "", "version"); got.code != 0 || !strings.HasPrefix(got.out, "wakecall dev (go1.") {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
}
