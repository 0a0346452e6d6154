// Package shards is the pages about the machinery: the shards, their draining, and the processes.
package shards

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Queue reports the health of the shards.
type Queue interface {
	Health(ctx context.Context) []queue.ShardHealth
}

// Editor stores shards that are no others already.
type Editor interface {
	PutShard(ctx context.Context, actor string, s registry.Shard) error
}

// Master is the process that started this one.
type Master interface {
	Ps(ctx context.Context) (*master.Tree, error)
	Reload(ctx context.Context) error
	Restart(ctx context.Context, role string, number int) error
}

// Config is the effective configuration with its secrets hidden.
type Config interface{ Effective() []conf.Setting }

// Options of a Handler.
type Options struct {
	Queue    Queue
	Registry *registry.Registry
	Editor   Editor
	Master   Master
	Config   Config
	// OpenShard connects to a shard as the processes do, to try it.
	OpenShard func(context.Context, registry.Shard) (shard *queue.Shard, closeShard func(), err error)
}

// Handler serves the pages of this room.
type Handler struct {
	*page.Base
	Options
}

// New makes a Handler.
func New(b *page.Base, o Options) *Handler {
	return &Handler{Base: b, Options: o}
}

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.shardsRoutes(g)
	h.processesRoutes(g)
}
