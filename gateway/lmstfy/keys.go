package lmstfy

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/wakecall/wakecall/conf"
)

// keys are the gateway's configuration keys.
var keys = []conf.Key{
	{Path: "gateways.lmstfy.addr", Type: conf.Gateway(),
		Help: "Address for lmstfy clients, [HOST:]PORT. lmstfy's default is 7777."},
	{Path: "gateways.lmstfy.admin_addr", Type: conf.Gateway().Guarded("gateways.lmstfy.accounts"),
		Help: "Address of lmstfy's admin API, [HOST:]PORT. lmstfy's default is 7778. Without accounts: loopback only."},
	{Path: "gateways.lmstfy.pools", Default: "default", Type: conf.List(parsePools),
		Help: "List of pools. Each has its own namespaces, queues and tokens. A token without a pool (POOL:TOKEN) " +
			"belongs to the first one."},
	{Path: "gateways.lmstfy.accounts", Type: conf.Path(),
		Help: "File with the accounts of the admin API, one USER:PASSWORD per line. Tokens, limits and the access " +
			"log then require HTTP Basic authentication. Empty: none, and the Host must be localhost or a loopback " +
			"address."},
	{Path: keyTTL, Default: "24h", Type: conf.Seconds(),
		Help: "Default ttl of a publish: lmstfy's TTLSecond. 0s: forever."},
	{Path: keyDelay, Default: "0s", Type: conf.Seconds(),
		Help: "Default delay of a publish: lmstfy's DelaySecond."},
	{Path: keyTries, Default: "1", Type: conf.Number(1, math.MaxUint16),
		Help: "Default tries of a publish: lmstfy's TriesNum."},
	{Path: keyTTR, Default: "2m", Type: conf.Seconds(),
		Help: "Default ttr of a consume: lmstfy's TTRSecond."},
	{Path: keyTimeout, Default: "0s", Type: conf.Seconds(),
		Help: "Default timeout of a consume: lmstfy's TimeoutSecond."},
}

// Defaults are the parameters of requests that do not name them.
type Defaults struct {
	TTL, Delay, TTR, Timeout time.Duration
	Tries                    int
}

func defaultsOf(setting func(key string) string) Defaults {
	seconds := func(key string) time.Duration { return conf.Value[time.Duration](keys, key, setting) }
	return Defaults{
		TTL: seconds(keyTTL), Delay: seconds(keyDelay), TTR: seconds(keyTTR), Timeout: seconds(keyTimeout),
		Tries: conf.Value[int](keys, keyTries, setting),
	}
}

var poolName = regexp.MustCompile(`^[-_A-Za-z0-9]{1,32}$`)

func parsePools(s string) (any, error) {
	seen := map[string]bool{}
	for name := range strings.SplitSeq(s, ",") {
		if !poolName.MatchString(name) || seen[name] {
			return nil, errors.New("must be a list of distinct names of 1 to 32 characters from A-Z a-z 0-9 - _")
		}
		seen[name] = true
	}
	return s, nil
}
