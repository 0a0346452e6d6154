package setup

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/wakecall/wakecall/conf"
)

// Certificates loads tls_cert and tls_key of a section of the configuration. It returns nil if they are not set.
func Certificates(section, cert, key string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%[1]s.tls_cert and %[1]s.tls_key: %[2]w", section, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// certificatesError returns an error for each section whose certificate cannot be loaded. Its process would crash in a
// loop.
func certificatesError(cfg *conf.Config) error {
	_, server := Certificates("server", cfg.Server.TLSCert, cfg.Server.TLSKey)
	_, admin := Certificates("admin", cfg.Admin.TLSCert, cfg.Admin.TLSKey)
	return errors.Join(server, admin)
}

func checkCertificates(cfg *conf.Config) []Finding {
	const what = "certificates"
	if err := certificatesError(cfg); err != nil {
		return []Finding{failedErr(what, err, "Set both to PEM files of the same key pair, readable by this user")}
	}
	if cfg.Server.TLSCert == "" && cfg.Admin.TLSCert == "" {
		return nil
	}
	return []Finding{fine(what, "loaded")}
}
