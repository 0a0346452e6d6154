package callback

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTheSystemsRootsAreLoadedAtTheStart: if the first call over TLS loaded them while no descriptor is free, no later
// call would trust any endpoint. The test runs in a separate process, which has not loaded them yet.
func TestTheSystemsRootsAreLoadedAtTheStart(t *testing.T) {
	if url := os.Getenv("TEST_ROOTS_URL"); url != "" {
		c := caller(t, Options{})
		if err := os.Remove(os.Getenv("SSL_CERT_FILE")); err != nil {
			t.Fatal(err)
		}
		if o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: url}), job()); o.Class != Success {
			t.Errorf("%+v", o)
		}
		return
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "roots.pem")
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, roots, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "TEST_ROOTS_URL="+s.URL, "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
