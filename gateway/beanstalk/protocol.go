package beanstalk

import (
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/importer"
)

// Protocol is the protocol of beanstalkd.
var Protocol = gateway.Protocol{
	Name: "beanstalk", Keys: keys, Servers: servers,
	Import: importer.Command{Short: "import waiting jobs from beanstalkd", Flags: importFlags},
}

func servers(e *gateway.Endpoint, p *gateway.Process) map[string]gateway.Prepare {
	maxBody := conf.Value[int64](keys, keyMaxJob, p.Setting)
	g := New(e, p.Queue, p.Workers, p.Registry, int(maxBody), p.Version)
	return map[string]gateway.Prepare{
		"gateways.beanstalk.addr": gateway.Ensured(p.Registry, g.Serve, gateway.Namespace(Namespace, title)),
	}
}
