package setup

import (
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/harness"
)

// TestSettingsOfARedisAreChecked: those that lose data or cost memory are named with the value to set.
func TestSettingsOfARedisAreChecked(t *testing.T) {
	cfg := load(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	check := func(url string) map[Verdict]string {
		said := map[Verdict]string{}
		s := registry.Shard{Name: "a", URL: url, State: registry.ShardActive}
		for _, f := range checkShards(t.Context(), cfg, []registry.Shard{s}) {
			said[f.Verdict] += f.Detail + ". " + f.Advice + "\n"
		}
		return said
	}
	want := func(said map[Verdict]string, v Verdict, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(said[v], text) {
				t.Errorf("no %s has %q: %q", v, text, said)
			}
		}
	}
	said := check(r.URL())
	want(said, Hint, "CONFIG SET hash-max-listpack-value 512 hash-max-listpack-entries 128", "maxmemory is not set")
	if said[Warning]+said[Failed] != "" {
		t.Errorf("the harness's Redis: %q", said)
	}

	for name, value := range map[string]string{
		"hash-max-listpack-value": "512", "maxmemory": "1gb", "maxmemory-policy": "allkeys-lru", "appendfsync": "no",
		"no-appendfsync-on-rewrite": "yes", "save": "60 1",
	} {
		r.ConfigSet(name, value)
	}
	replica := harness.StartRedis(t, harness.RedisOptions{})
	if err := replica.Follow(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	said = check(r.URL())
	want(said, Failed, "CONFIG SET maxmemory-policy noeviction")
	want(said, Warning, "CONFIG SET appendfsync everysec", "CONFIG SET no-appendfsync-on-rewrite no")
	want(said, Hint, "CONFIG SET save ''", "CONFIG SET min-replicas-to-write 1")
	r.ConfigSet("appendonly", "no")
	want(check(r.URL()), Warning, "CONFIG SET appendonly yes")

	r.ConfigSet("maxmemory-policy", "noeviction")
	r.ConfigSet("appendonly", "yes")
	r.ConfigSet("min-replicas-to-write", "1")
	for name, value := range map[string]string{"appendfsync": "everysec", "no-appendfsync-on-rewrite": "no", "save": ""} {
		r.ConfigSet(name, value)
	}
	if said = check(r.URL()); len(said) > 1 {
		t.Errorf("with these values: %q", said)
	}
	r.Do("ACL", "SETUSER", "wk", "on", ">pw", "~wk:*", "&wk:*", "+@all", "-@admin")
	limited := strings.Replace(r.URL(), "redis://", "redis://wk:pw@", 1)
	want(check(limited), Hint, "cannot check appendfsync", "+config|get")
	r.Do("ACL", "SETUSER", "wk", "+config|get")
	if said = check(limited); len(said) > 1 {
		t.Errorf("with the right: %q", said)
	}
}
