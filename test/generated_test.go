package test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/harness"
)

// TestAGeneratedClient compiles, pushes and reads a job, and accepts fields that it does not know: those of a newer
// server. `make generated-client` says which generator to use.
func TestAGeneratedClient(t *testing.T) {
	generator, runtime := os.Getenv("WAKECALL_TEST_OAPI_CODEGEN"), os.Getenv("WAKECALL_TEST_OAPI_RUNTIME")
	if generator == "" {
		t.Skip("fetches a generator; run make generated-client")
	}
	i := start(t, harness.Options{})
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile("testdata/generated/main.go")
	if err != nil {
		t.Fatal(err)
	}
	write("openapi.yaml", server.OpenAPI())
	write("main.go", program)
	write("api/doc.go", []byte("package api\n"))
	run("go", "mod", "init", "generated")
	run("go", "run", generator, "-generate", "types,client", "-package", "api", "-o", "api/api.gen.go", "openapi.yaml")
	run("go", "get", runtime)
	run("go", "build", "-mod=mod", "-o", "generated", ".")
	newer := httptest.NewServer(newerServer(t, i.Base))
	defer newer.Close()
	if out := run("./generated", newer.URL, i.Token); !strings.Contains(out, "pushed and read order-42") {
		t.Errorf("it printed %q", out)
	}
}

// newerServer adds a field to every object in the answers of a server.
func newerServer(t *testing.T, address string) http.Handler {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		var value any
		if err := json.NewDecoder(r.Body).Decode(&value); err != nil {
			return err
		}
		body, err := json.Marshal(withNewFields(value))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return err
	}
	return proxy
}

func withNewFields(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = withNewFields(v[i])
		}
	case map[string]any:
		for name := range v {
			if name != "headers" && name != "body" { // they have any members
				v[name] = withNewFields(v[name])
			}
		}
		v["a_new_field"] = map[string]any{"of": "a newer server"}
	}
	return value
}
