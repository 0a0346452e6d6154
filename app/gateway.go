package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/master"
)

// gatewayListeners returns the sockets of the enabled gateways.
func gatewayListeners(cfg *conf.Config) (list []master.ListenSpec) {
	for _, l := range cfg.Listeners() {
		if strings.HasPrefix(l.Key, "gateways.") && l.Addr != "" {
			list = append(list, master.ListenSpec{Name: l.Key, Key: l.Key, Addr: l.Addr, Optional: true})
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
			Name: g.Name, Log: p.log.With("protocol", g.Name), Metrics: metrics,
			MaxTopics: p.cfg.Pull.TopicsPerRequest, Options: listen.Options{
				MaxConns: p.cfg.Gateways.MaxConnections, ShutdownTimeout: p.cfg.ShutdownTimeout, Replaced: replaced,
			},
		}
		for key, prepare := range g.Servers(e, p.gatewayProcess()) {
			if p.cfg.Setting(key) != "" {
				list = append(list, gateway.Listener{Endpoint: e, Listener: listeners[key], Key: key, Prepare: prepare})
			}
		}
	}
	if len(list) == 0 {
		return role{}, errNoGateway
	}
	return serveGateways(list, newServices(p.log)), nil
}

// serveGateways serves each listener as a service, so that one that cannot serve stops no other.
func serveGateways(list []gateway.Listener, s *services) role {
	slices.SortFunc(list, func(a, b gateway.Listener) int { return strings.Compare(a.Key, b.Key) })
	ready := make(chan struct{})
	var unready atomic.Int32
	unready.Store(int32(len(list)))
	tried := func() {
		if unready.Add(-1) == 0 {
			close(ready)
		}
	}
	return role{
		ready: ready,
		run: func(ctx context.Context) error {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			var services []service
			for _, l := range list {
				services = append(services, service{l.Key, serveGateway(l, sync.OnceFunc(tried), stop)})
			}
			return s.run(ctx, services...)
		},
		status: func() map[string]any {
			return map[string]any{"connections": gateway.Connections(list), "services": s.list()}
		},
	}
}

// serveGateway returns the service of a listener. tried is called when it has tried to prepare; after a failure, only
// that is tried again. A failure to accept stops the process: the master starts another one, with a fresh socket.
func serveGateway(l gateway.Listener, tried, stop func()) func(context.Context) error {
	return func(ctx context.Context) error {
		serve, err := prepareGateway(ctx, l)
		tried()
		if err != nil {
			return err
		}
		err = serve(ctx, l.Listener)
		stop()
		if err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
		return nil
	}
}

func prepareGateway(ctx context.Context, l gateway.Listener) (gateway.Serve, error) {
	if l.Listener == nil { // see master.ListenSpec
		return nil, fmt.Errorf("%s could not be listened on when Wakecall started: the log of the start says why; "+
			"when that is mended, reload Wakecall (HUP)", l.Key)
	}
	return l.Prepare(ctx)
}

// CheckGateways returns an error if an enabled gateway could not serve with the configuration.
func CheckGateways(cfg *conf.Config) error {
	var errs []error
	for _, p := range Protocols() {
		if p.Check != nil {
			errs = append(errs, p.Check(cfg.Setting))
		}
	}
	return errors.Join(errs...)
}

// gatewayProcess returns what the protocols need from this process.
func (p *parts) gatewayProcess() *gateway.Process {
	return &gateway.Process{
		Queue: p.queue, Jobs: p.jobs(), Workers: p.pull, Registry: p.registry, Healthy: p.journal.Accepting,
		Refused: p.refused.Add,
		Setting: p.cfg.Setting, MaxBody: p.cfg.Server.MaxBody, Version: p.version,
	}
}
