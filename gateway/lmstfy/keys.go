package lmstfy

import (
	"errors"
	"regexp"
	"strings"

	"github.com/wakecall/wakecall/conf"
)

// keys are the gateway's keys of the configuration.
var keys = []conf.Key{
	{Path: "gateways.lmstfy.addr", Type: conf.Gateway(),
		Help: "Address for clients of lmstfy, [HOST:]PORT. lmstfy's own port is 7777."},
	{Path: "gateways.lmstfy.admin_addr", Type: conf.Gateway(),
		Help: "Address of lmstfy's admin API, [HOST:]PORT. lmstfy's own port is 7778."},
	{Path: "gateways.lmstfy.pools", Default: "default", Type: conf.Type{Parse: parsePools},
		Help: "Names of the pools, joined with commas. A token names its pool before a colon; without that it is one " +
			"of the first pool. Each pool has namespaces, queues and tokens of its own."},
	{Path: "gateways.lmstfy.accounts", Type: conf.Path(),
		Help: "File of lines USER:PASSWORD that the admin API accepts. Its tokens, limits and access log ask for one " +
			"of them (HTTP Basic). Empty: they ask nobody."},
}

var poolName = regexp.MustCompile(`^[-_A-Za-z0-9]{1,32}$`)

func parsePools(s string) (any, error) {
	seen := map[string]bool{}
	for name := range strings.SplitSeq(s, ",") {
		if !poolName.MatchString(name) || seen[name] {
			return nil, errors.New("must be distinct names of A-Z a-z 0-9 - _, separated by commas")
		}
		seen[name] = true
	}
	return s, nil
}
