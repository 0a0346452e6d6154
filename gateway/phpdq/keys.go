package phpdq

import (
	"errors"
	"time"

	"github.com/wakecall/wakecall/conf"
)

// keys are the gateway's configuration keys.
var keys = []conf.Key{
	{Path: "gateways.phpdq.addr", Type: conf.Gateway(),
		Help: "Address for php-delayqueue clients, [HOST:]PORT. php-delayqueue's default, 6789, is taken by " +
			"server.addr."},
	{Path: "gateways.phpdq.time_zone", Default: "Local", Type: conf.Type{Parse: parseZone},
		Help: "Time zone of fix_time, notify_time and dq_set_time: Local (this machine's), or a name such as UTC or " +
			"Asia/Shanghai."},
}

func parseZone(s string) (any, error) {
	if _, err := time.LoadLocation(s); err != nil {
		return nil, errors.New("must be a time zone known to this machine, such as Local, UTC or Asia/Shanghai")
	}
	return s, nil
}
