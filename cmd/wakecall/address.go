package main

import (
	"net"
	"path/filepath"

	"github.com/wakecall/wakecall/conf"
)

// reachable turns an address to listen on into one to connect to.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// tokenFile is where the first start leaves the API token.
func tokenFile(cfg *conf.Config) string { return filepath.Join(cfg.DataPath(), "api-token") }
