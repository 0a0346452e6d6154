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

// Reachable converts a listen address to an address to connect to.
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

// TokenFile returns the path of the API token that the first start creates.
func TokenFile(cfg *conf.Config) string { return filepath.Join(cfg.DataDir, "api-token") }

// APIURL returns the URL of the API as seen from this machine.
func APIURL(cfg *conf.Config) string {
	scheme := "http"
	if cfg.Server.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + Reachable(cfg.Server.Addr)
}

// AdminURL returns the URL of the web admin as seen from this machine.
func AdminURL(cfg *conf.Config) string {
	scheme := "http"
	if cfg.Admin.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + Reachable(cfg.Admin.Addr) + strings.TrimRight(cfg.Admin.BasePath, "/") + "/"
}

// PublicAdminURL returns admin.public_url, or AdminURL if that is not set.
func PublicAdminURL(cfg *conf.Config) string { return cmp.Or(cfg.Admin.PublicURL, AdminURL(cfg)) }

// ReadToken reads the API token that the first start created, which is server.first_token if that is set.
func ReadToken(cfg *conf.Config) (string, error) {
	file := TokenFile(cfg)
	token, err := os.ReadFile(file)
	if first := cfg.Server.FirstToken.Reveal(); errors.Is(err, os.ErrNotExist) && first != "" {
		return first, nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf(
			"no API token: --token and WAKECALL_TOKEN are not set, and %s does not exist "+
				"(created by the first `wakecall up`; set --data-dir if it is elsewhere)", file)
	}
	if err != nil {
		return "", fmt.Errorf("read the API token: %w (or set --token or WAKECALL_TOKEN)", err)
	}
	return strings.TrimSpace(string(token)), nil
}
