package lmstfy

import (
	"strings"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/registry"
)

// Protocol is the protocol of lmstfy.
var Protocol = gateway.Protocol{
	Name: "lmstfy", Keys: keys, Servers: servers, Check: gateway.CheckAccounts(keyAdminAddr, keyAccounts),
	Import: importer.Command{
		Short: "import tokens, limits and waiting jobs from an lmstfy pool", Flags: importFlags,
	},
}

// Configuration keys.
const (
	keyAddr      = "gateways.lmstfy.addr"
	keyAdminAddr = "gateways.lmstfy.admin_addr"
	keyPools     = "gateways.lmstfy.pools"
	keyAccounts  = "gateways.lmstfy.accounts"
	keyTTL       = "gateways.lmstfy.ttl"
	keyDelay     = "gateways.lmstfy.delay"
	keyTries     = "gateways.lmstfy.tries"
	keyTTR       = "gateways.lmstfy.ttr"
	keyTimeout   = "gateways.lmstfy.timeout"
)

func servers(e *gateway.Endpoint, p *gateway.Process) map[string]gateway.Prepare {
	g := New(e, Options{
		Queue: p.Queue, Workers: p.Workers, Tokens: NewTokens(p.Registry), Pools: poolsOf(p.Setting),
		Defaults: defaultsOf(p.Setting), Version: p.Version,
	})
	var namespaces []registry.Topic
	for _, pool := range g.Pools {
		namespaces = append(namespaces, g.Pools.namespace(pool))
	}
	admin := gateway.Serve(g.ServeAdmin).Prepare
	if file := p.Setting(keyAccounts); file != "" {
		admin = gateway.WithAccounts(keyAccounts, file, func(accounts *gateway.Accounts) gateway.Serve {
			g.Accounts = accounts
			return g.ServeAdmin
		})
	}
	return map[string]gateway.Prepare{keyAddr: gateway.Ensured(p.Registry, g.Serve, namespaces...), keyAdminAddr: admin}
}

// A poolList has the names of pools. The first is the default pool.
type poolList []string

func poolsOf(setting func(key string) string) poolList { return strings.Split(setting(keyPools), ",") }

// namespaceRoot is the first part of the topics of the default pool; other pools append their name.
const namespaceRoot = "lmstfy"

func (p poolList) root(pool string) string {
	if pool == p[0] {
		return namespaceRoot
	}
	return namespaceRoot + "-" + registry.EscapeName(pool)
}

// topicOf returns the topic with the jobs of a queue.
func (p poolList) topicOf(pool, namespace, queue string) string {
	return p.root(pool) + "." + registry.EscapeName(namespace) + "." + registry.EscapeName(queue)
}

// namespaceOf returns the name of the namespace with the settings of a pool's queues.
func (p poolList) namespaceOf(pool string) string { return p.root(pool) + ".*" }

// namespaceTTR is the default TTR of reserves through other interfaces. A consume always sets one.
const namespaceTTR = 2 * time.Minute

func (p poolList) namespace(pool string) registry.Topic {
	t := gateway.Namespace(p.namespaceOf(pool), "lmstfy")
	t.MaxAttempts, t.TTR, t.OnExpiry = 1, registry.Duration(namespaceTTR), registry.ExpiryDrop
	return t
}
