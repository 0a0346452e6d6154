package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/phpdq"
	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/master"
)

// serveFunc serves a gateway's listener until its context is done.
type serveFunc func(ctx context.Context, l net.Listener) error

// gatewaySpec describes a protocol and its configuration key.
type gatewaySpec struct {
	protocol string
	key      string
	make     func(*parts, *gateway.Endpoint) serveFunc
}

// gateways lists all protocols.
var gateways = []gatewaySpec{
	{"lmstfy", "gateways.lmstfy.addr", (*parts).serveLmstfy},
	{"lmstfy", "gateways.lmstfy.admin_addr", (*parts).serveLmstfyAdmin},
	{"phpdq", "gateways.phpdq.addr", (*parts).servePHPDQ},
	{"delayqueue", "gateways.delayqueue.addr", (*parts).serveDelayQueue},
	{"grape", "gateways.grape.addr", (*parts).serveGrape},
	{"grape", "gateways.grape.web_addr", (*parts).serveGrapeWeb},
	{"beanstalk", "gateways.beanstalk.addr", (*parts).serveBeanstalk},
}

// gatewayListeners returns the sockets of the enabled gateways.
func gatewayListeners(cfg *conf.Config) (list []master.ListenSpec) {
	for _, l := range cfg.Listeners() {
		if strings.HasPrefix(l.Key, "gateways.") && l.Addr != "" {
			list = append(list, master.ListenSpec{Name: l.Key, Key: l.Key, Addr: l.Addr})
		}
	}
	return list
}

var errNoGateway = errors.New("no gateway has an address: set one, such as gateways.phpdq.addr")

// newGateway returns a role that serves the listeners, which are named by their configuration keys.
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

// PHPDQZone returns the time zone gateways.phpdq.time_zone.
func PHPDQZone(cfg *conf.Config) *time.Location {
	zone, err := time.LoadLocation(cfg.Setting("gateways.phpdq.time_zone"))
	if err != nil { // it existed when the configuration was loaded
		return time.Local
	}
	return zone
}

func (p *parts) servePHPDQ(e *gateway.Endpoint) serveFunc {
	return phpdq.New(phpdq.Options{
		Endpoint: e, Jobs: p.jobs(), Topics: p.registry.Snapshot, Healthy: p.journal.Accepting,
		Zone: PHPDQZone(p.cfg),
	}).Serve
}
