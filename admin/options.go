package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Queue is the queue as all pages need it; the groups add what they need of their own.
type Queue interface {
	Stats(ctx context.Context, topics []string) (map[string]queue.Stats, error)
	topicsQueue
	overviewQueue
}

// Registry is the registry as all pages need it; the groups add what they need of their own.
type Registry interface {
	Snapshot() *registry.Snapshot
	Up() bool // whether the database answers
	userRegistry
	accessRegistry
	auditRegistry
	topicsRegistry
	overviewRegistry
}

// Master is the process that started this one.
type Master interface {
	Ps(ctx context.Context) (*master.Tree, error)
	Reload(ctx context.Context) error
	Restart(ctx context.Context, role string, number int) error
}

// Options of an Admin. Queue, Registry, Sessions and Pages.Tasks are needed; the rest has defaults.
type Options struct {
	Queue    Queue
	Registry Registry
	Master   Master    // nil: this process runs without one
	Config   Config    // nil: the page of processes shows none
	TOTP     TOTPStore // nil: second factors are not offered
	Pages    PageParts // what single groups work with; may be empty

	BasePath        string       // under which everything is served: / or /wakecall
	TrustedProxies  []*net.IPNet // whose X-Forwarded-For and -Proto count
	Sessions        SessionStore
	TLS             *tls.Config // nil: plain HTTP
	ShutdownTimeout time.Duration
	Version         string
	Logger          *slog.Logger
	Registerer      prometheus.Registerer
	Now             func() time.Time // for tests
}

// Config tells the effective configuration, its secrets hidden.
type Config interface{ Effective() []conf.Setting }

// PageParts are what single groups of pages work with.
type PageParts struct {
	TopicsParts
	OverviewParts
}

func (o *Options) defaults() error {
	if o.Queue == nil || o.Registry == nil || o.Sessions == nil || o.Pages.Tasks == nil {
		return errors.New("the admin needs a Queue, a Registry, Sessions and Tasks")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ShutdownTimeout <= 0 {
		o.ShutdownTimeout = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}
