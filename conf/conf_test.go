package conf

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write makes a configuration file and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "wakecall.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func load(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	c, err := Load(LoadOptions{File: write(t, text), Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPrecedence(t *testing.T) {
	file := write(t, "timers: 2\ndispatchers: 3\nshutdown_timeout: 1m\n")
	c, err := Load(LoadOptions{
		File:  file,
		Env:   []string{"WAKECALL_DISPATCHERS=4", "WAKECALL_SHUTDOWN_TIMEOUT=2m", "HOME=/root"},
		Flags: map[string]string{"shutdown_timeout": "3m"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Timers != 2 || c.Dispatchers != 4 || c.ShutdownTimeout != 3*time.Minute || c.Redis.PoolSize != 32 {
		t.Errorf("got %+v", c)
	}
	want := map[string]Setting{
		"timers":           {"timers", "2", file + ":1"},
		"dispatchers":      {"dispatchers", "4", "WAKECALL_DISPATCHERS"},
		"shutdown_timeout": {"shutdown_timeout", "3m", "--shutdown-timeout"},
		"redis.pool_size":  {"redis.pool_size", "32", "default"},
	}
	for _, s := range c.Effective() {
		if w, ok := want[s.Key]; ok && s != w {
			t.Errorf("got %+v, want %+v", s, w)
		}
	}
}

func TestWhichFile(t *testing.T) {
	one, two := write(t, "timers: 1\n"), write(t, "timers: 2\n")
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for name, test := range map[string]struct {
		opts LoadOptions
		want string
	}{
		"named":            {LoadOptions{File: one, Env: []string{"WAKECALL_CONFIG=" + two}}, one},
		"variable":         {LoadOptions{Env: []string{"WAKECALL_CONFIG=" + two}, Search: []string{one}}, two},
		"first that exist": {LoadOptions{Search: []string{missing, two, one}}, two},
		"none":             {LoadOptions{Search: []string{missing}}, ""},
	} {
		c, err := Load(test.opts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.File() != test.want {
			t.Errorf("%s: read %q, want %q", name, c.File(), test.want)
		}
	}
	if _, err := Load(LoadOptions{File: missing}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestAVariableMayNameAFile with the value, as secrets are mounted into containers.
func TestAVariableMayNameAFile(t *testing.T) {
	file, missing := write(t, "mysql://u:secret@tcp(db:3306)/w\n"), filepath.Join(t.TempDir(), "none")
	c, err := Load(LoadOptions{Env: []string{"WAKECALL_REGISTRY_DSN_FILE=" + file}, Search: []string{missing}})
	if err != nil || c.RegistryDSN().Reveal() != "mysql://u:secret@tcp(db:3306)/w" {
		t.Errorf("%v, %v", c, err)
	}
	for text, env := range map[string][]string{
		"none: no such file": {"WAKECALL_REGISTRY_DSN_FILE=" + missing},
		"set one of them":    {"WAKECALL_REGISTRY_DSN_FILE=" + file, "WAKECALL_REGISTRY_DSN=sqlite:x"},
		"no key has this":    {"WAKECALL_REGISTRY_DNS_FILE=" + file},
	} {
		if _, err := Load(LoadOptions{Env: env, Search: []string{missing}}); err == nil || !strings.Contains(err.Error(), text) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v, want %q", env, err, text)
		}
	}
}

func TestEveryProblemIsReported(t *testing.T) {
	file := write(t, `timers: two
server:
  adr: ":1"
  read_timeout: -5s
priorities: 5:3
concurrency: 9
`)
	_, err := Load(LoadOptions{
		File:  file,
		Env:   []string{"WAKECALL_TIMER=3", "WAKECALL_LOG_LEVEL=inof", "WAKECALL_TOKEN=x", "WAKECALL_TEST_X=1"},
		Flags: map[string]string{"server.addr": "6789", "dispatcherz": "1"},
	})
	problems, ok := errors.AsType[*Errors](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	want := []string{
		file + `:1: timers: "two" must be a whole number, 0 to 64`,
		file + `:3: server.adr: unknown key; did you mean server.addr?`,
		file + `:4: server.read_timeout: "-5s" must be a duration above zero, such as 500ms, 90s, 30m or 168h`,
		file + `:5: priorities: "5:3" must be three numbers from 1 to 100, for high, normal and low, such as 5:3:2`,
		file + ":6: concurrency: unknown key: `wakecall config --reference` prints every key",
		`WAKECALL_TIMER: no key has this environment variable; did you mean WAKECALL_TIMERS?`,
		`WAKECALL_LOG_LEVEL: log.level: "inof" must be one of debug, info, warn, error`,
		`--dispatcherz: dispatcherz: unknown key; did you mean dispatchers?`,
		`--server-addr: server.addr: "6789" must be HOST:PORT, such as 127.0.0.1:6789, or :6789 for every address`,
	}
	if !slices.Equal(*problems, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(*problems, "\n"), strings.Join(want, "\n"))
	}
	if !strings.HasPrefix(err.Error(), "invalid configuration, 9 problems:\n  ") {
		t.Errorf("got %v", err)
	}
}

func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"timers: [1, 2]":                                  `:1: timers: "1,2" must be a single value, not a list`,
		"timers:":                                         `:1: timers: "" must not be empty`,
		"server: 6789":                                    `:1: server: is a section: write its keys below it`,
		"timers:\n  a: 1":                                 `:2: timers.a: unknown key`,
		"servr:\n  addr: x":                               `:2: servr.addr: unknown key; did you mean server.addr?`,
		"timers: 1\ntimers: 2":                            `:2: invalid YAML: mapping key "timers" already defined`,
		"log:\n  level: info\nlog.level: warn":            `:3: 'log.level': unknown key`,
		"a: &x 1":                                         `:1: a: expected a plain value, found the YAML type anchor`,
		"timers: 1\n---\ntimers: 2":                       `:3: a second document`,
		"timers: 1\n---\n# x\n---\ntimers: 2":             `:5: a second document`,
		"timers: 010":                                     `must be a whole number`,
		"timers: {":                                       `: invalid YAML`,
		"- a":                                             `expected keys and values`,
		"server:\n  addr: '127.0.0.1:99999'":              `server.addr: "127.0.0.1:99999" must be HOST:PORT`,
		"server:\n  addr: 'a b:1'":                        `must be HOST:PORT`,
		"server:\n  max_body: 1TB":                        `must be a size`,
		"server:\n  max_body: 17MiB":                      `must be a size such as 4096, 256KiB, 64MiB or 1GiB, 1 to 16MiB`,
		"server:\n  tls_cert: a.pem":                      `server.tls_cert: is "`,
		"admin:\n  addr: :6789":                           `listeners cannot share a port`,
		"admin:\n  addr: 0.0.0.0:6789":                    `listeners cannot share a port`,
		"admin:\n  addr: \"[::]:6789\"":                   `listeners cannot share a port`,
		"admin:\n  base_path: /x/":                        `not end with it`,
		"admin:\n  public_url: wakecall.example.com":      `must be an address like https://`,
		"callback:\n  networks: 10.0.0.0/33":              `must be any, public or a list of CIDRs`,
		"callback:\n  networks: [any, public]":            `must be any, public or a list of CIDRs`,
		"callback:\n  own_listeners: [server.addr,x]":     `"x" must be one of server.addr, admin.addr, metrics.addr`,
		"registry:\n  dsn: pg://u:pw@h":                   `"pg://u:<secret>@h" must begin with mysql://, postgres:// or`,
		"registry:\n  dsn: 'sqlite::memory:'":             `must name a file`,
		"redis:\n  nodes: [localhost:6379]":               `(number 1 of the list): it does not begin with redis://`,
		"redis:\n  nodes: ['redis://a', 'redis://a']":     `must name each Redis once (number 2 of the list`,
		"alert:\n  alertmanager_url: http://u:pw@am:9093": `"http://u:<secret>@am:9093" must be an address like`,
		"redis:\n  nodes: ['redis://:hunter2']":           `: redis.nodes: "redis://:<secret>" must be the URL of a Redis`,
		"data_dir: /" + strings.Repeat("x", 90):           `at least 4 bytes shorter`,
		"data_dir: /srv/what?":                            `must not contain a question mark`,
		"data_dir: ''":                                    `data_dir: "" must not be empty`,
		"data_dir: \"a\\0b\"":                             `without control characters`,
	} {
		_, err := Load(LoadOptions{File: write(t, text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives\n%v\nwant\n%s", text, err, want)
		}
	}
}

func TestEmptyFilesAndSections(t *testing.T) {
	for _, text := range []string{
		"", "# nothing\n", "---\n", "redis:\n  # all commented out\n", "redis: {}\n", "redis:\n  nodes:\n",
	} {
		c := load(t, text)
		if !c.ManagedRedis() {
			t.Errorf("%q: got nodes", text)
		}
	}
}

func TestNodesFromEveryLayer(t *testing.T) {
	want := []Secret{"redis://:a,b@h:6379/0", "redis+sentinel://h1:1,h2:2/m", "unix:///s.sock"}
	flow := load(t, "redis:\n  nodes: ['redis://:a,b@h:6379/0', 'redis+sentinel://h1:1,h2:2/m', unix:///s.sock]\n")
	block := load(t, "redis:\n  nodes:\n  - redis://:a,b@h:6379/0\n  - redis+sentinel://h1:1,h2:2/m\n  - "+
		"unix:///s.sock\n")
	env := load(t, "", "WAKECALL_REDIS_NODES=redis://:a,b@h:6379/0, redis+sentinel://h1:1,h2:2/m,unix:///s.sock,")
	for name, c := range map[string]*Config{"flow": flow, "block": block, "env": env} {
		if !reflect.DeepEqual(c.Redis.Nodes, want) {
			t.Errorf("%s: %q", name, reveal(c.Redis.Nodes))
		}
	}
	if c := load(t, "redis:\n  nodes: [redis://h]\n", "WAKECALL_REDIS_NODES="); !c.ManagedRedis() {
		t.Error("an empty variable does not empty the list")
	}
}

func reveal(secrets []Secret) (texts []string) {
	for _, s := range secrets {
		texts = append(texts, s.Reveal())
	}
	return texts
}

func TestForeignVariables(t *testing.T) {
	load(t, "", "WAKECALL_CHILD=1", "WAKECALL_URL=http://x", "WAKECALL_SERVICE_HOST=10.0.0.1",
		"WAKECALL_SERVICE_PORT_HTTP=80", "WAKECALL_PORT=tcp://10.0.0.1:80", "WAKECALL_PORT_6789_TCP_ADDR=10.0.0.1",
		"WAKECALL_SERVER_PORT=tcp://10.0.0.1:80", "WAKECALLX=1")
	if _, err := Load(LoadOptions{File: write(t, ""), Env: []string{"WAKECALL_SERVER_PORT=6789"}}); err == nil {
		t.Error("WAKECALL_SERVER_PORT=6789 is accepted")
	}
	if _, err := Load(LoadOptions{Env: []string{"WAKECALL_PRIORITY=high"}, Search: []string{}}); err == nil {
		t.Error("WAKECALL_PRIORITY=high is accepted")
	}
	if _, err := Load(LoadOptions{
		Env: []string{"WAKECALL_PRIORITY=high"}, Foreign: []string{"WAKECALL_PRIORITY"}, Search: []string{},
	}); err != nil {
		t.Error(err)
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	c := load(t, "data_dir: d\nregistry:\n  dsn: sqlite:r.db\n")
	t.Chdir("/")
	for got, want := range map[string]string{
		c.DataDir:        "d",
		c.RedisDir():     "d/redis",
		c.RedisSocket():  "d/redis/redis.sock",
		c.SnapshotFile(): "d/registry-snapshot.json",
		c.JournalDir():   "d/journal",
		c.RegistryDSN().Reveal()[len("sqlite:"):]: "r.db",
	} {
		if got != filepath.Join(dir, want) {
			t.Errorf("got %s, want %s in %s", got, want, dir)
		}
	}
	c = load(t, "data_dir: /d\njournal:\n  dir: /j\n")
	if c.JournalDir() != "/j" || c.RegistryDSN() != "sqlite:/d/registry.db" {
		t.Errorf("got %s %s", c.JournalDir(), c.RegistryDSN().Reveal())
	}
	c = Default()
	c.DataDir = dir
	if c.SnapshotFile() != filepath.Join(dir, "registry-snapshot.json") {
		t.Errorf("got %s", c.SnapshotFile())
	}
}

func TestWordsStandForValues(t *testing.T) {
	c := load(t, "log:\n  level: warn\nspool: on\njournal:\n  sync: always\n"+
		"admin:\n  trusted_proxies: [10.0.0.0/8, fd00::/8]\n")
	if c.Log.Level != slog.LevelWarn || !c.Spool || !c.Journal.Sync {
		t.Errorf("got %v %t %t", c.Log.Level, c.Spool, c.Journal.Sync)
	}
	if got := fmt.Sprint(c.Admin.TrustedProxies); got != "[10.0.0.0/8 fd00::/8]" {
		t.Errorf("got %s", got)
	}
	if c := Default(); c.Log.Level != slog.LevelInfo || c.Spool || c.Journal.Sync || c.Admin.TrustedProxies != nil {
		t.Errorf("got %+v", c)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "4096": 4096, "256KiB": 256 << 10, "1 MiB": 1 << 20, "2MB": 2e6, "7B": 7, "0.5MiB": 512 << 10,
	} {
		if got := load(t, "server:\n  max_body: "+text).Server.MaxBody; got != want {
			t.Errorf("%s is %d", text, got)
		}
	}
	for _, bad := range []string{"KiB", "-1", "0", "9999999999GiB", "0x10", "+ 1", "1QiB", "17MiB"} {
		if _, err := Load(LoadOptions{File: write(t, "server:\n  max_body: "+bad)}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// Whatever the file contains: no panic, and accepted values reach a child unchanged.
func FuzzFile(f *testing.F) {
	f.Add(string(Reference))
	for _, s := range []string{
		"a: [", "? a\n: b", "timers: !!int 3", "<<: *a", "redis:\n  nodes: [redis://:p@h]", "log: {level: warn}",
		"\x00",
		"a: |\n  b", "server.addr: :1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := newLoader(nil)
		l.readYAML([]byte(text))
		l.problems = nil // accepted together with these
		loaded, err := l.config()
		if err != nil {
			t.Fatalf("accepted %q, then %v", text, err)
		}
		data, err := loaded.MarshalPrivate()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := UnmarshalPrivate(data, nil); err != nil {
			t.Fatalf("accepted %q, then %v", text, err)
		}
	})
}

// gateways are keys like those of a gateway.
var gateways = []Key{
	{Path: "gateways.old.addr", Type: Gateway().With("gateways.old.accounts"), Help: "Address."},
	{Path: "gateways.old.accounts", Type: Path(), Help: "Accounts."},
	{Path: "gateways.new.addr", Type: Gateway(), Help: "Address."},
}

func TestAGatewayListensOnThisMachineUnlessAHostIsNamed(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "6790": "127.0.0.1:6790", ":6790": "127.0.0.1:6790", "0.0.0.0:6790": "0.0.0.0:6790",
		"[::]:6790": "[::]:6790",
	} {
		flags := map[string]string{"gateways.new.addr": given}
		c, err := Load(LoadOptions{Flags: flags, Search: []string{}, Gateways: gateways})
		if err != nil || c.Setting("gateways.new.addr") != want {
			t.Errorf("%q became %+v, %v, want %q", given, c, err, want)
		}
	}
	for _, flags := range []map[string]string{
		{"gateways.new.addr": "host"}, {"gateways.new.addr": "70000"}, {"gateways.new.addr": "6789"},
		{"gateways.old.addr": "9000", "gateways.old.accounts": "a", "gateways.new.addr": ":9000"},
		{"gateways.old.addr": "9000"}, {"gateways.old.accounts": "a"},
	} {
		if _, err := Load(LoadOptions{Flags: flags, Search: []string{}, Gateways: gateways}); err == nil {
			t.Errorf("%v was accepted", flags)
		}
	}
}

// TestTheListenersOfGateways are listed with the others, if they have an address.
func TestTheListenersOfGateways(t *testing.T) {
	flags := map[string]string{"gateways.new.addr": "11300", "metrics.addr": ":0"}
	c, err := Load(LoadOptions{Flags: flags, Search: []string{}, Gateways: gateways})
	if err != nil {
		t.Fatal(err)
	}
	want := []Listener{{"server.addr", "127.0.0.1:6789"}, {"admin.addr", "127.0.0.1:8088"}, {"metrics.addr", ":0"},
		{"gateways.new.addr", "127.0.0.1:11300"}}
	if got := c.Listeners(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestEveryFormOfAFileIsRead: with a byte-order mark, and behind a document with nothing but a comment.
func TestEveryFormOfAFileIsRead(t *testing.T) {
	for _, text := range []string{
		"\ufefftimers: 3\n", "\xff\xfet\x00i\x00m\x00e\x00r\x00s\x00:\x00 \x003\x00", "---\n# Source\n---\ntimers: 3\n",
	} {
		file := filepath.Join(t.TempDir(), "wakecall.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := Load(LoadOptions{File: file}); err != nil || c.Timers != 3 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTheIdentityProviderIsChecked: the problems name the way out.
func TestTheIdentityProviderIsChecked(t *testing.T) {
	const client = "\n    client_id: wakecall\n    roles: {admin: [ops team, sre]}\n"
	c := load(t, "admin:\n  oidc:\n    issuer: https://sso.example.com/realms/main"+client,
		"WAKECALL_ADMIN_OIDC_ROLES_VIEWER=staff, all of us")
	if o := c.Admin.OIDC; !slices.Equal(o.Roles.Admin, []string{"ops team", "sre"}) || o.GroupsClaim != "groups" ||
		!slices.Equal(o.Roles.Viewer, []string{"staff", "all of us"}) ||
		!slices.Equal(o.Scopes, []string{"openid", "profile", "email"}) {
		t.Errorf("got %+v", o)
	}
	for text, want := range map[string]string{
		"issuer: https://sso.example.com":                                         "set both, or neither",
		"issuer: https://sso.example.com\n    client_id: x":                       "nobody could sign in: set admin.oidc.roles.admin",
		"issuer: http://sso.example.com" + client:                                 "must start with https://",
		"issuer: https://h/.well-known/openid-configuration" + client:             "without /.well-known",
		"issuer: https://h" + client + "    scopes: [profile]":                    "must include openid",
		"issuer: https://h" + client + "    redirect_url: https://h/":             "must end with /login/oidc/callback",
		"issuer: http://127.0.0.1:8080" + client + "    client_secret: [a, b, c]": "not a list",
	} {
		_, err := Load(LoadOptions{File: write(t, "admin:\n  oidc:\n    "+text+"\n")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
