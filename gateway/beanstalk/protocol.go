package beanstalk

import (
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/importer"
)

// Protocol is the protocol of beanstalkd.
var Protocol = gateway.Protocol{
	Name: "beanstalk", Keys: keys, Servers: servers,
	Import: importer.Command{Short: "import waiting jobs from beanstalkd", Flags: importFlags},
}

// maxBody is beanstalkd's default limit for bodies.
const maxBody = 65535

func servers(e *gateway.Endpoint, p *gateway.Process) map[string]gateway.Serve {
	g := New(e, p.Queue, p.Workers, p.Registry, maxBody, p.Version)
	return map[string]gateway.Serve{
		"gateways.beanstalk.addr": e.Ensured(p.Registry, g.Serve, gateway.Namespace(Namespace, title)),
	}
}
