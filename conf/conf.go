package conf

import (
	_ "embed"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// Reference is conf/wakecall.yaml: every key with its default and a comment.
//
//go:embed wakecall.yaml
var Reference []byte

// Config is the effective configuration. wakecall.yaml explains the keys.
type Config struct {
	DataDir         string        `koanf:"data_dir"`
	Log             Log           `koanf:"log"`
	Server          Server        `koanf:"server"`
	Admin           Admin         `koanf:"admin"`
	Gateways        Gateways      `koanf:"gateways"`
	Metrics         Metrics       `koanf:"metrics"`
	Registry        Registry      `koanf:"registry"`
	Redis           Redis         `koanf:"redis"`
	Timers          int           `koanf:"timers"`
	Dispatchers     int           `koanf:"dispatchers"`
	Dispatcher      Dispatcher    `koanf:"dispatcher"`
	Priorities      Priorities    `koanf:"priorities"`
	ShutdownTimeout time.Duration `koanf:"shutdown_timeout"`
	Callback        Callback      `koanf:"callback"`
	Journal         Journal       `koanf:"journal"`
	Alert           Alert         `koanf:"alert"`
	Spool           string        `koanf:"spool"` // on or off, see Config.SpoolOn

	// A pointer, because fmt would print the secrets in it: fmt calls no methods of unexported fields.
	loaded *loader
}

// Log configures the log on stderr.
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// Server configures the HTTP API.
type Server struct {
	Addr              string        `koanf:"addr"`
	MaxBody           Size          `koanf:"max_body"`
	MaxConnections    int           `koanf:"max_connections"`
	ReadHeaderTimeout time.Duration `koanf:"read_header_timeout"`
	ReadTimeout       time.Duration `koanf:"read_timeout"`
	IdleTimeout       time.Duration `koanf:"idle_timeout"`
	TLSCert           string        `koanf:"tls_cert"`
	TLSKey            string        `koanf:"tls_key"`
}

// Admin configures the web admin.
type Admin struct {
	Addr           string `koanf:"addr"`
	BasePath       string `koanf:"base_path"`
	PublicURL      string `koanf:"public_url"`      // the public address; empty: the address from this machine
	TrustedProxies string `koanf:"trusted_proxies"` // CIDRs separated by commas; see Proxies
	TLSCert        string `koanf:"tls_cert"`
	TLSKey         string `koanf:"tls_key"`
}

// Gateways configures the listeners that speak the protocols of other systems.
type Gateways struct {
	MaxConnections int `koanf:"max_connections"`
	Lmstfy         struct {
		Addr      string `koanf:"addr"`
		AdminAddr string `koanf:"admin_addr"`
		Pools     string `koanf:"pools"`    // separated by commas
		Accounts  string `koanf:"accounts"` // a file
	} `koanf:"lmstfy"`
	PHPDQ struct {
		Addr     string `koanf:"addr"`
		TimeZone string `koanf:"time_zone"` // see Location
	} `koanf:"phpdq"`
	DelayQueue struct {
		Addr string `koanf:"addr"`
	} `koanf:"delayqueue"`
	Grape struct {
		Addr     string `koanf:"addr"`
		WebAddr  string `koanf:"web_addr"`
		Accounts string `koanf:"accounts"` // a file
	} `koanf:"grape"`
	Beanstalk struct {
		Addr string `koanf:"addr"`
	} `koanf:"beanstalk"`
}

// Metrics configures where the master serves /metrics.
type Metrics struct {
	Addr   string `koanf:"addr"`
	Topics int    `koanf:"topics"`
}

// Alert configures where alerts are sent besides the receivers of the web admin.
type Alert struct {
	AlertmanagerURL string `koanf:"alertmanager_url"`
}

// Registry configures the database of topics, shards, users and tokens.
type Registry struct {
	DSN Secret `koanf:"dsn"` // see Config.RegistryDSN
}

// Redis configures the shards and the managed redis-server.
type Redis struct {
	Nodes     Nodes         `koanf:"nodes"` // empty: the master's own redis-server
	Timeout   time.Duration `koanf:"timeout"`
	PoolSize  int           `koanf:"pool_size"`
	Buckets   int           `koanf:"buckets"`
	Binary    string        `koanf:"binary"`
	MaxMemory Size          `koanf:"maxmemory"`
}

// Dispatcher configures each dispatcher process.
type Dispatcher struct {
	Concurrency int `koanf:"concurrency"`
}

// Callback limits the addresses that callbacks may reach.
type Callback struct {
	Networks string `koanf:"networks"` // any, public, or CIDRs separated by commas
}

// Journal configures the record of pushes and attempts.
type Journal struct {
	Keep time.Duration `koanf:"keep"`
	Dir  string        `koanf:"dir"`  // see Config.JournalDir
	Sync string        `koanf:"sync"` // none or always, see Config.JournalSync
}

// Default returns the configuration of an installation that configures nothing.
func Default() *Config {
	c, err := newLoader().config()
	if err != nil {
		panic(err) // a default in the table of keys is invalid; the tests load it
	}
	return c
}

// Listener is an address to listen on. A listener without an address is off.
type Listener struct{ Key, Addr string }

// Listeners returns the listeners of all roles and of the master.
func (c *Config) Listeners() []Listener {
	return []Listener{
		{"server.addr", c.Server.Addr}, {"admin.addr", c.Admin.Addr}, {"metrics.addr", c.Metrics.Addr},
		{"gateways.lmstfy.addr", c.Gateways.Lmstfy.Addr}, {"gateways.lmstfy.admin_addr", c.Gateways.Lmstfy.AdminAddr},
		{"gateways.phpdq.addr", c.Gateways.PHPDQ.Addr}, {"gateways.delayqueue.addr", c.Gateways.DelayQueue.Addr},
		{"gateways.grape.addr", c.Gateways.Grape.Addr}, {"gateways.grape.web_addr", c.Gateways.Grape.WebAddr},
		{"gateways.beanstalk.addr", c.Gateways.Beanstalk.Addr},
	}
}

// File returns the name of the file that was read, or "".
func (c *Config) File() string { return c.loaded.file }

// LogLevel returns log.level for slog.
func (c *Config) LogLevel() slog.Level {
	var l slog.Level
	// The check of log.level allows only the four names that slog knows.
	_ = l.UnmarshalText([]byte(c.Log.Level))
	return l
}

// ManagedRedis reports whether the master runs a redis-server of its own.
func (c *Config) ManagedRedis() bool { return len(c.Redis.Nodes) == 0 }

// DataPath returns data_dir as an absolute path.
func (c *Config) DataPath() string { return c.abs(c.DataDir) }

// MasterSocket returns the path of the Unix socket on which the master answers `wakecall ps`.
func (c *Config) MasterSocket() string { return c.inData("master.sock") }

// RedisDir returns the directory with the data of the managed redis-server.
func (c *Config) RedisDir() string { return c.inData("redis") }

// RedisSocket returns the path of the managed redis-server's Unix socket.
func (c *Config) RedisSocket() string { return filepath.Join(c.RedisDir(), "redis.sock") }

// SnapshotFile returns the path of the registry's last snapshot, for a start without the database.
func (c *Config) SnapshotFile() string { return c.inData("registry-snapshot.json") }

// JournalSync reports whether an accepted request is on disk before it is answered.
func (c *Config) JournalSync() bool { return c.Journal.Sync == "always" }

// SpoolOn reports whether pushes are accepted while every shard is down.
func (c *Config) SpoolOn() bool { return c.Spool == "on" }

// JournalDir returns journal.dir, or its default in data_dir.
func (c *Config) JournalDir() string {
	if c.Journal.Dir != "" {
		return c.abs(c.Journal.Dir)
	}
	return c.inData("journal")
}

const sqliteScheme = "sqlite:"

// RegistryDSN returns registry.dsn, or the SQLite file in data_dir. A SQLite path is absolute.
func (c *Config) RegistryDSN() Secret {
	dsn := string(c.Registry.DSN)
	if dsn == "" {
		return Secret(sqliteScheme + c.inData("registry.db"))
	}
	if path, ok := strings.CutPrefix(dsn, sqliteScheme); ok {
		return Secret(sqliteScheme + c.abs(path))
	}
	return c.Registry.DSN
}

// PriorityPattern returns Priorities.Pattern of the configured priorities.
func (c *Config) PriorityPattern() string { return c.Priorities.Pattern() }

// Proxies returns the networks in TrustedProxies.
func (a Admin) Proxies() []*net.IPNet {
	var list []*net.IPNet
	for _, text := range commaList(a.TrustedProxies) {
		if _, n, err := net.ParseCIDR(text); err == nil { // checked when it was loaded
			list = append(list, n)
		}
	}
	return list
}

// Location returns the time zone PHPDQ.TimeZone.
func (g *Gateways) Location() *time.Location {
	zone, err := time.LoadLocation(g.PHPDQ.TimeZone)
	if err != nil { // it existed when the configuration was loaded
		return time.Local
	}
	return zone
}

func (c *Config) inData(name string) string { return filepath.Join(c.DataPath(), name) }

func (c *Config) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	if base := c.loaded.base; base != "" {
		return filepath.Join(base, path)
	}
	abs, err := filepath.Abs(path)
	if err != nil { // the working directory no longer exists
		return path
	}
	return abs
}
