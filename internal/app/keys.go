package app

import (
	"slices"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway/beanstalk"
	"github.com/wakecall/wakecall/gateway/delayqueue"
	"github.com/wakecall/wakecall/gateway/grape"
	"github.com/wakecall/wakecall/gateway/lmstfy"
	"github.com/wakecall/wakecall/gateway/phpdq"
)

// GatewayKeys returns the configuration keys of all gateways.
func GatewayKeys() []conf.Key {
	return slices.Concat(lmstfy.Keys, phpdq.Keys, delayqueue.Keys, grape.Keys, beanstalk.Keys)
}
