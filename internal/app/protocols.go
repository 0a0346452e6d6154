package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/beanstalk"
	"github.com/wakecall/wakecall/gateway/delayqueue"
	"github.com/wakecall/wakecall/gateway/grape"
	"github.com/wakecall/wakecall/gateway/lmstfy"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// actorGateway is the actor in the audit trail who creates the namespaces of gateways.
const actorGateway = "gateway"

// namespace returns the topic with the settings of a gateway's queues.
func namespace(name, title string, edit func(*registry.Topic)) registry.Topic {
	t := registry.NewTopic(name)
	t.Title, t.Delivery, t.MaxAttempts = title, registry.DeliveryPull, 0
	if edit != nil {
		edit(&t)
	}
	return t
}

// Settings of lmstfy's queues that a publish or consume may omit.
const lmstfyTTR = 2 * time.Minute

func (p *parts) serveLmstfy(e *gateway.Endpoint) serveFunc {
	g := p.lmstfy(e)
	var namespaces []registry.Topic
	for _, pool := range g.Pools {
		namespaces = append(namespaces, lmstfyNamespace(g.NamespaceOf(pool)))
	}
	return p.ensured(g.Serve, namespaces...)
}

func (p *parts) serveLmstfyAdmin(e *gateway.Endpoint) serveFunc {
	g := p.lmstfy(e)
	return func(ctx context.Context, l net.Listener) (err error) {
		if file := p.cfg.Setting("gateways.lmstfy.accounts"); file != "" {
			if g.Accounts, err = readAccounts("gateways.lmstfy.accounts", file); err != nil {
				return errors.Join(err, l.Close())
			}
		}
		return g.ServeAdmin(ctx, l)
	}
}

// readAccounts reads a file of lines USER:PASSWORD.
func readAccounts(key, file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	accounts := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		user, password, ok := strings.Cut(line, ":")
		if !ok || user == "" || password == "" {
			return nil, fmt.Errorf("%s: a line of %s is not USER:PASSWORD", key, file)
		}
		accounts[user] = password
	}
	if len(accounts) == 0 {
		return nil, fmt.Errorf("%s: %s has no account", key, file)
	}
	return accounts, nil
}

// lmstfy returns the gateway that serves both listeners of lmstfy.
func (p *parts) lmstfy(e *gateway.Endpoint) *lmstfy.Gateway {
	if p.lmstfyGateway == nil {
		p.lmstfyGateway = lmstfy.New(e, lmstfy.Options{
			Queue: p.queue, Workers: p.pull, Tokens: lmstfy.NewTokens(p.registry),
			Pools:   strings.Split(p.cfg.Setting("gateways.lmstfy.pools"), ","),
			Version: p.version,
		})
	}
	return p.lmstfyGateway
}

func lmstfyNamespace(name string) registry.Topic {
	return namespace(name, "lmstfy", func(t *registry.Topic) {
		t.MaxAttempts, t.TTR, t.OnExpiry = 1, registry.Duration(lmstfyTTR), registry.ExpiryDrop
	})
}

func (p *parts) serveDelayQueue(e *gateway.Endpoint) serveFunc {
	g := delayqueue.New(e, p.queue, p.pull, p.registry.Snapshot, p.cfg.Server.MaxBody)
	return p.ensured(g.Serve, namespace(delayqueue.Namespace, "delay-queue", nil))
}

func (p *parts) serveGrape(e *gateway.Endpoint) serveFunc {
	g := grape.New(e, p.queue, p.registry, p.cfg.Server.MaxBody)
	return p.ensured(g.Serve, namespace(grape.Namespace, "Grape", nil))
}

func (p *parts) serveGrapeWeb(e *gateway.Endpoint) serveFunc {
	return func(ctx context.Context, l net.Listener) error {
		accounts, err := readAccounts("gateways.grape.accounts", p.cfg.Setting("gateways.grape.accounts"))
		if err != nil {
			return errors.Join(err, l.Close())
		}
		return grape.NewWeb(e, p.queue, p.registry, accounts).Serve(ctx, l)
	}
}

// beanstalkBody is beanstalkd's default for the largest body.
const beanstalkBody = 65535

func (p *parts) serveBeanstalk(e *gateway.Endpoint) serveFunc {
	g := beanstalk.New(e, p.queue, p.pull, p.registry, beanstalkBody, p.version)
	return p.ensured(g.Serve, namespace(beanstalk.Namespace, "beanstalkd", nil))
}

// ensured serves once the namespaces of a gateway are in the registry. The first process creates them.
func (p *parts) ensured(serve serveFunc, namespaces ...registry.Topic) serveFunc {
	return func(ctx context.Context, l net.Listener) error {
		for _, t := range namespaces {
			if err := p.ensureNamespace(ctx, t); err != nil {
				return errors.Join(err, l.Close())
			}
		}
		return serve(ctx, l)
	}
}

// ensureRetry is the pause before the next attempt while the database is unavailable.
const ensureRetry = time.Second

func (p *parts) ensureNamespace(ctx context.Context, t registry.Topic) error {
	for p.registry.Snapshot().Topics.Get(t.Name) == nil {
		_, err := p.registry.PutTopic(ctx, actorGateway, t)
		if err == nil {
			return nil
		}
		if !errors.Is(err, database.ErrUnavailable) {
			return fmt.Errorf("make the namespace %s: %w", t.Name, err)
		}
		p.log.Warn("the namespace of a gateway cannot be made; it is tried again", "namespace", t.Name, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(ensureRetry):
		}
	}
	return nil
}
