package app

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/phpdq"
	"github.com/wakecall/wakecall/listen"
	"github.com/wakecall/wakecall/master"
)

// serveFunc serves a gateway's listener until its context is done.
type serveFunc func(ctx context.Context, l net.Listener) error

// gatewaySpec is a protocol with its key of the configuration.
type gatewaySpec struct {
	protocol string
	key      string
	addr     func(*conf.Gateways) string
	make     func(*parts, *gateway.Endpoint) serveFunc
}

// gateways are all protocols, a line each.
var gateways = []gatewaySpec{
	{"lmstfy", "gateways.lmstfy.addr", func(g *conf.Gateways) string { return g.Lmstfy.Addr }, (*parts).serveLmstfy},
	{"lmstfy", "gateways.lmstfy.admin_addr", func(g *conf.Gateways) string { return g.Lmstfy.AdminAddr },
		(*parts).serveLmstfyAdmin},
	{"phpdq", "gateways.phpdq.addr", func(g *conf.Gateways) string { return g.PHPDQ.Addr }, (*parts).servePHPDQ},
	{"delayqueue", "gateways.delayqueue.addr", func(g *conf.Gateways) string { return g.DelayQueue.Addr },
		(*parts).serveDelayQueue},
	{"grape", "gateways.grape.addr", func(g *conf.Gateways) string { return g.Grape.Addr }, (*parts).serveGrape},
	{"grape", "gateways.grape.web_addr", func(g *conf.Gateways) string { return g.Grape.WebAddr }, (*parts).serveGrapeWeb},
	{"beanstalk", "gateways.beanstalk.addr", func(g *conf.Gateways) string { return g.Beanstalk.Addr },
		(*parts).serveBeanstalk},
}

// gatewayListeners are the sockets of the gateways that are on.
func gatewayListeners(cfg *conf.Config) (list []master.ListenSpec) {
	for _, g := range gateways {
		if addr := g.addr(&cfg.Gateways); addr != "" {
			list = append(list, master.ListenSpec{Name: g.key, Key: g.key, Addr: addr})
		}
	}
	return list
}

var errNoGateway = errors.New("no gateway has an address: set one, such as gateways.phpdq.addr")

// newGateway makes the protocols of the listeners, which go by their keys of the configuration.
func (p *parts) newGateway(listeners map[string]net.Listener, replaced func() bool) (role, error) {
	metrics, err := gateway.NewMetrics(p.metrics)
	if err = errors.Join(err, p.countWorkers()); err != nil {
		return role{}, fmt.Errorf("register the metrics of gateways: %w", err)
	}
	var list []gateway.Listener
	for _, g := range gateways {
		l := listeners[g.key]
		if l == nil {
			continue
		}
		e := &gateway.Endpoint{
			Name: g.protocol, Log: p.log.With("protocol", g.protocol), Metrics: metrics, Options: listen.Options{
				MaxConns: p.cfg.Gateways.MaxConnections, ShutdownTimeout: p.cfg.ShutdownTimeout, Replaced: replaced,
			},
		}
		list = append(list, gateway.Listener{Endpoint: e, Listener: l, Serve: g.make(p, e)})
	}
	if len(list) == 0 {
		return role{}, errNoGateway
	}
	return role{
		run:    func(ctx context.Context) error { return gateway.Run(ctx, list) },
		status: func() map[string]any { return gateway.Status(list) },
	}, nil
}

func (p *parts) servePHPDQ(e *gateway.Endpoint) serveFunc {
	return phpdq.New(phpdq.Options{
		Endpoint: e, Jobs: p.jobs(), Topics: p.registry.Snapshot, Healthy: p.journal.Accepting,
		Zone: p.cfg.Gateways.Location(),
	}).Serve
}
