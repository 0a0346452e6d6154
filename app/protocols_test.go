package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/conf"
)

// TestTheKeysOfGatewaysRejectWrongValues: they end the start, before anything is served.
func TestTheKeysOfGatewaysRejectWrongValues(t *testing.T) {
	for _, c := range []struct{ key, value string }{
		{"gateways.phpdq.time_zone", "Mars/Base"}, {"gateways.lmstfy.addr", "70000"},
		{"gateways.grape.web_addr", "9595"},
		{"gateways.lmstfy.pools", ""}, {"gateways.lmstfy.pools", "a,a"}, {"gateways.lmstfy.pools", "a;b"},
		{"gateways.lmstfy.admin_addr", "0.0.0.0:7778"}, {"gateways.lmstfy.admin_addr", "lmstfy.example:7778"},
	} {
		flags := map[string]string{c.key: c.value}
		_, err := conf.Load(conf.LoadOptions{Flags: flags, Search: []string{}, Gateways: GatewayKeys()})
		if err == nil || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s %q: %v", c.key, c.value, err)
		}
	}
}

// TestPoolsAreAListOrText, as other keys with several values.
func TestPoolsAreAListOrText(t *testing.T) {
	for _, value := range []string{"[default, big]", "\n      - default\n      - big", "default,big"} {
		file := filepath.Join(t.TempDir(), "wakecall.yaml")
		text := "gateways:\n  lmstfy:\n    pools: " + value + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := conf.Load(conf.LoadOptions{File: file, Gateways: GatewayKeys()})
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		if pools := cfg.Setting("gateways.lmstfy.pools"); pools != "default,big" {
			t.Errorf("%s: the pools are %s", value, pools)
		}
	}
}
