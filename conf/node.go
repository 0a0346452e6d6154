package conf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// NodeKind is what answers at a URL of redis.nodes.
type NodeKind string

// The kinds of Redis deployment.
const (
	Standalone NodeKind = "standalone"
	Sentinel   NodeKind = "sentinel"
	Cluster    NodeKind = "cluster"
)

// Node is one Redis deployment, as its URL has it.
type Node struct {
	Kind             NodeKind
	Network          string   // tcp or unix
	Addrs            []string // host:port of the server, the Sentinels or the seeds of the Cluster; the path of a Unix socket
	TLS              bool
	User             string
	Password         Secret
	DB               int
	Master           string // of Sentinel: the name of the master
	SentinelUser     string
	SentinelPassword Secret
}

type nodeScheme struct {
	kind    NodeKind
	network string
	tls     bool
	port    string // where the URL has none
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

// ParseNode reads a URL of redis.nodes:
//
//	redis://user:pw@host:6379/0                       rediss:// for TLS
//	unix://user:pw@/path.sock?db=0
//	redis+sentinel://:pw@h1:26379,h2:26379/mymaster   rediss+sentinel:// for TLS; ?db=0&sentinel_user=u&sentinel_password=pw
//	redis+cluster://:pw@h1:7001;h2:7002               rediss+cluster:// for TLS
//
// Hosts are separated by , or ; and user and password may be percent-encoded. Its errors hold nothing of the URL, which
// may be a password in a wrong place.
func ParseNode(rawURL string) (Node, error) {
	name, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return Node{}, errors.New("it does not begin with " + nodeForms +
			" (write ; instead of , between the hosts of one URL, or quote the URL)")
	}
	scheme, ok := nodeSchemes[strings.ToLower(name)]
	if !ok {
		return Node{}, errors.New("its scheme is not one of " + nodeForms)
	}
	n := Node{Kind: scheme.kind, Network: scheme.network, TLS: scheme.tls}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return Node{}, errors.New("it has an @ after a ?: percent-encode the ? of the password as %3F")
	}
	if err := n.parseQuery(query); err != nil {
		return Node{}, err
	}
	rest, err := n.cutUser(rest)
	if err != nil {
		return Node{}, err
	}
	if scheme.network == "unix" {
		return n, n.setSocket(rest)
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if err := n.setHosts(hosts, scheme.port); err != nil {
		return Node{}, err
	}
	if err := n.setPath(path); err != nil {
		return Node{}, err
	}
	return n, nil
}

func (n *Node) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("what follows its ? is not name=value joined with &")
	}
	for name, v := range values {
		if len(v) != 1 {
			return fmt.Errorf("its parameter %q stands more than once", name)
		}
		if err := n.setParameter(name, v[0]); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) setParameter(name, value string) error {
	switch {
	case name == "db" && n.Kind != Cluster:
		return n.setDB(value)
	case name == "sentinel_user" && n.Kind == Sentinel:
		n.SentinelUser = value
	case name == "sentinel_password" && n.Kind == Sentinel:
		n.SentinelPassword = Secret(value)
	case n.Kind == Sentinel:
		return fmt.Errorf("its parameter %q is not db, sentinel_user or sentinel_password", name)
	case n.Kind == Standalone:
		return fmt.Errorf("its parameter %q is not db", name)
	default:
		return fmt.Errorf("a Cluster's URL takes no parameter (it has %q)", name)
	}
	return nil
}

func (n *Node) setDB(s string) error {
	db, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return errors.New("its database is not a number (write /0, or ?db=0)")
	}
	n.DB = int(db)
	return nil
}

func (n *Node) cutUser(rest string) (string, error) {
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return rest, nil
	}
	user, password, ok := strings.Cut(rest[:at], ":")
	if !ok {
		return "", errors.New("what stands before its @ has no colon: write :password@ or user:password@")
	}
	var err error
	if n.User, err = url.PathUnescape(user); err != nil {
		return "", errors.New("its user has a % that is no percent-encoding: write it as %25")
	}
	password, err = url.PathUnescape(password)
	if err != nil {
		return "", errors.New("its password has a % that is no percent-encoding: write it as %25")
	}
	n.Password = Secret(password)
	return rest[at+1:], nil
}

func (n *Node) setSocket(path string) error {
	if !strings.HasPrefix(path, "/") || path == "/" {
		return errors.New("its path is not absolute: write unix:///path/to/redis.sock")
	}
	n.Addrs = []string{path}
	return nil
}

func (n *Node) setHosts(hosts, port string) error {
	for _, h := range strings.FieldsFunc(hosts, func(r rune) bool { return r == ',' || r == ';' }) {
		addr, err := hostPort(strings.TrimSpace(h), port)
		if err != nil {
			return err
		}
		n.Addrs = append(n.Addrs, addr)
	}
	if len(n.Addrs) == 0 {
		return errors.New("it names no host")
	}
	if n.Kind == Standalone && len(n.Addrs) > 1 {
		return errors.New("it names several hosts: write one URL for each, or use redis+sentinel:// or redis+cluster://")
	}
	return nil
}

func (n *Node) setPath(path string) error {
	switch n.Kind {
	case Sentinel:
		if !sentinelName.MatchString(path) {
			return errors.New("it does not end with the name of the master, such as /mymaster " +
				"(write ; instead of , between the hosts of one URL, or quote the URL)")
		}
		n.Master = path
	case Cluster:
		if path != "" && path != "0" {
			return errors.New("a Cluster has no databases: remove what follows the hosts")
		}
	default:
		if path != "" {
			return n.setDB(path)
		}
	}
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
	if _, err := netip.ParseAddr(host); err != nil && !hostName.MatchString(host) {
		return "", errors.New("a host is not a name or an address (write host:port, or [::1]:port)")
	}
	return net.JoinHostPort(host, port), nil
}

// String is the node's URL without its passwords.
func (n Node) String() string {
	name := "redis"
	if n.TLS {
		name = "rediss"
	}
	switch {
	case n.Network == "unix":
		name = "unix"
	case n.Kind != Standalone:
		name += "+" + string(n.Kind)
	}
	s := name + "://"
	if n.User != "" || n.Password != "" {
		s += url.PathEscape(n.User) + ":" + n.Password.String() + "@"
	}
	s += strings.Join(n.Addrs, ";")
	if n.Kind == Sentinel {
		s += "/" + n.Master
	}
	if n.DB != 0 {
		s += "?db=" + strconv.Itoa(n.DB)
	}
	return s
}
