package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
)

// LoadOptions are what a configuration is made of.
type LoadOptions struct {
	File   string            // --config; empty: $WAKECALL_CONFIG, else the first of Search that exists
	Env    []string          // as os.Environ has it; nil: none
	Flags  map[string]string // key → value, of the flags that were given
	Search []string          // nil: ./wakecall.yaml, /etc/wakecall/wakecall.yaml
}

var standardPlaces = []string{"wakecall.yaml", "/etc/wakecall/wakecall.yaml"}

// Load makes the effective configuration, or returns *Errors with everything that is wrong.
func Load(opts LoadOptions) (*Config, error) {
	base, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the working directory: %w", err)
	}
	l := newLoader()
	l.conf.base = base
	l.readFile(opts)
	l.readEnv(opts.Env)
	l.readFlags(opts.Flags)
	l.crossCheck()
	if len(l.problems) > 0 {
		return nil, &l.problems
	}
	return l.conf, nil
}

type loader struct {
	conf     *Config
	settings map[string]setting
	keys     []string
	problems Errors
}

func newLoader() *loader {
	l := &loader{conf: Default(), settings: map[string]setting{}}
	l.conf.sources = map[string]string{}
	for _, s := range l.conf.settings() {
		l.settings[s.key] = s
		l.keys = append(l.keys, s.key)
	}
	return l
}

func (l *loader) report(p Problem) { l.problems = append(l.problems, p) }

func (l *loader) assign(a assignment) {
	s, ok := l.settings[a.key]
	if !ok {
		l.report(Problem{Where: a.where, Key: a.key, Detail: "unknown key" + suggestKey(a.key, l.keys)})
		return
	}
	if err := s.set(a.texts); err != nil {
		var shown []string
		for _, t := range a.texts {
			shown = append(shown, s.hide(t))
		}
		l.report(Problem{Where: a.where, Key: a.key, Value: strings.Join(shown, ","), Detail: err.Error()})
		return
	}
	l.conf.sources[a.key] = a.source
}

func (l *loader) readFile(opts LoadOptions) {
	name, data, err := findFile(opts)
	if err != nil {
		l.report(Problem{Where: name, Detail: fmt.Sprintf("the configuration file cannot be read: %v", plainPathError(err))})
		return
	}
	l.conf.file = name
	l.readYAML(name, data)
}

func (l *loader) readYAML(name string, data []byte) {
	found, problems := parseFile(name, data, l.keys)
	l.problems = append(l.problems, problems...)
	seen := map[string]string{}
	for _, a := range found {
		if first, ok := seen[a.key]; ok {
			l.report(Problem{Where: a.where, Key: a.key, Detail: "stands in " + first + " already: remove one"})
			continue
		}
		seen[a.key] = a.where
		l.assign(a)
	}
}

