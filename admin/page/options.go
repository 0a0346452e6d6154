package page

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/alert/activity"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/master"
)

// Options are the settings and dependencies of the pages.
type Options struct {
	Queue        Queue
	Registry     *registry.Registry
	Editor       Editor
	Accounts     *account.Store
	SessionStore SessionStore
	Tasks        *bulk.Store
	Master       Master
	Config       *conf.Config
	History      History
	Activity     Activity
	Alerts       *alert.Store
	Caller       Caller // makes test callbacks

	BasePath        string       // path prefix of all pages: / or /wakecall
	TrustedProxies  []*net.IPNet // proxies whose X-Forwarded-For and -Proto count
	TLS             *tls.Config  // nil: plain HTTP
	ShutdownTimeout time.Duration
	Version         string
	Log             *slog.Logger
	Now             func() time.Time

	WorkDir string // directory in which tasks keep lists of jobs
	Host    string // the host whose tasks this process runs
	// Lead reports whether this process currently leads a role: an admin that is being replaced and its successor must
	// not both run tasks.
	Lead func(ctx context.Context, role, holder string, ttl time.Duration) (bool, error)

	APIURL    string // the server's address, for command lines to copy: http://127.0.0.1:6789
	AdminURL  string // this admin's public address, for links in test messages
	TokenFile string // file of the first API token, for the same lines
	// OpenShard connects to a shard as the processes do, for a connection test.
	OpenShard func(context.Context, registry.Shard) (shard *queue.Shard, closeShard func(), err error)
	Web       *http.Client                                                // for tests of webhooks
	TestMail  func(m alert.Mail, to string, message *alert.Message) error // nil: alert.SendMail
	// Lateness returns a quantile, such as 0.95, of the recent callbacks' lateness; false: there were no callbacks.
	Lateness func(ctx context.Context, share float64) (time.Duration, bool)
	// Shares returns the number of jobs recently reserved by priority: high, normal, low.
	Shares  func(ctx context.Context) ([3]int64, error)
	Weights [3]int // configured weights of the priorities
}

// Queue is the part of the queue that the pages use.
type Queue interface {
	bulk.Queue
	Counts(ctx context.Context) (map[string]queue.Stats, error)
	Stats(ctx context.Context, topics []string) (map[string]queue.Stats, error)
	Totals(ctx context.Context, topics []string) (map[string]queue.TopicTotals, error)
	Forecast(ctx context.Context, topic string) (queue.Forecast, error)
	TopicLimits(ctx context.Context, topics []string) (map[string]queue.TopicLimits, error)
	Workers(ctx context.Context, topic string) (queue.Workers, error)
	Health(ctx context.Context) []queue.ShardHealth
	FindAny(ctx context.Context, id string, topics []string) ([]*queue.Job, error)
	Recall(ctx context.Context, topic, id string) (*queue.Job, error)
	ListFinished(ctx context.Context, topic, prefix, cursor string, limit int) ([]queue.Job, string, error)
	Resend(ctx context.Context, topic, id string) (*queue.Job, error)
	Push(ctx context.Context, p queue.Push) queue.Result
	End(ctx context.Context, list []queue.Ending) []queue.Ended
	DropTopic(ctx context.Context, topic string) (int, error)
}

// Editor validates and stores topics and shards. It rejects topics that the installation cannot serve, and shards that
// are already registered under another name.
type Editor interface {
	PutTopic(
		ctx context.Context, actor string, t registry.Topic, conditions ...registry.Condition,
	) (created bool, err error)
	PutTopics(
		ctx context.Context, actor string, topics []registry.Topic, conditions ...registry.Condition,
	) ([]registry.Done, error)
	PutShard(ctx context.Context, actor string, s registry.Shard) error
}

// SessionStore stores sessions by the hashes of their tokens; *account.Sessions implements it. Update does not change a
// session that has ended.
type SessionStore interface {
	Find(ctx context.Context, token string) (data []byte, found bool, err error)
	Create(ctx context.Context, token string, data []byte, expiry time.Time) error
	Update(ctx context.Context, token string, data []byte, expiry time.Time) error
	Delete(ctx context.Context, token string) (found bool, err error)
	All(ctx context.Context) (map[string][]byte, error)
}

// Master is the process that started this one; master.At implements it.
type Master interface {
	Ps(ctx context.Context) (*master.Tree, error)
	Reload(ctx context.Context) error
	Restart(ctx context.Context, role string, number int) error
}

// History reads the series of charts; *history.Reader implements it.
type History interface {
	Series(ctx context.Context, series, span string) (history.Points, error)
}

// Activity reads the recent attempts of a topic; *activity.Reader implements it.
type Activity interface {
	Attempts(ctx context.Context, topic string, limit int) ([]activity.Attempt, error)
	Errors(ctx context.Context, topic string) ([]queue.ErrorNote, error)
	ClearErrors(ctx context.Context, topic string) error
}

// Caller makes callbacks as a dispatcher does; *callback.Caller implements it.
type Caller interface {
	Do(ctx context.Context, e *callback.Endpoint, r *callback.Request) callback.Outcome
	Probe(ctx context.Context, e *callback.Endpoint, r *callback.Request) *callback.Report
	Describe(e *callback.Endpoint, r *callback.Request) (*callback.Sent, error)
}
