// Package jobs serves the pages about jobs: a single job, a group, pushing, the dead letters, and bulk work with its
// tasks.
package jobs

import (
	"cmp"
	"context"
	"time"

	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/live"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Options are what the pages of this package need.
type Options struct {
	*page.Pages

	Hub      *live.Hub
	Registry Registry
	Queue    Queue
	Counts   Counts
	Caller   Caller
	Activity Activity
	Tasks    *bulk.Runner
	Search   Searcher // of the journals

	MaxBody  int           // of a job, in bytes
	Patience time.Duration // of a page's search and count, before another request continues it; 0: 100 ms
}

// Registry has the topics, and stores the audit trail; *registry.Registry implements it.
type Registry interface {
	page.Registry
	Up() bool
	Change(
		ctx context.Context, actor, action, object string, do func(tx *gorm.DB, c *registry.Changed) error,
	) error
}

// Queue is the part of the queue that the pages use.
type Queue interface {
	bulk.Queue
	Pusher
	Finder
	Groups
	Waiting
	End(ctx context.Context, list []store.End) []store.Ended
}

// Pusher pushes jobs.
type Pusher interface {
	Push(ctx context.Context, p store.Push) store.Result
	Resend(ctx context.Context, topic, id string) (*store.Job, error)
}

// Finder finds jobs, beside those in the lists of bulk.Queue.
type Finder interface {
	Find(ctx context.Context, refs []store.Ref) ([]*store.Job, error)
	ListFinished(ctx context.Context, topic, prefix, cursor string, limit int) ([]store.Job, string, error)
	Stats(ctx context.Context, topics []string) (map[string]store.Stats, error)
}

// Counts has the numbers of jobs of all topics.
type Counts interface {
	Counts(ctx context.Context) figures.Counts
}

// Caller describes callbacks; *callback.Caller implements it.
type Caller interface {
	Describe(e *callback.Endpoint, r *callback.Request) (*callback.Sent, error)
}

// Handler serves the pages of this package.
type Handler struct {
	Options
	searches journalSearches
}

// New returns a Handler.
func New(o Options) *Handler {
	o.Patience = cmp.Or(o.Patience, patience)
	return &Handler{Options: o, searches: journalSearches{byUser: map[string]*journalSearch{}}}
}

// patience is short enough for a page to be shown at once.
const patience = 100 * time.Millisecond

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.jobRoutes(g)
	h.groupRoutes(g)
	h.matchingRoutes(g)
	h.pushRoutes(g)
	h.deadRoutes(g)
	h.deliveryRoutes(g)
	h.tasksRoutes(g)
}