// plainPathError leaves out the file's name, which stands in front already.
func plainPathError(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// findFile reads the file that was asked for, or the first standard one that exists; no name and no error is none.
func findFile(opts LoadOptions) (string, []byte, error) {
	name := opts.File
	if name == "" {
		name = lookup(opts.Env, envPrefix+"CONFIG")
	}
	if name != "" {
		data, err := readFile(name)
		return name, data, err
	}
	places := opts.Search
	if places == nil {
		places = standardPlaces
	}
	for _, p := range places {
		data, err := readFile(p)
		if !errors.Is(err, fs.ErrNotExist) {
			return p, data, err
		}
	}
	return "", nil, nil
}

func lookup(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// notSettings are the WAKECALL_ variables that belong to somebody else.
var notSettings = []string{"WAKECALL_CONFIG", "WAKECALL_CHILD", "WAKECALL_TOKEN", "WAKECALL_URL"}

const testPrefix = "WAKECALL_TEST_"

// serviceLink is what Kubernetes puts into the environment of every pod for a service named wakecall or wakecall-….
var serviceLink = regexp.MustCompile(`^WAKECALL_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP)(_[A-Z]+)?)=|` +
	`^WAKECALL_([A-Z0-9_]+_)?PORT=(tcp|udp)://`)

func (l *loader) readEnv(env []string) {
	keyOf := map[string]string{}
	var names []string
	for _, k := range l.keys {
		keyOf[envName(k)] = k
		names = append(names, envName(k))
	}
	for _, e := range env {
		name, v, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(notSettings, name) ||
			strings.HasPrefix(name, testPrefix) || serviceLink.MatchString(e) {
			continue
		}
		key, ok := keyOf[name]
		if !ok {
			l.report(Problem{Where: name, Detail: "no key has this environment variable" + suggestEnv(name, names)})
			continue
		}
		l.assign(assignment{key: key, texts: []string{v}, where: name, source: "env " + name})
	}
}

func suggestEnv(name string, names []string) string {
	if s := didYouMean(name, names); s != "" {
		return s
	}
	return ": unset it (conf/wakecall.yaml lists the keys)"
}

func (l *loader) readFlags(flags map[string]string) {
	// Sorted, so that the problems of one call always read the same.
	var names []string
	for k := range flags {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		l.assign(assignment{key: k, texts: []string{flags[k]}, where: "--" + flagName(k), source: "flag"})
	}
}

func (l *loader) crossCheck() {
	c := l.conf
	if (c.Server.TLSCert == "") != (c.Server.TLSKey == "") {
		l.contradiction("set both for HTTPS, or neither", "server.tls_cert", "server.tls_key")
	}
	if (c.Admin.TLSCert == "") != (c.Admin.TLSKey == "") {
		l.contradiction("set both for HTTPS, or neither", "admin.tls_cert", "admin.tls_key")
	}
	l.checkSameAddr("server.addr", "metrics.addr")
	l.checkSameAddr("server.addr", "admin.addr")
	l.checkSameAddr("admin.addr", "metrics.addr")
	if c.ManagedRedis() {
		l.checkSocket(c.RedisSocket())
	}
	l.checkSocket(c.MasterSocket())
}

func (l *loader) reported(key string) bool {
	return slices.ContainsFunc(l.problems, func(p Problem) bool { return p.Key == key })
}

// contradiction reports values that do not go together, unless one of them is reported already.
func (l *loader) contradiction(detail string, keys ...string) {
	var parts []string
	where := ""
	for _, k := range keys {
		if l.reported(k) {
			return
		}
		source := l.conf.source(k)
		if where == "" || where == sourceDefault {
			where = source
		}
		parts = append(parts, fmt.Sprintf("%s is %q (%s)", k, l.settings[k].show(), source))
	}
	l.report(Problem{Where: where, Key: keys[0], Detail: strings.Join(parts, ", ") + ": " + detail})
}

func (l *loader) checkSameAddr(a, b string) {
	addrA, addrB := l.settings[a].show(), l.settings[b].show()
	hostA, portA, _ := net.SplitHostPort(addrA)
	hostB, portB, _ := net.SplitHostPort(addrB)
	if portA != portB || portA == "0" || hostA != "" && hostB != "" && hostA != hostB {
		return
	}
	l.contradiction("two listeners cannot share a port; change one", a, b)
}

// maxSocketPath is what the narrowest of the common systems allows.
const maxSocketPath = 104

func (l *loader) checkSocket(path string) {
	over := len(path) - maxSocketPath
	if over <= 0 || l.reported("data_dir") {
		return
	}
	l.report(Problem{Where: l.conf.source("data_dir"), Key: "data_dir", Value: l.conf.DataDir, Detail: fmt.Sprintf(
		"is too long: the path of the Unix socket %s has %d bytes, and %d is the most; "+
			"choose a directory whose path is at least %d bytes shorter, such as /var/lib/wakecall", path, len(path), maxSocketPath, over)})
}
