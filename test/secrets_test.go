package test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/smtptest"
)

// marked are secrets that are never shown. Sealed or hashed, they may be in the database; nothing else may contain one.
var marked = map[string]string{
	"Redis password":  "MARKredispw51f0",
	"SMTP password":   "MARKsmtppw77aa",
	"webhook address": "MARKhookpath93c1",
	"topic secret":    "TUFSS3NlY3JldHRvcGljMDAxMDAyMDAz", // whsec_ and this
	"query of an URL": "MARKquerykey20d4",
	"topic header":    "MARKheaderval8e2b",
	"MySQL password":  "MARKmysqlpw6b9d",
}

// TestSecretsAreNeverShown: an installation with secrets everywhere is used and has failures, at log level debug. None
// of the secrets, nor a token or password of its first start, is in a log, an error, the audit trail, the process list,
// a metric or the printed configuration; and its files are private to its user.
func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	smtp := smtptest.Start(t)
	smtp.WantLogin("wakecall", "another password")
	r := harness.StartRedis(t, harness.RedisOptions{Password: marked["Redis password"]})
	opts := onRedis(r)
	opts.Env["WAKECALL_LOG_LEVEL"] = "debug"
	i := start(t, opts)
	i.mailing(t, smtp, func(s *alert.Settings) {
		s.Mail.Password = seal.Text(marked["SMTP password"])
		s.Webhooks = []alert.Webhook{{Name: "chat", Preset: "slack",
			URL: seal.Text("http://127.0.0.1:1/" + marked["webhook address"])}}
	})
	said := &strings.Builder{}
	i.failWithSecrets(t, said)
	r.Kill9()
	i.Push(ctx, "secrets", M{"id": "while-down", "body": 1})
	run := func(args ...string) {
		code, out := i.Run(args...)
		fmt.Fprintf(said, "== wakecall %v: %d\n%s\n", args, code, out)
	}
	run("check")
	run("config")
	r.Restart()
	// headers and address are shown, to be edited
	if _, out := i.Run("topic", "show", "secrets"); strings.Contains(out, marked["topic secret"]) {
		t.Errorf("a topic shows its secret:\n%s", out)
	}
	said.Write(i.Metrics().Do(ctx, http.MethodGet, "/metrics", nil).Body)
	ps, err := exec.Command("ps", "axeww", "-o", "args").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(ps)) {
		if strings.HasPrefix(line, "wakecall") { // titles and arguments; the environment is private to the user
			said.WriteString(strings.SplitN(line, "WAKECALL_", 2)[0] + "\n")
		}
	}
	i.Signal(syscall.SIGHUP)
	i.checkModes(t)
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	said.WriteString(i.Log(0))
	said.WriteString(i.wrongStart(t))
	i.findMarked(t, said.String())
	i.checkStored(t)
}

// checkStored: neither the audit trail nor the database's files contain a readable secret.
func (i *installation) checkStored(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(i.Data, "registry.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for what, secret := range marked {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s holds the %s", file, what)
			}
		}
	}
	key, err := seal.LoadKey(filepath.Join(i.Data, "secret-key"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := registry.Open(registry.Options{DSN: "sqlite:" + filepath.Join(i.Data, "registry.db"), SecretKey: key})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	trail, err := db.Audit(ctx, registry.AuditFilter{})
	if err != nil || len(trail) == 0 {
		t.Fatal(len(trail), err)
	}
	for _, e := range trail {
		text := string(e.Before) + string(e.After)
		for what, secret := range marked {
			if strings.Contains(text, secret) {
				t.Errorf("the audit of %s holds the %s: %s", e.Object, what, text)
			}
		}
	}
}

// failWithSecrets creates topics whose callbacks fail in several ways.
func (i *installation) failWithSecrets(t *testing.T, said *strings.Builder) {
	secrets := M{
		"headers": M{"Authorization": "Bearer " + marked["topic header"]},
		"secrets": []string{"whsec_" + marked["topic secret"]}, "max_attempts": 1,
		"callback_url": "http://127.0.0.1:1/hook?key=" + marked["query of an URL"],
	}
	for _, url := range []string{"http://127.0.0.1:1/", "http://169.254.169.254/", "http://no-such-host.invalid/"} {
		secrets["callback_url"] = url + "?key=" + marked["query of an URL"]
		i.MustPutTopic(t, "secrets", secrets)
		job := i.MustPush(t, "secrets", M{"body": M{"a": 1}})
		i.waitState(t, "secrets", job.ID, "dead")
		said.Write(i.MustDo(t, http.StatusOK, http.MethodGet, harness.JobPath("secrets", job.ID), nil).Body)
	}
	for name, body := range map[string]M{
		"bad-secret": {"callback_url": "http://h/", "secrets": []string{"whsec_" + marked["topic secret"] + "!"}},
		"bad-header": {"callback_url": "http://h/", "headers": M{"x": marked["topic header"] + "\r\nX-Evil: 1"}},
		"bad-url":    {"callback_url": "ftp://u:" + marked["query of an URL"] + "@h/"},
	} {
		a := i.Do(ctx, http.MethodPut, "/v1/topics/"+name, body)
		if a.Err != nil || a.Status < 400 || a.Status > 499 {
			t.Errorf("%s: %s", name, a)
		}
		fmt.Fprintf(said, "== %s\n%s\n", name, a)
	}
	other := harness.NewAPI(i.Base, i.Token+"x")
	said.WriteString(other.Do(ctx, http.MethodGet, "/v1/topics", nil).String())
}

// wrongStart is the output of a start whose database does not answer.
func (i *installation) wrongStart(t *testing.T) string {
	other := harness.New(t,
		harness.Options{Env: map[string]string{"WAKECALL_REGISTRY_DSN": "mysql://u:" + marked["MySQL password"] +
			"@tcp(127.0.0.1:1)/w", "WAKECALL_LOG_LEVEL": "debug"}})
	_, checked := other.Run("check")
	_, shown := other.Run("config")
	_, migrated := other.Run("migrate", "status")
	other.SetEnv("WAKECALL_REGISTRY_DSN", "mysql//u:"+marked["MySQL password"]+"@nowhere")
	_, refused := other.Run("up")
	return checked + shown + migrated + refused
}

// madeSecrets are the secrets that the first start created.
func (i *installation) madeSecrets(t *testing.T) map[string]string {
	made := map[string]string{}
	for _, name := range []string{"api-token", "admin-password"} {
		b, err := os.ReadFile(filepath.Join(i.Data, name))
		if err != nil {
			t.Fatal(err)
		}
		made[name] = strings.TrimSpace(string(b))
	}
	return made
}

// findMarked searches for the secrets in the output and in every file, except the files that store them.
func (i *installation) findMarked(t *testing.T, said string) {
	secrets := maps.Clone(marked)
	maps.Copy(secrets, i.madeSecrets(t))
	texts := map[string]string{"what was said": said}
	_ = filepath.WalkDir(i.Data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(path, "registry") &&
			!strings.Contains(path, "snapshot") &&
			d.Name() != "api-token" && d.Name() != "admin-password" {
			b, err := os.ReadFile(path)
			texts[path] = string(b)
			return err
		}
		return err
	})
	for where, text := range texts {
		for what, secret := range secrets {
			if k := strings.Index(text, secret); k >= 0 {
				t.Errorf("%s: the %s is in …%s…", where, what, text[max(0, k-300):min(len(text), k+60)])
			}
		}
	}
}

// checkModes checks that no other users have access below data_dir.
func (i *installation) checkModes(t *testing.T) {
	err := filepath.WalkDir(i.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil // a temporary file that has been renamed
			}
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSocket == 0 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
