package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/master"
)

// gatewayListeners returns the sockets of the enabled gateways.
func gatewayListeners(cfg *conf.Config) (list []master.ListenSpec) {
	for _, l := range cfg.Listeners() {
		if strings.HasPrefix(l.Key, "gateways.") && l.Addr != "" {
			list = append(list, master.ListenSpec{Name: l.Key, Key: l.Key, Addr: l.Addr})
		}
	}
	return list
}

var errNoGateway = errors.New("no gateway has an address; set one, such as gateways.phpdq.addr")

// newGateway returns a role that serves the listeners, by their configuration keys.
func (p *parts) newGateway(listeners map[string]net.Listener, replaced func() bool) (role, error) {
	metrics, err := gateway.NewMetrics(p.metrics)
	if err = errors.Join(err, p.countWorkers()); err != nil {
		return role{}, fmt.Errorf("register metrics of gateways: %w", err)
	}
	var list []gateway.Listener
	for _, g := range Protocols() {
		e := &gateway.Endpoint{
			Name: g.Name, Log: p.log.With("protocol", g.Name), Metrics: metrics, Options: listen.Options{
				MaxConns: p.cfg.Gateways.MaxConnections, ShutdownTimeout: p.cfg.ShutdownTimeout, Replaced: replaced,
			},
		}
		for key, serve := range g.Servers(e, p.gatewayProcess()) {
			if l := listeners[key]; l != nil {
				list = append(list, gateway.Listener{Endpoint: e, Listener: l, Serve: serve})
			}
		}
	}
	if len(list) == 0 {
		return role{}, errNoGateway
	}
	return role{
		run:    func(ctx context.Context) error { return gateway.Run(ctx, list) },
		status: func() map[string]any { return gateway.Status(list) },
	}, nil
}

// gatewayProcess returns what the protocols need from this process.
func (p *parts) gatewayProcess() *gateway.Process {
	return &gateway.Process{
		Queue: p.queue, Jobs: p.jobs(), Workers: p.pull, Registry: p.registry, Healthy: p.journal.Accepting,
		Setting: p.cfg.Setting, MaxBody: p.cfg.Server.MaxBody, Version: p.version,
	}
}
