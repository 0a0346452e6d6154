package test

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite" // for a registry of a newer version

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// TestStartIsRefused: with a wrong configuration the start ends with a message that names the problem and the remedy,
// and leaves nothing behind.
func TestStartIsRefused(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		file  string
		env   map[string]string
		names []string // expected part of the message
	}{
		"unknown key":  {"server:\n  adr: 127.0.0.1:1\n", nil, []string{"server.adr", "wakecall.yaml", "2"}},
		"bad duration": {"shutdown_timeout: soon\n", nil, []string{"shutdown_timeout", "soon", "90s"}},
		"bad duration, environ": {"", map[string]string{"WAKECALL_SHUTDOWN_TIMEOUT": "soon"},
			[]string{"WAKECALL_SHUTDOWN_TIMEOUT", "soon"}},
		"unknown variable": {"", map[string]string{"WAKECALL_SERVER_ADR": "127.0.0.1:1"},
			[]string{"WAKECALL_SERVER_ADR"}},
		"no YAML": {"server: [\n", nil, []string{"wakecall.yaml"}},
		"port in use": {"", map[string]string{"WAKECALL_SERVER_ADDR": taken.Addr().String()},
			[]string{"server.addr", taken.Addr().String()}},
		"metrics port in use": {"", map[string]string{"WAKECALL_METRICS_ADDR": taken.Addr().String()},
			[]string{"metrics.addr", taken.Addr().String()}},
		"bad Redis URL": {"redis:\n  nodes: ['http://127.0.0.1:1']\n", nil, []string{"redis.nodes", "http"}},
		"bad DSN":       {"", map[string]string{"WAKECALL_REGISTRY_DSN": "oracle://x"}, []string{"registry.dsn"}},
		"data_dir is a file": {"", map[string]string{"WAKECALL_DATA_DIR": "/etc/passwd"},
			[]string{"data_dir", "/etc/passwd"}},
		"priorities": {"priorities: 5:3\n", nil, []string{"priorities"}},
		"no redis-server": {"redis:\n  binary: no-such-redis-server\n", nil,
			[]string{"no-such-redis-server", "apt-get install redis-server"}},
		"file that is not there": {"", map[string]string{"WAKECALL_CONFIG": "/no/such.yaml"},
			[]string{"/no/such.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := harness.New(t, harness.Options{File: c.file, Env: c.env})
			code, output := w.Run("up")
			if code <= 0 {
				t.Errorf("exit code %d", code)
			}
			for _, want := range c.names {
				if !strings.Contains(output, want) {
					t.Errorf("the message does not name %q:\n%s", want, output)
				}
			}
			if strings.Contains(output, "goroutine ") {
				t.Errorf("it panicked:\n%s", output)
			}
			if left := w.Children(); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

func TestWrongRedisPassword(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	r := harness.StartRedis(t, harness.RedisOptions{Password: "right-one"})
	url := strings.Replace(r.URL(), "right-one", "wrong-one", 1)
	w := harness.New(t, harness.Options{Env: map[string]string{"WAKECALL_REDIS_NODES": url}})
	for _, command := range []string{"check", "up"} {
		code, output := w.Run(command)
		if code <= 0 || !strings.Contains(strings.ToLower(output), "password") {
			t.Errorf("wakecall %s: code %d, want an error that names the password:\n%s", command, code, output)
		}
		if strings.Contains(output, "wrong-one") {
			t.Errorf("wakecall %s shows the password:\n%s", command, output)
		}
	}
}

func TestCheckTriesEveryConnection(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	if code, output := i.Run("check"); code != 0 || strings.Count(output, " hint ") != 1 ||
		!strings.Contains(output, "maxmemory is not set") {
		t.Errorf("code %d beside a healthy installation without a limit of memory:\n%s", code, output)
	}
	away := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
	w := harness.New(t, harness.Options{Env: map[string]string{"WAKECALL_REGISTRY_DSN": "mysql://u:hidden@tcp(" + away +
		")/x"}})
	code, output := w.Run("check")
	if code <= 0 || !strings.Contains(output, away) || strings.Contains(output, "hidden") {
		t.Errorf("code %d, want an error that names %s and hides the password:\n%s", code, away, output)
	}
}

func TestRegistryNewerThanTheBinary(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	db := i.registryFile(t)
	for _, statement := range []string{
		"INSERT INTO schema_migrations (version_id, is_applied) VALUES (99999, 1)",
		"UPDATE schema_reader SET oldest = 99999",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	code, output := i.Run("up")
	if code <= 0 || !strings.Contains(output, "99999") || !strings.Contains(output, "newer") {
		t.Errorf("code %d, want an error that names the schema's version and says what is newer:\n%s", code, output)
	}
}

// registryFile opens the installation's SQLite registry.
func (i *installation) registryFile(t *testing.T) *sql.DB {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(i.Data, "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("data_dir holds %v (%v), want one *.db", files, err)
	}
	db, err := sql.Open("sqlite", "file:"+files[0]+"?_pragma=busy_timeout(10000)") // the installation writes, too
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestFirstStart: the secrets that it creates are readable by the owner only, the log says only where they are, and
// they are created once.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	secrets := map[string]string{}
	for _, name := range []string{"api-token", "admin-password"} {
		path := filepath.Join(i.Data, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		secrets[name] = strings.TrimSpace(string(b))
		if log := i.Log(0); !strings.Contains(log, path) || strings.Contains(log, secrets[name]) {
			t.Errorf("the log must say where %s is, without its contents:\n%s", name, log)
		}
	}
	i.Signal(syscall.SIGTERM)
	if code := i.WaitExit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	i.Up()
	i.WaitReady()
	if i.Token != secrets["api-token"] {
		t.Error("the second start created another token")
	}
}

// TestJobsSurviveARestart of everything, with the embedded default; no loss of data is reported.
func TestJobsSurviveARestart(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	for n := range 50 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), M{"delay": "1s"})
	}
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	i.Up()
	i.WaitReady()
	ledger.Verdict(t, i.API, i.endpoint, 0)
	tellsNoLoss(t, i.Wakecall)
}

// tellsNoLoss fails if the redis-checker of a host reported that a shard lost data.
func tellsNoLoss(t *testing.T, host *harness.Wakecall) {
	t.Helper()
	if saysInALine(host.Log(0), "finding begins", "finding=restarted") == nil {
		t.Error("the redis-checker reports lost data")
	}
}
