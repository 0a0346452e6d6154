package shards_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/master"
)

type fakeMaster struct {
	mu      sync.Mutex
	ordered []string
	err     error
}

func (m *fakeMaster) Ps(context.Context) (*master.Tree, error) {
	return &master.Tree{Pid: 7, Version: "v1.0.0", Processes: []master.Process{
		{Role: "dispatcher", Number: 2, Pid: 4711, Version: "v1.1.0", State: "running", LastExit: "<script>",
			Status: json.RawMessage(`{"in_flight":3,"concurrency":9}`)},
		{Role: "redis-checker", Pid: 8, State: "silent", Status: json.RawMessage(`{
			"findings":[{"shard":"a","detail":{"args":["does not answer"]}}],
			"services":[{"name":"alerts","state":"running"},{"name":"draining","state":"waiting",
			"restarts":4,"error":"<no name>"}]}`)},
	}}, nil
}

func (m *fakeMaster) order(what string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ordered = append(m.ordered, what)
	return m.err
}

func (m *fakeMaster) Reload(context.Context) error { return m.order("reload") }

func (m *fakeMaster) Restart(_ context.Context, role string, number int) error {
	return m.order("restart " + role + " " + string(rune('0'+number)))
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	m := &fakeMaster{}
	s := admintest.Open(t, func(o *admin.Options) { o.Master, o.Config = m, conf.Default() }).As("root")
	_, body := s.Get("/processes")
	for _, want := range []string{"4711", "3 of 9", "does not answer", "&lt;script&gt;", "draining", "&lt;no name&gt;",
		"dispatcher.concurrency", "still runs version v1.0.0"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is missing on\n%s", want, body)
		}
	}
	if _, body := s.Post("/processes/restart", "role", "dispatcher", "number", "2"); !strings.Contains(body,
		"alert-success") {
		t.Errorf("got\n%s", body)
	}
	s.Post("/processes/reload")
	if got := strings.Join(m.ordered, ", "); got != "restart dispatcher 2, reload" {
		t.Errorf("the master received: %s", got)
	}
	s.As("look")
	if _, body := s.Get("/processes"); strings.Contains(body, "/processes/restart") ||
		strings.Contains(body, "dispatcher.concurrency") {
		t.Error("a viewer sees buttons, or the configuration")
	}
	if status, _ := s.Post("/processes/restart", "role", "dispatcher"); status != http.StatusForbidden {
		t.Errorf("a viewer restarted a process: %d", status)
	}
	if status, _ := s.As("ops").Post("/processes/reload"); status != http.StatusForbidden {
		t.Errorf("an operator reloaded: %d", status)
	}
}

// noMaster is the master of a process that runs alone.
type noMaster struct{ shards.Master }

func (noMaster) Ps(context.Context) (*master.Tree, error) { return nil, master.ErrNoMaster }

func TestProcessesWithoutAMaster(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) { o.Master = noMaster{} }).As("root")
	if _, body := s.Get("/processes"); !strings.Contains(body, "No master") {
		t.Errorf("got\n%s", body)
	}
}
