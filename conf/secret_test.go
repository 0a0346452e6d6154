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
	displays := []string{string(inJSON), string(inYAML), logged.String(), fmt.Sprint(c.Effective())}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		displays = append(displays, fmt.Sprintf(verb, c), fmt.Sprintf(verb, c.Registry.DSN))
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

func TestPrivateJourney(t *testing.T) {
	c := load(t, "redis:\n  nodes: ['redis://:hunter2@h:1']\nregistry:\n  dsn: mysql://u:pw@tcp(h:1)/w\n"+
		"priorities: 7:2:1\nserver:\n  max_body: 1000\n",
		"WAKECALL_CALLBACK_NETWORKS=10.0.0.0/8, fd00::/8")
	data, err := c.MarshalPrivate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := UnmarshalPrivate(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Effective(), c.Effective()) || got.File() != c.File() {
		t.Errorf("got %#v\nwant %#v", got, c)
	}
	if got.Callback.Networks != "10.0.0.0/8,fd00::/8" || got.Redis.Nodes[0].Reveal() != "redis://:hunter2@h:1" {
		t.Errorf("got %q %q", got.Callback.Networks, got.Redis.Nodes[0].Reveal())
	}
	for _, bad := range []string{"", "{}", strings.Replace(string(data), "7:2:1", "7:2", 1)} {
		if _, err := UnmarshalPrivate([]byte(bad), nil); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestPrivateJourneyBetweenVersions: a reload may start children of another version than the master's.
func TestPrivateJourneyBetweenVersions(t *testing.T) {
	message := `{"settings":{"timers":{"value":"3","source":"--timers"},"data_dir":{"value":"/b/data"},` +
		`"redis.nodes":{"value":"redis://a,redis://b"},"key.of.tomorrow":{"value":"x"}}}`
	c, err := UnmarshalPrivate([]byte(message), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Timers != 3 || c.Dispatchers != 2 || len(c.Redis.Nodes) != 2 || c.DataDir != "/b/data" {
		t.Errorf("got %+v", c)
	}
}

// TestTheSealKeyIsChecked without showing it, and comes from one place.
func TestTheSealKeyIsChecked(t *testing.T) {
	key := strings.Repeat("0f", 32)
	c := load(t, "", "WAKECALL_REGISTRY_SEAL_KEY="+key)
	if c.Registry.SealKey.Reveal() != key || strings.Contains(fmt.Sprint(c, c.Effective()), key) {
		t.Errorf("got %+v", c.Effective())
	}
	for env, want := range map[string]string{
		key[1:]:   `WAKECALL_REGISTRY_SEAL_KEY: registry.seal_key: "<secret>" must be 64 hexadecimal digits`,
		"not hex": `WAKECALL_REGISTRY_SEAL_KEY: registry.seal_key: "<secret>" must be 64 hexadecimal digits`,
		key:       `registry.seal_key: is "<secret>" (WAKECALL_REGISTRY_SEAL_KEY), and registry.seal_key_file is "/k"`,
	} {
		text := ""
		if env == key {
			text = "registry:\n  seal_key_file: /k\n"
		}
		_, err := Load(LoadOptions{File: write(t, text), Env: []string{"WAKECALL_REGISTRY_SEAL_KEY=" + env}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), key[2:]) {
			t.Errorf("%s: %v", env, err)
		}
	}
}
