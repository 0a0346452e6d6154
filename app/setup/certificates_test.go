package setup

import (
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/conf"
)

// TestCertificatesAreCheckedBeforeTheStart: a server without its certificate would end at once, again and again.
func TestCertificatesAreCheckedBeforeTheStart(t *testing.T) {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	pair, dir := srv.TLS.Certificates[0], t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := conf.Default()
	cfg.DataDir = filepath.Join(dir, "data")
	if f := checkCertificates(cfg); len(f) != 0 {
		t.Errorf("without TLS: %+v", f)
	}
	cfg.Admin.TLSCert, cfg.Admin.TLSKey = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	if f := checkCertificates(cfg); f[0].Verdict != Good {
		t.Errorf("a certificate and its key: %+v", f)
	}
	cfg.Server.TLSCert, cfg.Server.TLSKey = filepath.Join(dir, "cert"), filepath.Join(dir, "none")
	_, err = Prepare(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "server.tls_cert and server.tls_key") {
		t.Errorf("a start without the key: %v", err)
	}
	if _, err := os.Stat(cfg.DataDir); err == nil {
		t.Error("files were created before the configuration was checked")
	}
	if f := Check(t.Context(), cfg); !hasFailed(f, "certificates") {
		t.Errorf("its check: %+v", f)
	}
}

func hasFailed(findings []Finding, what string) bool {
	for _, f := range findings {
		if f.What == what {
			return f.Verdict == Failed
		}
	}
	return false
}
