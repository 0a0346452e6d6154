package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/test/charttest"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
)

// TestChartPodsStart: what the Helm chart's pods run starts with their configuration and secrets, on a Redis with
// a password and a database. A job that one pod accepts is called by a pod with a dispatcher only. That pod is scaled down,
// and Redis loses everything: no job is lost, and its return with its journal makes the shard whole.
func TestChartPodsStart(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	onServerOfTheDay(t, chartPodsStart)
}

func chartPodsStart(t *testing.T, db dbtest.Stoppable) {
	objects, refusal := charttest.Render(t, "{config: {dispatchers: 0, log: {level: debug}}, dispatcher: {enabled: true}}")
	if refusal != "" {
		t.Fatal(refusal)
	}
	r := harness.StartRedis(t, harness.RedisOptions{Password: "pw-of-redis"})
	token := strings.Repeat("first-token-", 4)
	secrets := map[string]string{
		"redis-nodes": r.URL(), "registry-dsn": db.DSN("wakecall"),
		"seal-key": strings.Repeat("0f", 32), "first-token": token, "first-password": "the first password",
	}
	host := pod(t, objects, "StatefulSet/wakecall", secrets)
	if code, out := host.Run("check"); code != 0 {
		t.Errorf("wakecall check in the first pod: exit code %d\n%s", code, out)
	}
	host.Up()
	host.Token = token
	i := &installation{host, harness.StartEndpoint(t)}
	harness.Eventually(t, soon, "the pod to be ready", host.Readyz)
	harness.Eventually(t, soon, "the startup probe to succeed", func() error {
		if code, out := host.Run("health"); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
	if _, err := os.Stat(filepath.Join(host.Data, "secret-key")); err == nil {
		t.Error("the pod has made a key of its own")
	}
	dispatcher := pod(t, objects, "StatefulSet/wakecall-dispatcher", secrets)
	process := dispatcher.StartRole("dispatcher")
	topic := i.topic(t, nil, nil)
	i.MustPush(t, topic, M{"id": "42", "body": 1})
	i.endpoint.WaitCalls(t, topic, 1)
	if started := host.Role("dispatcher"); len(started) != 0 {
		t.Errorf("with dispatchers: 0 the pod has the dispatchers %v", started)
	}
	shows(t, host, "wakecall_due_jobs{")
	shows(t, dispatcher, "wakecall_dispatcher_free_places{")

	i.MustPush(t, topic, M{"id": "43", "body": 1, "delay": "1h"})
	harness.Eventually(t, soon, "the first pod to know the dispatcher", func() error { return knows(host, dispatcher) })
	process.Signal(syscall.SIGTERM)
	if code := process.WaitExit(); code != 0 {
		t.Errorf("the dispatcher that is scaled down ends with code %d", code)
	}
	r.Lose()
	r.Restart()
	i.waitState(t, topic, "43", "delayed")
	if hosts := absent(t, host); len(hosts) != 1 {
		t.Errorf("while the dispatcher is scaled down, %q are absent", hosts)
	}
	dispatcher.StartRole("dispatcher")
	harness.Eventually(t, soon, "the dispatcher to replay its journal", func() error {
		return harness.Equal("absent hosts", len(absent(t, host)), 0)
	})
	i.MustDo(t, http.StatusAccepted, http.MethodPost, harness.JobPath(topic, "43")+"/run", nil)
	harness.Eventually(t, soon, "a call of the job that Redis had lost", func() error {
		if !slices.ContainsFunc(i.endpoint.Calls(topic), func(c harness.Call) bool { return c.ID == "43" }) {
			return errors.New("there was none")
		}
		return nil
	})
}

func shows(t *testing.T, w *harness.Wakecall, metric string) {
	t.Helper()
	harness.Eventually(t, soon, metric+" in the metrics", func() error {
		if a := w.Metrics().Do(ctx, http.MethodGet, "/metrics", nil); !strings.Contains(string(a.Body), "\n"+metric) {
			return fmt.Errorf("they are %.300s", a)
		}
		return nil
	})
}

// knows returns nil if a host remembers another one, which it does not need a shard for.
func knows(host, other *harness.Wakecall) error {
	identity, err := os.ReadFile(filepath.Join(other.Data, "journal", ".identity"))
	if err != nil {
		return err
	}
	known, err := os.ReadFile(filepath.Join(host.Data, "journal", ".hosts"))
	if err == nil && !strings.Contains(string(known), strings.TrimSpace(string(identity))) {
		err = fmt.Errorf("%s knows %s", identity, known)
	}
	return err
}

// absent returns the hosts that a shard waits for.
func absent(t *testing.T, w *harness.Wakecall) (names []string) {
	t.Helper()
	code, out := w.Run("host", "list", "-o", "json")
	var hosts []reconcile.Host
	if err := json.Unmarshal([]byte(out), &hosts); code != 0 || err != nil {
		t.Fatalf("host list: exit code %d, %v\n%s", code, err, out)
	}
	for _, h := range hosts {
		if len(h.Absent) > 0 {
			names = append(names, h.Name)
		}
	}
	return names
}

// pod prepares what a container of the chart runs: its variables, with directories of the test for those where volumes
// are mounted, and the harness's ports.
func pod(t *testing.T, objects []charttest.Object, name string, secrets map[string]string) *harness.Wakecall {
	t.Helper()
	set := charttest.Find(t, objects, name)
	dir := t.TempDir()
	for _, v := range set.List("spec", "template", "spec", "volumes") {
		for _, s := range v.List("projected", "sources") {
			item := s.Part("secret", "items", 0)
			if err := os.WriteFile(filepath.Join(dir, item.Text("path")), []byte(secrets[item.Text("key")]), 0o400); err != nil {
				t.Fatal(err)
			}
		}
	}
	env := map[string]string{}
	for _, e := range set.Container().List("env") {
		env[e.Text("name")] = strings.Replace(e.Text("value"), "/run/wakecall/secrets", dir, 1)
	}
	own := []string{"WAKECALL_CONFIG", "WAKECALL_DATA_DIR", "WAKECALL_SERVER_ADDR", "WAKECALL_ADMIN_ADDR",
		"WAKECALL_METRICS_ADDR"}
	maps.DeleteFunc(env, func(name, _ string) bool { return slices.Contains(own, name) })
	file := charttest.Find(t, objects, "ConfigMap/wakecall").Text("data", "wakecall.yaml")
	return harness.New(t, harness.Options{Env: env, File: file})
}
