package app

import (
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/beanstalk"
	"github.com/wakecall/wakecall/gateway/delayqueue"
	"github.com/wakecall/wakecall/gateway/grape"
	"github.com/wakecall/wakecall/gateway/lmstfy"
	"github.com/wakecall/wakecall/gateway/phpdq"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/registry"
)

// Protocols lists the old systems. To remove one, delete its package and its line here.
func Protocols() []gateway.Protocol {
	return []gateway.Protocol{
		lmstfy.Protocol,
		phpdq.Protocol,
		delayqueue.Protocol,
		grape.Protocol,
		beanstalk.Protocol,
	}
}

// GatewayKeys returns the configuration keys of all protocols.
func GatewayKeys() (keys []conf.Key) {
	for _, p := range Protocols() {
		keys = append(keys, p.Keys...)
	}
	return keys
}

func init() {
	// Package callback evaluates expressions, package registry stores topics; neither imports the other.
	registry.CheckRetryIf = callback.CheckRetryIf
	for _, p := range Protocols() {
		if p.Dialect != nil {
			registry.Dialects = append(registry.Dialects, p.Name)
		}
	}
}

// setDialects registers the protocols' forms of callbacks.
func setDialects(cfg *conf.Config) {
	list := map[string]callback.Dialect{}
	for _, p := range Protocols() {
		if p.Dialect != nil {
			list[p.Name] = p.Dialect(cfg.Setting)
		}
	}
	callback.SetDialects(list)
}
