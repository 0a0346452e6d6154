package conf

import (
	"math"
	"slices"
	"strings"
)

// Key is a row in the table of keys.
type Key struct {
	Path    string // server.max_body
	Default string
	kind    kind
	Doc     string // for the help texts of flags
}

var envForm, flagForm = strings.NewReplacer(".", "_"), strings.NewReplacer(".", "-", "_", "-")

const envPrefix = "WAKECALL_"

// Env returns the key's environment variable, such as WAKECALL_SERVER_MAX_BODY.
func (k Key) Env() string { return envPrefix + strings.ToUpper(envForm.Replace(k.Path)) }

// Flag returns the key's flag without leading dashes, such as server-max-body.
func (k Key) Flag() string { return flagForm.Replace(k.Path) }

// Keys returns every key in the order of the reference.
func Keys() []Key { return keys }

// keys is the one list of keys, in the order of the reference. A field of Config has the path in its koanf tags.
var keys = []Key{
	{"data_dir", "./data", text(notEmpty), "Directory of everything that Wakecall writes"},
	{"log.level", "info", oneOf("debug", "info", "warn", "error"),
		"The least severe messages to log: debug, info, warn or error"},
	{"log.format", "text", oneOf("text", "json"), "How to log to stderr: text (key=value) or json"},
	{"server.addr", "127.0.0.1:6789", text(checkAddr), "Address of the HTTP API, HOST:PORT"},
	{"server.max_body", "256KiB", size(1, 16*MiB), "Largest body of a job, at most 16MiB"},
	{"server.max_connections", "8192", number(1, 1_000_000), "Connections of clients open at once"},
	{"server.read_header_timeout", "5s", duration,
		"How long a client may take to send the headers of a request"},
	{"server.read_timeout", "30s", duration, "How long a client may take to send a whole request"},
	{"server.idle_timeout", "2m", duration, "How long a connection is kept open between two requests"},
	{"server.tls_cert", "", text(checkText), "PEM file of the certificate (with its chain) for HTTPS"},
	{"server.tls_key", "", text(checkText), "PEM file of the private key of tls_cert"},
	{"admin.addr", "127.0.0.1:8088", text(checkAddr), "Address of the web admin, HOST:PORT"},
	{"admin.base_path", "/", text(checkBasePath), "Path under which the web admin is served: / or /wakecall"},
	{"admin.public_url", "", text(checkPublicURL), "Address at which people open the web admin, with its path"},
	{"admin.trusted_proxies", "", cidrs,
		"Networks (CIDRs) of the proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted"},
	{"admin.tls_cert", "", text(checkText), "PEM file of the certificate (with its chain) for HTTPS"},
	{"admin.tls_key", "", text(checkText), "PEM file of the private key of tls_cert"},
	{"gateways.max_connections", "10000", number(1, 1_000_000), "Connections of clients open at once at each gateway"},
	{"gateways.lmstfy.addr", "", gateway, "Address of the gateway for clients of lmstfy, [HOST:]PORT"},
	{"gateways.lmstfy.admin_addr", "", gateway,
		"Address of the gateway for lmstfy's admin API, [HOST:]PORT"},
	{"gateways.lmstfy.pools", "default", text(checkPools),
		"Pools of lmstfy joined with commas; the first is the default one"},
	{"gateways.lmstfy.accounts", "", text(checkText),
		"File of USER:PASSWORD lines: who may use lmstfy's admin API; empty: everybody"},
	{"gateways.phpdq.addr", "", gateway,
		"Address of the gateway for clients of php-delayqueue, [HOST:]PORT"},
	{"gateways.phpdq.time_zone", "Local", text(checkTimeZone),
		"Time zone of the times that clients and endpoints of php-delayqueue see"},
	{"gateways.delayqueue.addr", "", gateway,
		"Address of the gateway for clients of ouqiang/delay-queue and for Youzan's commands, [HOST:]PORT"},
	{"gateways.grape.addr", "", gateway, "Address of the gateway for clients of Grape, [HOST:]PORT"},
	{"gateways.grape.web_addr", "", gateway,
		"Address of the gateway for what Grape's web page calls, [HOST:]PORT"},
	{"gateways.grape.accounts", "", text(checkText), "File of USER:PASSWORD lines: who may log in at grape.web_addr"},
	{"gateways.beanstalk.addr", "", gateway, "Address of the gateway for clients of beanstalkd, [HOST:]PORT"},
	{"metrics.addr", "127.0.0.1:9789", text(checkAddr), "Address of the master's /metrics (Prometheus), HOST:PORT"},
	{"metrics.topics", "1000", number(1, 100_000),
		"Topics that have series of their own in /metrics; the others share one"},
	{"registry.dsn", "", dsn,
		"Database of the registry: mysql://user:pw@tcp(host:3306)/wakecall or sqlite:PATH"},
	{"redis.nodes", "", nodeURLs, "URLs of the Redis deployments that hold the jobs, each one shard"},
	{"redis.timeout", "2s", duration, "Time limit of one Redis command"},
	{"redis.pool_size", "32", number(1, 10_000), "Connections of each process to each Redis"},
	{"redis.buckets", "16", number(1, 256), "Parts into which a Redis Cluster's jobs are spread (1 to 256)"},
	{"redis.binary", "redis-server", text(notEmpty),
		"Program of the master's own redis-server, a name on the PATH or a path"},
	{"redis.maxmemory", "0", size(0, math.MaxInt64), "Memory limit of the master's own redis-server"},
	{"timers", "1", number(0, 64), "Timer processes of the master (0 to 64)"},
	{"dispatchers", "2", number(0, 64), "Dispatcher processes of the master (0 to 64)"},
	{"dispatcher.concurrency", "256", number(1, 100_000), "Callbacks at once of each dispatcher process"},
	{"priorities", "5:3:2", text(checkPriorities),
		"How many jobs of high, normal and low priority are taken in turn when all three have work, each 1 to 100"},
	{"shutdown_timeout", "30s", duration, "How long a graceful stop may take"},
	{"callback.networks", "any", networks,
		"Networks that callbacks may go to: any, public, or CIDRs beside the public ones"},
	{"journal.keep", "168h", duration, "How long the files of accepted pushes and of attempts are kept"},
	{"journal.dir", "", text(checkText), "Directory of the journal"},
	{"journal.sync", "none", oneOf("none", "always"), "Whether an accepted request is on disk before it is answered"},
	{"alert.alertmanager_url", "", text(checkPublicURL), "Address of an Alertmanager that gets the alerts, too"},
	{"spool", "off", oneOf("off", "on"), "Whether pushes are accepted while every shard is down: off or on"},
}

func keyAt(path string) (Key, bool) {
	i := slices.Index(paths(), path)
	if i < 0 {
		return Key{}, false
	}
	return keys[i], true
}

func paths() (list []string) {
	for _, k := range keys {
		list = append(list, k.Path)
	}
	return list
}

// isSection reports whether there are keys below the path.
func isSection(path string) bool {
	return path == "" || slices.ContainsFunc(keys, func(k Key) bool { return strings.HasPrefix(k.Path, path+".") })
}

// Setting is a key's effective value, for display.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // passwords are masked
	Source string `json:"source"` // default, FILE:LINE, env NAME, or flag
}

const sourceDefault = "default"

// Effective returns the effective value of every key, in the order of the reference.
func (c *Config) Effective() []Setting {
	var list []Setting
	for _, k := range keys {
		value := k.kind.show(c.loaded.values.String(k.Path))
		list = append(list, Setting{Key: k.Path, Value: value, Source: c.loaded.source(k.Path)})
	}
	return list
}
