package charttest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/conf"
)

// TestChartConfigurationIsLoaded by Wakecall as the pods load it, and the ports of the pods are those it listens on.
func TestChartConfigurationIsLoaded(t *testing.T) {
	kinds(t, func(t *testing.T, objects []Object) {
		set := Find(t, objects, "StatefulSet/wakecall")
		cfg := load(t, objects, set)
		ports := map[string]bool{}
		for _, l := range cfg.Listeners() {
			ports[l.Addr[strings.LastIndexByte(l.Addr, ':')+1:]] = true
			if strings.HasPrefix(l.Addr, "127.") {
				t.Errorf("%s is %s: nobody reaches it", l.Key, l.Addr)
			}
		}
		var open []string
		for _, p := range set.Container().List("ports") {
			open = append(open, p.Text("containerPort"))
		}
		slices.Sort(open)
		if want := slices.Sorted(maps.Keys(ports)); !slices.Equal(open, want) {
			t.Errorf("the pods have the ports %q, Wakecall listens on %q", open, want)
		}
		if dir := mounted(t, set, "data"); cfg.DataDir != dir || !strings.HasPrefix(cfg.JournalDir(), dir+"/") {
			t.Errorf("the volume is mounted at %s, data_dir is %s, the journal %s", dir, cfg.DataDir, cfg.JournalDir())
		}
		pod := set.Part("spec", "template", "spec")
		grace, _ := strconv.Atoi(pod.Text("terminationGracePeriodSeconds"))
		pause, _ := strconv.Atoi(set.Container().Text("lifecycle", "preStop", "sleep", "seconds"))
		if left := grace - pause - int(cfg.ShutdownTimeout.Seconds()); pause == 0 || left != 15 {
			t.Errorf("a pod is killed %d s after it should have stopped: after %d s, of which it pauses %d", left, grace, pause)
		}
	})
}

// load loads the configuration of a container.
func load(t *testing.T, objects []Object, set Object) *conf.Config {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "wakecall.yaml")
	text := Find(t, objects, "ConfigMap/wakecall").Text("data", "wakecall.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{
		"redisNodes": "redis://:pw@r1:6379/0,redis://:pw@r2:6379/0\n", "registryDSN": "mysql://u:pw@tcp(db:3306)/w\n",
		"sealKey": strings.Repeat("ab", 32), "firstToken": strings.Repeat("t", 32), "firstPassword": "first password",
	}
	var env []string
	for _, e := range set.Container().List("env") {
		value := e.Text("value")
		if name, ok := strings.CutPrefix(value, mounted(t, set, "secrets")+"/"); ok {
			value = filepath.Join(dir, name)
			if err := os.WriteFile(value, []byte(secrets[name]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if value == mounted(t, set, "config")+"/wakecall.yaml" {
			value = file
		}
		env = append(env, e.Text("name")+"="+value)
	}
	cfg, err := conf.Load(conf.LoadOptions{Env: env, Search: []string{}, Gateways: app.GatewayKeys()})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if cfg.File() != file || len(cfg.Redis.Nodes) != 2 {
		t.Errorf("read are %q, with the shards %v", cfg.File(), cfg.Redis.Nodes)
	}
	return cfg
}

func mounted(t *testing.T, set Object, volume string) string {
	t.Helper()
	for _, m := range set.Container().List("volumeMounts") {
		if m.Text("name") == volume {
			return m.Text("mountPath")
		}
	}
	t.Fatalf("%s: the volume %s is not mounted", set.Name(), volume)
	return ""
}

// TestChartConfigurationHasTheValues of config.
func TestChartConfigurationHasTheValues(t *testing.T) {
	t.Parallel()
	objects := rendered(t, everything)
	cfg := load(t, objects, Find(t, objects, "StatefulSet/wakecall"))
	for key, want := range map[string]string{
		"log.level": "debug", "log.format": "text", "dispatcher.concurrency": "512", "dispatchers": "3",
		"metrics.topics": "100000", "priorities": "5:3:2", "spool": "off", "shutdown_timeout": "60s",
		"callback.networks": "10.0.0.0/8,192.168.0.0/16", "gateways.lmstfy.ttl": "2h",
		"gateways.lmstfy.addr": "0.0.0.0:7777", "gateways.beanstalk.addr": "0.0.0.0:11300", "gateways.grape.web_addr": "",
	} {
		if got := cfg.Setting(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// TestChartSecretsAreFiles: a secret is only in the file that its variable names.
func TestChartSecretsAreFiles(t *testing.T) {
	kinds(t, func(t *testing.T, objects []Object) {
		for _, set := range sets(objects) {
			files := map[string]string{} // the secret and key of a file
			for _, v := range set.List("spec", "template", "spec", "volumes") {
				for _, s := range v.List("projected", "sources") {
					path := mounted(t, set, "secrets") + "/" + s.Text("secret", "items", 0, "path")
					files[path] = s.Text("secret", "name") + " " + s.Text("secret", "items", 0, "key")
				}
			}
			variables := map[string]string{}
			for _, e := range set.Container().List("env") {
				if e.Get("valueFrom") != nil {
					t.Errorf("%s: %s is in the environment", set.Name(), e.Text("name"))
				}
				if from := files[e.Text("value")]; from != "" {
					variables[e.Text("name")] = from
				}
			}
			want := map[string]string{
				"WAKECALL_REDIS_NODES_FILE": "wakecall redis-nodes", "WAKECALL_REGISTRY_DSN_FILE": "wakecall registry-dsn",
				"WAKECALL_REGISTRY_SEAL_KEY_FILE": "wakecall seal-key", "WAKECALL_SERVER_FIRST_TOKEN_FILE": "wakecall first-token",
				"WAKECALL_ADMIN_FIRST_PASSWORD_FILE": "wakecall first-password",
			}
			if !maps.Equal(variables, want) || len(files) != len(want) {
				t.Errorf("%s: the secrets are %v, of %v", set.Name(), variables, files)
			}
		}
	})
}
