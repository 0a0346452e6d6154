package conf

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseNode(t *testing.T) {
	for in, want := range map[string]Node{
		"redis://h":                  {Kind: Standalone, Network: "tcp", Addrs: []string{"h:6379"}},
		"redis://:p%40w@h:1/3":       {Kind: Standalone, Network: "tcp", Addrs: []string{"h:1"}, Password: "p@w", DB: 3},
		"redis://u:a@b/c@10.0.0.1:1": {Kind: Standalone, Network: "tcp", Addrs: []string{"10.0.0.1:1"}, User: "u", Password: "a@b/c"},
		"rediss://u:p@[::1]:6380":    {Kind: Standalone, Network: "tcp", Addrs: []string{"[::1]:6380"}, User: "u", Password: "p", TLS: true},
		"redis://[::1]?db=2":         {Kind: Standalone, Network: "tcp", Addrs: []string{"[::1]:6379"}, DB: 2},
		"unix:///run/r.sock?db=2":    {Kind: Standalone, Network: "unix", Addrs: []string{"/run/r.sock"}, DB: 2},
		"unix://:p@/run/r.sock":      {Kind: Standalone, Network: "unix", Addrs: []string{"/run/r.sock"}, Password: "p"},
		"redis+sentinel://h1:1,h2/m": {Kind: Sentinel, Network: "tcp", Addrs: []string{"h1:1", "h2:26379"}, Master: "m"},
		"rediss+sentinel://:p@h1;h2:2/m?db=1&sentinel_user=su&sentinel_password=sp": {Kind: Sentinel, Network: "tcp", TLS: true,
			Addrs: []string{"h1:26379", "h2:2"}, Master: "m", Password: "p", DB: 1, SentinelUser: "su", SentinelPassword: "sp"},
		"redis+cluster://h1:7001;h2:7002":     {Kind: Cluster, Network: "tcp", Addrs: []string{"h1:7001", "h2:7002"}},
		"rediss+cluster://u:p@h1:7001,h_2:7/": {Kind: Cluster, Network: "tcp", TLS: true, Addrs: []string{"h1:7001", "h_2:7"}, User: "u", Password: "p"},
	} {
		got, err := ParseNode(in)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%#v\nwant\n%#v", in, err, got, want)
			continue
		}
		if again, err := ParseNode(got.String()); err != nil || again.Kind != got.Kind || !reflect.DeepEqual(again.Addrs, got.Addrs) {
			t.Errorf("%s is displayed as %s", in, got)
		}
	}
}

func TestParseNodeRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "does not begin with",
		"h2:26379/mymaster":       "write ; instead of ,",
		"http://h":                "scheme is not one of",
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
		"redis://h?timeout=1":     `parameter "timeout" is not db`,
		"redis://h?db=1&db=2":     "stands more than once",
		"unix://r.sock":           "path is not absolute",
		"redis+sentinel://h1":     "name of the master",
		"redis+sentinel://h1/m/n": "name of the master",
		"redis+cluster://h/1":     "no databases",
		"redis+cluster://h?db=1":  "takes no parameter",
		"managed:":                "does not begin with",
	} {
		if n, err := ParseNode(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v, want %s", in, n, err, want)
		}
	}
}

// No panic, no password in an error, and the display of what is accepted can be read again.
func FuzzParseNode(f *testing.F) {
	for _, s := range []string{"redis://:pw@h:6379/0", "unix:///x", "redis+sentinel://h1:1,h2:2/m?sentinel_password=x", "redis+cluster://[::1]:7001;h2", "redis://:p?w@h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		n, err := ParseNode(in)
		if err != nil {
			return
		}
		if n.Network == "unix" {
			return // a path with ? or @ cannot be written back; paths are not escaped
		}
		again, err := ParseNode(n.String())
		if err != nil || !reflect.DeepEqual(again.Addrs, n.Addrs) || again.User != n.User || again.DB != n.DB {
			t.Fatalf("%q is displayed as %q: %v", in, n, err)
		}
	})
}
