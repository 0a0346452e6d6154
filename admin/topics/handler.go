// Package topics serves the pages about topics: the list, one topic with its tabs, the form, the test callback, and
// topic files.
package topics

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/jobs"
	"github.com/wakecall/wakecall/admin/live"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Options are what the pages of this package need.
type Options struct {
	*page.Pages

	Hub      *live.Hub
	Registry Registry
	Secrets  Secrets
	Editor   Editor
	Queue    Queue
	Activity Activity
	Figures  *figures.Handler
	Jobs     Jobs
	Caller   Caller

	Schedules Schedules

	APIURL string // the server's address, for command lines to copy: http://127.0.0.1:6789
}

// Registry has the topics. Refresh reads the changes of other hosts.
type Registry interface {
	page.Registry
	Refresh(ctx context.Context)
	NoteProbe(ctx context.Context, actor, topic string) error
	PauseTopic(ctx context.Context, actor, topic string, p registry.Pause) error
	DeleteTopic(ctx context.Context, actor, name string, force bool, conditions ...registry.Condition) error
}

// Schedules stores the schedules of a file.
type Schedules interface {
	Put(
		ctx context.Context, actor string, def registry.Schedule, may func(was *registry.Schedule) error,
	) (stored *registry.Schedule, created bool, err error)
}

// Secrets replaces the secrets of topics. Two of them sign side by side until the older one is dropped.
type Secrets interface {
	RotateSecret(ctx context.Context, actor, topic, secret string, until time.Time) error
	SetRotation(ctx context.Context, actor, topic string, until time.Time) error
	Rotation(ctx context.Context, topic string) (until time.Time, err error)
}

// Editor validates and stores topics. It rejects topics that the installation cannot serve.
type Editor interface {
	PutTopic(
		ctx context.Context, actor string, t registry.Topic, conditions ...registry.Condition,
	) (created bool, err error)
	PutTopics(
		ctx context.Context, actor string, topics []registry.Topic, conditions ...registry.Condition,
	) ([]registry.Done, error)
}

// Queue is the part of the queue that the pages use.
type Queue interface {
	Stats(ctx context.Context, topics []string) (map[string]store.Stats, error)
	TopicLimits(ctx context.Context, topics []string) (map[string]observe.TopicLimits, error)
	Workers(ctx context.Context, topic string) (queue.Workers, error)
	ProbeNow(ctx context.Context, topic string) (open bool, err error)
	DropTopic(ctx context.Context, topic string) (int, error)
}

// Activity has the recent attempts of a topic; *activity.Reader implements it.
type Activity interface {
	figures.Activity
	Errors(ctx context.Context, topic string) ([]observe.ErrorNote, error)
	ClearErrors(ctx context.Context, topic string) error
}

// Jobs lists the jobs of a topic; *jobs.Handler implements it.
type Jobs interface {
	ListMatching(c echo.Context, topic string, state store.State, all int64) (jobs.JobList, error)
}

// Caller makes callbacks as a dispatcher does; *callback.Caller implements it.
type Caller interface {
	Do(ctx context.Context, e *callback.Endpoint, r *callback.Request) callback.Outcome
	Probe(ctx context.Context, e *callback.Endpoint, r *callback.Request) *callback.Report
	Describe(e *callback.Endpoint, r *callback.Request) (*callback.Sent, error)
}

// Handler serves the pages of this package.
type Handler struct{ Options }

// New returns a Handler.
func New(o Options) *Handler { return &Handler{o} }

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	h.topicsRoutes(g)
	h.topicRoutes(g)
}
