// Package jobs is the pages about jobs: a single one, pushing, the dead letters, and bulk work with its tasks.
package jobs

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/bulk"
	"github.com/wakecall/wakecall/callback"
	"github.com/wakecall/wakecall/queue"
)

// Queue is what this room needs of the queue.
type Queue interface {
	bulk.Queue
	Stats(ctx context.Context, topics []string) (map[string]queue.Stats, error)
	FindAny(ctx context.Context, id string, topics []string) ([]*queue.Job, error)
	Recall(ctx context.Context, topic, id string) (*queue.Job, error)
	ListFinished(ctx context.Context, topic, prefix, cursor string, limit int) ([]queue.Job, string, error)
	Resend(ctx context.Context, topic, id string) (*queue.Job, error)
	Push(ctx context.Context, p queue.Push) queue.Result
	End(ctx context.Context, list []queue.Ending) []queue.Ended
}

// Caller describes callbacks as a dispatcher makes them; *callback.Caller implements it.
type Caller interface {
	Describe(e *callback.Endpoint, r *callback.Request) (*callback.Sent, error)
}

// Options of a Handler.
type Options struct {
	Queue   Queue
	Figures *figures.Handler
	Caller  Caller
	Tasks   bulk.Storage
	WorkDir string // where tasks keep lists of jobs
	Lead    Lead
}

// Lead reports whether a process has a role for itself: a replaced admin and its successor must not both carry out
// tasks.
type Lead func(ctx context.Context, role, holder string, ttl time.Duration) (bool, error)

// Handler serves the pages of this room.
type Handler struct {
	*page.Base
	Options
	runner   *bulk.Runner
	patience time.Duration // for counting what matches while a page is made; what takes longer is counted after it
}

// New makes a Handler.
func New(b *page.Base, o Options) *Handler {
	h := &Handler{Base: b, Options: o, patience: countAtOnce}
	h.runner = h.newRunner()
	return h
}

// Runner carries out the tasks.
func (h *Handler) Runner() *bulk.Runner { return h.runner }

// SetPatience changes how long matching jobs are counted while a page is made, for tests on slow machines.
func (h *Handler) SetPatience(d time.Duration) { h.patience = d }

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.jobRoutes(g)
	h.matchingRoutes(g)
	h.pushRoutes(g)
	h.deadRoutes(g)
	h.tasksRoutes(g)
}
