package delayqueue

import "github.com/wakecall/wakecall/conf"

// keys are the gateway's configuration keys.
var keys = []conf.Key{
	{Path: "gateways.delayqueue.addr", Type: conf.Gateway(),
		Help: "Address for clients of ouqiang/delay-queue and of Youzan's commands, [HOST:]PORT. delay-queue's " +
			"default is 9277."},
}
