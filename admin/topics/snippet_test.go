package topics_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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
	_, page := s.Get("/topics/shop.close?tab=push&in=go")
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

// TestTheSnippetsPush: the program of each language pushes the job and prints its id; a refusal ends it with an error
// that has the server's reason.
func TestTheSnippetsPush(t *testing.T) {
	t.Parallel()
	for language, run := range map[string][]string{
		"php": {"php", "push.php"}, "python": {"python3", "push.py"}, "node": {"node", "push.mjs"},
		"java": {"java", "Push.java"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(run[0]); err != nil {
				t.Skipf("%s is not installed", run[0])
			}
			api := &pushAPI{status: http.StatusCreated}
			srv := httptest.NewServer(api)
			defer srv.Close()
			s := admintest.Open(t, func(o *admin.Options) { o.APIURL = srv.URL }).As("look")
			s.AddTopic("shop.close")
			_, page := s.Get("/topics/shop.close?tab=push&in=" + language)
			program := snippetOf(t, page, language)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, run[1]), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			execute := func() (string, error) {
				cmd := exec.CommandContext(t.Context(), run[0], run[1:]...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "WAKECALL_TOKEN=wk_secret", "NO_PROXY=*", "no_proxy=*")
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			out, err := execute()
			if err != nil || !strings.Contains(out, "order-42") || !strings.Contains(out, "2030-01-01") {
				t.Errorf("it prints %s, %v", out, err)
			}
			want := `POST /v1/topics/shop.close/jobs Bearer wk_secret application/json` +
				` {"body":{"order":42},"delay":"30m","id":"order-42"}`
			if got := api.then(http.StatusConflict); got != want {
				t.Errorf("it sends  %s\nand not %s", got, want)
			}
			if out, err := execute(); err == nil || !strings.Contains(out, "the topic is offline") {
				t.Errorf("refused, it prints %s, %v", out, err)
			}
		})
	}
}

// pushAPI answers pushes with a status and keeps the last one.
type pushAPI struct {
	mu     sync.Mutex
	status int
	got    string
}

// then returns the last push, and sets the status of the next.
func (a *pushAPI) then(status int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = status
	return a.got
}

func (a *pushAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var push any
	_ = json.Unmarshal(body, &push)
	sorted, _ := json.Marshal(push)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got = fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Authorization"), " ", r.Header.Get("Content-Type"),
		" ", string(sorted))
	w.WriteHeader(a.status)
	if a.status == http.StatusCreated {
		_, _ = io.WriteString(w, `{"id":"order-42","due_at":"2030-01-01T00:00:00Z"}`)
		return
	}
	_, _ = io.WriteString(w, `{"status":409,"detail":"the topic is offline"}`)
}
