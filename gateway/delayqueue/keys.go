package delayqueue

import "github.com/wakecall/wakecall/conf"

// keys are the gateway's keys of the configuration.
var keys = []conf.Key{
	{Path: "gateways.delayqueue.addr", Type: conf.Gateway(),
		Help: "Address for clients of ouqiang/delay-queue and for Youzan's commands, [HOST:]PORT. Its own port is " +
			"9277."},
}
