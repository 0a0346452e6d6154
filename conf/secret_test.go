package conf

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestSecretsAreNotDisplayed(t *testing.T) {
	c := load(t, "registry:\n  dsn: mysql://u:hunter2@tcp(h:3306)/w\nredis:\n  nodes: ['rediss://:hunter2@h:1', "+
		"'redis+sentinel://h1/m?sentinel_password=hunter2']\n")
	inJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	inYAML, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "dsn", c.Registry.DSN, "nodes", c.Redis.Nodes, "conf", c)
	node, err := ParseNode(c.Redis.Nodes[1].Reveal())
	if err != nil {
		t.Fatal(err)
	}
	displays := []string{string(inJSON), string(inYAML), logged.String(), fmt.Sprint(c.Effective()), fmt.Sprint(node)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		displays = append(displays, fmt.Sprintf(verb, c), fmt.Sprintf(verb, c.Registry.DSN), fmt.Sprintf(verb, node))
	}
	for _, d := range displays {
		if strings.Contains(d, "hunter2") || strings.Contains(d, "68756e74657232") || d == "" {
			t.Errorf("displayed: %s", d)
		}
	}
	for _, s := range c.Effective() {
		if s.Key == "registry.dsn" && s.Value != "mysql://u:<secret>@tcp(h:3306)/w" {
			t.Errorf("the DSN is shown as %s", s.Value)
		}
	}
}

func TestMaskURL(t *testing.T) {
	for in, want := range map[string]string{
		"redis://:pw@h:6379/0":                          "redis://:<secret>@h:6379/0",
		"redis://u:p@w/x@h:1":                           "redis://u:<secret>@h:1",
		"redis://pw@h:1":                                "redis://<secret>@h:1",
		"redis://:pw":                                   "redis://:<secret>",
		"redis://h:6379,h2:6380/m":                      "redis://h:6379,h2:6380/m",
		"redis://[::1]:6379":                            "redis://[::1]:6379",
		"unix://u:pw@/x.sock?db=1":                      "unix://u:<secret>@/x.sock?db=1",
		"redis+sentinel://h/m?Sentinel_PASSWORD=x&db=1": "redis+sentinel://h/m?Sentinel_PASSWORD=<secret>&db=1",
		"mysql://u:pw@tcp(h:3306)/w?timeout=1s":         "mysql://u:<secret>@tcp(h:3306)/w?timeout=1s",
		"u:pw@tcp(h:3306)/w":                            "u:<secret>@tcp(h:3306)/w",
		"sqlite:/var/lib/a@b.db":                        "sqlite:/var/lib/a@b.db",
		"":                                              "",
	} {
		if got := maskURL(in); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}

func TestPrivateJourney(t *testing.T) {
	c := load(t, "redis:\n  nodes: ['redis://:hunter2@h:1']\nregistry:\n  dsn: mysql://u:pw@tcp(h:1)/w\n"+
		"priorities: 7:2:1\nserver:\n  max_body: 1000\n",
		"WAKECALL_CALLBACK_NETWORKS=10.0.0.0/8, fd00::/8")
	data, err := c.MarshalPrivate()
	if err != nil {
		t.Fatal(err)
	}
	got := Default()
	if err := got.UnmarshalPrivate(data); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, c) {
		t.Errorf("got %#v\nwant %#v", got, c)
	}
	if got.Callback.Networks != "10.0.0.0/8,fd00::/8" || got.Redis.Nodes[0].Reveal() != "redis://:hunter2@h:1" {
		t.Errorf("got %q %q", got.Callback.Networks, got.Redis.Nodes[0].Reveal())
	}
	for _, bad := range []string{"", "{}", strings.Replace(string(data), "7:2:1", "7:2", 1)} {
		if got.UnmarshalPrivate([]byte(bad)) == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestPrivateJourneyBetweenVersions: a reload may start children of another version than the master's.
func TestPrivateJourneyBetweenVersions(t *testing.T) {
	var c Config
	message := `{"base":"/b","settings":{"timers":["3"],"redis.nodes":["redis://a","redis://b"],"key.of.tomorrow":["x"]},` +
		`"sources":{"timers":"flag","key.of.tomorrow":"flag"}}`
	if err := c.UnmarshalPrivate([]byte(message)); err != nil {
		t.Fatal(err)
	}
	if c.Timers != 3 || c.Dispatchers != 2 || len(c.Redis.Nodes) != 2 || c.DataPath() != "/b/data" {
		t.Errorf("got %+v", c)
	}
}
