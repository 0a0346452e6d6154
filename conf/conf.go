package conf

import (
	_ "embed"
	"log/slog"
	"path/filepath"
	"strings"
	"time"
)

// Reference is conf/wakecall.yaml: every key with its default and a comment.
//
//go:embed wakecall.yaml
var Reference []byte

// Config is the effective configuration. The keys and what they mean stand in wakecall.yaml.
type Config struct {
	DataDir         string
	Log             Log
	Server          Server
	Admin           Admin
	Metrics         Metrics
	Registry        Registry
	Redis           Redis
	Timers          int
	Dispatchers     int
	Dispatcher      Dispatcher
	Priorities      Priorities
	ShutdownTimeout time.Duration
	Callback        Callback
	Journal         Journal
	Spool           string // on or off, see Config.SpoolOn

	base    string            // what relative paths start from; empty: the working directory
	file    string            // the file that was read, empty without one
	sources map[string]string // key → where its value comes from; a missing one is a default
}

// Log is how logs are written to stderr.
type Log struct {
	Level  string
	Format string
}

// Server is the HTTP API.
type Server struct {
	Addr              string
	MaxBody           Size
	MaxConnections    int
	ReadHeaderTimeout time.Duration
	ReadTimeout       time.Duration
	IdleTimeout       time.Duration
	TLSCert           string
	TLSKey            string
}

// Admin is the web admin.
type Admin struct {
	Addr           string
	BasePath       string
	PublicURL      string // where people reach it; empty: where this machine does
	TrustedProxies string // CIDRs joined with commas; see Proxies
	TLSCert        string
	TLSKey         string
}

// Metrics is where the master serves /metrics.
type Metrics struct {
	Addr string
}

// Registry is the database of topics, shards, users and tokens.
type Registry struct {
	DSN Secret // see Config.RegistryDSN
}

// Redis is where jobs live.
type Redis struct {
	Nodes     []Secret // URLs for ParseNode; empty: the master's own redis-server
	Timeout   time.Duration
	PoolSize  int
	Buckets   int
	Binary    string
	MaxMemory Size
}

// Dispatcher is each dispatcher process.
type Dispatcher struct {
	Concurrency int
}

// Callback is what calls may do.
type Callback struct {
	Networks string // any, public, or CIDRs joined with commas
}

// Journal is the record of pushes and attempts.
type Journal struct {
	Keep time.Duration
	Dir  string // see Config.JournalDir
	Sync string // none or always, see Config.JournalSync
}

// Default is the configuration of an installation that configures nothing.
func Default() *Config {
	return &Config{
		DataDir: "./data",
		Log:     Log{Level: "info", Format: "text"},
		Server: Server{
			Addr:              "127.0.0.1:6789",
			MaxBody:           256 * KiB,
			MaxConnections:    8192,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       30 * time.Second,
			IdleTimeout:       2 * time.Minute,
		},
		Admin:           Admin{Addr: "127.0.0.1:8088", BasePath: "/"},
		Metrics:         Metrics{Addr: "127.0.0.1:9789"},
		Redis:           Redis{Timeout: 2 * time.Second, PoolSize: 32, Buckets: 16, Binary: "redis-server"},
		Timers:          1,
		Dispatchers:     2,
		Dispatcher:      Dispatcher{Concurrency: 256},
		Priorities:      Priorities{5, 3, 2},
		ShutdownTimeout: 30 * time.Second,
		Callback:        Callback{Networks: "any"},
		Journal:         Journal{Keep: 7 * 24 * time.Hour, Sync: "none"},
		Spool:           "off",
	}
}

// File is the file that was read, or empty.
func (c *Config) File() string { return c.file }

// LogLevel is log.level for slog.
func (c *Config) LogLevel() slog.Level {
	var l slog.Level
	// Only the four names that slog knows pass the check of log.level; a Config made by hand falls back to info.
	_ = l.UnmarshalText([]byte(c.Log.Level))
	return l
}

// ManagedRedis says that the master runs a redis-server of its own.
func (c *Config) ManagedRedis() bool { return len(c.Redis.Nodes) == 0 }

// DataPath is data_dir, absolute.
func (c *Config) DataPath() string { return c.abs(c.DataDir) }

// MasterSocket is the Unix socket on which the master answers `wakecall ps`.
func (c *Config) MasterSocket() string { return c.inData("master.sock") }

// RedisDir is where the managed redis-server keeps its data.
func (c *Config) RedisDir() string { return c.inData("redis") }

// RedisSocket is the Unix socket of the managed redis-server.
func (c *Config) RedisSocket() string { return filepath.Join(c.RedisDir(), "redis.sock") }

// SnapshotFile is the registry's last snapshot, for a start without the database.
func (c *Config) SnapshotFile() string { return c.inData("registry-snapshot.json") }

// JournalSync says whether an accepted request is on the disk before it is answered.
func (c *Config) JournalSync() bool { return c.Journal.Sync == "always" }

// SpoolOn says whether pushes are taken while no shard can take them.
func (c *Config) SpoolOn() bool { return c.Spool == "on" }

// JournalDir is journal.dir, or its place in data_dir.
func (c *Config) JournalDir() string {
	if c.Journal.Dir != "" {
		return c.abs(c.Journal.Dir)
	}
	return c.inData("journal")
}

const sqliteScheme = "sqlite:"

// RegistryDSN is registry.dsn, or the SQLite file in data_dir. A SQLite path is absolute.
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

// PriorityPattern spreads the priorities' weights into the order in which they are reserved: one digit (0 high,
// 1 normal, 2 low) a turn. The pattern repeats, and any sum-of-the-weights turns in a row hold exactly the weights.
func (c *Config) PriorityPattern() string { return c.Priorities.Pattern() }

func (c *Config) inData(name string) string { return filepath.Join(c.DataPath(), name) }

func (c *Config) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	if c.base != "" {
		return filepath.Join(c.base, path)
	}
	abs, err := filepath.Abs(path)
	if err != nil { // the working directory is gone; the relative path is the best there is
		return path
	}
	return abs
}
