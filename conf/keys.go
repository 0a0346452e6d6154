package conf

import (
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key is a row in the table of keys.
type Key struct {
	Path    string // server.max_body
	Default string
	Type    Type
	Help    string // sentences; the first is the help of the flag. An indented line stays as it is
}

var envForm, flagForm = strings.NewReplacer(".", "_"), strings.NewReplacer(".", "-", "_", "-")

const envPrefix = "WAKECALL_"

// Env returns the key's environment variable, such as WAKECALL_SERVER_MAX_BODY.
func (k Key) Env() string { return envPrefix + strings.ToUpper(envForm.Replace(k.Path)) }

// Flag returns the key's flag without leading dashes, such as server-max-body.
func (k Key) Flag() string { return flagForm.Replace(k.Path) }

// Summary returns the first sentence of the help, without its full stop, and the bounds of the values.
func (k Key) Summary() string {
	summary, _, _ := strings.Cut(strings.TrimSuffix(k.Help, "."), ". ")
	if k.Type.bounds != "" {
		summary += " (" + k.Type.bounds + ")"
	}
	return summary
}

// Details returns the rest of the help.
func (k Key) Details() string {
	_, rest, _ := strings.Cut(k.Help, ". ")
	return rest
}

// List reports whether the values are lists.
func (k Key) List() bool { return k.Type.split != nil }

// read parses a value; isList is true for a YAML list, which is passed as comma-separated text. stored is the text in
// the form in which the value is stored. An empty value is nil.
func (k Key) read(text string, isList bool) (value any, stored string, err error) {
	if k.List() {
		text = strings.Join(k.Type.split(text), ",")
	}
	switch {
	case isList && !k.List():
		return nil, text, errors.New("must be a single value, not a list")
	case text == "" && k.Default != "":
		return nil, text, errors.New("must not be empty; remove it for the default")
	case text == "":
		return nil, text, nil
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl): // JSON cannot carry it to children
		return nil, text, errors.New("must be UTF-8 without control characters")
	}
	value, err = k.Type.Parse(text)
	if v := reflect.ValueOf(value); v.Kind() == reflect.String {
		text = v.String()
	}
	return value, text, err
}

// show returns a value without its passwords.
func (k Key) show(text string) string {
	if k.Type.mask == nil || text == "" {
		return text
	}
	parts := []string{text}
	if k.List() {
		parts = k.Type.split(text)
	}
	for i, part := range parts {
		parts[i] = k.Type.mask(part)
	}
	return strings.Join(parts, ",")
}

// Value parses a key's stored value, which was validated when the configuration was loaded: without one, or if it is of
// another type, it returns zero.
func Value[T any](keys []Key, path string, setting func(path string) string) (value T) {
	for _, k := range keys {
		if k.Path == path {
			parsed, _ := k.Type.Parse(setting(path))
			value, _ = parsed.(T)
		}
	}
	return value
}

// Keys returns every key, in the order of the reference: those of the core, and then those of the gateways.
func Keys(gateways []Key) []Key { return slices.Concat(keys, gateways) }

const (
	certHelp = "PEM file of the certificate (with its chain) for HTTPS. It needs tls_key. Empty: plain HTTP."
	keyHelp  = "PEM file of the private key of tls_cert."
)

