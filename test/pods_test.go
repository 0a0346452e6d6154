package test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
)

// TestPodsShareAnInstallation: each has a volume of its own, and the key, the first token and the first password from
// its environment or a mounted file. All start at once. What one of them encrypted, another sends.
func TestPodsShareAnInstallation(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	_, opts := shared(t, dbtest.StartPostgres(t))
	secrets := map[string]string{
		"WAKECALL_REGISTRY_SEAL_KEY":    strings.Repeat("5a", 32),
		"WAKECALL_SERVER_FIRST_TOKEN":   strings.Repeat("first-token-", 3),
		"WAKECALL_ADMIN_FIRST_PASSWORD": "first password",
	}
	one, two := harness.New(t, opts), harness.New(t, opts)
	for key, value := range secrets {
		file := filepath.Join(two.Dir, key)
		if err := os.WriteFile(file, []byte(value+"\n"), 0o400); err != nil {
			t.Fatal(err)
		}
		one.SetEnv(key, value)
		two.SetEnv(key+"_FILE", file)
	}
	one.Token, two.Token = secrets["WAKECALL_SERVER_FIRST_TOKEN"], secrets["WAKECALL_SERVER_FIRST_TOKEN"]
	one.Up()
	two.Up()
	i := &installation{one, harness.StartEndpoint(t)}
	for _, w := range []*harness.Wakecall{one, two} {
		waitHealthy(t, w)
		jar, _ := cookiejar.New(nil) // never fails without options
		res, err := (&http.Client{Jar: jar, Timeout: soon}).PostForm(w.AdminURL()+"/login",
			url.Values{"username": {"admin"}, "password": {secrets["WAKECALL_ADMIN_FIRST_PASSWORD"]}})
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || strings.Contains(res.Request.URL.Path, "login") {
			t.Errorf("the log-in ends at %s with %s", res.Request.URL, res.Status)
		}
		for _, file := range []string{"secret-key", "api-token", "admin-password"} {
			if _, err := os.Stat(filepath.Join(w.Data, file)); err == nil {
				t.Errorf("%s was created", file)
			}
		}
	}
	topic := i.topic(t, nil, M{"headers": M{"Authorization": "Bearer of-the-endpoint"}})
	harness.Eventually(t, soon, "the other host to know the topic", func() error {
		return harness.Equal("status", two.Do(ctx, http.MethodGet, "/v1/topics/"+topic, nil).Status, http.StatusOK)
	})
	one.Kill9()
	one.WaitRole("dispatcher", 0)
	if code, out := two.Run("push", topic, "--body", "1"); code != 0 { // with the first token
		t.Errorf("wakecall push: code %d, %s", code, out)
	}
	call := i.endpoint.WaitCalls(t, topic, 1)[0]
	if got := call.Header.Get("Authorization"); got != "Bearer of-the-endpoint" {
		t.Errorf("the call has Authorization %q", got)
	}
}
