package conf

import (
	_ "embed"
	"log/slog"
	"net"
	"path/filepath"
	"time"
)

// Reference is conf/wakecall.yaml: every key with its default and a comment.
//
//go:embed wakecall.yaml
var Reference []byte

// Config is the effective configuration. The table of keys explains its fields; their tags are the keys' paths.
type Config struct {
	DataDir         string        `key:"data_dir"`
	Log             Log           `key:"log"`
	Server          Server        `key:"server"`
	Admin           Admin         `key:"admin"`
	Metrics         Metrics       `key:"metrics"`
	Registry        Registry      `key:"registry"`
	Redis           Redis         `key:"redis"`
	Timers          int           `key:"timers"`
	Dispatchers     int           `key:"dispatchers"`
	Dispatcher      Dispatcher    `key:"dispatcher"`
	Priorities      Priorities    `key:"priorities"`
	ShutdownTimeout time.Duration `key:"shutdown_timeout"`
	Pull            Pull          `key:"pull"`
	Schedules       Schedules     `key:"schedules"`
	Callback        Callback      `key:"callback"`
	Journal         Journal       `key:"journal"`
	Alert           Alert         `key:"alert"`
	Tracing         Tracing       `key:"tracing"`
	Spool           bool          `key:"spool"`
	Gateways        Gateways      `key:"gateways"`

	// It keeps secrets behind pointers: fmt does not call methods of unexported fields, and would print them.
	loaded *loader
}

// Log configures the log on stderr.
type Log struct {
	Level  slog.Level `key:"level"`
	Format string     `key:"format"`
}

// Server configures the HTTP API.
type Server struct {
	Addr              string        `key:"addr"`
	MaxBody           int64         `key:"max_body"`
	MaxConnections    int           `key:"max_connections"`
	FirstToken        Secret        `key:"first_token"`
	ReadHeaderTimeout time.Duration `key:"read_header_timeout"`
	ReadTimeout       time.Duration `key:"read_timeout"`
	IdleTimeout       time.Duration `key:"idle_timeout"`
	TLSCert           string        `key:"tls_cert"`
	TLSKey            string        `key:"tls_key"`
}

// Admin configures the web admin.
type Admin struct {
	Addr           string       `key:"addr"`
	BasePath       string       `key:"base_path"`
	PublicURL      string       `key:"public_url"`
	TrustedProxies []*net.IPNet `key:"trusted_proxies"`
	FirstPassword  Secret       `key:"first_password"`
	TLSCert        string       `key:"tls_cert"`
	TLSKey         string       `key:"tls_key"`
	OIDC           OIDC         `key:"oidc"`
}

// OIDC configures the sign-in to the web admin by an identity provider.
type OIDC struct {
	Issuer        string    `key:"issuer"` // empty: there is none
	ClientID      string    `key:"client_id"`
	ClientSecret  Secret    `key:"client_secret"`
	Name          string    `key:"name"`
	Scopes        []string  `key:"scopes"`
	UsernameClaim string    `key:"username_claim"`
	GroupsClaim   string    `key:"groups_claim"`
	Roles         OIDCRoles `key:"roles"`
	RedirectURL   string    `key:"redirect_url"`
	CAFile        string    `key:"ca_file"`
}

// OIDCRoles are the groups of the provider that have a role in the web admin.
type OIDCRoles struct {
	Admin    []string `key:"admin"`
	Operator []string `key:"operator"`
	Viewer   []string `key:"viewer"`
}

// Metrics configures where the master serves /metrics.
type Metrics struct {
	Addr   string `key:"addr"`
	Topics int    `key:"topics"`
}

// Alert configures where alerts are sent besides the receivers of the web admin.
type Alert struct {
	AlertmanagerURL string `key:"alertmanager_url"`
}

// Tracing configures the spans of attempts.
type Tracing struct {
	Endpoint    string        `key:"endpoint"` // empty: there are none
	ParentBelow time.Duration `key:"parent_below"`
}

