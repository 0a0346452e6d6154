package setup

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/wakecall/wakecall/conf"
)

// Reachable turns an address to listen on into one to connect to.
func Reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// TokenFile is where the first start leaves the API token.
func TokenFile(cfg *conf.Config) string { return filepath.Join(cfg.DataPath(), "api-token") }

// APIURL is where the API of this configuration is reached from this machine.
func APIURL(cfg *conf.Config) string {
	scheme := "http"
	if cfg.Server.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + Reachable(cfg.Server.Addr)
}

// AdminURL is where the web admin of this configuration is reached from this machine.
func AdminURL(cfg *conf.Config) string {
	scheme := "http"
	if cfg.Admin.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + Reachable(cfg.Admin.Addr) + strings.TrimRight(cfg.Admin.BasePath, "/") + "/"
}

// PublicAdminURL is where people reach it from elsewhere, if that was said.
func PublicAdminURL(cfg *conf.Config) string { return cmp.Or(cfg.Admin.PublicURL, AdminURL(cfg)) }

// ReadToken reads the API token that the first start left.
func ReadToken(cfg *conf.Config) (string, error) {
	file := TokenFile(cfg)
	token, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no API token: neither --token nor WAKECALL_TOKEN is given, and %s does not exist "+
			"(the first `wakecall up` makes it; --data-dir names another place)", file)
	}
	if err != nil {
		return "", fmt.Errorf("reading the API token: %w; --token and WAKECALL_TOKEN give another", err)
	}
	return strings.TrimSpace(string(token)), nil
}
