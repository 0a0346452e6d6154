package setup

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/harness"
)

func load(t *testing.T, env ...string) *conf.Config {
	t.Helper()
	cfg, err := conf.Load(conf.LoadOptions{Env: append(env, "WAKECALL_DATA_DIR="+filepath.Join(t.TempDir(), "data"))})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestAddressesAreReachable: the address that a server listens on is not always one that a client can dial.
func TestAddressesAreReachable(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:6789": "127.0.0.1:6789", "0.0.0.0:6789": "127.0.0.1:6789", ":6789": "127.0.0.1:6789",
		"[::]:80": "127.0.0.1:80", "[::1]:80": "[::1]:80", "api.example:80": "api.example:80", "nonsense": "nonsense",
	} {
		if got := Reachable(addr); got != want {
			t.Errorf("%s is reached at %s, want %s", addr, got, want)
		}
	}
	cfg := conf.Default()
	cfg.Server.Addr, cfg.Admin.Addr, cfg.Admin.BasePath = ":6789", ":8088", "/wake/"
	if api, admin := APIURL(cfg), AdminURL(cfg); api != "http://127.0.0.1:6789" ||
		admin != "http://127.0.0.1:8088/wake/" {
		t.Errorf("they are at %s and %s", api, admin)
	}
	cfg.Server.TLSCert, cfg.Admin.TLSCert, cfg.Admin.BasePath = "c", "c", ""
	if APIURL(cfg) != "https://127.0.0.1:6789" || AdminURL(cfg) != "https://127.0.0.1:8088/" {
		t.Errorf("with certificates they are at %s and %s", APIURL(cfg), AdminURL(cfg))
	}
	if cfg.Admin.PublicURL = "https://ops.example/"; PublicAdminURL(cfg) != "https://ops.example/" {
		t.Errorf("people reach the admin at %s", PublicAdminURL(cfg))
	}
}

