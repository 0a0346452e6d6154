package server_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/harness"
)

// TestDocs: the page and its files are served without a token, and the page can load nothing else.
func TestDocs(t *testing.T) {
	a := newAPI(t)
	get := func(path string) reply { return a.do("GET", path, "", "Authorization", "") }
	r := get("/docs").want(http.StatusOK)
	policy := r.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") ||
		strings.Contains(policy, "http") {
		t.Errorf("policy %q", policy)
	}
	if !strings.Contains(r.body, "0.0.0-test") || strings.Contains(r.body, "//") {
		t.Errorf("the page does not show the version, or loads something from elsewhere:\n%s", r.body)
	}
	files := regexp.MustCompile(`"(docs/[^"]+)"`).FindAllStringSubmatch(r.body, -1)
	if len(files) < 4 {
		t.Errorf("the page loads %q", files)
	}
	for _, file := range files {
		resp, err := http.Get(a.url + "/" + file[1]) // not through the client that checks the description's routes
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") == "" {
			t.Errorf("%s: %d with the type %q", file[1], resp.StatusCode, resp.Header.Get("Content-Type"))
		}
	}
	get("/docs/none.js").problem(http.StatusNotFound, "")
	if r := get("/openapi.yaml").want(http.StatusOK); r.body != string(server.OpenAPI()) {
		t.Error("another description")
	}
}

// TestDocsInABrowser: the viewer shows every route under the page's policy; the browser's errors fail the test.
func TestDocsInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	a := newAPI(t)
	b := harness.StartBrowser(t, a.url)
	b.Open("/docs")
	const patience = 30 * time.Second
	b.Shows(patience, "Push one job", "Dead jobs")
	for _, route := range a.server.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if path != "/docs/{file}" {
			b.Shows(patience, method, path)
		}
	}
	b.Click("#operations-Push-pushJob button")
	b.Shows(patience, "Location", "on_duplicate", "order-42")
}
