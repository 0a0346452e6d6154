package conf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// LoadOptions are the sources of a configuration.
type LoadOptions struct {
	File    string            // --config; empty: $WAKECALL_CONFIG, else the first of Search that exists
	Env     []string          // as os.Environ returns it; nil: none
	Foreign []string          // WAKECALL_ variables in Env that are not keys
	Flags   map[string]string // key → value of the flags that were set
	Search  []string          // nil: ./wakecall.yaml, /etc/wakecall/wakecall.yaml
}

// Load returns the effective configuration, or *Errors with every problem.
func Load(opts LoadOptions) (*Config, error) {
	base, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	l := newLoader()
	l.base = base
	l.readFile(opts)
	l.add(l.fromEnv(opts.Env, opts.Foreign))
	l.add(fromFlags(opts.Flags))
	l.crossCheck()
	return l.config()
}

// loader merges the layers. It stores the text of each value, which koanf converts to the fields of Config at the end.
type loader struct {
	base     string // the directory of relative paths; empty: the working directory
	file     string // the file that was read; empty without one
	values   *koanf.Koanf
	sources  map[string]string // key → where its value comes from; a missing one is a default
	problems Errors
}

// newLoader returns a loader whose first layer is the defaults.
func newLoader() *loader {
	l := &loader{values: koanf.New("."), sources: map[string]string{}}
	var defaults []assignment
	for _, k := range keys {
		defaults = append(defaults, assignment{key: k.Path, text: k.Default})
	}
	l.add(defaults)
	return l
}

// assignment is a key's value in one layer.
type assignment struct {
	key    string
	text   string
	isList bool   // a YAML list, joined with commas
	where  string // for problems: FILE:LINE, the variable, or --flag
	source string // for Effective; empty: the default
}

func (l *loader) report(p Problem) { l.problems = append(l.problems, p) }

// add checks the values of a layer. The valid ones override those of earlier layers.
func (l *loader) add(layer []assignment) {
	valid := map[string]any{}
	for _, a := range layer {
		k, ok := keyAt(a.key)
		if !ok {
			l.report(Problem{Where: a.where, Key: a.key, Detail: "unknown key" + suggest(a.key, paths())})
			continue
		}
		if k.kind.split != nil {
			a.text = strings.Join(k.kind.split(a.text), ",")
		}
		if k.kind.normal != nil {
			a.text = k.kind.normal(a.text)
		}
		err := k.kind.check(a.text)
		if a.isList && k.kind.split == nil {
			err = errors.New("is a list; expected a single value")
		}
		if err != nil {
			l.report(Problem{Where: a.where, Key: a.key, Value: k.kind.show(a.text), Detail: err.Error()})
			continue
		}
		valid[a.key] = a.text
		if a.source != "" {
			l.sources[a.key] = a.source
		}
	}
	if err := l.values.Load(confmap.Provider(valid, "."), nil); err != nil {
		l.report(Problem{Where: "configuration", Detail: err.Error()})
	}
}

// config returns the result of the layers.
func (l *loader) config() (*Config, error) {
	if len(l.problems) > 0 {
		return nil, &l.problems
	}
	c := &Config{loaded: l}
	if err := l.values.Unmarshal("", c); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return c, nil
}

func (l *loader) readFile(opts LoadOptions) {
	name, data, err := findFile(opts)
	if err != nil {
		l.report(Problem{Where: name, Detail: fmt.Sprintf("read the configuration file: %v", err)})
		return
	}
	l.file = name
	l.readYAML(name, data)
}

func (l *loader) readYAML(name string, data []byte) {
	file := parseFile(name, data)
	l.problems = append(l.problems, file.problems...)
	l.add(file.found)
}

