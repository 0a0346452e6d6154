package beanstalk

import "github.com/wakecall/wakecall/conf"

// keys are the gateway's keys of the configuration.
var keys = []conf.Key{
	{Path: "gateways.beanstalk.addr", Type: conf.Gateway(),
		Help: "Address for clients of beanstalkd, [HOST:]PORT. Its own port is 11300."},
}
