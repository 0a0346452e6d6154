package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/openapitest"
)

// api is a running server with fakes for everything around it. Each exchange is checked against openapi.yaml.
type api struct {
	t        *testing.T
	jobs     *fakeJobs
	groups   fakeGroups
	relays   fakeRelays
	registry *fakeRegistry
	workers  *fakeWorkers
	alerts   *fakeAlerts
	server   *server.Server

	schedules fakeSchedules
	tasks     fakeTasks
	url       string
	client    *http.Client
	token     string
}

func newAPI(t *testing.T, adjust ...func(*server.Options)) *api {
	t.Helper()
	a := &api{t: t, jobs: newFakeJobs(), registry: newFakeRegistry(), workers: &fakeWorkers{}, alerts: &fakeAlerts{}}
	a.schedules.registry = a.registry
	a.token = a.registry.grant("all", "*", registry.RightPush, registry.RightRead, registry.RightManage,
		registry.RightConsume)
	opts := server.Options{
		Jobs: a.jobs, Groups: &a.groups, Relays: &a.relays, Schedules: &a.schedules, Tasks: &a.tasks, Waits: a.jobs,
		Workers: a.workers, Registry: a.registry, Alerts: a.alerts, Version: "0.0.0-test",
	}
	for _, f := range adjust {
		f(&opts)
	}
	var err error
	if a.server, err = server.New(opts); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a.server)
	t.Cleanup(web.Close)
	a.url = web.URL
	base := &http.Transport{DisableCompression: true}
	t.Cleanup(base.CloseIdleConnections)
	a.client = &http.Client{Transport: openapitest.Transport(t, base)}
	return a
}

// reply is an answer that was read completely.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func (a *api) do(method, path, body string, header ...string) reply {
	a.t.Helper()
	req, err := http.NewRequest(method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	return a.send(req)
}

func (a *api) send(req *http.Request) reply {
	a.t.Helper()
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return reply{a.t, resp.StatusCode, resp.Header, string(data)}
}

func (r reply) want(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("answered %d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// json reads the answer.
func (r reply) json() map[string]any {
	r.t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		r.t.Fatalf("%v: %s", err, r.body)
	}
	return v
}

// problem checks a refusal and its field; the detail must contain each of the words.
func (r reply) problem(status int, field string, words ...string) reply {
	r.t.Helper()
	r.want(status)
	v := r.json()
	if got, _ := v["field"].(string); got != field {
		r.t.Errorf("field %q, want %q: %s", got, field, r.body)
	}
	if v["status"] != float64(status) {
		r.t.Errorf("the body's status is %v, the answer's %d", v["status"], status)
	}
	if v["code"] == "invalid" && status != 400 && status != 405 && status != 415 && status != 422 {
		r.t.Errorf("no code of its own: %s", r.body)
	}
	for _, word := range words {
		if detail, _ := v["detail"].(string); !strings.Contains(detail, word) {
			r.t.Errorf("the detail does not say %q: %s", word, r.body)
		}
	}
	return r
}

// code checks the code of a refusal.
func (r reply) code(want string) {
	r.t.Helper()
	if got := r.json()["code"]; got != want {
		r.t.Errorf("code %v, want %s: %s", got, want, r.body)
	}
}

// syncBuffer is a log that tests can read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(s, nil)) }
