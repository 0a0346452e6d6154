package admin

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/wakecall/wakecall/admin/access"
	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/admin/alerts"
	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/jobs"
	"github.com/wakecall/wakecall/admin/overview"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/admin/topics"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/bulk"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Queue is what the rooms need of the queue.
type Queue interface {
	overview.Queue
	topics.Queue
	jobs.Queue
	shards.Queue
}

// Editor stores what the registry alone cannot judge.
type Editor interface {
	topics.Editor
	shards.Editor
}

// Options of an Admin. What may be missing says so.
type Options struct {
	Queue    Queue
	Registry *registry.Registry
	Editor   Editor
	Accounts *account.Store
	Sessions access.SessionStore
	Tasks    bulk.Storage
	Master   shards.Master
	Config   shards.Config
	History  figures.History
	Activity topics.Activity
	Alerts   alerts.Store
	Caller   topics.Caller // makes test callbacks

	BasePath        string       // under which everything is served: / or /wakecall
	TrustedProxies  []*net.IPNet // whose X-Forwarded-For and -Proto count
	TLS             *tls.Config  // nil: plain HTTP
	ShutdownTimeout time.Duration
	Version         string
	Logger          *slog.Logger
	Now             func() time.Time

	WorkDir string // where tasks keep lists of jobs
	Host    string // whose tasks this process carries out
	Lead    jobs.Lead

	APIURL    string // of the server, for the lines to copy: http://127.0.0.1:6789
	AdminURL  string // where people reach this admin, for the links of test messages
	TokenFile string // where the first API token lies, for the same lines
	// OpenShard connects to a shard as the processes do, to try it.
	OpenShard func(context.Context, registry.Shard) (shard *queue.Shard, closeShard func(), err error)
	Web       *http.Client                                                // of webhooks that are tested
	TestMail  func(m alert.Mail, to string, message *alert.Message) error // nil: alert.SendMail
	// Lateness of the last minutes' callbacks at a share of them, such as 0.95; false: there were none.
	Lateness func(ctx context.Context, share float64) (time.Duration, bool)
	// Shares counts the jobs reserved lately by priority: high, normal, low.
	Shares  func(ctx context.Context) ([3]int64, error)
	Weights [3]int // configured for them
}
