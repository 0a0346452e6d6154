package beanstalk

import "github.com/wakecall/wakecall/conf"

// Keys are the gateway's keys of the configuration.
var Keys = []conf.Key{
	{Path: "gateways.beanstalk.addr", Type: conf.Gateway(),
		Help: "Address for clients of beanstalkd, [HOST:]PORT. Its own port is 11300."},
}
