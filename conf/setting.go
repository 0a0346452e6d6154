package conf

import (
	"bufio"
	"bytes"
	"math"
	"strings"
	"sync"
)

type setting struct {
	key string
	value
}

// settings ties each key to its field. It is the one list of keys.
func (c *Config) settings() []setting {
	return []setting{
		{"data_dir", text(&c.DataDir, checkNamed)},
		{"log.level", text(&c.Log.Level, oneOf("debug", "info", "warn", "error"))},
		{"log.format", text(&c.Log.Format, oneOf("text", "json"))},
		{"server.addr", text(&c.Server.Addr, checkAddr)},
		{"server.max_body", size(&c.Server.MaxBody, 1, 16*MiB)},
		{"server.max_connections", number(&c.Server.MaxConnections, 1, 1_000_000)},
		{"server.read_header_timeout", duration(&c.Server.ReadHeaderTimeout)},
		{"server.read_timeout", duration(&c.Server.ReadTimeout)},
		{"server.idle_timeout", duration(&c.Server.IdleTimeout)},
		{"server.tls_cert", text(&c.Server.TLSCert, checkText)},
		{"server.tls_key", text(&c.Server.TLSKey, checkText)},
		{"admin.addr", text(&c.Admin.Addr, checkAddr)},
		{"admin.base_path", text(&c.Admin.BasePath, checkBasePath)},
		{"admin.public_url", text(&c.Admin.PublicURL, checkPublicURL)},
		{"admin.trusted_proxies", proxies(&c.Admin.TrustedProxies)},
		{"admin.tls_cert", text(&c.Admin.TLSCert, checkText)},
		{"admin.tls_key", text(&c.Admin.TLSKey, checkText)},
		{"metrics.addr", text(&c.Metrics.Addr, checkAddr)},
		{"registry.dsn", dsn(&c.Registry.DSN)},
		{"redis.nodes", nodeList(&c.Redis.Nodes)},
		{"redis.timeout", duration(&c.Redis.Timeout)},
		{"redis.pool_size", number(&c.Redis.PoolSize, 1, 10_000)},
		{"redis.buckets", number(&c.Redis.Buckets, 1, 256)},
		{"redis.binary", text(&c.Redis.Binary, checkNamed)},
		{"redis.maxmemory", size(&c.Redis.MaxMemory, 0, math.MaxInt64)},
		{"timers", number(&c.Timers, 0, 64)},
		{"dispatchers", number(&c.Dispatchers, 0, 64)},
		{"dispatcher.concurrency", number(&c.Dispatcher.Concurrency, 1, 100_000)},
		{"priorities", weights(&c.Priorities)},
		{"shutdown_timeout", duration(&c.ShutdownTimeout)},
		{"callback.networks", networks(&c.Callback.Networks)},
		{"journal.keep", duration(&c.Journal.Keep)},
		{"journal.dir", text(&c.Journal.Dir, checkText)},
		{"journal.sync", text(&c.Journal.Sync, oneOf("none", "always"))},
		{"spool", text(&c.Spool, oneOf("off", "on"))},
	}
}

func (s setting) show() string {
	texts := s.get()
	shown := make([]string, 0, len(texts))
	for _, t := range texts {
		shown = append(shown, s.hide(t))
	}
	return strings.Join(shown, ",")
}

func (s setting) hide(text string) string {
	if s.mask == nil {
		return text
	}
	return s.mask(text)
}

// Setting is a key's effective value, for display.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // passwords are masked
	Source string `json:"source"` // default, FILE:LINE, env NAME, or flag
}

const sourceDefault = "default"

// Effective lists every key in the order of the reference.
func (c *Config) Effective() []Setting {
	var list []Setting
	for _, s := range c.settings() {
		list = append(list, Setting{Key: s.key, Value: s.show(), Source: c.source(s.key)})
	}
	return list
}

func (c *Config) source(key string) string {
	if s, ok := c.sources[key]; ok {
		return s
	}
	return sourceDefault
}

// Key describes one key, for the flags and help of the command line.
type Key struct {
	Name    string // server.max_body
	Env     string // WAKECALL_SERVER_MAX_BODY
	Flag    string // server-max-body, without dashes in front
	Default string
	Doc     string // the first sentence of its comment
}

// Keys lists every key in the order of the reference.
func Keys() []Key {
	docs := referenceDocs()
	var keys []Key
	for _, s := range Default().settings() {
		sentence, _, _ := strings.Cut(docs[s.key]+" ", ". ")
		keys = append(keys, Key{Name: s.key, Env: envName(s.key), Flag: flagName(s.key), Default: s.show(),
			Doc: strings.TrimSuffix(strings.TrimSpace(sentence), ".")})
	}
	return keys
}

const envPrefix = "WAKECALL_"

var (
	envForm  = strings.NewReplacer(".", "_")
	flagForm = strings.NewReplacer(".", "-", "_", "-")
)

func envName(key string) string  { return envPrefix + strings.ToUpper(envForm.Replace(key)) }
func flagName(key string) string { return flagForm.Replace(key) }

// referenceDocs reads the comment above each key of the reference. It relies on the shape of that one file: two levels,
// a comment right above its key.
var referenceDocs = sync.OnceValue(func() map[string]string {
	docs := map[string]string{}
	section, comment := "", ""
	lines := bufio.NewScanner(bytes.NewReader(Reference))
	for lines.Scan() {
		line := lines.Text()
		trimmed := strings.TrimSpace(line)
		if trimmed == "" {
			comment = ""
			continue
		}
		if c, ok := strings.CutPrefix(trimmed, "#"); ok {
			comment += strings.TrimSpace(c) + " "
			continue
		}
		key, _, _ := strings.Cut(trimmed, ":")
		if strings.HasPrefix(line, " ") {
			key = section + "." + key
		} else {
			section = key
		}
		docs[key], comment = comment, ""
	}
	return docs
})
