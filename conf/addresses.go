package conf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wakecall/wakecall/conf/address"
)

// listen is the type of addresses to listen on.
func listen() Type {
	return Type{listens: true, Parse: func(s string) (any, error) {
		if !isAddr(s) {
			return nil, errors.New("must be HOST:PORT, such as 127.0.0.1:6789, or :6789 for every address")
		}
		return s, nil
	}}
}

func isAddr(s string) bool {
	host, port, err := net.SplitHostPort(s)
	_, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && (host == "" || address.IsHost(host))
}

// IsLoopback reports whether HOST, or the host of HOST:PORT, is localhost or a loopback address.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Gateway returns the type of addresses of gateways. A gateway without an address is off. A port without a host means
// the loopback interface, because most of the old protocols have no passwords.
func Gateway() Type {
	return Type{listens: true, Parse: func(s string) (any, error) {
		if port := strings.TrimPrefix(s, ":"); !strings.Contains(port, ":") {
			s = "127.0.0.1:" + port
		}
		if !isAddr(s) {
			return nil, errors.New("must be PORT or HOST:PORT, " +
				"such as 11300 for this machine alone, or 0.0.0.0:11300 for every address")
		}
		return s, nil
	}}
}

func commaList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// List returns the type of lists, which parse gets as comma-separated text.
func List(parse func(text string) (any, error)) Type { return Type{split: commaList, Parse: parse} }

// cidrs is the type of lists of networks.
func cidrs() Type {
	return List(func(s string) (any, error) {
		var list []*net.IPNet
		for _, text := range commaList(s) {
			_, network, err := net.ParseCIDR(text)
			if err != nil {
				return nil, errors.New("must be a list of CIDRs, such as 127.0.0.1/32,10.0.0.0/8")
			}
			list = append(list, network)
		}
		return list, nil
	})
}

// networks is the type of callback.networks.
func networks() Type {
	list := cidrs()
	return List(func(s string) (any, error) {
		if s == "any" || s == "public" {
			return s, nil
		}
		if _, err := list.Parse(s); err != nil {
			return nil, errors.New("must be any, public or a list of CIDRs, such as 10.0.0.0/8,192.168.1.0/24")
		}
		return s, nil
	})
}

// listenerKeys is the type of callback.own_listeners. The keys of gateways are known only when all are loaded.
func listenerKeys() Type { return List(Text().Parse) }

const sqliteScheme = "sqlite:"

var isServer = regexp.MustCompile(`^(mysql|postgres|postgresql)://`)

// dsn is the type of registry.dsn.
func dsn() Type {
	return Type{mask: address.Mask, Parse: func(s string) (any, error) {
		path, isSQLite := strings.CutPrefix(s, sqliteScheme)
		switch {
		case isSQLite && (path == "" || strings.HasPrefix(path, ":memory:")):
			return nil, errors.New("must name a file, such as sqlite:/var/lib/wakecall.db: the processes share it")
		case isSQLite:
			path, err := filepath.Abs(path)
			return Secret(sqliteScheme + path), err
		case !isServer.MatchString(s):
			return nil, errors.New("must begin with mysql://, postgres:// or sqlite:, " +
				"such as mysql://user:pw@tcp(host:3306)/wakecall, postgres://user:pw@host:5432/wakecall or sqlite:PATH")
		}
		return Secret(s), nil
	}}
}

// nodeURLs is the type of redis.nodes.
func nodeURLs() Type {
	return Type{split: splitNodes, mask: address.Mask, Parse: func(s string) (any, error) {
		var list []Secret
		for i, u := range splitNodes(s) {
			if _, err := address.Parse(u); err != nil {
				return nil, fmt.Errorf("must be the URL of a Redis (number %d of the list): %w", i+1, err)
			}
			if slices.Contains(list, Secret(u)) {
				return nil, fmt.Errorf("must name each Redis once (number %d of the list is a repetition)", i+1)
			}
			list = append(list, Secret(u))
		}
		return list, nil
	}}
}

// betweenNodes matches the commas that separate URLs: those before a scheme. Other commas separate hosts or belong to a
// password.
var betweenNodes = regexp.MustCompile(`,\s*([A-Za-z+]+://)`)

func splitNodes(list string) (urls []string) {
	for u := range strings.SplitSeq(betweenNodes.ReplaceAllString(list, "\n$1"), "\n") {
		if u = strings.Trim(u, ", \t\r"); u != "" {
			urls = append(urls, u)
		}
	}
	return urls
}

// publicURL is the type of addresses that people can open.
func publicURL() Type {
	t := matching(`^https?://[^/?#@\s]+(/[^?#\s]*)?$`, "must be an address like https://wakecall.example.com/admin/")
	t.mask = address.Mask // of a refused one
	return t
}

// issuerURL is the type of admin.oidc.issuer. Without TLS, anybody on the way could sign in.
func issuerURL() Type {
	return Type{mask: address.Mask, Parse: func(s string) (any, error) {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(s) > maxIssuer {
			return nil, errors.New("must be an address like https://sso.example.com/realms/main")
		}
		if u.Scheme != "https" && !(u.Scheme == "http" && IsLoopback(net.JoinHostPort(u.Hostname(), "0"))) {
			return nil, errors.New("must start with https://, except on this machine")
		}
		if strings.HasSuffix(s, "/.well-known/openid-configuration") {
			return nil, errors.New("must be the issuer, without /.well-known/openid-configuration")
		}
		return s, nil
	}}
}

const maxIssuer = 255 // the registry's column

// scopes is the type of admin.oidc.scopes.
func scopes() Type {
	return List(func(s string) (any, error) {
		list := commaList(s)
		if !slices.Contains(list, "openid") {
			return nil, errors.New("must include openid")
		}
		return list, nil
	})
}

// groups is the type of lists of groups, whose names may have spaces.
func groups() Type {
	split := func(s string) (list []string) {
		for group := range strings.SplitSeq(s, ",") {
			if group = strings.TrimSpace(group); group != "" {
				list = append(list, group)
			}
		}
		return list
	}
	return Type{split: split, Parse: func(s string) (any, error) { return split(s), nil }}
}

func basePath() Type {
	return matching(`^(/|(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+)$`,
		"must begin with / and not end with it, such as /wakecall; / is the root")
}
