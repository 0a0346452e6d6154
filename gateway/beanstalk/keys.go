package beanstalk

import "github.com/wakecall/wakecall/conf"

// keys are the gateway's configuration keys.
var keys = []conf.Key{
	{Path: "gateways.beanstalk.addr", Type: conf.Gateway(),
		Help: "Address for beanstalkd clients, [HOST:]PORT. beanstalkd's default port is 11300."},
}
