// Package topics is the pages about topics: the list, one topic with its tabs, the form, the test callback, and files
// of topics.
package topics

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/jobs"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Queue is what this room needs of the queue.
type Queue interface {
	Stats(ctx context.Context, topics []string) (map[string]queue.Stats, error)
	Totals(ctx context.Context, topics []string) (map[string]queue.TopicTotals, error)
	Forecast(ctx context.Context, topic string) (queue.Forecast, error)
	TopicLimits(ctx context.Context, topics []string) (map[string]queue.TopicLimits, error)
	Workers(ctx context.Context, topic string) (queue.Workers, error)
	DropTopic(ctx context.Context, topic string) (int, error)
}

// Editor stores topics that an installation can keep.
type Editor interface {
	PutTopic(
		ctx context.Context, actor string, t registry.Topic, conditions ...registry.Condition,
	) (created bool, err error)
}

// Activity reads the recent attempts of a topic; *activity.Reader implements it.
type Activity interface {
	Attempts(ctx context.Context, topic string, limit int) ([]activity.Attempt, error)
	Errors(ctx context.Context, topic string) ([]queue.ErrorNote, error)
	ClearErrors(ctx context.Context, topic string) error
}

// Options of a Handler.
type Options struct {
	Queue    Queue
	Registry *registry.Registry
	Editor   Editor
	Activity Activity
	Caller   Caller
	APIURL   string // for the lines to copy
}

// Handler serves the pages of this room.
type Handler struct {
	*page.Base
	Options
	figures *figures.Handler
	jobs    *jobs.Handler
}

// New makes a Handler.
func New(b *page.Base, o Options, f *figures.Handler, j *jobs.Handler) *Handler {
	return &Handler{Base: b, Options: o, figures: f, jobs: j}
}

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.topicsRoutes(g)
	h.topicRoutes(g)
}
