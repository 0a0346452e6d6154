package topics_test

import (
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
)

// snippetOf returns a page's snippet, as the clipboard gets it.
func snippetOf(t *testing.T, page, id string) string {
	t.Helper()
	found := regexp.MustCompile(`(?s)<pre id="` + id + `"[^>]*>(.*?)</pre>`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no snippet %q:\n%s", id, page)
	}
	return html.UnescapeString(found[1])
}

// TestTheGoSnippetCompiles: the snippet of a topic's page is a program that go vet accepts.
func TestTheGoSnippetCompiles(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) { o.APIURL = "http://127.0.0.1:6789" }).As("look")
	s.AddTopic("shop.close")
	_, page := s.Get("/topics/shop.close?tab=push")
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(snippetOf(t, page, "go")), 0o600); err != nil {
		t.Fatal(err)
	}
	// Run here, so that the file's imports are resolved in this module.
	if out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), "gofmt", "-l", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt: %v %s", err, out)
	}
}

// TestTheCurlSnippetsAreRequests: a shell parses each as one call of curl with a URL, a token and a JSON body.
func TestTheCurlSnippetsAreRequests(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "api-token")
	if err := os.WriteFile(token, []byte("wk_secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := admintest.Open(t, func(o *admin.Options) {
		o.APIURL, o.TokenFile = "http://127.0.0.1:6789", token
	}).As("ops")
	s.AddTopic("shop.close")
	for path, id := range map[string]string{"/topics/shop.close?tab=push": "curl", "/": "wk-first-curl"} {
		_, page := s.Get(path)
		line := snippetOf(t, page, id)
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", "curl() { printf '%s\\n' \"$@\"; }\n"+line)
		cmd.Env = append(os.Environ(), "WAKECALL_TOKEN=wk_secret")
		out, err := cmd.Output()
		args := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if err != nil || len(args) != 5 {
			t.Fatalf("%s: %v, %q", line, err, args)
		}
		if args[0] != "http://127.0.0.1:6789/v1/topics/shop.close/jobs" ||
			args[2] != "Authorization: Bearer wk_secret" {
			t.Errorf("%s calls %q", line, args)
		}
		var push struct {
			Body  json.RawMessage
			Delay string
		}
		if err := json.Unmarshal([]byte(args[4]), &push); err != nil || len(push.Body) == 0 || push.Delay == "" {
			t.Errorf("%s sends %s: %v", line, args[4], err)
		}
	}
}