func TestAMissingTokenIsExplained(t *testing.T) {
	cfg := load(t)
	if _, err := ReadToken(cfg); err == nil || !strings.Contains(err.Error(), TokenFile(cfg)) ||
		!strings.Contains(err.Error(), "WAKECALL_TOKEN") {
		t.Errorf("no file: %v", err)
	}
	if err := os.MkdirAll(TokenFile(cfg), 0o700); err != nil { // a directory
		t.Fatal(err)
	}
	if _, err := ReadToken(cfg); err == nil || !strings.Contains(err.Error(), "read the API token") {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

func TestDirectoriesAreChecked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		verdict Verdict
		detail  string
	}{
		dir:                            {Good, " free"},
		filepath.Join(dir, "a", "b"):   {Good, "will be created by the first start"},
		file:                           {Failed, "is not a directory"},
		filepath.Join(file, "a"):       {Failed, "not a directory"},
		"/proc/self/wakecall":          {Failed, "/proc/self"}, // no user can write there
		strings.Repeat("/x", 1<<12+10): {Failed, "name too long"},
	} {
		f := checkDir("journal.dir", path)
		if f.Verdict != want.verdict || !strings.Contains(f.Detail, want.detail) {
			t.Errorf("%.40s: %+v", path, f)
		}
		if f.Verdict == Failed && !strings.Contains(f.Advice, "journal.dir") {
			t.Errorf("%.40s: no remedy: %+v", path, f)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("a check leaves %v", left)
	}
	cfg := load(t, "WAKECALL_JOURNAL_DIR="+file)
	if list := checkDirs(cfg); len(list) != 2 || list[1].What != "journal.dir" || list[1].Verdict != Failed {
		t.Errorf("a journal of its own: %+v", list)
	}
	if err := MakeDataDir(load(t, "WAKECALL_JOURNAL_DIR="+dir)); err != nil {
		t.Error(err)
	}
	cfg.DataDir = file
	if err := MakeDataDir(cfg); err == nil || !strings.Contains(err.Error(), "set it to a directory") {
		t.Errorf("a data_dir that is a file: %v", err)
	}
}

func TestARedisServerIsCheckedBeforeItIsStarted(t *testing.T) {
	dir := t.TempDir()
	for name, x := range map[string]struct {
		script  string
		verdict Verdict
		says    string
	}{
		"good":   {"echo Redis server v=7.2.4 sha=00000000:0 malloc=jemalloc", Good, "Redis 7.2.4"},
		"old":    {"echo Redis server v=6.0.16 sha=00000000:0", Failed, "too old"},
		"broken": {"echo no library >&2; exit 127", Failed, "exit status 127"},
		"other":  {"echo something else", Failed, "not print a version"},
	} {
		binary := filepath.Join(dir, name)
		if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+x.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		f := checkRedisBinary(t.Context(), "redis", binary)
		if f.Verdict != x.verdict || !strings.Contains(f.Detail, x.says) || f.Verdict == Failed && f.Advice == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	none := checkRedisBinary(t.Context(), "redis", filepath.Join(dir, "none"))
	if f := none; !strings.Contains(f.Advice, "apt-get install") {
		t.Errorf("none: %+v", f)
	}
}

func TestUnreachableShardsGetTheAdviceOfTheirKind(t *testing.T) {
	for name, x := range map[string]struct {
		url, err, advice string
	}{
		"refused":        {"redis://h:1", "dial tcp: connection refused", "Is Redis running there"},
		"no password":    {"redis://h:1", "NOAUTH Authentication required.", "percent-encoded"},
		"wrong password": {"redis://h:1", "WRONGPASS invalid username-password pair", "percent-encoded"},
		"managed":        {registry.ManagedShard, "connection refused", "its log says why"},
		"no TLS":         {"rediss://h:1", "i/o timeout", "TLS on that port"},
		"a firewall":     {"redis://h:1", "context deadline exceeded", "firewall"},
		"Alibaba Cloud": {"redis+cluster://h:1", "ERR bad lua script for redis cluster, all the keys that the script " +
			"uses should be passed using the KEYS array", "script_check_enable to 0"},
	} {
		f := unreachableShard("redis a", registry.Shard{URL: x.url}, store.ShardHealth{Err: x.err})
		if f.Verdict != Failed || !strings.Contains(f.Advice, x.advice) || strings.HasSuffix(f.Detail, ".") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestErrorsOfTheDatabaseAreExplained(t *testing.T) {
	cfg := load(t)
	for text, advice := range map[string]string{
		"Error 1045: Access denied for user 'w'@'h'": "GRANT ALL",
		"Error 1049: Unknown database 'w'":           "CREATE DATABASE",
		"connection refused":                         "registry.dsn correct?",
	} {
		err := ExplainRegistry(cfg, fmt.Errorf("%w: %s", registry.ErrUnavailable, text))
		if !errors.Is(err, registry.ErrUnavailable) || !strings.Contains(err.Error(), advice) ||
			strings.Contains(err.Error(), "Meanwhile") {
			t.Errorf("%s: %v", text, err)
		}
	}
	other := errors.New("another")
	if err := ExplainRegistry(cfg, other); err != other {
		t.Errorf("another error: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(cfg.SnapshotFile()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.SnapshotFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := ExplainRegistry(cfg, registry.ErrUnavailable)
	if !strings.Contains(err.Error(), "continue with the snapshot") {
		t.Errorf("with a snapshot: %v", err)
	}
}

// TestHostsWithOtherSettingsAreToldApart: they must agree on priorities and on the secret key, which is not shown.
func TestHostsWithOtherSettingsAreToldApart(t *testing.T) {
	cfg := load(t)
	if got := CommonSettings(cfg); got != "" {
		t.Errorf("without a key: %s", got)
	}
	if err := MakeDataDir(cfg); err != nil {
		t.Fatal(err)
	}
	key, _, err := sealKey(cfg, true)
	if err != nil || len(key) == 0 {
		t.Fatal(key, err)
	}
	first := CommonSettings(cfg)
	if cfg.Priorities[0]++; CommonSettings(cfg) == first || !strings.Contains(first, "5:3:2") ||
		strings.Contains(first, fmt.Sprintf("%x", key)) {
		t.Errorf("%s, then %s", first, CommonSettings(cfg))
	}
	if other := load(t); MakeDataDir(other) == nil {
		if _, _, err := sealKey(other, true); err != nil || CommonSettings(other) == first {
			t.Errorf("another key has the same settings: %s, %v", CommonSettings(other), err)
		}
	}
	if err := os.WriteFile(filepath.Join(cfg.DataDir, "secret-key"), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = OpenRegistry(cfg, slog.New(slog.DiscardHandler), registry.MigrateOlder, nil)
	if err == nil || !strings.Contains(err.Error(), "secret key") {
		t.Errorf("a damaged key: %v", err)
	}
	if got := CommonSettings(cfg); got != "" {
		t.Errorf("with a damaged key: %s", got)
	}
}

// TestNodesThatAreNoShardsAreNamed, because redis.nodes is read only at the first start.
func TestNodesThatAreNoShardsAreNamed(t *testing.T) {
	cfg := load(t, "WAKECALL_REDIS_NODES=redis://127.0.0.1:1,redis://:hidden@127.0.0.1:2")
	shards := []registry.Shard{{Name: "a", URL: "redis://127.0.0.1:1"}}
	if list := unregistered(cfg, shards); len(list) != 1 || list[0].Verdict != Warning ||
		!strings.Contains(list[0].Detail, "1 node not registered") || strings.Contains(fmt.Sprint(list), "hidden") {
		t.Errorf("%+v", list)
	}
	if list := unregistered(cfg, append(shards, registry.Shard{URL: "redis://:hidden@127.0.0.1:2"})); list != nil {
		t.Errorf("when all are shards: %+v", list)
	}
}

// TestARedisIsOneShard: a second name, data of another shard, or a wrong password is not registered.
func TestARedisIsOneShard(t *testing.T) {
	cfg := load(t)
	one := harness.StartRedis(t, harness.RedisOptions{Password: "secret"})
	two := harness.StartRedis(t, harness.RedisOptions{})
	shard := func(name, url, identity string) registry.Shard {
		return registry.Shard{Name: name, URL: url, State: registry.ShardActive, Identity: identity}
	}
	a, b := shard("a", one.URL(), "of-a"), shard("b", two.URL(), "of-b")
	registered := []registry.Shard{a, b}
	refused := func(name string, s registry.Shard, says string) {
		t.Helper()
		err := CheckRedis(t.Context(), cfg, registered, s)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
		if err != nil && (!errors.As(err, new(*registry.FieldError)) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("as it is registered", a, "")
	refused("a second name", shard("c", one.URL(), ""), "is the Redis of shard a")
	byName := strings.Replace(one.URL(), "127.0.0.1", "localhost", 1)
	refused("a second name by another address", shard("c", byName, ""), "is the Redis of shard a")
	refused("the data of another one", shard("b", byName, "of-b"), "is the Redis of shard a")
	refused("a Redis that does not answer", shard("c", "redis://127.0.0.1:1", ""), "")
	refused("no URL", shard("c", "", ""), "no URL")
	three := harness.StartRedis(t, harness.RedisOptions{})
	refused("an empty one", shard("b", three.URL(), "of-b"), "")
	registered = []registry.Shard{a}
	refused("the data of one that was removed", shard("a", two.URL(), "of-a"), "the data of another shard")
	registered = nil
	refused("the same as a shard of its own", shard("b", two.URL(), ""), "")

	wrong := strings.Replace(one.URL(), "secret", "guess", 1)
	list := []registry.Shard{b, shard("w", wrong, ""), shard("n", "redis://127.0.0.1:1", "")}
	silent, err := TryShards(t.Context(), cfg, list)
	if err == nil || !strings.Contains(err.Error(), "percent-encoded") || strings.Contains(err.Error(), "guess") ||
		silent == nil || !strings.Contains(silent.Error(), "connection refused") {
		t.Errorf("%v; silent: %v", err, silent)
	}
	found := checkShards(t.Context(), cfg, []registry.Shard{a, {Name: "off", State: registry.ShardOffline}})
	if len(found) < 2 || found[0].Verdict != Good || !strings.Contains(found[0].Detail, "Redis 7") ||
		!strings.Contains(found[len(found)-1].Detail, "is offline") {
		t.Errorf("a check finds %+v", found)
	}
}

// TestOneRedisIsNamedOnce in redis.nodes, and a first start with a mistake there stores nothing.
func TestOneRedisIsNamedOnce(t *testing.T) {
	r := harness.StartRedis(t, harness.RedisOptions{Password: "secret"})
	twice := load(t, "WAKECALL_REDIS_NODES="+r.URL()+","+strings.Replace(r.URL(), "127.0.0.1", "localhost", 1))
	wrong := load(t, "WAKECALL_REDIS_NODES="+strings.Replace(r.URL(), "secret", "guess", 1))
	for says, cfg := range map[string]*conf.Config{"is the same Redis as node": twice, "percent-encoded": wrong} {
		log := slog.New(slog.DiscardHandler)
		if _, err := Prepare(t.Context(), cfg, log); err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want an error with %q", err, says)
		}
		reg, err := OpenRegistry(cfg, log, registry.MigrateOlder, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s := reg.Snapshot(); len(s.Shards)+len(s.Tokens) > 0 {
			t.Errorf("the start stored %+v", s.Shards)
		}
		_ = reg.Close()
	}
}

// TestDataOfAnotherFormatIsRefusedAtTheStart, in one line that says what to do, before the start stores anything.
func TestDataOfAnotherFormatIsRefusedAtTheStart(t *testing.T) {
	r := harness.StartRedis(t, harness.RedisOptions{Password: "secret"})
	r.Do("SET", "wk:{0}:rev", "7")
	old := load(t, "WAKECALL_REDIS_NODES="+r.URL())
	begun := load(t)
	if err := os.MkdirAll(begun.JournalDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	lines := filepath.Join(begun.JournalDir(), "request-20251016.jsonl")
	if err := os.WriteFile(lines, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for of, cfg := range map[string]*conf.Config{"shard redis-1": old, begun.JournalDir(): begun} {
		_, err := Prepare(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), of) || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), "start with an empty Redis and an empty data_dir, or drain it with") {
			t.Errorf("%s: %v", of, err)
		}
		found := append(checkDirs(cfg), checkShards(t.Context(), cfg, seedShards(cfg))...)
		if !slices.ContainsFunc(found, func(f Finding) bool {
			return f.Verdict == Failed && strings.Contains(f.Detail, "another version of Wakecall")
		}) {
			t.Errorf("%s: a check finds %+v", of, found)
		}
	}
	s := registry.Shard{Name: "b", URL: r.URL(), State: registry.ShardActive}
	if err := CheckRedis(t.Context(), old, nil, s); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("it can be added: %v", err)
	}
}

func TestACheckSaysWhereCallbacksMayGo(t *testing.T) {
	for networks, want := range map[string]string{
		"any": "private and loopback", "public": "public addresses only", "10.0.0.0/8": "and 10.0.0.0/8",
	} {
		cfg := conf.Default()
		cfg.Callback.Networks = networks
		if f := checkCallbacks(cfg); f.Verdict != Good || !strings.Contains(f.Detail, want) {
			t.Errorf("%s: %+v", networks, f)
		}
	}
	cfg := conf.Default()
	cfg.Callback.Networks = "10.0.0.0/99"
	if f := checkCallbacks(cfg); f.Verdict != Failed {
		t.Errorf("no network: %+v", f)
	}
}
