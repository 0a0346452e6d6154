package conf

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/wakecall/wakecall/internal/document"
)

// LoadOptions are the sources of a configuration.
type LoadOptions struct {
	File     string            // --config; empty: $WAKECALL_CONFIG, else the first of Search that exists
	Env      []string          // as os.Environ returns it; nil: none
	Foreign  []string          // WAKECALL_ variables in Env that are not keys
	Flags    map[string]string // key → value of the flags that were set
	Search   []string          // nil: ./wakecall.yaml, /etc/wakecall/wakecall.yaml
	Gateways []Key             // the keys of the gateways
}

// Load returns the effective configuration, or *Errors with every problem.
func Load(opts LoadOptions) (*Config, error) { return readLayers(opts).config() }

// DataDir returns data_dir even if other keys have problems, such as while somebody edits the file of running
// processes. If only the default is left, it returns the problems: the invalid file may set another data_dir.
func DataDir(opts LoadOptions) (string, error) {
	l := readLayers(opts)
	dir := l.settings["data_dir"]
	if l.reported[dir.Key] || len(l.problems) > 0 && dir.Source == sourceDefault {
		return "", &l.problems
	}
	path, _ := dir.value.(string)
	return path, nil
}

func readLayers(opts LoadOptions) *loader {
	l := newLoader(opts.Gateways)
	l.readFile(opts)
	l.readEnv(opts.Env, opts.Foreign)
	for _, path := range slices.Sorted(maps.Keys(opts.Flags)) { // sorted, so that problems always have the same order
		l.set(path, opts.Flags[path], "--"+Key{Path: path}.Flag(), false)
	}
	l.crossCheck()
	return l
}

// loader merges the layers: each overrides the values of those before.
type loader struct {
	keys     []Key
	file     string             // the file that was read; empty without one
	settings map[string]*loaded // by the keys' paths
	problems Errors
	reported map[string]bool // the keys with a problem
}

// loaded is a value of a key as text, which may have passwords, and what it was parsed to; nil: it is empty.
type loaded struct {
	Setting
	key   Key
	value any
}

// shown returns the value without its passwords.
func (s *loaded) shown() string { return s.key.show(s.Value) }

// newLoader returns a loader whose first layer is the defaults.
func newLoader(gateways []Key) *loader {
	l := &loader{keys: Keys(gateways), settings: map[string]*loaded{}, reported: map[string]bool{}}
	for _, k := range l.keys {
		l.settings[k.Path] = &loaded{key: k}
		l.set(k.Path, k.Default, sourceDefault, false)
	}
	return l
}

// names returns a set of all keys' paths.
func (l *loader) names(name func(Key) string) (list []string) {
	for _, k := range l.keys {
		list = append(list, name(k))
	}
	return list
}

// report adds a problem. key is empty if it concerns none.
func (l *loader) report(where, key, detail string) {
	l.reported[key] = true
	if key != "" {
		where += ": " + key
	}
	l.problems = append(l.problems, where+": "+detail)
}

// set checks a value, which overrides that of an earlier layer. isList is true for a YAML list, passed as
// comma-separated text.
func (l *loader) set(path, text, source string, isList bool) {
	s := l.settings[path]
	if s == nil {
		paths := l.names(func(k Key) string { return k.Path })
		l.report(source, path, "unknown key"+suggest(path, paths))
		return
	}
	value, text, err := s.key.read(text, isList)
	if err != nil {
		l.report(source, path, fmt.Sprintf("%q %v", s.key.show(text), err))
		return
	}
	s.Setting, s.value = Setting{Key: path, Value: text, Source: source}, value
}

// config returns the result of the layers.
func (l *loader) config() (*Config, error) {
	if len(l.problems) > 0 {
		return nil, &l.problems
	}
	c := &Config{loaded: l}
	l.fill(reflect.ValueOf(c).Elem(), "")
	return c, nil
}

// fill sets the fields of a struct. prefix and a field's tag are the path of a key, or of a section.
func (l *loader) fill(section reflect.Value, prefix string) {
	for i := range section.NumField() {
		tag, tagged := section.Type().Field(i).Tag.Lookup("key")
		if !tagged {
			continue
		}
		field := section.Field(i)
		switch s := l.settings[prefix+tag]; {
		case s == nil:
			l.fill(field, prefix+tag+".")
		case s.value != nil:
			field.Set(reflect.ValueOf(s.value))
		}
	}
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

// notKeys matches WAKECALL_ variables that are not keys: Wakecall's own, and those that Kubernetes sets in every pod
// for a service named wakecall or wakecall-….
var notKeys = regexp.MustCompile(`^WAKECALL_(CONFIG|CHILD|TOKEN|URL|RELAY_DSN(_FILE)?|TEST_.*|` +
	`([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP)(_[A-Z]+)?))=|` +
	`^WAKECALL_([A-Z0-9_]+_)?PORT=(tcp|udp)://`)

func (l *loader) readEnv(env, foreign []string) {
	names := l.names(Key.Env)
	for _, e := range env {
		name, text, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || notKeys.MatchString(e) || slices.Contains(foreign, name) {
			continue
		}
		i, source := slices.Index(names, name), name
		if of, isFile := strings.CutSuffix(name, fileSuffix); isFile && i < 0 {
			if i = slices.Index(names, of); i >= 0 {
				source = name + " (" + text + ")"
				text = l.readValue(names[i], source, text, env)
			}
		}
		if i < 0 {
			l.report(name, "", "no key has this environment variable"+suggest(name, names))
			continue
		}
		l.set(l.keys[i].Path, text, source, false)
	}
}

// fileSuffix marks a variable that names a file with the value, as secrets are mounted into containers.
const fileSuffix = "_FILE"

// readValue reads the file with the value of a variable, without the newline at its end.
func (l *loader) readValue(variable, source, file string, env []string) string {
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, variable+"=") }) {
		l.report(source, "", variable+" is also set; set one of them")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		l.report(source, "", fmt.Sprintf("read the value: %v", err))
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(document.Text(text)), "\n"), "\r")
}

