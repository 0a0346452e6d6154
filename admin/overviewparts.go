package admin

import (
	"context"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/bulk"
	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// overviewQueue is what this group and those of dead letters, shards and tasks need of the queue beside what all pages do.
type overviewQueue interface {
	bulk.Queue
	Health(ctx context.Context) []queue.ShardHealth
	TopicLimits(ctx context.Context, topics []string) (map[string]queue.TopicLimits, error)
}

// overviewRegistry is what they need of the registry.
type overviewRegistry interface {
	PutShard(ctx context.Context, actor string, s registry.Shard) error
	DeleteShard(ctx context.Context, actor, name string) error
	ListShards() []registry.Shard
	PutSetting(ctx context.Context, actor, name string, value any) error
}

// SeriesReader answers charts; *history.Reader is one.
type SeriesReader interface {
	Series(ctx context.Context, series, span string) (history.Points, error)
}

// AlertStore is where the checker notes alerts and what was sent about them; *alert.Store is one.
type AlertStore interface {
	ListAlerts(ctx context.Context, f alert.Filter) ([]alert.Alert, error)
	ListDeliveries(ctx context.Context, limit int) ([]alert.Delivery, error)
}

// OverviewParts are what else they work with. Each may be nil; its part of the pages says so then.
type OverviewParts struct {
	// Strip gives the totals on every page; nil: they are summed up from all topics.
	Strip   func(ctx context.Context) (*Strip, error)
	History SeriesReader
	Tasks   bulk.Storage
	WorkDir string // where tasks keep lists of jobs
	Host    string // whose tasks this process carries out; empty: the host's name
	// Lead says whether a process has a role for itself: a replaced admin and its successor must not both carry out tasks. nil: there is one.
	Lead   func(ctx context.Context, role, holder string, ttl time.Duration) (bool, error)
	APIURL string // of the server, for the lines to copy: http://127.0.0.1:6789
	// AdminURL is where people reach this admin, for the links of test messages.
	AdminURL string
	// OpenShard connects to a shard as the processes do, to try it.
	OpenShard func(context.Context, registry.Shard) (shard *queue.Shard, closeShard func(), err error)
	Alerts    AlertStore                                                  // nil: there are none to show
	Web       *http.Client                                                // of webhooks that are tested
	TestMail  func(m alert.Mail, to string, message *alert.Message) error // nil: alert.SendMail
	// Lateness of the last minutes' callbacks at a share of them, such as 0.95; false: there were none.
	Lateness func(ctx context.Context, share float64) (time.Duration, bool)
	// Shares counts the jobs reserved lately by priority: high, normal, low.
	Shares  func(ctx context.Context) ([3]int64, error)
	Weights [3]int // configured for them; zeros: 5:3:2
	// TokenFile is where the first API token lies, for the same lines.
	TokenFile string
}

// overviewState is what these groups keep while the admin lives.
type overviewState struct {
	runner   *bulk.Runner
	outlooks outlookBook

	mu   sync.Mutex
	last *overviewLive
}

func (a *Admin) host() string {
	if a.opts.Pages.Host != "" {
		return a.opts.Pages.Host
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}
