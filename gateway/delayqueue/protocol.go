package delayqueue

import (
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/importer"
)

// Protocol is the protocol of ouqiang/delay-queue, and Youzan's commands.
var Protocol = gateway.Protocol{
	Name: "delayqueue", Keys: keys, Servers: servers,
	Import: importer.Command{Short: "import waiting jobs from delay-queue (ouqiang's)", Flags: importFlags},
}

func servers(e *gateway.Endpoint, p *gateway.Process) map[string]gateway.Prepare {
	g := New(e, p.Queue, p.Workers, p.Registry.Snapshot, p.MaxBody)
	return map[string]gateway.Prepare{
		"gateways.delayqueue.addr": gateway.Ensured(p.Registry, g.Serve, gateway.Namespace(Namespace, title)),
	}
}
