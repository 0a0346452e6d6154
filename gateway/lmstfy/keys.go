package lmstfy

import (
	"errors"
	"regexp"
	"strings"

	"github.com/wakecall/wakecall/conf"
)

// keys are the gateway's configuration keys.
var keys = []conf.Key{
	{Path: "gateways.lmstfy.addr", Type: conf.Gateway(),
		Help: "Address for lmstfy clients, [HOST:]PORT. lmstfy's default port is 7777."},
	{Path: "gateways.lmstfy.admin_addr", Type: conf.Gateway(),
		Help: "Address of lmstfy's admin API, [HOST:]PORT. lmstfy's default port is 7778."},
	{Path: "gateways.lmstfy.pools", Default: "default", Type: conf.Type{Parse: parsePools},
		Help: "Comma-separated names of the pools. Each pool has its own namespaces, queues and tokens. Clients send " +
			"tokens as POOL:TOKEN; a token without a pool belongs to the first one."},
	{Path: "gateways.lmstfy.accounts", Type: conf.Path(),
		Help: "File with the accounts of the admin API, one USER:PASSWORD per line. Tokens, limits and the access " +
			"log then require HTTP Basic authentication. Empty: no authentication."},
}

var poolName = regexp.MustCompile(`^[-_A-Za-z0-9]{1,32}$`)

func parsePools(s string) (any, error) {
	seen := map[string]bool{}
	for name := range strings.SplitSeq(s, ",") {
		if !poolName.MatchString(name) || seen[name] {
			return nil, errors.New("must be comma-separated, distinct names of 1 to 32 characters from A-Z a-z 0-9 - _")
		}
		seen[name] = true
	}
	return s, nil
}
