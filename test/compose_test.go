package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// composeFile is the part of deploy/compose.yaml that the tests judge.
type composeFile struct {
	Services map[string]service
	Secrets  map[string]struct{ File string }
}

type service struct {
	Image       string
	Command     []string
	Environment map[string]string
	Secrets     []string
	Healthcheck struct{ Test []string }
	StopGrace   string `yaml:"stop_grace_period"`
}

func readCompose(t *testing.T) (c composeFile) {
	t.Helper()
	text, err := os.ReadFile("../deploy/compose.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &c)
	}
	if err != nil || len(c.Services) != 3 {
		t.Fatalf("%v: %d services", err, len(c.Services))
	}
	return c
}

// mounted is where the containers have their secrets.
const mounted = "/run/secrets/"

// makeSecrets runs deploy/make-secrets, and returns the directory.
func makeSecrets(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(process.Dir(t, "compose"), "secrets")
	if out, err := exec.Command("../deploy/make-secrets", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

var (
	pinned   = regexp.MustCompile(`:[0-9]+\.[0-9]+[^:]*$`)
	secretly = regexp.MustCompile(`(?i)password|passwd|secret|token|key|dsn|nodes`)
	withPass = regexp.MustCompile(`(?i)://[^@/]*:[^@/]+@|requirepass|--password|--pass\b`)
)

// TestComposeShowsNoSecret on a command line or in an environment, which docker inspect shows. Every service has a
// health check, an image of a known version, and time to stop.
func TestComposeShowsNoSecret(t *testing.T) {
	c := readCompose(t)
	cfg, err := conf.Load(conf.LoadOptions{Search: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range c.Services {
		for key, value := range s.Environment {
			file, isFile := strings.CutPrefix(value, mounted)
			if isFile != strings.HasSuffix(key, "_FILE") || isFile && !slices.Contains(s.Secrets, file) ||
				!isFile && secretly.MatchString(key) && value != "yes" {
				t.Errorf("%s: the environment has %s=%s", name, key, value)
			}
		}
		for _, word := range append(s.Command, s.Healthcheck.Test...) {
			if withPass.MatchString(strings.ReplaceAll(word, "sed s/requirepass.//", "")) {
				t.Errorf("%s: a command has %s", name, word)
			}
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File != "./secrets/"+secret {
				t.Errorf("%s: the secret %s is in %q", name, secret, c.Secrets[secret].File)
			}
		}
		if len(s.Healthcheck.Test) < 2 {
			t.Errorf("%s has no health check", name)
		}
		if image := strings.TrimSuffix(s.Image, "}"); !pinned.MatchString(image) {
			t.Errorf("%s: %s has no version", name, s.Image)
		}
		if stop, err := time.ParseDuration(s.StopGrace); err != nil || stop <= cfg.ShutdownTimeout {
			t.Errorf("%s: stop_grace_period is %s, %v; shutdown_timeout is %s", name, s.StopGrace, err,
				cfg.ShutdownTimeout)
		}
	}
}

// TestComposeSecretsArePrivate: only the owner enters their directory, and a second run keeps them.
func TestComposeSecretsArePrivate(t *testing.T) {
	c, dir := readCompose(t), makeSecrets(t)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(c.Secrets) {
		t.Errorf("%d files, %d secrets, %v", len(files), len(c.Secrets), err)
	}
	for name := range c.Secrets {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(text) < 40 {
			t.Errorf("%s has %d bytes, %v", name, len(text), err)
		}
	}
	if out, err := exec.Command("../deploy/make-secrets", dir).CombinedOutput(); err == nil {
		t.Errorf("a second run: %s", out)
	}
}

// TestComposeServices work together with the secrets of deploy/make-secrets: the commands, environments and health
// checks of the file, run by this machine's programs. Only addresses and directories are others.
func TestComposeServices(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	c, dir := readCompose(t), makeSecrets(t)
	here := strings.NewReplacer(mounted, dir+"/", "$$", "$")
	change := func(file, from, to string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), []byte(strings.Replace(string(text), from, to, 1)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	healthy := func(name, program, option string, port int) {
		t.Helper()
		test := c.Services[name].Healthcheck.Test
		line := strings.Replace(here.Replace(test[1]), program+" ", fmt.Sprintf("%s %s%d ", program, option, port), 1)
		harness.Eventually(t, harness.Patience, name+" to be healthy", func() error {
			out, err := exec.Command("sh", "-c", line).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	}

	redisPort := freeport.TCP(t)
	var args []string
	for _, arg := range c.Services["redis"].Command[1:] {
		args = append(args, here.Replace(arg))
	}
	args = append(args, "--port", strconv.Itoa(redisPort), "--bind", "127.0.0.1")
	process.Start(t, filepath.Dir(dir), "redis",
		exec.Command(process.Need(t, c.Services["redis"].Command[0], "redis-server"), args...))
	healthy("redis", "redis-cli", "-p ", redisPort)
	change("redis_nodes", "redis:6379", fmt.Sprintf("127.0.0.1:%d", redisPort))

	mysql, db := c.Services["mysql"], dbtest.StartServer(t)
	password, err := os.ReadFile(here.Replace(mysql.Environment["MYSQL_PASSWORD_FILE"]))
	if err != nil {
		t.Fatal(err)
	}
	// What the image does with its environment: the database exists already.
	account := "'" + mysql.Environment["MYSQL_USER"] + "'@'%'"
	db.Exec(t, "", "ALTER USER "+account+" IDENTIFIED BY '"+strings.TrimSpace(string(password))+"'")
	_, port, _ := strings.Cut(db.Addr(), ":")
	mysqlPort, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	healthy("mysql", "mysqladmin", "--port=", mysqlPort)
	change("registry_dsn", "mysql:3306", db.Addr())

	env := map[string]string{}
	for key, value := range c.Services["wakecall"].Environment {
		if key != "WAKECALL_ADMIN_ADDR" {
			env[key] = here.Replace(value)
		}
	}
	i := &installation{harness.New(t, harness.Options{Env: env}), harness.StartEndpoint(t)}
	i.Up()
	harness.Eventually(t, harness.Patience, "wakecall to be healthy", func() error {
		code, out := i.Run(c.Services["wakecall"].Healthcheck.Test[2:]...)
		if code != 0 {
			return fmt.Errorf("code %d: %s", code, out)
		}
		return nil
	})
	token, err := os.ReadFile(filepath.Join(dir, "api_token"))
	if err != nil {
		t.Fatal(err)
	}
	i.Token = strings.TrimSpace(string(token))
	topic := i.topic(t, nil, nil)
	if code, out := i.Run("push", topic, "--body", "1", "--delay", "100ms"); code != 0 { // with the first token
		t.Errorf("wakecall push: code %d, %s", code, out)
	}
	i.endpoint.WaitCalls(t, topic, 1)
}
