package address

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tcp := func(kind Kind, addrs ...string) Node { return Node{Kind: kind, Network: "tcp", Addrs: addrs} }
	with := func(n Node, change func(*Node)) Node {
		change(&n)
		return n
	}
	socket := Node{Kind: Standalone, Network: "unix", Addrs: []string{"/run/r.sock"}}
	for in, want := range map[string]Node{
		"redis://h":            tcp(Standalone, "h:6379"),
		"redis://:p%40w@h:1/3": with(tcp(Standalone, "h:1"), func(n *Node) { n.Password, n.DB = "p@w", 3 }),
		"redis://u:a@b/c@10.0.0.1:1": with(tcp(Standalone, "10.0.0.1:1"), func(n *Node) {
			n.User, n.Password = "u", "a@b/c"
		}),
		"rediss://u:p@[::1]:6380": with(tcp(Standalone, "[::1]:6380"), func(n *Node) {
			n.User, n.Password, n.TLS = "u", "p", true
		}),
		"redis://[::1]?db=2":         with(tcp(Standalone, "[::1]:6379"), func(n *Node) { n.DB = 2 }),
		"unix:///run/r.sock?db=2":    with(socket, func(n *Node) { n.DB = 2 }),
		"unix:///home/me@x.org/r":    {Kind: Standalone, Network: "unix", Addrs: []string{"/home/me@x.org/r"}},
		"unix://:p@/run/r.sock":      with(socket, func(n *Node) { n.Password = "p" }),
		"redis+sentinel://h1:1,h2/m": with(tcp(Sentinel, "h1:1", "h2:26379"), func(n *Node) { n.Master = "m" }),
		"rediss+sentinel://:p@h1;h2:2/m?db=1&sentinel_user=su&sentinel_password=sp": {
			Kind: Sentinel, Network: "tcp", TLS: true, Addrs: []string{"h1:26379", "h2:2"}, Master: "m", Password: "p",
			DB:           1,
			SentinelUser: "su", SentinelPassword: "sp",
		},
		"redis+cluster://h1:7001;h2:7002": tcp(Cluster, "h1:7001", "h2:7002"),
		"rediss+cluster://u:p@h1:7001,h_2:7/": with(tcp(Cluster, "h1:7001", "h_2:7"), func(n *Node) {
			n.User, n.Password, n.TLS = "u", "p", true
		}),
	} {
		got, err := Parse(in)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v\nwant\n%+v", in, err, fields(got), fields(want))
		}
	}
}

func TestParseNodeRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "does not begin with",
		"h2:26379/mymaster":       "write ; instead of ,",
		"http://h":                "does not begin with",
		"redis://":                "names no host",
		"redis://a:1,b:2":         "names several hosts",
		"redis://h:0":             "port of a host",
		"redis://h:70000":         "port of a host",
		"redis://:1":              "a host is not a name",
		"redis://h h:1":           "a host is not a name",
		"redis://h/x":             "database is not a number",
		"redis://h/-1":            "database is not a number",
		"redis://pw@h":            "has no colon",
		"redis://:p%zz@h":         "password has a %",
		"redis://:p?w@h":          "percent-encode the ?",
		"redis://h?timeout=1":     `parameter "timeout" is unknown`,
		"redis://h?db=1&db=2":     "more than once",
		"unix://r.sock":           "path is not absolute",
		"redis+sentinel://h1":     "name of the master",
		"redis+sentinel://h1/m/n": "name of the master",
		"redis+cluster://h/1":     "no databases",
		"redis+cluster://h?db=1":  "Cluster none",
		"managed:":                "does not begin with",
	} {
		if n, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v, want %s", in, n, err, want)
		}
	}
}

// fields is a Node that prints its passwords.
type fields Node

// No panic, and no password in an error or in printed output.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"redis://:pw@h:6379/0", "unix:///x", "redis+sentinel://h1:1,h2:2/m?sentinel_password=x",
		"redis+cluster://[::1]:7001;h2", "redis://:p?w@h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		n, err := Parse(in)
		if len(n.Password) > 20 && (strings.Contains(fmt.Sprint(n, err), n.Password)) {
			t.Fatalf("%q is printed as %v, %v", in, n, err)
		}
		if err == nil && len(n.Addrs) == 0 {
			t.Fatalf("%q has no address", in)
		}
	})
}
