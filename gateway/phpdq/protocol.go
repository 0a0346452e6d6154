package phpdq

import (
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/callback"
)

// Protocol is the protocol of php-delayqueue.
var Protocol = gateway.Protocol{
	Name: dialectName, Keys: keys, Servers: servers,
	Import:  importer.Command{Short: "import the topics and waiting jobs of a php-delayqueue", Flags: importFlags},
	Dialect: func(setting func(key string) string) callback.Dialect { return NewDialect(zone(setting)) },
}

func servers(e *gateway.Endpoint, p *gateway.Process) map[string]gateway.Prepare {
	s := New(Options{
		Endpoint: e, Jobs: p.Jobs, Topics: p.Registry, Healthy: p.Healthy, Refused: p.Refused, Zone: zone(p.Setting),
	})
	return map[string]gateway.Prepare{"gateways.phpdq.addr": gateway.Serve(s.Serve).Prepare}
}

// zone returns the time zone of the times in requests and callbacks.
func zone(setting func(key string) string) *time.Location {
	z, err := time.LoadLocation(setting("gateways.phpdq.time_zone"))
	if err != nil { // validated when the configuration was loaded
		return time.Local
	}
	return z
}
