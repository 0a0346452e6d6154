package setup

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/master"
)

func TestMain(m *testing.M) {
	database.Timeout *= 5 // the machine may be busy
	m.Run()
}

func TestFirstStepsSeedTheShardsOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx := context.Background()
	first := func(env ...string) []registry.Shard {
		t.Helper()
		cfg, err := conf.Load(conf.LoadOptions{Env: env})
		if err != nil {
			t.Fatal(err)
		}
		shards, err := Prepare(ctx, cfg, log.New(cfg, t.Output(), "test"))
		if err != nil {
			t.Fatal(err)
		}
		return shards
	}
	shards := first("WAKECALL_REDIS_NODES=redis://127.0.0.1:1,redis://127.0.0.1:2")
	if len(shards) != 2 || shards[0].Name != "redis-1" || shards[1].URL != "redis://127.0.0.1:2" {
		t.Errorf("seeded %+v", shards)
	}
	for _, file := range []string{"api-token", "admin-password"} {
		info, err := os.Stat(filepath.Join("data", file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if again := first("WAKECALL_REDIS_NODES=redis://127.0.0.1:3"); len(again) != 2 {
		t.Errorf("the second start seeded %+v", again)
	}
}

// TestAFirstStartWaitsForItsDatabase: there is no snapshot to continue with, so a database that does not answer in time
// is tried again.
func TestAFirstStartWaitsForItsDatabase(t *testing.T) {
	t.Chdir(t.TempDir())
	cfg, err := conf.Load(conf.LoadOptions{})
	if err == nil {
		err = MakeDataDir(cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenRegistry(cfg, slog.New(slog.DiscardHandler), registry.MigrateOlder, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files, err := filepath.Glob("data/*.db")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	lock, err := sql.Open("sqlite", files[0])
	if err == nil {
		lock.SetMaxOpenConns(1)
		_, err = lock.Exec("BEGIN EXCLUSIVE")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	warned := slog.New(slog.NewTextHandler(writerFunc(func([]byte) { _, _ = lock.Exec("ROLLBACK") }), nil))
	if err := Seed(t.Context(), cfg, r, warned); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join("data", "api-token")); err != nil {
		t.Error(err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

func TestFirstStepsDoNotRememberAMistake(t *testing.T) {
	t.Chdir(t.TempDir())
	cfg, err := conf.Load(conf.LoadOptions{Env: []string{"WAKECALL_REDIS_BINARY=no-such-redis"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Prepare(context.Background(), cfg, log.New(cfg, t.Output(), "test"))
	if err == nil || !strings.Contains(err.Error(), "no-such-redis") ||
		!strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("error %v", err)
	}
	r, err := OpenRegistry(cfg, log.New(cfg, t.Output(), "test"), registry.MigrateOlder, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if s := r.Snapshot().Shards; len(s) > 0 {
		t.Errorf("it registered %+v", s)
	}
}

func TestAnotherHostsRedisIsNotDoubled(t *testing.T) {
	t.Chdir(t.TempDir())
	cfg, err := conf.Load(conf.LoadOptions{Env: []string{"WAKECALL_REGISTRY_DSN=mysql://u:hidden@tcp(h:3306)/w"}})
	if err != nil {
		t.Fatal(err)
	}
	theirs := seedShards(cfg)
	if err := othersRedis(cfg, nil); err != nil {
		t.Errorf("the first host: %v", err)
	}
	err = othersRedis(cfg, theirs)
	if err == nil || !strings.Contains(err.Error(), "data/redis") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("another host: %v", err)
	}
	if err := os.MkdirAll(cfg.RedisDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := othersRedis(cfg, theirs); err != nil {
		t.Errorf("the first host again: %v", err)
	}
}

// TestAnotherHostsSecretKeyIsNoticed by wakecall check, even while no secrets keep the host from starting.
func TestAnotherHostsSecretKeyIsNoticed(t *testing.T) {
	dsn := "WAKECALL_REGISTRY_DSN=sqlite:" + filepath.Join(t.TempDir(), "registry.db")
	for i, want := range []Verdict{Good, Failed} {
		cfg, err := conf.Load(conf.LoadOptions{Env: []string{dsn, "WAKECALL_DATA_DIR=" + t.TempDir(),
			"WAKECALL_REDIS_NODES=redis://127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Prepare(t.Context(), cfg, log.New(cfg, t.Output(), "test")); err != nil {
			t.Fatal(err)
		}
		list, _ := checkRegistry(t.Context(), cfg)
		if last := list[len(list)-1]; last.What != "secret-key" || last.Verdict != want {
			t.Errorf("host %d: %+v", i+1, list)
		}
	}
}

// TestCheckReadsSealedURLs: after the first start, the URLs of shards with a password are encrypted.
func TestCheckReadsSealedURLs(t *testing.T) {
	cfg, err := conf.Load(conf.LoadOptions{Env: []string{"WAKECALL_DATA_DIR=" + t.TempDir(),
		"WAKECALL_REDIS_NODES=redis://:hidden@127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(t.Context(), cfg, log.New(cfg, t.Output(), "test")); err != nil {
		t.Fatal(err)
	}
	if list, shards := checkRegistry(t.Context(), cfg); len(shards) != 1 || shards[0].URL != "redis://:hidden@127.0.0.1:1" {
		t.Errorf("%+v, %+v", list, shards)
	}
}

func TestCheckPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if f := checkPort("server.addr", addr, &master.Tree{Pid: 42}); f.Verdict != Good || !strings.Contains(f.Detail, "42") {
		t.Errorf("held by our master: %+v", f)
	}
	l.Close()
	if f := checkPort("server.addr", addr, &master.Tree{}); f.Verdict != Good {
		t.Errorf("free: %+v", f)
	}
	if f := checkPort("server.addr", "192.0.2.1:1", &master.Tree{}); f.Verdict != Failed ||
		!strings.Contains(f.Detail, "192.0.2.1") {
		t.Errorf("not ours: %+v", f)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	f := checkPort("server.addr", strings.TrimPrefix(other.URL, "http://"), &master.Tree{})
	if f.Verdict != Failed || !strings.Contains(f.Advice, "server.addr") {
		t.Errorf("held by another: %+v", f)
	}
	if f = checkPort("server.addr", strings.TrimPrefix(other.URL, "http://"), &master.Tree{Pid: 42}); f.Verdict != Failed {
		t.Errorf("held by another, while our master runs with other addresses: %+v", f)
	}
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	}))
	defer health.Close()
	if f := checkPort("server.addr", strings.TrimPrefix(health.URL, "http://"), &master.Tree{}); f.Verdict != Warning {
		t.Errorf("held by a Wakecall that is not this one, beside which a start fails: %+v", f)
	}
	secure := httptest.NewTLSServer(health.Config.Handler)
	defer secure.Close()
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	if f := checkPort("server.addr", strings.TrimPrefix(secure.URL, "https://"), &master.Tree{Pid: 42}); f.Verdict != Good {
		t.Errorf("held by our master, with TLS: %+v", f)
	}
}

func TestThePortsOfGatewaysAreChecked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg, err := conf.Load(conf.LoadOptions{
		Flags:    map[string]string{"data_dir": t.TempDir(), "gateways.old.addr": l.Addr().String()},
		Gateways: []conf.Key{{Path: "gateways.old.addr", Type: conf.Gateway()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	list := checkPorts(t.Context(), cfg)
	if last := list[len(list)-1]; len(list) != 4 || last.What != "gateways.old.addr" || last.Verdict != Warning {
		t.Errorf("%+v", list)
	}
}

func TestShardConfigsFindTheManagedRedis(t *testing.T) {
	cfg := conf.Default()
	cfg.DataDir = "/d"
	got := ShardConfigs(cfg, seedShards(cfg))
	want := store.ShardConfig{Name: "managed", URL: "unix:///d/redis/redis.sock", State: "active"}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v", got)
	}
}

// A form may be empty, and a shard has no URL when the secret key was lost.
func TestAShardWithoutAnAddressIsNotOpened(t *testing.T) {
	_, _, err := OpenShard(t.Context(), conf.Default(), registry.Shard{Name: "new", State: registry.ShardActive})
	if err == nil || !strings.Contains(err.Error(), "no URL") {
		t.Errorf("it is opened: %v", err)
	}
}

func TestOpenShardUsesTheConfiguredBuckets(t *testing.T) {
	cfg := conf.Default()
	cfg.Redis.Buckets, cfg.Redis.Timeout = 5, 100*time.Millisecond
	cluster := registry.Shard{Name: "c", URL: "redis+cluster://127.0.0.1:1", State: registry.ShardActive}
	shard, done, err := OpenShard(t.Context(), cfg, cluster)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if n := len(shard.Buckets()); n != 5 {
		t.Errorf("a Cluster is tried with %d buckets, want those of redis.buckets, 5", n)
	}
}

// TestAPortWithoutTLSIsExplained: a Redis without TLS does not answer a TLS handshake.
func TestAPortWithoutTLSIsExplained(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg, err := conf.Load(conf.LoadOptions{Env: []string{"WAKECALL_REDIS_TIMEOUT=100ms"}})
	if err != nil {
		t.Fatal(err)
	}
	s := registry.Shard{Name: "main", URL: "rediss://" + l.Addr().String(), State: registry.ShardActive}
	found := checkShard(t.Context(), cfg, s, nil)
	if len(found) != 1 || found[0].Verdict != Failed || !strings.Contains(found[0].Advice, "TLS") {
		t.Errorf("%+v", found)
	}
}

// TestTheAlertmanagerIsChecked: it must be ready, and no password is printed.
func TestTheAlertmanagerIsChecked(t *testing.T) {
	ready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/am/-/ready" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer ready.Close()
	moved := httptest.NewServer(http.RedirectHandler(ready.URL+"/am/-/ready", http.StatusFound))
	defer moved.Close()
	away := httptest.NewServer(nil)
	away.Close()
	cfg := conf.Default()
	if list := checkAlertmanager(t.Context(), cfg); len(list) > 0 {
		t.Errorf("without an address: %+v", list)
	}
	for address, want := range map[string]struct {
		verdict Verdict
		detail  string
	}{
		ready.URL + "/am/": {Good, "is ready"}, ready.URL: {Failed, "404 Not Found"},
		moved.URL: {Failed, "302 Found"}, away.URL: {Failed, "refused"},
	} {
		cfg.Alert.AlertmanagerURL = address
		list := checkAlertmanager(t.Context(), cfg)
		if len(list) != 1 || list[0].Verdict != want.verdict || !strings.Contains(list[0].Detail, want.detail) {
			t.Errorf("%s: %+v", address, list)
		}
	}
	cfg.Callback.Networks = "public"
	list := checkAlertmanager(t.Context(), cfg)
	if len(list) != 1 || list[0].Verdict != Failed || !strings.Contains(list[0].Detail, "not allowed") {
		t.Errorf("an address that callback.networks forbids: %+v", list)
	}
}