// keys is the table of the core's keys. A field of Config has the path in its tags.
var keys = []Key{
	{"data_dir", "./data", Path(),
		"Directory for everything that Wakecall writes. Relative to the working directory. Keep it short: " +
			"paths of the Unix sockets in it are limited to 104 bytes. A change needs a restart."},

	{"log.level", "info", oneOf(choice{"debug", slog.LevelDebug}, choice{"info", slog.LevelInfo},
		choice{"warn", slog.LevelWarn}, choice{"error", slog.LevelError}),
		"Lowest severity to log. The master needs a restart."},
	{"log.format", "text", oneOf(choice{"text", "text"}, choice{"json", "json"}),
		"Format of the log on stderr. text is key=value. The master needs a restart."},

	{"server.addr", "127.0.0.1:6789", listen(),
		"Address of the HTTP API, HOST:PORT. Without a host: all addresses; port 0: a free port."},
	{"server.max_body", "256KiB", size("1", "16MiB"),
		"Largest body of a job. Larger pushes get 413."},
	{"server.max_connections", "8192", number(1, 1_000_000),
		"Limit of open client connections. Further ones wait."},
	{"server.first_token", "", secret(32),
		"API token with all rights that only the first start creates. Empty: a random one, in " +
			"data_dir/api-token. Use WAKECALL_SERVER_FIRST_TOKEN_FILE instead of writing it here."},
	{"server.read_header_timeout", "5s", duration(),
		"How long a client may take to send a request's headers."},
	{"server.read_timeout", "30s", duration(),
		"How long a client may take to send a whole request."},
	{"server.idle_timeout", "2m", duration(),
		"How long an idle connection is kept open."},
	{"server.tls_cert", "", Path().With("server.tls_key"), certHelp},
	{"server.tls_key", "", Path(), keyHelp},

	{"admin.addr", "127.0.0.1:8088", listen(),
		"Address of the web admin, HOST:PORT. Not on loopback: set tls_cert, or use an HTTPS proxy."},
	{"admin.base_path", "/", basePath(),
		"Path of the web admin, such as /wakecall. For a proxy that forwards only this path."},
	{"admin.public_url", "", publicURL(),
		"URL at which people open the web admin, such as https://wakecall.example.com/. Alert messages link " +
			"to it. Empty: the address from this machine."},
	{"admin.trusted_proxies", "", cidrs(),
		"Networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, as CIDRs such as " +
			"127.0.0.1/32."},
	{"admin.first_password", "", secret(10),
		"Password of the user admin that only the first start creates. Empty: a random one, in " +
			"data_dir/admin-password. Use WAKECALL_ADMIN_FIRST_PASSWORD_FILE instead of writing it here."},
	{"admin.tls_cert", "", Path().With("admin.tls_key"), certHelp},
	{"admin.tls_key", "", Path(), keyHelp},
	{"admin.oidc.issuer", "", issuerURL().With("admin.oidc.client_id"),
		"Issuer of an OpenID Connect identity provider that signs users in, such as " +
			"https://sso.example.com/realms/main, exactly as in its discovery document. Needs client_id and " +
			"roles. Local users can always sign in."},
	{"admin.oidc.client_id", "", Text(), "Client ID that the provider gave Wakecall."},
	{"admin.oidc.client_secret", "", secret(1),
		"Client secret of client_id. Use WAKECALL_ADMIN_OIDC_CLIENT_SECRET_FILE instead of writing it here. " +
			"Empty: a public client, by PKCE alone."},
	{"admin.oidc.name", "", matching(`^.{1,40}$`, "must have at most 40 characters"),
		"Provider's name on the sign-in page. Empty: the issuer's host."},
	{"admin.oidc.scopes", "openid,profile,email", scopes(), "Scopes to request. openid is required."},
	{"admin.oidc.username_claim", "", Text(),
		"Claim with a user's name. The audit trail has oidc:NAME. Empty: preferred_username, or else email."},
	{"admin.oidc.groups_claim", "groups", Text(),
		"Claim that admin.oidc.roles is about. A text or a list, such as roles, hd or email."},
	{"admin.oidc.roles.admin", "", groups(),
		"Groups whose users are admins, separated by commas. A user in several groups has the highest role, " +
			"in none cannot sign in. Changes apply from the next sign-in."},
	{"admin.oidc.roles.operator", "", groups(), "Groups whose users are operators."},
	{"admin.oidc.roles.viewer", "", groups(), "Groups whose users are viewers."},
	{"admin.oidc.redirect_url", "", matching(`^https?://[^/?#@\s]+(/[^?#\s]*)?/login/oidc/callback$`,
		"must end with /login/oidc/callback, such as https://wakecall.example.com/login/oidc/callback"),
		"URL to which the provider sends users back, as registered there. Empty: /login/oidc/callback below " +
			"admin.public_url, or below the address from this machine."},
	{"admin.oidc.ca_file", "", Path(),
		"PEM file of further certificate authorities to trust for the provider."},

	{"metrics.addr", "127.0.0.1:9789", listen(),
		"Address of /metrics for Prometheus, HOST:PORT. Has all processes of this host. A change needs a " +
			"restart."},
	{"metrics.topics", "1000", number(1, 100_000),
		"Limit of topics with their own series in /metrics. Those with jobs, or a push or call in the last " +
			"hour. Others share the topic \"(other)\"."},

	{"registry.dsn", "", dsn(),
		"Database of the registry: mysql://user:pw@tcp(host:3306)/wakecall (also for MariaDB), " +
			"postgres://user:pw@host:5432/wakecall?sslmode=verify-full or sqlite:PATH. Percent-encode special " +
			"characters of the password. Empty: registry.db in data_dir (SQLite)."},
	{"registry.seal_key", "", sealKey(),
		"Key that encrypts the secrets in the registry, 64 hexadecimal digits. All hosts need the same; " +
			"`openssl rand -hex 32` prints one. Set WAKECALL_REGISTRY_SEAL_KEY instead of writing it here. " +
			"Empty: the key in seal_key_file."},
	{"registry.seal_key_file", "", Path(),
		"File with that key. It must exist. Empty: data_dir/secret-key, which the first start creates; copy " +
			"it to the other hosts."},

	{"registry.audit_keep", "8760h", duration(),
		"How long entries of the audit trail are kept. 8760h is a year. Older ones are deleted at the next " +
			"change."},

	{"redis.nodes", "", nodeURLs(),
		"URLs of the Redis deployments that hold the jobs, each one shard. They seed the registry's list of shards " +
			"at the first start. Empty: the master's own redis-server, in data_dir/redis.\n" +
			"  redis://:pw@host:6379/0                        (rediss:// for TLS)\n" +
			"  unix:///path.sock\n" +
			"  redis+sentinel://h1:26379,h2:26379/mymaster    (rediss+sentinel:// for TLS; ?sentinel_password=pw)\n" +
			"  redis+cluster://h1:7001;h2:7002                (rediss+cluster:// for TLS)\n" +
			"Hosts are separated by , or ; (in the environment by ;). Percent-encode special characters of a " +
			"password (@ is %40)."},
	{"redis.timeout", "2s", duration(),
		"Time limit of one Redis command. At least 5s in timers and dispatchers."},
	{"redis.pool_size", "32", number(1, 10_000), "Connections of each process to each Redis."},
	{"redis.buckets", "16", number(1, 256),
		"Parts into which a Redis Cluster's jobs are split, to share the load between its nodes. Stop " +
			"Wakecall and drain the Cluster before you change it."},
	{"redis.binary", "redis-server", Text(),
		"Name or path of the master's redis-server program. A change needs a restart."},
	{"redis.maxmemory", "0", size("0", "1PiB"),
		"Memory limit of the master's own redis-server. At the limit pushes get 503 and callbacks continue. " +
			"0: no limit. A change needs a restart."},

	{"timers", "1", number(0, 64),
		"Timer processes to start. They make due jobs ready. One is usually enough; 0 if other hosts have " +
			"some."},
	{"dispatchers", "2", number(0, 64),
		"Dispatcher processes to start. They call the endpoints. 0 if other hosts have some."},
	{"dispatcher.concurrency", "256", number(1, 100_000),
		"Concurrent callbacks of each dispatcher process. Plus up to twice as many calls that take longer " +
			"than a second."},
	{"priorities", "5:3:2", priorities(),
		"Shares of high, normal and low priority while all three have ready jobs. All hosts need the same."},
	{"shutdown_timeout", "30s", duration(),
		"How long a graceful stop may take. Unfinished callbacks are made again."},

	{"pull.topics_per_request", "250", number(1, 1000),
		"Limit of topics (queues, tubes) that a worker may name in one request. More are refused."},
	{"pull.topics_per_token", "2500", number(1, 1_000_000),
		"Limit of topics that one token's workers may wait for at once. Further requests get 429. This and " +
			"the next limits are per host; a topic counts once for all workers, and for some seconds longer " +
			"than they wait."},
	{"pull.topics_per_namespace", "10000", number(1, 1_000_000),
		"Limit of one namespace's topics that workers may wait for at once."},
	{"pull.topics_per_gateway", "20000", number(1, 1_000_000),
		"Limit of topics that the workers of a gateway, or of the API, may wait for at once."},

	{"schedules.per_token", "1000", number(1, 1_000_000),
		"Limit of schedules that one token may have made. Further ones get 409."},

	{"callback.networks", "any", networks(),
		"Networks that callbacks may reach. any includes loopback and private networks; public excludes " +
			"them; CIDRs such as 10.0.0.0/8 are allowed besides public ones. Link-local and cloud metadata " +
			"addresses are always blocked."},
	{"callback.own_listeners", "", listenerKeys(),
		"Wakecall's own listeners that callbacks may reach, by key, such as server.addr for jobs that push " +
			"the next one. Anyone who may manage a topic can then use a listener without a password, such as " +
			"most gateways."},

	{"journal.keep", "168h", duration(),
		"How long the journal of accepted pushes and attempts is kept. 168h is 7 days. Lost writes of a " +
			"Redis are recovered from it."},
	{"journal.dir", "", Path(), "Directory of the journal. Empty: data_dir/journal."},
	{"journal.sync", "none", oneOf(choice{"none", false}, choice{"always", true}),
		"Whether an accepted request is on disk before it is answered. none: a power cut loses the last " +
			"seconds, a killed process nothing. always: requests that arrive together share one fsync; no job " +
			"pushed within journal.keep is lost even if a Redis loses all its data."},

	{"alert.alertmanager_url", "", publicURL(),
		"URL of an Alertmanager that also receives the alerts, such as " +
			"http://alertmanager.example.com:9093/. callback.networks applies."},

	{"tracing.endpoint", "", publicURL(),
		"URL of an OpenTelemetry collector, such as http://127.0.0.1:4318, that receives a span of each " +
			"attempt by OTLP over HTTP. /v1/traces is appended if missing. Empty: no spans; callbacks still " +
			"carry their push's traceparent."},
	{"tracing.parent_below", "10s", Seconds(),
		"How soon after its push an attempt must be due to be in the push's trace. Later ones begin their " +
			"own, with a link. 0s: all do."},

	{"spool", "off", oneOf(choice{"off", false}, choice{"on", true}),
		"Whether pushes are accepted while every shard is down. off: they get 503. on: they are journaled, " +
			"answered 202 with the state \"spooled\" and pushed to the first shard that returns; only then are " +
			"duplicates detected. on_duplicate replace and error are still refused."},

	{"gateways.max_connections", "10000", number(1, 1_000_000),
		"Limit of open client connections per gateway. Further ones wait."},
}

// Setting is a key's effective value.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"` // default, FILE:LINE, the variable, or --flag
}

const sourceDefault = "default"

// Effective returns the effective value of every key, in the order of the reference and without passwords.
func (c *Config) Effective() (list []Setting) {
	for _, k := range c.loaded.keys {
		s := c.loaded.settings[k.Path]
		list = append(list, Setting{s.Key, s.shown(), s.Source})
	}
	return list
}
