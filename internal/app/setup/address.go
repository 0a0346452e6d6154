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

// Reachable converts an address to listen on to one to connect to.
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

// TokenFile returns the file to which the first start writes the API token.
func TokenFile(cfg *conf.Config) string { return filepath.Join(cfg.DataDir, "api-token") }

// APIURL returns the URL at which this machine reaches the configuration's API.
func APIURL(cfg *conf.Config) string {
	scheme := "http"
	if cfg.Server.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + Reachable(cfg.Server.Addr)
}

// AdminURL returns the URL at which this machine reaches the configuration's web admin.
func AdminURL(cfg *conf.Config) string {
	scheme := "http"
	if cfg.Admin.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + Reachable(cfg.Admin.Addr) + strings.TrimRight(cfg.Admin.BasePath, "/") + "/"
}

// PublicAdminURL returns the URL at which other machines reach the web admin, if it is configured, or else AdminURL.
func PublicAdminURL(cfg *conf.Config) string { return cmp.Or(cfg.Admin.PublicURL, AdminURL(cfg)) }

// ReadToken reads the API token that the first start created.
func ReadToken(cfg *conf.Config) (string, error) {
	file := TokenFile(cfg)
	token, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf(
			"there is no API token: neither --token nor WAKECALL_TOKEN is given, and %s does not exist "+
				"(the first `wakecall up` makes it; --data-dir names another place)", file)
	}
	if err != nil {
		return "", fmt.Errorf("reading the API token: %w; --token and WAKECALL_TOKEN give another", err)
	}
	return strings.TrimSpace(string(token)), nil
}
