// Package shards serves the pages about the infrastructure: the shards, their draining, and the processes.
package shards

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/live"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/master"
)

// Options are what the pages of this package need.
type Options struct {
	*page.Pages

	Hub      *live.Hub
	Registry Registry
	Editor   Editor
	Queue    Queue
	Master   Master
	Config   *conf.Config
	// Open connects to a shard as the processes do, for a connection test.
	Open func(context.Context, registry.Shard) (shard *store.Shard, closeShard func(), err error)
}

// Registry has the shards.
type Registry interface {
	ListShards() []registry.Shard
	RenameShard(ctx context.Context, actor, name, newName string) error
	DeleteShard(ctx context.Context, actor, name string) error
}

// Editor validates and stores shards. It rejects those that are already registered under another name.
type Editor interface {
	PutShard(ctx context.Context, actor string, s registry.Shard) error
}

// Queue checks the shards.
type Queue interface {
	Health(ctx context.Context) []store.ShardHealth
}

// Master is the process that started this one; master.At implements it.
type Master interface {
	Ps(ctx context.Context) (*master.Tree, error)
	Reload(ctx context.Context) error
	Restart(ctx context.Context, role string, number int) error
}

// Handler serves the pages of this package.
type Handler struct{ Options }

// New returns a Handler.
func New(o Options) *Handler { return &Handler{o} }

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.shardsRoutes(g)
	h.processesRoutes(g)
}
