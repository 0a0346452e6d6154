package grape

import (
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/importer"
)

// Protocol is the protocol of Grape.
var Protocol = gateway.Protocol{
	Name: "grape", Keys: keys, Servers: servers, Check: gateway.CheckAccounts(keyWebAddr, keyAccounts),
	Import: importer.Command{Short: "import tubes and waiting jobs from Grape", Flags: importFlags},
}

// Configuration keys.
const (
	keyAddr     = "gateways.grape.addr"
	keyWebAddr  = "gateways.grape.web_addr"
	keyAccounts = "gateways.grape.accounts"
)

func servers(e *gateway.Endpoint, p *gateway.Process) map[string]gateway.Prepare {
	g := New(e, p.Queue, p.Registry, p.MaxBody)
	return map[string]gateway.Prepare{
		keyAddr: gateway.Ensured(p.Registry, g.Serve, gateway.Namespace(Namespace, title)),
		keyWebAddr: gateway.WithAccounts(keyAccounts, p.Setting(keyAccounts), func(a *gateway.Accounts) gateway.Serve {
			return NewWeb(g, a).Serve
		}),
	}
}