// Registry configures the database of topics, shards, users and tokens.
type Registry struct {
	DSN         Secret `key:"dsn"` // see Config.RegistryDSN
	SealKey     Secret `key:"seal_key"`
	SealKeyFile string `key:"seal_key_file"`

	AuditKeep time.Duration `key:"audit_keep"`
}

// Redis configures the shards and the managed redis-server.
type Redis struct {
	Nodes     []Secret      `key:"nodes"` // URLs for address.Parse; none: the master's own redis-server
	Timeout   time.Duration `key:"timeout"`
	PoolSize  int           `key:"pool_size"`
	Buckets   int           `key:"buckets"`
	Binary    string        `key:"binary"`
	MaxMemory int64         `key:"maxmemory"`
}

// Dispatcher configures each dispatcher process.
type Dispatcher struct {
	Concurrency int `key:"concurrency"`
}

// Pull limits the topics that workers name and wait for.
type Pull struct {
	TopicsPerRequest   int `key:"topics_per_request"`
	TopicsPerToken     int `key:"topics_per_token"`
	TopicsPerNamespace int `key:"topics_per_namespace"`
	TopicsPerGateway   int `key:"topics_per_gateway"`
}

// Schedules limits schedules.
type Schedules struct {
	PerToken int `key:"per_token"`
}

// Callback limits the addresses that callbacks may reach.
type Callback struct {
	Networks     string `key:"networks"`      // any, public, or CIDRs separated by commas
	OwnListeners string `key:"own_listeners"` // keys of Wakecall's own listeners, separated by commas
}

// Journal configures the record of pushes and attempts.
type Journal struct {
	Keep time.Duration `key:"keep"`
	Dir  string        `key:"dir"`  // see Config.JournalDir
	Sync bool          `key:"sync"` // an accepted request is on disk before it is answered
}

// Gateways configures what all gateways share. Each has a section with keys of its own; see Config.Section.
type Gateways struct {
	MaxConnections int `key:"max_connections"`
}

// Default returns the configuration of an installation that configures nothing.
func Default() *Config {
	c, err := newLoader(nil).config()
	if err != nil {
		panic(err) // a default in the table of keys is invalid; the tests load it
	}
	return c
}

// Setting returns the value of a key as text; gateways read their keys so.
func (c *Config) Setting(path string) string {
	if s := c.loaded.settings[path]; s != nil {
		return s.Value
	}
	return ""
}

// Listener is an address to listen on, and its key.
type Listener struct{ Key, Addr string }

// Listeners returns the addresses of all roles, gateways and the master. A listener without an address is off.
func (c *Config) Listeners() (list []Listener) {
	for _, k := range c.loaded.keys {
		if addr := c.Setting(k.Path); k.Type.listens && addr != "" {
			list = append(list, Listener{k.Path, addr})
		}
	}
	return list
}

// File returns the name of the file that was read, or "".
func (c *Config) File() string { return c.loaded.file }

// ManagedRedis reports whether the master runs a redis-server of its own.
func (c *Config) ManagedRedis() bool { return len(c.Redis.Nodes) == 0 }

// RedisDir returns the directory with the data of the managed redis-server.
func (c *Config) RedisDir() string { return c.inData("redis") }

// RedisSocket returns the path of the managed redis-server's Unix socket.
func (c *Config) RedisSocket() string { return filepath.Join(c.RedisDir(), "redis.sock") }

// SnapshotFile returns the path of the registry's last snapshot, for a start without the database.
func (c *Config) SnapshotFile() string { return c.inData("registry-snapshot.json") }

// JournalDir returns journal.dir, or its default in data_dir.
func (c *Config) JournalDir() string {
	if c.Journal.Dir != "" {
		return c.Journal.Dir
	}
	return c.inData("journal")
}

// RegistryDSN returns registry.dsn, or that of the SQLite file in data_dir.
func (c *Config) RegistryDSN() Secret {
	if c.Registry.DSN != "" {
		return c.Registry.DSN
	}
	return Secret(sqliteScheme + c.inData("registry.db"))
}

func (c *Config) inData(name string) string { return filepath.Join(c.DataDir, name) }