// crossCheck reports values that contradict each other, unless one of them is already reported.
func (l *loader) crossCheck() {
	value := func(path string) string { return l.settings[path].Value }
	var listeners []string
	for _, k := range l.keys {
		if with := k.Type.with; with != "" {
			l.checkPair(k.Path, with, (value(k.Path) == "") == (value(with) == ""), "set both, or neither")
		}
		if !k.Type.listens || value(k.Path) == "" {
			continue
		}
		if guard := k.Type.guard; guard != "" {
			l.checkPair(k.Path, guard, value(guard) != "" || IsLoopback(value(k.Path)),
				"set both, or a loopback address such as 127.0.0.1")
		}
		for _, other := range listeners {
			l.checkPair(other, k.Path, ownPorts(value(other), value(k.Path)), "listeners cannot share a port")
		}
		listeners = append(listeners, k.Path)
	}
	l.checkOwnListeners()
	l.checkRoles()
	const key, file = "registry.seal_key", "registry.seal_key_file"
	l.checkPair(key, file, value(key) == "" || value(file) == "", "set one of them")
	l.checkDataDir()
}

// checkOwnListeners ensures that callback.own_listeners names keys of listeners.
func (l *loader) checkOwnListeners() {
	allowed := l.settings["callback.own_listeners"]
	var listeners []string
	for _, k := range l.keys {
		if k.Type.listens {
			listeners = append(listeners, k.Path)
		}
	}
	for _, name := range commaList(allowed.Value) {
		if !slices.Contains(listeners, name) {
			l.report(allowed.Source, allowed.Key, fmt.Sprintf("%q must be one of %s", name,
				strings.Join(listeners, ", ")))
		}
	}
}

// checkRoles ensures that somebody may sign in by the identity provider.
func (l *loader) checkRoles() {
	const section = "admin.oidc."
	issuer := l.settings[section+"issuer"]
	var roles strings.Builder
	for _, role := range []string{"admin", "operator", "viewer"} {
		key := section + "roles." + role
		roles.WriteString(l.settings[key].Value)
		if l.reported[key] {
			return
		}
	}
	if issuer.Value != "" && roles.Len() == 0 {
		l.report(issuer.Source, section+"roles", "nobody could sign in: set "+section+"roles.admin, "+section+
			"roles.operator or "+section+"roles.viewer to groups of the identity provider")
	}
}

func ownPorts(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	return portA != portB || portA == "0" || !everyHost(hostA) && !everyHost(hostB) && hostA != hostB
}

// everyHost reports whether a host stands for all addresses; 0.0.0.0 includes those of IPv6.
func everyHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// checkPair reports the values of two keys unless they agree.
func (l *loader) checkPair(pathA, pathB string, agree bool, remedy string) {
	a, b := l.settings[pathA], l.settings[pathB]
	if agree || l.reported[pathA] || l.reported[pathB] {
		return
	}
	where := a.Source
	if where == sourceDefault {
		where = b.Source
	}
	l.report(where, pathA, fmt.Sprintf("is %q (%s), and %s is %q (%s): %s",
		a.shown(), a.Source, pathB, b.shown(), b.Source, remedy))
}

// maxSocketPath is the shortest limit among common systems.
const maxSocketPath = 104

// checkDataDir ensures that the Unix sockets in data_dir can be opened.
func (l *loader) checkDataDir() {
	dir := l.settings["data_dir"]
	socket := (&Config{DataDir: dir.Value}).RedisSocket()
	over := len(socket) - maxSocketPath
	switch {
	case l.reported[dir.Key]:
	case strings.Contains(socket, "?"):
		l.report(dir.Source, dir.Key, fmt.Sprintf(
			"%q must not contain a question mark, which begins the parameters in the URL of a Redis", dir.Value))
	case over > 0:
		l.report(dir.Source, dir.Key, fmt.Sprintf("%q is too long: the path of the Unix socket %s has %d bytes, and "+
			"the limit is %d; choose a directory whose path is at least %d bytes shorter, such as /var/lib/wakecall",
			dir.Value, socket, len(socket), maxSocketPath, over))
	}
}