// Getenv returns a variable of an environment as os.Environ returns it.
func Getenv(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// notKeys are WAKECALL_ variables that are not keys.
var notKeys = []string{"WAKECALL_CONFIG", "WAKECALL_CHILD", "WAKECALL_TOKEN", "WAKECALL_URL"}

const testPrefix = "WAKECALL_TEST_"

// serviceLink matches variables that Kubernetes sets in every pod for a service named wakecall or wakecall-….
var serviceLink = regexp.MustCompile(
	`^WAKECALL_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP)(_[A-Z]+)?)=|` +
		`^WAKECALL_([A-Z0-9_]+_)?PORT=(tcp|udp)://`)

func (l *loader) fromEnv(env, foreign []string) (layer []assignment) {
	keyOf := map[string]string{}
	for _, k := range keys {
		keyOf[k.Env()] = k.Path
	}
	for _, e := range env {
		name, v, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(notKeys, name) ||
			strings.HasPrefix(name, testPrefix) || serviceLink.MatchString(e) || slices.Contains(foreign, name) {
			continue
		}
		if keyOf[name] == "" {
			suggestion := suggest(name, slices.Collect(maps.Keys(keyOf)))
			l.report(Problem{Where: name, Detail: "no key has this environment variable" + suggestion})
			continue
		}
		layer = append(layer, assignment{key: keyOf[name], text: v, where: name, source: "env " + name})
	}
	return layer
}

func fromFlags(flags map[string]string) (layer []assignment) {
	for _, path := range slices.Sorted(maps.Keys(flags)) { // sorted, so that problems always have the same order
		layer = append(layer, assignment{key: path, text: flags[path], where: "--" + Key{Path: path}.Flag(), source: "flag"})
	}
	return layer
}

// crossCheck reports values that contradict each other, unless one of them is already reported.
func (l *loader) crossCheck() {
	l.checkPair("server.tls_cert", "server.tls_key", needBoth, "set both for HTTPS, or neither")
	l.checkPair("admin.tls_cert", "admin.tls_key", needBoth, "set both for HTTPS, or neither")
	l.checkPair("gateways.grape.web_addr", "gateways.grape.accounts", needBoth, "set both, or neither")
	listeners := new(Config).Listeners()
	for i, a := range listeners {
		for _, b := range listeners[:i] {
			l.checkPair(b.Key, a.Key, ownPorts, "two listeners cannot share a port; change one")
		}
	}
	l.checkDataDir()
}

func needBoth(a, b string) bool { return (a == "") == (b == "") }

func ownPorts(a, b string) bool {
	if a == "" || b == "" {
		return true
	}
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	return portA != portB || portA == "0" || !everyHost(hostA) && !everyHost(hostB) && hostA != hostB
}

// everyHost reports whether a host stands for all addresses; 0.0.0.0 includes those of IPv6.
func everyHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func (l *loader) checkPair(a, b string, agree func(a, b string) bool, detail string) {
	valueA, valueB := l.values.String(a), l.values.String(b)
	if agree(valueA, valueB) || l.isReported(a) || l.isReported(b) {
		return
	}
	l.report(Problem{Where: cmp.Or(l.sources[a], l.sources[b], sourceDefault), Key: a, Detail: fmt.Sprintf(
		"%s is %q (%s), %s is %q (%s): %s", a, valueA, l.source(a), b, valueB, l.source(b), detail)})
}

func (l *loader) source(path string) string { return cmp.Or(l.sources[path], sourceDefault) }

func (l *loader) isReported(path string) bool {
	return slices.ContainsFunc(l.problems, func(p Problem) bool { return p.Key == path })
}

// maxSocketPath is the shortest limit among common systems.
const maxSocketPath = 104

// checkDataDir ensures that the Unix sockets in data_dir can be opened.
func (l *loader) checkDataDir() {
	c := Config{DataDir: l.values.String("data_dir"), loaded: l}
	socket := c.MasterSocket()
	if l.values.String("redis.nodes") == "" {
		socket = c.RedisSocket()
		if strings.Contains(socket, "?") && !l.isReported("data_dir") {
			l.report(Problem{Where: l.source("data_dir"), Key: "data_dir", Value: socket,
				Detail: "contains a question mark, which begins the parameters in the URL of a Redis: choose another directory"})
		}
	}
	over := len(socket) - maxSocketPath
	if over <= 0 || l.isReported("data_dir") {
		return
	}
	l.report(Problem{Where: l.source("data_dir"), Key: "data_dir", Value: c.DataDir, Detail: fmt.Sprintf(
		"is too long: the path of the Unix socket %s has %d bytes, and the limit is %d; choose a directory whose path is "+
			"at least %d bytes shorter, such as /var/lib/wakecall", socket, len(socket), maxSocketPath, over)})
}
