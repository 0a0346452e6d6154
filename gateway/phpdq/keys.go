package phpdq

import (
	"errors"
	"time"

	"github.com/wakecall/wakecall/conf"
)

// keys are the gateway's keys of the configuration.
var keys = []conf.Key{
	{Path: "gateways.phpdq.addr", Type: conf.Gateway(),
		Help: "Address for clients of php-delayqueue, [HOST:]PORT. Its own port, 6789, is that of server.addr."},
	{Path: "gateways.phpdq.time_zone", Default: "Local", Type: conf.Type{Parse: parseZone},
		Help: "Time zone of the times that clients and endpoints of php-delayqueue see (fix_time, notify_time, " +
			"dq_set_time). Local is this machine's; others are UTC or Asia/Shanghai."},
}

func parseZone(s string) (any, error) {
	if _, err := time.LoadLocation(s); err != nil {
		return nil, errors.New("must be a time zone of this machine, such as Local, UTC or Asia/Shanghai")
	}
	return s, nil
}
