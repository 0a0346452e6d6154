package address

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Kind is the kind of a Redis deployment.
type Kind string

// Kinds of Redis deployments.
const (
	Standalone Kind = "standalone"
	Sentinel   Kind = "sentinel"
	Cluster    Kind = "cluster"
)

// Node is one Redis deployment, as described by its URL.
type Node struct {
	Kind    Kind
	Network string // tcp or unix
	// host:port of the server, the Sentinels or seeds of the Cluster; the path of a Unix socket
	Addrs            []string
	TLS              bool
	User             string
	Password         string
	DB               int
	Master           string // for Sentinel: the name of the master
	SentinelUser     string
	SentinelPassword string
}

// Format shows no password, whatever the verb.
func (n Node) Format(w fmt.State, _ rune) { fmt.Fprint(w, n.Kind, " ", n.Addrs) }

type nodeScheme struct {
	kind    Kind
	network string
	tls     bool
	port    string // the default port
}

var nodeSchemes = map[string]nodeScheme{
	"redis":           {Standalone, "tcp", false, "6379"},
	"rediss":          {Standalone, "tcp", true, "6379"},
	"unix":            {Standalone, "unix", false, ""},
	"redis+sentinel":  {Sentinel, "tcp", false, "26379"},
	"rediss+sentinel": {Sentinel, "tcp", true, "26379"},
	"redis+cluster":   {Cluster, "tcp", false, "6379"},
	"rediss+cluster":  {Cluster, "tcp", true, "6379"},
}

const nodeForms = "redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"

// Parse parses the URL of a shard:
//
//	redis://user:pw@host:6379/0                       rediss:// for TLS
//	unix://user:pw@/path.sock?db=0
//	redis+sentinel://:pw@h1:26379,h2:26379/mymaster   ?db=0&sentinel_user=u&sentinel_password=pw
//	redis+cluster://:pw@h1:7001;h2:7002               rediss+sentinel:// and rediss+cluster:// for TLS
//
// Hosts are separated by , or ; and user and password may be percent-encoded. Its errors quote nothing from the URL
// except the names of parameters, because anything else may be a misplaced password.
func Parse(rawURL string) (Node, error) {
	name, rest, _ := strings.Cut(rawURL, "://")
	scheme, ok := nodeSchemes[strings.ToLower(name)]
	if !ok {
		return Node{}, errors.New("it does not begin with " + nodeForms +
			" (write ; instead of , between the hosts of one URL, or quote the URL)")
	}
	n := Node{Kind: scheme.kind, Network: scheme.network, TLS: scheme.tls}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return Node{}, errors.New("it has an @ after a ?: percent-encode the ? of the password as %3F")
	}
	user, place, hasUser := cutLast(rest, "@")
	if !hasUser || strings.HasPrefix(rest, "/") { // the path of a Unix socket, such as /home/me@example.com/redis.sock
		user, place, hasUser = "", rest, false
	}
	return n, cmp.Or(n.setUser(user, hasUser), n.setPlace(place, scheme.port), n.setQuery(query))
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

func (n *Node) setUser(text string, given bool) error {
	if !given {
		return nil
	}
	user, password, ok := strings.Cut(text, ":")
	if !ok {
		return errors.New("the part before its @ has no colon: write :password@ or user:password@")
	}
	user, err1 := url.PathUnescape(user)
	password, err2 := url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New("its user or password has a % that begins no percent-encoding: write it as %25")
	}
	n.User, n.Password = user, password
	return nil
}

// setPlace parses the path of a Unix socket, or the hosts and what follows them.
func (n *Node) setPlace(text, port string) error {
	if n.Network == "unix" {
		if !strings.HasPrefix(text, "/") || text == "/" {
			return errors.New("its path is not absolute: write unix:///path/to/redis.sock")
		}
		n.Addrs = []string{text}
		return nil
	}
	hosts, path, _ := strings.Cut(text, "/")
	for _, h := range strings.FieldsFunc(hosts, func(r rune) bool { return r == ',' || r == ';' }) {
		addr, err := hostPort(strings.TrimSpace(h), port)
		if err != nil {
			return err
		}
		n.Addrs = append(n.Addrs, addr)
	}
	switch {
	case len(n.Addrs) == 0:
		return errors.New("it names no host")
	case n.Kind == Standalone && len(n.Addrs) > 1:
		return errors.New("it names several hosts: write one URL for each, or use redis+sentinel:// or " +
			"redis+cluster://")
	}
	return n.setPath(path)
}

func (n *Node) setPath(path string) error {
	switch {
	case n.Kind == Sentinel && !sentinelName.MatchString(path):
		return errors.New("it does not end with the name of the master, such as /mymaster " +
			"(write ; instead of , between the hosts of one URL, or quote the URL)")
	case n.Kind == Sentinel:
		n.Master = path
	case n.Kind == Cluster && path != "" && path != "0":
		return errors.New("a Cluster has no databases: remove what follows the hosts")
	case n.Kind == Standalone && path != "":
		return n.setDB(path)
	}
	return nil
}

func (n *Node) setQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the part after its ? is not name=value joined with &")
	}
	for name, v := range values {
		if len(v) != 1 {
			return fmt.Errorf("its parameter %q is given more than once", name)
		}
		switch {
		case name == "db" && n.Kind != Cluster:
			err = n.setDB(v[0])
		case name == "sentinel_user" && n.Kind == Sentinel:
			n.SentinelUser = v[0]
		case name == "sentinel_password" && n.Kind == Sentinel:
			n.SentinelPassword = v[0]
		default:
			return fmt.Errorf("its parameter %q is unknown: Standalone allows db, Sentinel db, sentinel_user and "+
				"sentinel_password, Cluster none", name)
		}
	}
	return err
}

func (n *Node) setDB(s string) error {
	db, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return errors.New("its database is not a number (write /0, or ?db=0)")
	}
	n.DB = int(db)
	return nil
}

var (
	hostName     = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?$`)
	sentinelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

func hostPort(s, defaultPort string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), defaultPort
	}
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return "", errors.New("the port of a host is not a number from 1 to 65535")
	}
	if !IsHost(host) {
		return "", errors.New("a host is not a name or an address (write host:port, or [::1]:port)")
	}
	return net.JoinHostPort(host, port), nil
}

// IsHost reports whether a text is the name or address of a host.
func IsHost(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || hostName.MatchString(s)
}
